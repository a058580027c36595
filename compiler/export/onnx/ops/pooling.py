"""Pools, adaptive ones too."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .....ir.dtype import DType
from .....ir.ops import AdaptiveMaxPool, AvgPool1, MaxPool1, MaxPool8
from .....ir.ops.nn.pooling_window import Windows
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output, spatial_attributes


def _attributes(n: ExportContext, op: Any, op_type: str) -> dict[str, Any]:
    """Windows as ONNX has them. OpenVINO's ceil lets windows begin in the paddings: more padding at
    the end says the same where sizes are fixed."""
    rank = len(op.kernel)
    found = spatial_attributes(op, rank) | {"kernel_shape": list(op.kernel)}
    if not n.has_attribute(op_type, "dilations"):
        if any(d != 1 for d in found["dilations"]):
            raise n.error("dilations, in this operator set")
        del found["dilations"]
    rounding = op.rounding_type.lower()
    if rounding == "floor":
        return found
    windows, sizes = op.windows(), n.fixed_shape(0)
    if rounding == "ceil_torch" and (
        sizes is None or not _drops_window(windows, sizes[2:], n.opset)
    ):
        return found | {"ceil_mode": 1}
    if sizes is None:
        steps = zip(windows.strides, op.kernel, strict=True)
        plain = not any((*windows.pads_begin, *windows.pads_end)) and all(s <= k for s, k in steps)
        if plain and op_type == "MaxPool":
            return found | {"ceil_mode": 1}
        raise n.error("sizes rounded up, of data whose sizes are not fixed")
    pads = windows.pads(sizes[2:])
    ends: list[int] = []
    counts = windows.out_sizes(sizes[2:])
    for i, (size, (begin, end)) in enumerate(zip(sizes[2:], pads, strict=True)):
        count, extent = counts[i], windows.extent(i)
        assert isinstance(count, int) and isinstance(extent, int)
        reach = (count - 1) * windows.strides[i] + extent - begin - size
        ends.append(max(end, reach) if rounding == "ceil" else reach)
    counts_pads = not getattr(op, "exclude_pad", True)
    beyond = counts_pads and any(r > end for r, (_, end) in zip(ends, pads, strict=True))
    if rounding == "ceil_torch" and (min(ends) < 0 or beyond):
        raise n.error("a window that begins in the padding, before or behind what others read")
    found.pop("auto_pad", None)
    return found | {"pads": [*(b for b, _ in pads), *ends]}


def _drops_window(windows: Windows, sizes: list[int], opset: int) -> bool:
    """Whether a window would begin in the padding, which ONNX before operator set 22 counts."""
    if opset >= 22:
        return False
    every = replace(windows, rounding="ceil").out_sizes(sizes)
    return every != windows.out_sizes(sizes)


def _pooled_type(n: ExportContext, op_type: str) -> DType:
    dtype = n.dtype(0)
    return dtype if n.takes(op_type, dtype) else DType.f64 if dtype.is_int else DType.f32


def _max_pool(n: ExportContext) -> Exported:
    """Indices count all elements in ONNX; ours those from `axis` on."""
    op = n.op
    assert isinstance(op, MaxPool1 | MaxPool8)
    wide = _pooled_type(n, "MaxPool")
    x, attributes = n.input_as(0, wide), _attributes(n, op, "MaxPool")
    if isinstance(op, MaxPool1) or not n.is_read(1):
        found = narrow_output(n, n.add("MaxPool", x, **attributes), wide)
        return [found] if isinstance(op, MaxPool1) else [found, found]
    values, indices = n.add_all("MaxPool", [x], 2, **attributes)
    axis = normalize_axis(op.axis, n.rank(0))
    if axis:
        sizes = n.slice(n.add("Shape", n.input(0)), axis, n.rank(0), 0)
        indices = n.add("Mod", indices, n.reduce("ReduceProd", sizes, [0]))
    to = op.index_element_type
    return [narrow_output(n, values, wide), indices if to is DType.i64 else n.cast(indices, to)]


def _average_pool(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, AvgPool1)
    wide = _pooled_type(n, "AveragePool")
    attributes = _attributes(n, op, "AveragePool")
    if wide is not n.dtype(0) and n.dtype(0).is_int:
        return None
    attributes["count_include_pad"] = int(not op.exclude_pad)
    return narrow_output(n, n.add("AveragePool", n.input_as(0, wide), **attributes), wide)


def _even_windows(n: ExportContext) -> tuple[list[int], list[int]] | None:
    """Input and output sizes of an adaptive pool."""
    shape, wanted = n.fixed_shape(0), n.known_ints(1)
    if shape is None or wanted is None:
        return None
    return shape[2:], wanted


def _adaptive_average(n: ExportContext) -> Exported:
    """The mean of all, windows of one size, or a product with a matrix of weights per axis."""
    wanted = n.known_ints(1)
    if wanted is not None and all(w == 1 for w in wanted):
        return n.add("GlobalAveragePool", n.input(0))
    sizes = _even_windows(n)
    if sizes is None:
        raise n.error("sizes that are not fixed")
    have, wanted = sizes
    if all(w and d % w == 0 for d, w in zip(have, wanted, strict=True)):
        kernel = [d // w for d, w in zip(have, wanted, strict=True)]
        return n.add("AveragePool", n.input(0), kernel_shape=kernel, strides=kernel)
    value, rank = n.input(0), n.rank(0)
    for axis, (size, out) in enumerate(zip(have, wanted, strict=True), 2):
        matrix = np.zeros((size, out))
        for i in range(out):
            first, last = i * size // out, -(-(i + 1) * size // out)
            matrix[first:last, i] = 1 / (last - first)
        order = [*(a for a in range(rank) if a != axis), axis]
        moved = n.add("MatMul", n.transpose(value, order), n.constant(matrix, n.dtype(0)))
        value = n.transpose(moved, [order.index(a) for a in range(rank)])
    return value


def _adaptive_max(n: ExportContext) -> Exported:
    op = n.cast_op(AdaptiveMaxPool)
    sizes = _even_windows(n)
    if sizes is None:
        wanted = n.known_ints(1)
        if wanted is not None and all(w == 1 for w in wanted) and not n.is_read(1):
            found = n.add("GlobalMaxPool", n.input(0))
            return [found, found]
        raise n.error("sizes that are not fixed")
    have, wanted = sizes
    if not all(w and d % w == 0 for d, w in zip(have, wanted, strict=True)):
        raise n.error("windows of several sizes")
    kernel = [d // w for d, w in zip(have, wanted, strict=True)]
    values, indices = n.add_all("MaxPool", [n.input(0)], 2, kernel_shape=kernel, strides=kernel)
    indices = n.add("Mod", indices, n.int_scalar(prod(have)))
    to = op.index_element_type
    return [values, indices if to is DType.i64 else n.cast(indices, to)]


EXPORTERS: dict[str, ExportFunction] = {
    "MaxPool": _max_pool,
    "AvgPool": _average_pool,
    "AdaptiveAvgPool": _adaptive_average,
    "AdaptiveMaxPool": _adaptive_max,
}
