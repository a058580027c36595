"""Which values lie in memory in a narrower type than the graph says, decided once for the graph."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.types import TensorType
from ..options import Options
from .fusion import Fusion
from .programs import is_elementwise
from .winograd import DIRECT_BELOW

_PRODUCTS = frozenset({"MatMul", "Gemm"})
_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
# What can store its result in another type than it computes.
_WRITERS = _CONVOLUTIONS | frozenset("MatMul Gemm LayerNorm RMSNorm MVN GroupNormalization".split())


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
    """Whether a node rounds what comes in at a port: as a left factor, or as a convolution's data
    (Winograd's transform, for windows of 3 x 3 that do not jump, does not)."""
    kind = graph.op(node).kind
    if port != 0 or not native.get(node, False):
        return False
    if kind not in _CONVOLUTIONS:
        return kind in _PRODUCTS
    filters = graph.type(graph.input(node, 1))
    assert isinstance(filters, TensorType) and filters.shape is not None
    made = graph.type(Value(node))
    assert isinstance(made, TensorType) and made.shape is not None
    small = any(isinstance(d, int) and d < DIRECT_BELOW for d in made.shape[2:])
    jumps = any(s != 1 for s in getattr(graph.op(node), "strides", ()))
    plain = kind == "Convolution" and filters.shape[2:] == (3, 3) and not jumps
    return small or not plain
