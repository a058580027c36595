"""Lowers GridSample of images whose channels fill vectors."""

from __future__ import annotations

from typing import Final

from .....ir.graph import Graph, Value
from .....ir.ops import GridSample
from .....ir.types import TensorType
from .....plan.specs.checks import FLOATS
from .....plan.specs.resample import GridSampleSpec
from ....strided_view import are_equal, permute
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..convolution import channels_last, to_channels_last

# Images of fewer channels are sampled by vectors along the points (passes/decompose/grid_sample).
_MIN_CHANNELS: Final = 8


def refuse_grid_sample(graph: Graph, node: int, op: GridSample) -> str | None:
    """Why no kernel samples the image, or None."""
    types = [graph.type(graph.input(node, port)) for port in (0, 1)]
    if any(not isinstance(t, TensorType) or t.dtype not in FLOATS for t in types):
        return "an image or a grid that is not f32, f64, f16 or bf16"
    mode, padding = op.mode.lower(), op.padding_mode.lower()
    if mode not in ("bilinear", "nearest") or padding not in ("zeros", "border"):
        return f"mode {mode} with {padding}"
    shape = types[0].shape if isinstance(types[0], TensorType) else None
    channels = shape[1] if shape is not None else None
    if not isinstance(channels, int) or channels < _MIN_CHANNELS:
        return f"fewer than {_MIN_CHANNELS} channels"
    return None


def lower_grid_sample(lowering: RegionLowering, node: int, op: GridSample) -> None:
    """One step; the image is turned to channels last before it, and the samples behind it."""
    name, data_value = lowering.name(node), lowering.graph.input(node, 0)
    data = to_channels_last(lowering, lowering.view(data_value), lowering.name(data_value.node))
    grid, out = lowering.view(lowering.graph.input(node, 1)), lowering.result(Value(node))
    made = out
    if not are_equal(out.strides[1], 1):
        made = channels_last(lowering, out.dtype, out.shape, name)
    views = [permute(data, [0, 2, 3, 1]), grid, permute(made, [0, 2, 3, 1])]
    sizes = SizeCollector()
    images, height, width, channels = (sizes(n) for n in views[0].shape)
    spec = GridSampleSpec(
        images,
        height,
        width,
        channels,
        sizes(grid.shape[1]),
        sizes(grid.shape[2]),
        op.align_corners,
        op.mode.lower() == "bilinear",
        op.padding_mode.lower() == "border",
        *(sizes.operand(v, v.strides) for v in views),
    )
    work = lowering.vectors(out.shape, out.dtype) * 8
    lowering.region.kernel(spec, sizes, views, work, name, lowering.sources(node))
    if made != out:
        lowering.copy(made, out, name, lowering.sources(node))
        # Consumers in this region read it as it was computed.
        lowering.views[Value(node)] = made
