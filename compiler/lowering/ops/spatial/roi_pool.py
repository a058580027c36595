"""Lowers ROIPooling: regions of feature maps that lie channels last."""

from __future__ import annotations

from .....ir.graph import Graph, Value
from .....ir.ops import ROIPooling
from .....ir.types import TensorType
from .....plan.ranges import MAX_TAPS
from .....plan.specs.checks import FLOATS
from .....plan.specs.roi_pool import ROIPoolSpec
from ....strided_view import permute
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..convolution import to_channels_last


def refuse_roi_pool(graph: Graph, node: int, op: ROIPooling) -> str | None:
    """Why no kernel pools these regions, or None."""
    type_ = graph.type(graph.input(node, 0))
    if not isinstance(type_, TensorType) or type_.dtype not in FLOATS:
        return "regions of another type than f32, f64, f16 and bf16"
    fits = max(op.pooled_h, op.pooled_w) <= MAX_TAPS
    return None if fits else "no kernel takes so many bins of a region"


def lower_roi_pool(lowering: RegionLowering, node: int, op: ROIPooling) -> None:
    """One step; the feature maps are turned to channels last before it."""
    name, data_value = lowering.name(node), lowering.graph.input(node, 0)
    data = to_channels_last(lowering, lowering.view(data_value), lowering.name(data_value.node))
    rois, out = lowering.view(lowering.graph.input(node, 1)), lowering.result(Value(node))
    views = [permute(data, [0, 2, 3, 1]), rois, permute(out, [0, 2, 3, 1])]
    sizes = SizeCollector()
    images, height, width, channels = (sizes(n) for n in views[0].shape)
    spec = ROIPoolSpec(
        images,
        height,
        width,
        channels,
        sizes(out.shape[0]),
        op.pooled_h,
        op.pooled_w,
        op.spatial_scale,
        op.method.lower() == "bilinear",
        *(sizes.operand(v, v.strides) for v in views),
    )
    work = lowering.vectors(out.shape, out.dtype) * 4
    lowering.region.kernel(spec, sizes, views, work, name, lowering.sources(node))
