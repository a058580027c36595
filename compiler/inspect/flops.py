"""How much arithmetic an operation is."""

from __future__ import annotations

from ...ir.dims import Dim, product
from ...ir.graph import Graph, Value
from ...ir.ops import Gemm, MatMul, MatMulInteger
from ...ir.ops.math.elementwise import Elementwise
from ...ir.ops.nn.convolution import Convolution, GroupConvolution
from ...ir.types import TensorType


def _shape(graph: Graph, value: Value | None) -> tuple[Dim, ...] | None:
    type_ = None if value is None else graph.type(value)
    return type_.shape if isinstance(type_, TensorType) else None


def operation_flops(graph: Graph, node: int) -> Dim:
    """Multiplications and additions of one operation: two per product term, one per element of
    an elementwise operation; movement is free, and unknown shapes count nothing."""
    op = graph.op(node)
    out = _shape(graph, Value(node))
    if out is None:
        return 0
    if isinstance(op, MatMul | Gemm | MatMulInteger):
        a = _shape(graph, graph.input(node, 0))
        if a is None:
            return 0
        k = a[0] if len(a) == 1 else a[-2 if op.transpose_a else -1]
        return product([*out, k]) * 2
    if isinstance(op, Convolution | GroupConvolution):
        weights = _shape(graph, graph.input(node, 1))
        if weights is None:
            return 0
        # Per output element: the filter's taps times the input channels of its group.
        inner = weights[1:] if isinstance(op, Convolution) else weights[2:]
        return product([*out, *inner]) * 2
    if isinstance(op, Elementwise):
        integral = (t := graph.type(Value(node))) and isinstance(t, TensorType) and t.dtype.is_int
        return 0 if integral else product(out)
    return 0
