"""Decomposes the Indices output of MaxPool into slices, compares and selects, which have kernels.

Pattern: MaxPool whose second output has a use, with at most 32 taps.
Exporter: torch 2.13, `torch.onnx.export` of nn.MaxPool2d(return_indices=True), whose indices
nn.MaxUnpool2d reads (SegNet).
Gain: native steps in place of a pool that Python evaluates (docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Add,
    Broadcast,
    Concat,
    Convert,
    Equal,
    GreaterEqual,
    IsNaN,
    LogicalAnd,
    LogicalOr,
    MaxPool8,
    Multiply,
    Pad,
    Range,
    ReduceProd,
    Reshape,
    Select,
    ShapeOf,
    Slice,
)
from ....ir.types import normalize_axis
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of

# More taps than these make a chain that is slower than it is worth.
_MAX_TAPS = 32


def decompose_indices(  # noqa: C901 - builds one expression, part by part
    graph: Graph, node: int, op: MaxPool8
) -> Patch | MatchFailure | None:
    """Decompose the Indices output of MaxPool: the index of the first tap that equals the maximum
    and is not padding. An iota of the image is padded and sliced like the image."""
    if not graph.use_count(Value(node, 1)):
        return None
    data = graph.input(node, 0)
    shape, dtype, w = shape_of(graph, data), dtype_of(graph, data), op.windows()
    if shape is None or len(shape) < 3:
        return MatchFailure("the rank is unknown")
    axis = normalize_axis(op.axis, len(shape))
    if w.auto_pad.startswith("same") or math.prod(op.kernel) > _MAX_TAPS or axis > 2:
        return MatchFailure(
            "paddings that follow from sizes, large windows, or a part of the image"
        )
    patch, last = Patch(), len(shape) - 2
    spatial_axes = list(range(2, 2 + last))

    def integers(*values: int) -> Value:
        return patch.integers(values)

    def number(value: int) -> Value:
        return patch.integers(value)

    def sizes(of: Value, begin: int, end: int) -> Value:
        full_shape = patch.add(ShapeOf(DType.i64), of)
        return patch.add(
            Slice(), full_shape, integers(begin), integers(end), integers(1), integers(0)
        )

    def enumerate_axes(of: Value, count: Value, before: Sequence[int], behind: int) -> Value:
        """0, 1, ... in the shape of some axes, between axes of 1."""
        ends = patch.add(ReduceProd(), count, integers(0))
        plain = patch.add(Range(DType.i64), number(0), ends, number(1))
        parts = [integers(*before)] if before else []
        parts += [of] + ([integers(*[1] * behind)] if behind else [])
        return patch.add(Reshape(), plain, patch.add(Concat(0), *parts))

    image = sizes(data, 2, 2 + last)
    indices = enumerate_axes(image, image, [1, 1], 0)
    # Windows that begin beyond the data find more there than a pool pads, where it rounds up.
    more = 0 if w.rounding == "floor" else 1
    ends = [p + more * s for p, s in zip(w.pads_end, w.strides, strict=True)]
    padded = any((*w.pads_begin, *ends))
    if padded:
        pads = integers(0, 0, *w.pads_begin), integers(0, 0, *ends)
        indices = patch.add(Pad("constant"), indices, *pads, number(-1))
        data = patch.add(Pad("constant"), data, *pads)
    strides, axes = integers(*w.strides), integers(*spatial_axes)
    span = patch.add(Multiply(), sizes(Value(node), 2, 2 + last), strides)
    found: Value | None = None
    for tap in reversed(list(np.ndindex(*op.kernel))):
        begin = [int(t) * d for t, d in zip(tap, w.dilations, strict=True)]
        past = [b + 1 - s for b, s in zip(begin, w.strides, strict=True)]
        end = patch.add(Add(), span, integers(*past))
        values, at = (
            patch.add(Slice(), v, integers(*begin), end, strides, axes) for v in (data, indices)
        )
        if found is None:
            found = at
            continue
        hit = patch.add(Equal(), values, Value(node))
        if dtype.is_float:
            hit = patch.add(LogicalOr(), hit, patch.add(IsNaN(), values))
        if padded:
            hit = patch.add(LogicalAnd(), hit, patch.add(GreaterEqual(), at, number(0)))
        found = patch.add(Select(), hit, at, found)
    assert found is not None
    if axis < 2:
        outer = sizes(graph.input(node, 0), axis, 2)
        planes = enumerate_axes(outer, outer, [1] * axis, last)
        size = patch.add(ReduceProd(), image, integers(0))
        counted = patch.add(Add(), found, patch.add(Multiply(), planes, size))
        if padded:  # a window of nothing but padding stays at -1
            real = patch.add(GreaterEqual(), found, number(0))
            counted = patch.add(Select(), real, counted, found)
        found = counted
    if math.prod(op.kernel) == 1:  # nothing was compared with the image's own planes
        found = patch.add(Broadcast(), found, patch.add(ShapeOf(DType.i64), Value(node)))
    if op.index_element_type is not DType.i64:
        found = patch.add(Convert(op.index_element_type), found)
    return patch.replace(Value(node, 1), found)


_RULES = (op_rule("decompose_indices", (MaxPool8,), decompose_indices),)

decompose_maxpool_indices = Pass("decompose_maxpool_indices", lambda options: _RULES)
