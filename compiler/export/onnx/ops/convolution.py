"""Convolutions and their transposes."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.ops import (
    Convolution,
    ConvolutionBackpropData,
    GroupConvInteger,
    GroupConvolution,
    GroupConvolutionBackpropData,
)
from .....ir.ops.nn.convolution import Convolving
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output, spatial_attributes


def _filters(n: ExportContext, grouped: bool, wide: DType) -> tuple[str, int | None]:
    """Filters without their axis of groups, and how many groups there are."""
    name = n.input_as(1, wide)
    if not grouped:
        return name, None
    shape = n.fixed_shape(1)
    if shape is None:
        first = n.shape(1)
        if first is None or not isinstance(first[0], int):
            raise n.error("an unknown number of groups")
        sizes = n.slice(n.add("Shape", n.input(1)), 2, len(first), 0)
        return n.add("Reshape", name, n.add("Concat", n.ints([-1]), sizes, axis=0)), first[0]
    target = [shape[0] * shape[1], *shape[2:]]
    data = n.constant_data(1)
    if data is not None and wide is n.dtype(1):
        value = n.value(1)
        label = n.graph.node(value.node).name if value is not None else ""
        made = n.writer.initializer(data.reshape(target), wide, n.where, label or "filters")
        return made, shape[0]
    return n.add("Reshape", name, n.ints(target)), shape[0]


def _float_type(n: ExportContext, op_type: str) -> DType:
    """The data's element type, or one that the operator takes: integers are exact in f64."""
    dtype = n.dtype(0)
    if n.takes(op_type, dtype):
        return dtype
    return DType.f64 if dtype.is_int and dtype.bits > 8 else DType.f32


def _convolution(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, Convolution | GroupConvolution)
    wide = _float_type(n, "Conv")
    filters, groups = _filters(n, op.grouped, wide)
    attributes = spatial_attributes(op, n.rank(0) - 2)
    found = n.add("Conv", n.input_as(0, wide), filters, group=groups, **attributes)
    return narrow_output(n, found, wide)


def _write_transposed(n: ExportContext) -> Exported:
    """What output_shape crops is written as paddings, for sizes that are known."""
    op = n.op
    assert isinstance(op, ConvolutionBackpropData | GroupConvolutionBackpropData)
    wide, rank = _float_type(n, "ConvTranspose"), n.rank(0) - 2
    filters, groups = _filters(n, op.grouped, wide)
    extra = list(op.output_padding) or None
    ones, zeros = (1,) * rank, (0,) * rank
    attributes: dict[str, Any] = {
        "strides": list(op.strides or ones),
        "dilations": list(op.dilations or ones),
        "output_padding": extra,
    }
    pads = [*(op.pads_begin or zeros), *(op.pads_end or zeros)]
    if op.auto_pad.lower() == "valid":
        pads = [0] * (2 * rank)
    if n.optional(2) is not None:
        pads, more = _cropping_pads(n, op, rank)
        if any(more):  # what lies beyond the data is 0
            plain = op.output_padding or zeros
            attributes["output_padding"] = [a + b for a, b in zip(plain, more, strict=True)]
    found = n.add(
        "ConvTranspose", n.input_as(0, wide), filters, group=groups, pads=pads, **attributes
    )
    return narrow_output(n, found, wide)


def _cropping_pads(
    n: ExportContext, op: ConvolutionBackpropData | GroupConvolutionBackpropData, rank: int
) -> tuple[list[int], list[int]]:
    """Paddings that crop to the output_shape, and how much it exceeds what the data gives."""
    shape, kernel = n.fixed_shape(0), n.fixed_shape(1)
    target = n.ints_of(2, "output_shape")
    if shape is None or kernel is None:
        raise n.error("an output_shape for data of unknown sizes")
    strides, dilations = (v or (1,) * rank for v in (op.strides, op.dilations))
    extra = op.output_padding or (0,) * rank
    begin, end = list(op.pads_begin or (0,) * rank), list[int]()
    for i, (d, k) in enumerate(zip(shape[2:], kernel[-rank:], strict=True)):
        full = (d - 1) * strides[i] + (k - 1) * dilations[i] + 1 + extra[i]
        total = full - target[i]
        if op.auto_pad.lower().startswith("same"):
            upper = op.auto_pad.lower() == "same_upper"
            total = max(total, 0)
            begin[i] = total - total // 2 if upper else total // 2
        end.append(full - target[i] - begin[i])
    return [*begin, *(max(e, 0) for e in end)], [max(-e, 0) for e in end]


def _conv_integer(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, Convolving)
    filters, groups = _filters(n, isinstance(op, GroupConvInteger), n.dtype(1))
    zeros: list[str | None] = []
    for port in (2, 3):
        if n.optional(port) is None:
            zeros.append(None)
            continue
        shape = n.fixed_shape(port)
        if shape is None:
            return None
        is_scalar = all(d == 1 for d in shape)
        if not is_scalar and port == 2:
            return None
        zeros.append(n.add("Reshape", n.input(port), n.ints([] if is_scalar else [-1])))
    attributes = spatial_attributes(op, n.rank(0) - 2)
    return n.add("ConvInteger", n.input(0), filters, *zeros, group=groups, **attributes)


EXPORTERS: dict[str, ExportFunction] = {
    "Convolution": _convolution,
    "GroupConvolution": _convolution,
    "ConvolutionBackpropData": _write_transposed,
    "GroupConvolutionBackpropData": _write_transposed,
    "ConvInteger": _conv_integer,
    "GroupConvInteger": _conv_integer,
}
