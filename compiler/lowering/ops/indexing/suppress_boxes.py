"""Lowers SuppressBoxes."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.ops import SuppressBoxes
from .....ir.types import TensorType
from .....plan.specs.suppress_boxes import SuppressBoxesSpec
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering

# Operations for one candidate: a place in the heap, and overlaps with a few boxes.
_WORK_PER_BOX = 32


def refuse_suppress_boxes(graph: Graph, node: int, op: SuppressBoxes) -> str | None:
    """Why no kernel compares these boxes, or None."""
    for port in (0, 1):
        type_ = graph.type(graph.input(node, port))
        if not isinstance(type_, TensorType) or type_.dtype is not DType.f32:
            return "boxes or scores of another type than f32"
    return None


def lower_suppress_boxes(lowering: RegionLowering, node: int, op: SuppressBoxes) -> None:
    """A task is a class of an image."""
    boxes, scores = (lowering.view(lowering.graph.input(node, port)) for port in (0, 1))
    outputs = [lowering.result(Value(node, port)) for port in range(5)]
    sizes, views = SizeCollector(), [boxes, scores, *outputs]
    images, classes, count = (sizes(n) for n in scores.shape)
    spec = SuppressBoxesSpec(
        images,
        classes,
        count,
        sizes(outputs[0].shape[2]),
        op.box_encoding == "center",
        op.iou_threshold,
        op.score_threshold,
        *(sizes.operand(view, view.strides) for view in views),
    )
    work = lowering.vectors(scores.shape, DType.f32) * _WORK_PER_BOX
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), lowering.sources(node))
