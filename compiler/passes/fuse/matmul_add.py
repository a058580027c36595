"""Products take what follows them: a bias (or any addend) as C, scalar factors as alpha and beta.

alpha * AB + beta * C computes the same products and sums in the same order as the operations it
replaces, so that f32 results keep their bits; f16 and bf16 round fewer times (docs/numerics.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....ir.graph import Graph, Value
from ....ir.ops import Gemm, MatMul
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import (
    broadcasts_to,
    constant_scalar,
    dtype_of,
    reciprocal,
    same_shape,
    shape_of,
)

# Integers up to this are floats exactly: an integer Gemm's alpha and beta are exact.
_MAX_EXACT_INTEGER = 1 << 53


def as_gemm(graph: Graph, value: Value) -> Gemm | MatchFailure | None:
    """The product that makes `value`, which is its only reader's to change, as a Gemm."""
    op = graph.op(value.node)
    if not isinstance(op, MatMul | Gemm):
        return None
    if not has_one_use(graph, value):
        return MatchFailure("the product has other readers")
    if isinstance(op, Gemm):
        return op
    for operand in graph.inputs(value.node)[:2]:
        shape = shape_of(graph, operand)
        if shape is None:
            return MatchFailure("the rank of an operand is unknown")
        if len(shape) < 2:
            return MatchFailure("an operand is a vector")
    return Gemm(transpose_a=op.transpose_a, transpose_b=op.transpose_b)


def scale_product(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Multiply or Divide of a product by a number: alpha."""
    found = _product_and_number(graph, node)
    if found is None:
        return None
    product, factor = found
    gemm = as_gemm(graph, product)
    if gemm is None or isinstance(gemm, MatchFailure):
        return gemm
    inputs = graph.inputs(product.node)
    if gemm.activation != "identity":
        return MatchFailure("the product has an activation already")
    if len(inputs) > 2 and inputs[2] is not None:
        return MatchFailure("the product has an addend already")
    if not same_shape(graph, product, Value(node)):
        return MatchFailure("the factor has a higher rank than the product")
    scale = _multiply_factors(gemm.alpha, factor)
    if isinstance(scale, MatchFailure):
        return scale
    patch = Patch()
    return patch.replace(Value(node), patch.add(replace(gemm, alpha=scale), *inputs[:2]))


def _product_and_number(graph: Graph, node: int) -> tuple[Value, float | int | MatchFailure] | None:
    """The product that a Multiply or Divide scales, and the factor."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    divides = graph.op(node).kind == "Divide"
    for value, other in ((left, right),) if divides else ((left, right), (right, left)):
        if graph.op(value.node).kind not in ("MatMul", "Gemm"):
            continue
        factor = constant_scalar(graph, other)
        if factor is None:
            continue
        if divides:
            return value, _invert_divisor(graph, value, factor)
        return value, factor
    return None


def _invert_divisor(graph: Graph, value: Value, divisor: float | int) -> float | MatchFailure:
    exact = reciprocal(divisor) if dtype_of(graph, value).is_float else None
    return MatchFailure("the divisor's reciprocal is not exact") if exact is None else exact


def _multiply_factors(old: float, factor: float | int | MatchFailure) -> float | MatchFailure:
    """alpha or beta after one more factor."""
    if isinstance(factor, MatchFailure):
        return factor
    if isinstance(factor, int) and abs(factor) > _MAX_EXACT_INTEGER:
        return MatchFailure("the factor is too large to be exact")
    if not math.isfinite(factor):
        return MatchFailure("the factor is not finite")
    if old != 1 and reciprocal(old) is None and reciprocal(factor) is None:
        return MatchFailure("two factors would round differently as one")
    return old * float(factor)


def take_addend(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Add or Subtract of a product and a value that broadcasts to it: C."""
    subtracts = graph.op(node).kind == "Subtract"
    refused: MatchFailure | None = None
    left, right = graph.input(node, 0), graph.input(node, 1)
    for product, addend in ((left, right), (right, left)):
        gemm = as_gemm(graph, product)
        if gemm is None:
            continue
        refused = gemm if isinstance(gemm, MatchFailure) else _refuse_addend(graph, product, addend)
        if refused is not None or isinstance(gemm, MatchFailure):
            continue
        if subtracts and product == left:
            gemm = replace(gemm, beta=-1.0)
        elif subtracts:
            gemm = replace(gemm, alpha=-gemm.alpha)
        else:
            gemm = replace(gemm, beta=1.0)
        patch = Patch()
        a, b = graph.inputs(product.node)[:2]
        return patch.replace(Value(node), patch.add(gemm, a, b, addend))
    return refused


def _refuse_addend(graph: Graph, product: Value, addend: Value) -> MatchFailure | None:
    op, inputs = graph.op(product.node), graph.inputs(product.node)
    if len(inputs) > 2 and inputs[2] is not None:
        return MatchFailure("the product has an addend already")
    if isinstance(op, Gemm) and op.activation != "identity":
        return MatchFailure("the product has an activation already")
    target, shape = shape_of(graph, product), shape_of(graph, addend)
    if target is None or shape is None:
        return MatchFailure("a rank is unknown")
    fits = broadcasts_to(shape, target)
    if fits is False:
        return MatchFailure("the addend would broadcast the product up")
    if fits is None:
        return MatchFailure("it is not known whether the addend broadcasts to the product")
    return None


def scale_addend(graph: Graph, node: int, op: Gemm) -> Patch | MatchFailure | None:
    """C = X * number with one use: beta."""
    inputs = graph.inputs(node)
    addend = inputs[2] if len(inputs) > 2 else None
    scaled = None if addend is None else _match_scale(graph, addend)
    if addend is None or scaled is None:
        return None
    source, factor = scaled
    if not has_one_use(graph, addend):
        return MatchFailure("the scaled addend has other readers")
    if not same_shape(graph, source, addend):
        return MatchFailure("the factor has a higher rank than the addend")
    beta = _multiply_factors(op.beta, factor)
    if isinstance(beta, MatchFailure):
        return beta
    if beta == 0:
        return MatchFailure("a Gemm with beta = 0 does not read C, whose NaN would be lost")
    patch = Patch()
    return patch.replace(Value(node), patch.add(replace(op, beta=beta), *inputs[:2], source))


def _match_scale(graph: Graph, value: Value) -> tuple[Value, float | int | MatchFailure] | None:
    kind = graph.op(value.node).kind
    if kind not in ("Multiply", "Divide"):
        return None
    left, right = graph.input(value.node, 0), graph.input(value.node, 1)
    for source, other in ((left, right),) if kind == "Divide" else ((left, right), (right, left)):
        factor = constant_scalar(graph, other)
        if factor is not None:
            return source, _invert_divisor(graph, value, factor) if kind == "Divide" else factor
    return None


_RULES = (
    Rule("scale_product", ("Multiply", "Divide"), scale_product),
    Rule("take_addend", ("Add", "Subtract"), take_addend),
    op_rule("scale_addend", (Gemm,), scale_addend),
)

fuse_matmul_add = Pass("fuse_matmul_add", lambda options: _RULES)
