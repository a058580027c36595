"""Tensors joined, split, sliced and padded."""

from __future__ import annotations

import numpy as np

from .....ir.dtype import DType
from .....ir.ops import Concat, ReverseSequence
from .....ir.types import TensorType, normalize_axis
from ..context import ExportContext, Exported, ExportFunction


def _concat(n: ExportContext) -> Exported:
    return n.add("Concat", *n.names, axis=n.cast_op(Concat).axis)


def _split(n: ExportContext) -> Exported:
    count = len(n.record.types)
    axis = n.axis_of(1, n.rank(0)) if n.shape(0) is not None else n.ints_of(1, "an axis")[0]
    parts = count if n.has_attribute("Split", "num_outputs") else None
    return n.add_all("Split", [n.input(0)], count, axis=axis, num_outputs=parts)


def _variadic_split(n: ExportContext) -> Exported:
    """A length of -1 is what the others leave."""
    axis, count = n.axis_of(1, n.rank(0)), len(n.record.types)
    lengths = n.known_ints(2)
    sizes = [
        t.shape[axis] if isinstance(t, TensorType) and t.shape is not None else None
        for t in n.record.types
    ]
    fixed = [d for d in sizes if isinstance(d, int)]
    if len(fixed) == count:
        split = n.ints(fixed)
    elif lengths is None:
        split = n.vector(2)
    elif -1 not in lengths:
        split = n.ints(lengths)
    else:
        rest = n.add("Sub", n.size(n.input(0), axis), n.ints([sum(lengths) + 1]))
        parts = [rest if v == -1 else n.ints([v]) for v in lengths]
        split = n.add("Concat", *parts, axis=0)
    return n.add_all("Split", [n.input(0), split], count, axis=axis)


def _slice(n: ExportContext) -> Exported:
    """ONNX's order: starts, ends, axes, steps."""
    start, stop, step = (n.vector(port) for port in (1, 2, 3))
    axes = None if n.optional(4) is None else n.vector(4)
    if axes is None and n.known_ints(3) is not None:
        axes = n.ints(range(len(n.ints_of(3, "steps"))))
    return n.add("Slice", n.input(0), start, stop, axes, step)


def _reverse_sequence(n: ExportContext) -> Exported:
    """Batch and time are ONNX's first two axes."""
    op, rank = n.cast_op(ReverseSequence), n.rank(0)
    if not n.takes("ReverseSequence", n.dtype(0)):
        return None
    batch, time = (normalize_axis(a, rank) for a in (op.batch_axis, op.seq_axis))
    rest = [a for a in range(rank) if a not in (batch, time)]
    order = [batch, time, *rest]
    x, plain = n.input(0), {batch, time} == {0, 1}
    x = x if plain else n.transpose(x, order)
    axes = (batch, time) if plain else (0, 1)
    lengths = n.input_as(1, DType.i64)
    found = n.add("ReverseSequence", x, lengths, batch_axis=axes[0], time_axis=axes[1])
    if plain:
        return found
    return n.transpose(found, [order.index(a) for a in range(rank)])


def _pad(n: ExportContext) -> Exported:
    mode = str(getattr(n.op, "pad_mode", "")).lower()
    if mode == "symmetric":
        return _pad_symmetric(n)
    begin, end = n.known_ints(1), n.known_ints(2)
    if begin is not None and end is not None:
        pads = n.ints([*begin, *end])
    else:
        pads = n.add("Concat", n.vector(1), n.vector(2), axis=0)
    fill = n.flatten_scalar(3) if mode == "constant" and n.optional(3) is not None else None
    return n.add("Pad", n.input(0), pads, fill, mode=mode)


def _pad_symmetric(n: ExportContext) -> Exported:
    """Every axis picked by the positions that it is padded with."""
    sizes, begin, end = n.fixed_shape(0), n.ints_of(1, "paddings"), n.ints_of(2, "paddings")
    if sizes is None:
        raise n.error("symmetric paddings of sizes that are not fixed")
    value = n.input(0)
    for axis, (size, before, after) in enumerate(zip(sizes, begin, end, strict=True)):
        if (before, after) == (0, 0):
            continue
        indices = np.arange(max(-before, 0), size - max(-after, 0))
        indices = np.pad(indices, (max(before, 0), max(after, 0)), "symmetric")
        value = n.add("Gather", value, n.ints(indices.tolist()), axis=axis)
    return value


EXPORTERS: dict[str, ExportFunction] = {
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _variadic_split,
    "Slice": _slice,
    "ReverseSequence": _reverse_sequence,
    "Pad": _pad,
}
