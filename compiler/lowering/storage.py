"""Which values lie in memory in a narrower type than the graph says, decided once for the graph."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.target import Target
from ...ir.types import TensorType
from ..options import Options
from .fusion import Fusion
from .programs import is_elementwise
from .winograd import float_tile

_PRODUCTS = frozenset({"MatMul", "Gemm"})
_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
# What can store its result in another type than it computes.
_WRITERS = _CONVOLUTIONS | frozenset("MatMul Gemm LayerNorm RMSNorm MVN GroupNormalization".split())


def rounded_values(
    graph: Graph, native: Mapping[int, bool], fusion: Fusion, options: Options, target: Target
) -> frozenset[Value]:
    """f32 values that are stored as bf16: every reader is a product that rounds them anyway, so
    that no bit of a result changes (numerics.md, Precision). A layer hands the next one its factors
    in half the memory, and nothing is left to convert or to pack."""
    if options.precision != "bf16":
        return frozenset()

    def rounds(node: int, port: int) -> bool:
        return native.get(node, False) and _rounds(graph, node, port, options, target)

    found: set[Value] = set()
    for node, runs in native.items():
        writer = fusion.anchor_of.get(node, node)
        writes = graph.op(writer).kind in _WRITERS or is_elementwise(graph, writer)
        if not runs or not writes or node in fusion.absorbed:
            continue
        for value in graph.values(node):
            type_ = graph.type(value)
            f32 = isinstance(type_, TensorType) and type_.dtype is DType.f32
            uses = graph.uses(value)
            if f32 and uses and all(rounds(u.node, u.port) for u in uses):
                found.add(value)
    return frozenset(found)


def _rounds(graph: Graph, node: int, port: int, options: Options, target: Target) -> bool:
    """Whether a node rounds what comes in at a port: as a left factor, or as a convolution's data
    (Winograd's transform does not)."""
    kind = graph.op(node).kind
    if port != 0 or kind not in _CONVOLUTIONS:
        return port == 0 and kind in _PRODUCTS
    return not float_tile(graph, node, options, target)
