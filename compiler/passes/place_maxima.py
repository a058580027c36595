"""Where the maxima of a pool were, by elementwise operations, for which there are kernels."""

from __future__ import annotations

import math

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.ops import Add, Constant, Equal, IsNaN, LogicalOr, MaxPool8, Select, Slice
from ...ir.patch import Patch, Refusal
from ...ir.types import normalize_axis
from ..rewrite import Pass, Rule
from .matching import dtype_of, shape_of

# More taps than these make a chain that is slower than it is worth.
_MOST = 32


def place(graph: Graph, node: int) -> Patch | Refusal | None:
    """The second result of a MaxPool without paddings: the first tap that equals the maximum."""
    op = graph.op(node)
    if not isinstance(op, MaxPool8) or not graph.uses(Value(node, 1)):
        return None
    data = graph.input(node, 0)
    shape, out = shape_of(graph, data), shape_of(graph, Value(node))
    sizes = [d for d in (*(shape or ()), *(out or ())) if isinstance(d, int)]
    if shape is None or out is None or len(sizes) != 2 * len(shape) or not all(sizes):
        return Refusal("sizes are symbolic, or nothing")
    w, spatial = op.windows(), sizes[2 : len(shape)]
    padded = w.auto_pad.startswith("same") or any((*w.pads_begin, *w.pads_end))
    if padded or w.rounding != "floor" or math.prod(op.kernel) > _MOST:
        return Refusal("windows reach beyond the data, or are large")
    whole = math.prod(sizes[normalize_axis(op.axis, len(shape)) : len(shape)])
    if whole < math.prod(spatial):
        return Refusal("places are counted within a part of the image")
    patch, last = Patch(), len(spatial)
    counts = sizes[len(shape) + 2 :]
    steps = [math.prod(spatial[i + 1 :]) for i in range(last)]

    def number(array: object, dtype: DType = op.index_element_type) -> Value:
        return patch.add(Constant.of(np.array(array, dtype.numpy), dtype))

    def listed(values: list[int]) -> Value:
        return number(values, DType.i64)

    found: Value | None = None
    for tap in reversed(list(np.ndindex(*op.kernel))):
        begin = [int(t) * d for t, d in zip(tap, w.dilations, strict=True)]
        offset = number(sum(b * s for b, s in zip(begin, steps, strict=True)))
        if found is None:
            found = offset
            continue
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, counts, w.strides, strict=True)]
        axes = listed(list(range(2, 2 + last)))
        part = patch.add(Slice(), data, listed(begin), listed(end), listed(list(w.strides)), axes)
        hit = patch.add(Equal(), part, Value(node))
        if dtype_of(graph, data).is_float:
            hit = patch.add(LogicalOr(), hit, patch.add(IsNaN(), part))
        found = patch.add(Select(), hit, offset, found)
    assert found is not None
    # The window's first element; in two parts, which are small.
    grid = np.zeros((1, 1, *counts), np.int64)
    for i, (n, stride, step) in enumerate(zip(counts, w.strides, steps, strict=True)):
        along = np.arange(n, dtype=np.int64) * stride * step
        grid += along.reshape([-1 if a == 2 + i else 1 for a in range(2 + last)])
    planes = np.arange(sizes[0] * sizes[1], dtype=np.int64) * math.prod(spatial)
    planes = planes.reshape(sizes[0], sizes[1], *[1] * last)
    made = patch.add(Add(), patch.add(Add(), found, number(grid)), number(planes % whole))
    return patch.replace(Value(node, 1), made)


_RULES = (Rule("place", ("MaxPool",), place),)

place_maxima = Pass("place_maxima", lambda options: _RULES)
