"""A product over one element is a multiplication: [..., M, 1] x [..., 1, N] broadcasts to
[..., M, N], and is computed together with the elementwise operations around it.

Rotary embeddings multiply their frequencies by the positions so, and the layers of deep and cross
networks their features by one number per row.
"""

from __future__ import annotations

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import MatMul, Multiply
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import Patch
from ..match.values import SMOOTH, dtype_of, shape_of
from .cancel_transposes import add_transpose


def multiply_outer(graph: Graph, node: int, op: MatMul) -> Patch | None:
    """MatMul of columns by rows as Multiply."""
    a, b = (shape_of(graph, graph.input(node, port)) for port in (0, 1))
    if a is None or b is None or min(len(a), len(b)) < 2:
        return None
    if dtype_of(graph, Value(node)) not in SMOOTH:
        return None
    summed = (a[-2 if op.transpose_a else -1], b[-1 if op.transpose_b else -2])
    if not all(eq(size, 1) is True for size in summed):
        return None
    patch = Patch()
    factors = [graph.input(node, 0), graph.input(node, 1)]
    for port, (shape, transposed) in enumerate(((a, op.transpose_a), (b, op.transpose_b))):
        if transposed:
            rank = len(shape)
            order = [*range(rank - 2), rank - 1, rank - 2]
            factors[port] = add_transpose(patch, factors[port], order)
    return patch.replace(Value(node), patch.add(Multiply(), *factors))


_RULES = (op_rule("multiply_outer", (MatMul,), multiply_outer),)

convert_outer_products = Pass("convert_outer_products", lambda options: _RULES)
