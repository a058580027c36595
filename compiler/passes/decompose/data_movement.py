"""Movements and conversions that no kernel knows, as slices, reshapes, transposes, gathers and
Convert."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....ir.dims import Dim, bounds, eq, le, lt
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import (
    BatchToSpace,
    Concat,
    Convert,
    FloorMod,
    Gather,
    Less,
    Minimum,
    Pad,
    Range,
    Reshape,
    Reverse,
    ReverseSequence,
    Select,
    ShapeOf,
    Slice,
    SpaceToBatch,
    Squeeze,
    StridedSlice,
    Subtract,
    Unsqueeze,
)
from ....ir.ops.shape_inference import known_dims, known_ints, unique_axes
from ....ir.slice_bounds import AXIS_END
from ....ir.types import normalize_axis
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..layout.cancel_transposes import add_transpose, inverse
from ..match.values import dtype_of, known_axes, shape_of


def _slice(patch: Patch, value: Value, cuts: Sequence[tuple[int, int, int, int]]) -> Value:
    """value[start:stop:step] for each (axis, start, stop, step)."""
    if not cuts:
        return value
    axes, starts, stops, steps = (patch.integers(list(n)) for n in zip(*cuts, strict=True))
    return patch.add(Slice(), value, starts, stops, steps, axes)


@dataclass(frozen=True)
class _Cut:
    """axis[start:stop:step]; `position` is where a StridedSlice lists the bounds."""

    axis: int
    start: Dim
    stop: Dim
    step: int
    position: int


def _slice_by_lists(
    patch: Patch, value: Value, cuts: Sequence[_Cut], starts: Value, stops: Value
) -> Value:
    """The cuts of a value; bounds that are sizes are taken from the lists of all bounds."""
    if not cuts:
        return value
    positions = [c.position for c in cuts]
    axes, steps = (patch.integers(n) for n in ([c.axis for c in cuts], [c.step for c in cuts]))
    begin = _list_bounds(patch, [c.start for c in cuts], positions, starts)
    end = _list_bounds(patch, [c.stop for c in cuts], positions, stops)
    return patch.add(Slice(), value, begin, end, steps, axes)


def _list_bounds(
    patch: Patch, bounds: Sequence[Dim], positions: Sequence[int], listed: Value
) -> Value:
    if all(isinstance(b, int) for b in bounds):
        return patch.integers(list(bounds))
    zero, parts = patch.integers(0), list[Value]()
    for bound, position in zip(bounds, positions, strict=True):
        if isinstance(bound, int):
            parts.append(patch.integers([bound]))
            continue
        taken = patch.add(Gather(), listed, patch.integers([position]), zero)
        parts.append(patch.add(Convert(DType.i64), taken))
    return patch.add(Concat(0), *parts)


def decompose_strided_slice(
    graph: Graph, node: int, op: StridedSlice
) -> Patch | MatchFailure | None:
    """A Slice, and axes that are dropped and added."""
    shape = shape_of(graph, graph.input(node, 0))
    inputs = graph.inputs(node)
    firsts, lasts = (known_dims(graph.fact(v)) for v in inputs[1:3])
    strides = inputs[3] if len(inputs) > 3 else None
    steps = [1] * len(firsts or ()) if strides is None else known_ints(graph.fact(strides))
    if shape is None or firsts is None or lasts is None or steps is None:
        return MatchFailure("the rank or the bounds are not known")
    patch, cuts = Patch(), list[_Cut]()
    dropped, added = list[int](), list[int]()
    at = 0
    for entry in op.entries(len(firsts), len(shape)):
        i = entry.position
        if entry.new:
            added.append(at)
        elif entry.shrink:
            first = firsts[i]
            if not isinstance(first, int):
                return MatchFailure("an element at a size is taken")
            cuts.append(_Cut(entry.axis, first, first + 1 if first != -1 else AXIS_END, 1, i))
            dropped.append(entry.axis)
            continue
        elif not entry.full:
            first, last = op.bounds_of(i, firsts[i], lasts[i], steps[i])
            if steps[i] > 0 and eq(last, shape[entry.axis]):
                last = AXIS_END
            if (first, last, steps[i]) != (0, AXIS_END, 1):
                cuts.append(_Cut(entry.axis, first, last, steps[i], i))
        at += 1
    value = graph.input(node, 0)
    for cut in [c for c in cuts if c.axis in dropped]:
        size = shape[cut.axis]
        # An element that may not be there is an error, and in a slice it is not.
        if not (isinstance(size, int) and le(-size, cut.start) and lt(cut.start, size)):
            picked = Gather(out_of_range="error")
            index = patch.integers([cut.start])
            value = patch.add(picked, value, index, patch.integers(cut.axis))
            cuts.remove(cut)
    value = _slice_by_lists(patch, value, cuts, graph.input(node, 1), graph.input(node, 2))
    if dropped:
        value = patch.add(Squeeze(), value, patch.integers(dropped))
    if added:
        value = patch.add(Unsqueeze(), value, patch.integers(added))
    return patch.replace(Value(node), value)


def decompose_reverse(graph: Graph, node: int, op: Reverse) -> Patch | MatchFailure | None:
    """A slice with steps of -1."""
    shape = shape_of(graph, graph.input(node, 0))
    value = graph.inputs(node)[1] if len(graph.inputs(node)) > 1 else None
    listed = [] if value is None else known_ints(graph.fact(value))
    if shape is None or listed is None:
        return MatchFailure("the rank or the axes are not known")
    if op.mode.lower() == "mask":
        listed = np.flatnonzero(listed).tolist()
    axes = unique_axes(listed, len(shape))
    patch = Patch()
    cuts = [(a, AXIS_END, -AXIS_END, -1) for a in axes]
    return patch.replace(Value(node), _slice(patch, graph.input(node, 0), cuts))


def decompose_roll(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Both parts of each axis, the other way round; by indices where an axis may be shorter than
    its shift."""
    data, moves = graph.input(node, 0), graph.known_value(graph.input(node, 1))
    shape = shape_of(graph, data)
    axes = None if shape is None else known_axes(graph, graph.input(node, 2), len(shape))
    if shape is None or moves is None or axes is None or moves.dtype.kind not in "iu":
        return MatchFailure("the shifts or the axes are not known")
    by = [int(m) for m in moves.reshape(-1)]
    patch, value = Patch(), data
    for axis, shift in zip(axes, by * len(axes) if len(by) == 1 else by, strict=True):
        size = shape[axis]
        if isinstance(size, int):
            shift %= max(size, 1)
        elif abs(shift) > (bounds(size)[0] or 0):
            value = patch.add(Gather(), value, *_rolled_indices(patch, data, axis, shift))
            continue
        if not shift:
            continue
        halves = [(axis, -shift, AXIS_END, 1)], [(axis, 0, -shift, 1)]
        value = patch.add(Concat(axis), *(_slice(patch, value, half) for half in halves))
    return patch.replace(Value(node), value)


def _rolled_indices(patch: Patch, data: Value, axis: int, shift: int) -> tuple[Value, Value]:
    """(i - shift) mod n for each index i of an axis of n, and the axis."""
    zero, one, at = (patch.constant(n, DType.i64) for n in (0, 1, axis))
    size = patch.add(Gather(), patch.add(ShapeOf(), data), at, zero)
    every = patch.add(Range(DType.i64), zero, size, one)
    moved = patch.add(Subtract(), every, patch.constant(shift, DType.i64))
    return patch.add(FloorMod(), moved, size), at


def decompose_space_to_batch(
    graph: Graph, node: int, op: SpaceToBatch
) -> Patch | MatchFailure | None:
    """Padded, split into blocks, and the blocks moved in front."""
    data, made = shape_of(graph, graph.input(node, 0)), shape_of(graph, Value(node))
    lists = [known_ints(graph.fact(graph.input(node, port))) for port in (1, 2, 3)]
    sizes = [d for d in (made or ())[1:] if isinstance(d, int) and d]
    if data is None or made is None or None in lists or len(sizes) < len(made) - 1:
        return MatchFailure("sizes are not known, or nothing")
    block, begin, end = (n for n in lists if n is not None)
    patch, value, k = Patch(), graph.input(node, 0), len(sizes)
    if any(begin) or any(end):
        dtype = dtype_of(graph, value)
        zero = patch.constant(0, dtype)
        value = patch.add(Pad(), value, patch.integers(begin), patch.integers(end), zero)
    split = [n for pair in zip(sizes, block[1:], strict=True) for n in pair]
    value = patch.add(Reshape(special_zero=True), value, patch.integers([0, *split]))
    order = [*(2 + 2 * i for i in range(k)), 0, *(1 + 2 * i for i in range(k))]
    value = add_transpose(patch, value, order)
    return patch.replace(Value(node), patch.add(Reshape(), value, patch.integers([-1, *sizes])))


def decompose_batch_to_space(
    graph: Graph, node: int, op: BatchToSpace
) -> Patch | MatchFailure | None:
    """The inverse: blocks moved besides the axes that they belong to, and the edges cut off."""
    data = shape_of(graph, graph.input(node, 0))
    lists = [known_ints(graph.fact(graph.input(node, port))) for port in (1, 2, 3)]
    sizes = [d for d in (data or ())[1:] if isinstance(d, int) and d]
    if data is None or None in lists or len(sizes) < len(data) - 1:
        return MatchFailure("sizes are not known, or nothing")
    block, begin, end = (n for n in lists if n is not None)
    if not math.prod(block):
        return MatchFailure("a block of nothing")
    patch, k = Patch(), len(sizes)
    split = patch.integers([*block[1:], -1, *sizes])
    value = patch.add(Reshape(), graph.input(node, 0), split)
    order = [k, *(a for i in range(k) for a in (k + 1 + i, i))]
    expanded_sizes = [d * b for d, b in zip(sizes, block[1:], strict=True)]
    value = add_transpose(patch, value, order)
    value = patch.add(Reshape(), value, patch.integers([-1, *expanded_sizes]))
    cuts = [
        (1 + i, a, d - z, 1)
        for i, (a, z, d) in enumerate(zip(begin[1:], end[1:], expanded_sizes, strict=True))
        if a or z
    ]
    return patch.replace(Value(node), _slice(patch, value, cuts))


def decompose_reverse_sequence(
    graph: Graph, node: int, op: ReverseSequence
) -> Patch | MatchFailure | None:
    """Each element is read from its source index: length - 1 - t before the length, t behind."""
    shape = shape_of(graph, graph.input(node, 0))
    if shape is None or shape_of(graph, graph.input(node, 1)) is None:
        return MatchFailure("a rank is unknown")
    patch, rank = Patch(), len(shape)
    axes = [normalize_axis(a, rank) for a in (op.batch_axis, op.seq_axis)]
    order = [*axes, *(a for a in range(rank) if a not in axes)]
    value = add_transpose(patch, graph.input(node, 0), order)
    zero, one = patch.integers(0), patch.integers(1)
    sizes = patch.add(ShapeOf(DType.i64), graph.input(node, 0))
    time = patch.add(Gather(), sizes, patch.integers(axes[1]), zero)
    positions = patch.add(Range(DType.i64), zero, time, one)
    lengths = patch.add(Convert(DType.i64), graph.input(node, 1))
    # A length beyond the axis is the axis.
    lengths = patch.add(Minimum(), lengths, time)
    ends = patch.add(Unsqueeze(), lengths, patch.integers([1]))
    back = patch.add(Subtract(), patch.add(Subtract(), ends, one), positions)
    inside = patch.add(Less(), positions, ends)
    source = patch.add(Select(), inside, back, positions)
    value = patch.add(Gather(batch_dims=1), value, source, one)
    return patch.replace(Value(node), add_transpose(patch, value, inverse(order)))


def decompose_convert_like(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A conversion to a type that is known."""
    dtype = dtype_of(graph, Value(node))
    if dtype is DType.dynamic:
        return MatchFailure("the type is unknown")
    patch = Patch()
    return patch.replace(Value(node), patch.add(Convert(dtype), graph.input(node, 0)))


_RULES = (
    op_rule("decompose_strided_slice", (StridedSlice,), decompose_strided_slice),
    op_rule("decompose_reverse", (Reverse,), decompose_reverse),
    Rule("decompose_roll", ("Roll",), decompose_roll),
    op_rule("decompose_space_to_batch", (SpaceToBatch,), decompose_space_to_batch),
    op_rule("decompose_batch_to_space", (BatchToSpace,), decompose_batch_to_space),
    op_rule("decompose_reverse_sequence", (ReverseSequence,), decompose_reverse_sequence),
    Rule("decompose_convert_like", ("ConvertLike",), decompose_convert_like),
)

decompose_data_movement = Pass("decompose_data_movement", lambda options: _RULES)
