"""Elements added, reversed or rearranged along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Add,
    DepthToSpace,
    FloorMod,
    Gather,
    Negative,
    Pad,
    Range,
    Reshape,
    ReverseSequence,
    ScatterUpdate,
    SpaceToDepth,
    Split,
)
from .elementary import convert_value, size_of

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

_MODES = ("constant", "edge", "reflect", "wrap")


def pad_attributes(n: ImportContext) -> Value:
    pads = n.integers("paddings" if n.version < 2 else "pads")
    x = n.input(0)
    if len(pads) != 2 * n.rank(x):
        raise n.type_error("pads lists a begin and an end for each axis", got=pads)
    begin, end = n.ints_value(pads[: len(pads) // 2]), n.ints_value(pads[len(pads) // 2 :])
    return _pad(n, begin, end, n.like(x, n.number("value", 0.0)))


def pad(n: ImportContext) -> Value:
    x, pads, axes = n.input(0), convert_value(n, n.input(1), DType.i64), n.optional(3)
    begin, end = n.add_all(Split(2), pads, n.int_value(0))
    known = n.known_integers(pads)
    if known is not None:
        half = len(known) // 2
        if len(known) % 2 or (axes is None and n.shape(x) is not None and half != n.rank(x)):
            raise n.type_error("pads lists a begin and an end for each axis", got=known)
        begin, end = n.ints_value(known[:half]), n.ints_value(known[half:])
    if axes is not None:
        zeros = n.ints_value([0] * n.rank(x))
        listed = _normalize_axes(n, axes, n.rank(x))
        begin, end = (
            n.add(ScatterUpdate(), zeros, listed, part, n.int_value(0)) for part in (begin, end)
        )
    value = n.optional(2)
    if value is not None and n.shape(value) != ():
        value = n.add(Reshape(), value, n.ints_value([]))
    return _pad(n, begin, end, value)


def _normalize_axes(n: ImportContext, axes: Value, rank: int) -> Value:
    """Axes counted from 0, each once."""
    known = n.known_integers(axes)
    if known is None:
        return axes
    listed = [n.axis(a, rank) for a in known]
    if len(set(listed)) != len(listed):
        raise n.type_error("an axis is listed twice", got=known)
    return n.ints_value(listed)


def _pad(n: ImportContext, begin: Value, end: Value, value: Value | None) -> Value:
    mode, x = n.text("mode", "constant"), n.input(0)
    if mode not in _MODES:
        raise n.error("unknown mode of Pad", got=mode, expected=", ".join(_MODES))
    if mode == "wrap":
        return _pad_wrapped(n, begin, end)
    return n.add(Pad(mode), x, begin, end, value if mode == "constant" else None)


def _pad_wrapped(n: ImportContext, begin: Value, end: Value) -> Value:
    """Axis by axis, element i of the result is element (i - begin) mod size."""
    x = n.input(0)
    for axis in range(n.rank(x)):
        axis_value = n.int_value(axis)
        first, last = (n.add(Gather(), v, axis_value, n.int_value(0)) for v in (begin, end))
        if n.known_integers(first) == [0] and n.known_integers(last) == [0]:
            continue
        size = n.add(Reshape(), size_of(n, x, axis), n.ints_value([]))
        stop = n.add(Add(), size, last)
        listed = n.add(Range(DType.i64), n.add(Negative(), first), stop, n.int_value(1))
        x = n.add(Gather(), x, n.add(FloorMod(), listed, size), axis_value)
    return x


def _blocks(n: ImportContext) -> str:
    """DCR: the position inside a block is the outer part of the channel; CRD: the inner part."""
    mode = n.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise n.error("unknown mode", got=mode, expected="DCR or CRD")
    return "blocks_first" if mode == "DCR" else "depth_first"


def depth_to_space(n: ImportContext) -> Value:
    return n.add(DepthToSpace(_blocks(n), n.integer("blocksize")), n.input(0))


def space_to_depth(n: ImportContext) -> Value:
    return n.add(SpaceToDepth(_blocks(n), n.integer("blocksize")), n.input(0))


def reverse_sequence(n: ImportContext) -> Value:
    op = ReverseSequence(n.integer("batch_axis", 1), n.integer("time_axis", 0))
    return n.add(op, n.input(0), n.input(1))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Pad": {1: pad_attributes, 11: pad},
    "DepthToSpace": {1: depth_to_space},
    "SpaceToDepth": {1: space_to_depth},
    "ReverseSequence": {10: reverse_sequence},
}
