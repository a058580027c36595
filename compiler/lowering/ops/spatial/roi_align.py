"""ROIAlign: regions of feature maps that lie channels last."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.ops import ROIAlign
from .....ir.types import TensorType
from .....plan.ranges import MAX_TAPS
from .....plan.specs.roi_align import MAX_SAMPLES, ROIAlignSpec
from ....strided_view import permute
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..convolution import to_channels_last

# What is added to a corner before it is scaled and taken away after, and the least side.
_MODES = {
    "asymmetric": (0.0, 0.0, 1.0),
    "half_pixel_for_nn": (0.0, 0.5, 0.0),
    "half_pixel": (0.5, 0.5, 0.0),
}


def refuse_regions(graph: Graph, node: int, op: ROIAlign) -> str | None:
    """Why no kernel pools these regions, or None."""
    for port in (0, 1):
        type_ = graph.type(graph.input(node, port))
        if not isinstance(type_, TensorType) or type_.dtype is not DType.f32:
            return "regions of another type than f32"
    known = op.aligned_mode.lower() in _MODES and op.mode.lower() in ("avg", "max")
    if not known:
        return f"no kernel pools by {op.aligned_mode} and {op.mode}"
    fits = op.sampling_ratio <= MAX_SAMPLES and max(op.pooled_h, op.pooled_w) <= MAX_TAPS
    return None if fits else "no kernel takes so many samples or bins of a region"


def lower_regions(lowering: RegionLowering, node: int, op: ROIAlign) -> None:
    """One step; the feature maps are turned to channels last before it."""
    name, data_value = lowering.name(node), lowering.graph.input(node, 0)
    data = to_channels_last(lowering, lowering.view(data_value), lowering.name(data_value.node))
    rois, numbers = (lowering.view(lowering.graph.input(node, port)) for port in (1, 2))
    out = lowering.result(Value(node))
    views = [permute(data, [0, 2, 3, 1]), rois, numbers, permute(out, [0, 2, 3, 1])]
    before, after, least = _MODES[op.aligned_mode.lower()]
    sizes = SizeCollector()
    images, height, width, channels = (sizes(n) for n in views[0].shape)
    operands = [sizes.operand(v, v.strides) for v in views]
    spec = ROIAlignSpec(
        images,
        height,
        width,
        channels,
        sizes(out.shape[0]),
        op.pooled_h,
        op.pooled_w,
        op.sampling_ratio,
        op.spatial_scale,
        before,
        after,
        least,
        op.mode.lower() == "max",
        *operands,
    )
    samples = max(1, op.sampling_ratio) ** 2
    work = lowering.vectors(out.shape, DType.f32) * 4 * samples
    lowering.region.kernel(spec, sizes, views, work, name, lowering.sources(node))
