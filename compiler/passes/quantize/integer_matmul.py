"""Products of dequantised values multiply their bytes: sums of integers, then one scale.

sum (x - zx) sx (w - zw) sw = sx sw sum (x - zx) (w - zw): the sum is exact, so the result is at
least as near to the true one; where it is quantised next it may differ by a step at ties
(docs/numerics.md). Not where a sum might leave 32 bits, which the float product would not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dims import bounds
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Add,
    Constant,
    Convert,
    Gemm,
    GroupConvInteger,
    MatMul,
    MatMulInteger,
    Multiply,
)
from ....ir.ops.quantization.integer_products import BYTES
from ...legality import integer_form, integer_product_failure
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch
from ..attention.quantized_scores import makes_attention_scores
from ..match.values import Shape, dtype_of, shape_of
from .sink_dequantize import Parts, is_single, parts

_INT32_SUM_LIMIT = 1 << 31


def multiply_codes(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A f32 product of two dequantised operands."""
    op = graph.op(node)
    sides = [parts(graph, graph.input(node, i)) for i in range(2)]
    known = [s for s in sides if s is not None]
    if len(known) < 2 or dtype_of(graph, Value(node)) is not DType.f32:
        return None
    if isinstance(op, Gemm) and op.activation != "identity":
        return MatchFailure("the product has an activation already")
    plain = MatMul(op.transpose_a, op.transpose_b) if isinstance(op, Gemm) else op
    made = integer_form(plain)
    if made is None:
        return MatchFailure("no kernel multiplies bytes in this way")
    if any(p[0].group for p in known):
        return MatchFailure("scales differ within a sum")
    singles = all(is_single(graph, v) for p in known for v in p[2:])
    if singles and makes_attention_scores(graph, node, op, known[0][1], known[1][1]):
        return MatchFailure("attention multiplies the bytes")
    patch = Patch()
    codes = [_bytes(graph, patch, p[1]) for p in known]
    shapes = [shape_of(graph, p[1]) for p in known]
    operands = [v for v in codes if v is not None]
    sizes = [s for s in shapes if s is not None]
    if len(operands) < 2 or len(sizes) < 2:
        return MatchFailure("an operand has no bytes, or an unknown rank")
    scales = [shape_of(graph, p[2]) for p in known]
    zero_points = [() if _number(graph, p[3]) is not None else shape_of(graph, p[3]) for p in known]
    reason = integer_product_failure(made, sizes, zero_points, scales)
    if reason is not None:
        return MatchFailure(reason)
    depth = _depth(made, sizes)
    if (
        depth is None
        or depth * _reach(graph, known[0]) * _reach(graph, known[1]) >= _INT32_SUM_LIMIT
    ):
        return MatchFailure("a sum might leave 32 bits")
    zeros = [_zero(graph, patch, p) for p in known]
    product = patch.add(Convert(DType.f32), patch.add(made, *operands, *zeros))
    value = _multiply_scales(graph, patch, made, known, sizes, product)
    if value is None:
        return MatchFailure("a scale that varies is known at run time only")
    return patch.replace(Value(node), _apply_gemm_terms(graph, patch, node, value))


def _bytes(graph: Graph, patch: Patch, codes: Value) -> Value | None:
    """The codes as u8 or i8; those of 4-bit constants are widened."""
    dtype, op = dtype_of(graph, codes), graph.op(codes.node)
    if dtype in BYTES:
        return codes
    if not isinstance(op, Constant) or not dtype.is_int or dtype.bits > 8:
        return None
    return patch.add(Convert(_eight_bit_dtype(dtype)), codes)


def _eight_bit_dtype(dtype: DType) -> DType:
    return DType.i8 if dtype.is_signed else DType.u8


def _number(graph: Graph, zero: Value | None) -> int | None:
    """The zero point where it is one number for all elements; None for another one."""
    if zero is None:
        return 0
    op = graph.op(zero.node)
    if not isinstance(op, Constant):
        return None
    first = op.data.reshape(-1)[:1]
    return int(first[0]) if first.size and np.all(op.data == first) else None


def _zero(graph: Graph, patch: Patch, side: Parts) -> Value | None:
    """The zero point in the bytes' type; none where it is 0."""
    zero, number = side[3], _number(graph, side[3])
    if zero is None or number == 0:
        return None
    dtype = dtype_of(graph, zero)
    if number is not None:
        return patch.constant(number, _eight_bit_dtype(dtype))
    return zero if dtype in BYTES else patch.add(Convert(_eight_bit_dtype(dtype)), zero)


def _depth(op: Op, shapes: Sequence[Shape]) -> int | None:
    """The most products that one sum has."""
    if isinstance(op, MatMulInteger):
        dims: Shape = (shapes[0][-2 if op.transpose_a else -1],)
    else:
        dims = shapes[1][2 if isinstance(op, GroupConvInteger) else 1 :]
    count = 1
    for dim in dims:
        most = bounds(dim)[1]
        if most is None:
            return None
        count *= most
    return count


def _reach(graph: Graph, side: Parts) -> int:
    """The largest magnitude that a code minus its zero point has."""
    dtype, zero = dtype_of(graph, side[1]), side[3]
    low, high = (-128, 127) if dtype.is_signed else (0, 255)
    op = None if zero is None else graph.op(zero.node)
    if zero is None:
        return max(-low, high)
    if not isinstance(op, Constant) or not op.data.size:
        return high - low
    return max(high - int(op.data.min()), int(op.data.max()) - low)


def _multiply_scales(
    graph: Graph,
    patch: Patch,
    op: Op,
    sides: Sequence[Parts],
    shapes: Sequence[Shape],
    value: Value,
) -> Value | None:
    """The sums times both scales: as one factor, unless both vary."""
    made = [_align_scale(graph, patch, op, i, s[2], shapes[i]) for i, s in enumerate(sides)]
    factors = [f for f in made if f is not None]
    if len(factors) < len(made):
        return None
    known = [o.data for f in factors if isinstance(o := _op(graph, patch, f), Constant)]
    if len(known) == len(factors):
        product = known[0] * known[1]
        if product.size <= max(k.size for k in known):
            return patch.add(Multiply(), value, patch.constant(product, DType.f32))
    if any(is_single(graph, s[2]) for s in sides):
        return patch.add(Multiply(), value, patch.add(Multiply(), *factors))
    return patch.add(Multiply(), patch.add(Multiply(), value, factors[0]), factors[1])


def _op(graph: Graph, patch: Patch, value: Value) -> Op:
    return graph.op(value.node) if value.node >= 0 else patch.nodes[-value.node - 1].op


def _align_scale(
    graph: Graph, patch: Patch, op: Op, side: int, scale: Value, shape: Shape
) -> Value | None:
    """A scale as it broadcasts to the product; None where nothing simple says it."""
    known = graph.op(scale.node)
    data = known.data if isinstance(known, Constant) else None
    if is_single(graph, scale):
        return scale if data is None else patch.constant(data.reshape(()), DType.f32)
    if isinstance(op, MatMulInteger):
        if not (op.transpose_a, op.transpose_b)[side]:
            return scale
        if data is None:
            return None
        return patch.constant(
            data.reshape((1,) * (2 - data.ndim) + data.shape).swapaxes(-1, -2), DType.f32
        )
    if side == 0:
        return scale
    lead = 2 if isinstance(op, GroupConvInteger) else 1
    outputs = [d for d in shape[:lead] if isinstance(d, int)]
    if data is None or len(outputs) < lead:
        return None
    ones = (1,) * (len(shape) - lead)
    full = np.broadcast_to(
        data.reshape((1,) * (len(shape) - data.ndim) + data.shape), (*outputs, *ones)
    )
    return patch.constant(full.reshape(-1, *ones[1:]), DType.f32)


def _apply_gemm_terms(graph: Graph, patch: Patch, node: int, value: Value) -> Value:
    """What a Gemm does besides its product: alpha and beta * C."""
    op, inputs = graph.op(node), graph.inputs(node)
    if not isinstance(op, Gemm):
        return value
    if op.alpha != 1:
        value = patch.add(Multiply(), value, patch.constant(op.alpha, DType.f32))
    addend = inputs[2] if len(inputs) > 2 else None
    if addend is None or op.beta == 0:
        return value
    if op.beta != 1:
        addend = patch.add(Multiply(), addend, patch.constant(op.beta, DType.f32))
    return patch.add(Add(), value, addend)


_KINDS = ("MatMul", "Gemm", "Convolution", "GroupConvolution")
_RULES = (Rule("multiply_codes", _KINDS, multiply_codes),)

lower_to_integer_matmul = Pass("lower_to_integer_matmul", lambda options: _RULES)
