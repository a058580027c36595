"""Which values lie in memory in a narrower type than the graph says, decided once for the graph."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.types import TensorType
from ..options import Options
from .fusion import Fusion
from .programs import is_elementwise

_PRODUCTS = frozenset({"MatMul", "Gemm"})
# What can store its result in another type than it computes.
_WRITERS = frozenset("MatMul Gemm LayerNorm RMSNorm MVN".split())


def rounded_values(
    graph: Graph, native: Mapping[int, bool], fusion: Fusion, options: Options
) -> frozenset[Value]:
    """f32 values that are stored as bf16: every reader is a product that rounds them anyway, so
    that no bit of a result changes (numerics.md, Precision). A layer hands the next one its factors
    in half the memory, and nothing is left to convert or to pack."""
    if options.precision != "bf16":
        return frozenset()
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
            if f32 and uses and all(_rounds(graph, native, u.node, u.port) for u in uses):
                found.add(value)
    return frozenset(found)


def _rounds(graph: Graph, native: Mapping[int, bool], node: int, port: int) -> bool:
    """Whether a node reads what comes in at a port as a left factor."""
    return port == 0 and native.get(node, False) and graph.op(node).kind in _PRODUCTS
