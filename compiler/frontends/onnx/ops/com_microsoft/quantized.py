"""onnxruntime's operations on quantised tensors (domain com.microsoft), as its static quantisation
writes them in the operator form: dequantised, computed in f32, quantised again, which passes fuse.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.op import Op
from ......ir.ops import (
    Add,
    Concat,
    Convert,
    Dequantize,
    Divide,
    MatMul,
    Maximum,
    Minimum,
    Multiply,
    Negative,
    PRelu,
    Quantize,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    Round,
    Select,
    Sigmoid,
    Softmax,
    Subtract,
)
from ..elementary import convert_value
from ..nn.pooling import add_average_pool
from ..quantization import (
    add_quantize,
    dequantize_linear,
    is_zero,
    quantize_linear,
    subtract_zero_point,
)

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def _dequantize_input(n: ImportContext, port: int) -> Value:
    """The quantised tensor at `port`, which scale and zero point follow, as numbers."""
    return n.add(Dequantize(), n.input(port), n.input(port + 1), n.optional(port + 2))


def _quantize_output(n: ImportContext, x: Value, port: int) -> Value:
    """Numbers quantised by the scale at `port` and the zero point behind it; without one, in the
    type of the first input."""
    zero = n.optional(port + 1)
    target = n.dtype(n.input(0) if zero is None else zero)
    return n.add(Quantize(target), x, n.input(port), None if is_zero(n, zero) else zero)


def _binary(op: Op) -> ImportFunction:
    return lambda n: _quantize_output(
        n, n.add(op, _dequantize_input(n, 0), _dequantize_input(n, 3)), 6
    )


def leaky_relu(n: ImportContext) -> Value:
    x = _dequantize_input(n, 0)
    return _quantize_output(n, n.add(PRelu(), x, n.like(x, n.number("alpha", 0.01))), 3)


def softmax(n: ImportContext) -> Value:
    """Before operator set 13 all axes from `axis` on were one."""
    rank = n.rank(n.input(0))
    axis = n.axis(n.integer("axis", -1), rank)
    if n.integer("opset") < 13 and axis != rank - 1:
        raise n.unsupported_error("QLinearSoftmax over several axes")
    return _quantize_output(n, n.add(Softmax(axis), _dequantize_input(n, 0)), 3)


def concat(n: ImportContext) -> Value:
    """The result's scale and zero point come first."""
    parts = [_dequantize_input(n, port) for port in range(2, len(n.all_inputs()), 3)]
    joined = n.add(Concat(n.axis(n.integer("axis"), n.rank(parts[0]))), *parts)
    return n.add(Quantize(n.dtype(n.input(1))), joined, n.input(0), n.input(1))


def average_pool(n: ImportContext) -> Value:
    return _quantize_output(n, add_average_pool(n, _dequantize_input(n, 0)), 3)


def reduce_mean(n: ImportContext) -> Value:
    axes, x = n.optional_integers("axes"), _dequantize_input(n, 0)
    listed = n.ints_value(range(n.rank(x)) if axes is None else axes)
    return _quantize_output(n, n.add(ReduceMean(n.flag("keepdims", True)), x, listed), 3)


def where(n: ImportContext) -> Value:
    return _quantize_output(
        n, n.add(Select(), n.input(0), _dequantize_input(n, 1), _dequantize_input(n, 4)), 7
    )


def global_average_pool(n: ImportContext) -> Value:
    x, last = _dequantize_input(n, 0), n.flag("channels_last")
    axes = n.ints_value(range(1 if last else 2, n.rank(x) - last))
    return _quantize_output(n, n.add(ReduceMean(keep_dims=True), x, axes), 3)


def gemm(n: ImportContext) -> Value:
    """alpha * a_scale * b_scale * (A' B' + C), C of i32; without a scale of its own, in f32."""
    turned = n.flag("transB")
    product = n.add(
        MatMul(n.flag("transA"), turned),
        subtract_zero_point(n, n.input(0), n.optional(2), DType.i32, column=True),
        # Of B as it lies, a zero point per column of the product is one per row.
        subtract_zero_point(n, n.input(3), n.optional(5), DType.i32, column=not turned),
    )
    bias = n.optional(6)
    product = product if bias is None else n.add(Add(), product, bias)
    factor = n.add(Multiply(), n.input(1), n.input(4))
    if (alpha := n.number("alpha", 1.0)) != 1:
        factor = n.add(Multiply(), factor, n.like(factor, alpha))
    given = n.optional(7)
    factor = factor if given is None else n.add(Divide(), factor, given)
    value = n.add(Multiply(), convert_value(n, product, DType.f32), factor)
    if given is None:
        return value
    end = n.optional(8)
    return add_quantize(n, value, end, n.dtype(n.input(0) if end is None else end))


def matmul_to_float(n: ImportContext) -> Value:
    """MatMulInteger times both scales, plus a bias."""
    a, b, a_scale, b_scale = (n.input(i) for i in range(4))
    product = integer_product(n, (a, n.optional(4)), (b, n.optional(5)))
    return scale_product(n, product, n.add(Multiply(), a_scale, b_scale), n.optional(6))


def dynamic_matmul(n: ImportContext) -> Value:
    """The same of floats that are quantised to u8 by their own smallest and largest number."""
    a, b, b_scale = (n.input(i) for i in range(3))
    codes, scale, zero = dynamically_quantized(n, a)
    product = integer_product(n, (codes, zero), (b, n.optional(3)))
    return scale_product(n, product, n.add(Multiply(), scale, b_scale), n.optional(4))


def integer_product(
    n: ImportContext, a: tuple[Value, Value | None], b: tuple[Value, Value | None]
) -> Value:
    """The product in i32 of integers, each with its zero point."""
    left = subtract_zero_point(n, *a, DType.i32, column=False)
    return n.add(MatMul(), left, subtract_zero_point(n, *b, DType.i32, column=True))


def scale_product(n: ImportContext, product: Value, scale: Value, bias: Value | None) -> Value:
    """A product of integers as floats, plus a bias."""
    result = n.add(Multiply(), convert_value(n, product, n.dtype(scale)), scale)
    return result if bias is None else n.add(Add(), result, bias)


def dynamically_quantized(n: ImportContext, x: Value) -> tuple[Value, Value, Value]:
    """x in u8, its scale and its zero point: 0 and all numbers of x in 256 steps. Zeros alone have
    the scale 0, and codes that are the zero point."""
    zero, every = n.like(x, 0), n.ints_value(range(n.rank(x)))
    low = n.add(Minimum(), n.add(ReduceMin(keep_dims=False), x, every), zero)
    high = n.add(Maximum(), n.add(ReduceMax(keep_dims=False), x, every), zero)
    scale = n.add(Divide(), n.add(Subtract(), high, low), n.like(x, 255))
    start = n.add(Round("half_to_even"), n.add(Divide(), n.add(Negative(), low), scale))
    shift = n.add(Convert(DType.u8), start)
    return n.add(Quantize(DType.u8), x, scale, shift), scale, shift


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    # As ONNX's own, before those had 16-bit integers.
    f"{_MS}QuantizeLinear": {1: quantize_linear},
    f"{_MS}DequantizeLinear": {1: dequantize_linear},
    f"{_MS}QLinearAdd": {1: _binary(Add())},
    f"{_MS}QLinearMul": {1: _binary(Multiply())},
    f"{_MS}QLinearSigmoid": {
        1: lambda n: _quantize_output(n, n.add(Sigmoid(), _dequantize_input(n, 0)), 3)
    },
    f"{_MS}QLinearLeakyRelu": {1: leaky_relu},
    f"{_MS}QLinearSoftmax": {1: softmax},
    f"{_MS}QLinearConcat": {1: concat},
    f"{_MS}QLinearReduceMean": {1: reduce_mean},
    f"{_MS}QLinearWhere": {1: where},
    f"{_MS}QLinearGlobalAveragePool": {1: global_average_pool},
    f"{_MS}QGemm": {1: gemm},
    f"{_MS}MatMulIntegerToFloat": {1: matmul_to_float},
    f"{_MS}DynamicQuantizeMatMul": {1: dynamic_matmul},
}
