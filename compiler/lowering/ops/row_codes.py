"""Lowers QuantizeRows and DequantizeRows."""

from __future__ import annotations

from ....ir.graph import Value
from ....ir.ops import DequantizeRows, QuantizeRows
from ....plan.specs.row_codes import RowCodesSpec
from ...strided_view import coalesce
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from .attention import make_rows_contiguous


def lower_row_codes(lowering: RegionLowering, node: int, op: QuantizeRows | DequantizeRows) -> None:
    """Emit the step; rows whose elements are not contiguous are copied before or behind it."""
    name, result = lowering.name(node), lowering.result(Value(node))
    source = make_rows_contiguous(lowering, lowering.view(lowering.graph.input(node, 0)), name)
    out = result
    if result.strides[-1] != 1:
        out = lowering.region.allocate(result.dtype, result.shape, name)
    dequantizes = isinstance(op, DequantizeRows)
    values, codes = (out, source) if dequantizes else (source, out)
    size, sizes = values.shape[-1], SizeCollector()
    assert isinstance(size, int)
    axes, strides = coalesce(values.shape[:-1], [v.strides[:-1] for v in (values, codes)])
    walked = [sizes.operand(v, (*s, 1)) for v, s in zip((values, codes), strides, strict=True)]
    spec = RowCodesSpec(sizes.all(axes), size, op.bits, walked[0], walked[1], dequantizes)
    work = lowering.vectors(values.shape, values.dtype) * 4
    sources = lowering.sources(node)
    lowering.region.kernel(spec, sizes, [source, out], work, name, sources)
    if out is not result:
        lowering.copy(out, result, name, sources)
