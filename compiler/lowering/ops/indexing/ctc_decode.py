"""Lowers CTCGreedyDecoder and CTCGreedyDecoderSeqLen."""

from __future__ import annotations

from .....ir.dims import Dim
from .....ir.graph import Graph, Value
from .....ir.ops import CTCGreedyDecoder, CTCGreedyDecoderSeqLen
from .....ir.types import TensorType
from .....plan.specs.checks import FLOATS
from .....plan.specs.ctc_decode import MAX_CLASSES, CTCDecodeSpec
from ....strided_view import View, permute
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..data_movement import known_ints

AnyDecoder = CTCGreedyDecoder | CTCGreedyDecoderSeqLen


def refuse_ctc_decode(graph: Graph, node: int, op: AnyDecoder) -> str | None:
    """Why no kernel decodes these sequences, or None."""
    type_ = graph.type(graph.input(node, 0))
    if not isinstance(type_, TensorType) or type_.dtype not in FLOATS:
        return "probabilities of another type than f32, f64, f16 and bf16"
    inputs = graph.inputs(node)
    blank_is_given = len(inputs) > 2 and inputs[2] is not None
    if blank_is_given and known_ints(graph, node, 2) is None:
        return "the blank class is known at run time only"
    return None


def lower_ctc_decode(lowering: RegionLowering, node: int, op: AnyDecoder) -> None:
    """Sequences with a mask (steps first), or with lengths (sequences first)."""
    data, ends = (lowering.view(lowering.graph.input(node, port)) for port in (0, 1))
    out, count = lowering.result(Value(node)), None
    if isinstance(op, CTCGreedyDecoder):
        data, ends, merges = permute(data, [1, 0, 2]), permute(ends, [1, 0]), op.ctc_merge_repeated
    else:
        count, merges = lowering.result(Value(node, 1)), op.merge_repeated
    sizes, views = SizeCollector(), [data, ends, out, *([] if count is None else [count])]
    sequences, steps, classes = (sizes(n) for n in data.shape)
    spec = CTCDecodeSpec(
        sequences,
        steps,
        classes,
        sizes(_blank(lowering.graph, node, data)),
        merges,
        isinstance(op, CTCGreedyDecoder),
        sizes.operand(data, data.strides),
        sizes.operand(ends, ends.strides),
        sizes.operand(out, out.strides[:2]),
        None if count is None else sizes.operand(count, count.strides),
    )
    work = lowering.vectors(data.shape, data.dtype) * 2
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), lowering.sources(node))


def _blank(graph: Graph, node: int, data: View) -> Dim:
    """The class that is left out: the last one unless it is given; -1 for one that is not there."""
    inputs = graph.inputs(node)
    if len(inputs) < 3 or inputs[2] is None:
        return data.shape[2] - 1
    (blank,) = known_ints(graph, node, 2) or [-1]
    return blank if 0 <= blank <= MAX_CLASSES else -1
