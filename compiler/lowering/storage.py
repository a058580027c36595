"""Which values lie in memory in a narrower type than the graph says, decided once for the graph."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dtype import DType
from ...ir.graph import Graph, Use, Value
from ...ir.target import Target
from ...ir.types import TensorType
from ..options import Options
from .fusion import Fusion
from .programs import is_elementwise, node_program
from .winograd import float_tile

_PRODUCTS = frozenset({"MatMul", "Gemm"})
_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
_POOL = "MaxPool"
# What can store its result in another type than it computes.
_WRITERS = (
    _CONVOLUTIONS
    | {_POOL}
    | frozenset("MatMul Gemm LayerNorm RMSNorm MVN GroupNormalization".split())
)
# What a sum of a residual stream consists of: the sum, and activations that cut it off.
_SUM = frozenset("input const cast add sub max min clip".split())


def rounded_values(
    graph: Graph, native: Mapping[int, bool], fusion: Fusion, options: Options, target: Target
) -> frozenset[Value]:
    """f32 values that are stored as bf16 (numerics.md, Precision). Every reader is a product that
    rounds them anyway, or the largest of a window that only such products read, so that no bit of a
    result changes; or the sum behind a convolution, which is what a residual stream is made of. A
    layer hands the next one its factors in half the memory, and nothing is left to convert or to
    pack."""
    if options.precision != "bf16":
        return frozenset()
    summed = _sums(graph, fusion)
    found: set[Value] = set()

    def narrows(use: Use) -> bool:
        if not native.get(use.node, False):
            return False
        pooled = graph.op(use.node).kind == _POOL and Value(use.node) in found
        return pooled or use.node in summed or _rounds(graph, use, options, target)

    # Readers first.
    for node in reversed(list(native)):
        writer = fusion.anchor_of.get(node, node)
        writes = graph.op(writer).kind in _WRITERS or is_elementwise(graph, writer)
        if not native[node] or not writes or node in fusion.absorbed:
            continue
        for value in graph.values(node):
            type_ = graph.type(value)
            f32 = isinstance(type_, TensorType) and type_.dtype is DType.f32
            uses = graph.uses(value)
            if f32 and uses and all(narrows(use) for use in uses):
                found.add(value)
    return frozenset(found)


def _sums(graph: Graph, fusion: Fusion) -> frozenset[int]:
    """Nodes that add something to a convolution's result as it is stored."""
    return frozenset(
        node
        for anchor, chain in fusion.epilogues.items()
        if graph.op(anchor).kind in _CONVOLUTIONS
        for node in chain
        if all(i.op in _SUM for i in node_program(graph, node).instrs)
    )


def _rounds(graph: Graph, use: Use, options: Options, target: Target) -> bool:
    """Whether a node rounds what comes in at a port: as a left factor, or as a convolution's data
    (Winograd's transform does not)."""
    kind = graph.op(use.node).kind
    if use.port != 0 or kind not in _CONVOLUTIONS:
        return use.port == 0 and kind in _PRODUCTS
    return not float_tile(graph, use.node, options, target)
