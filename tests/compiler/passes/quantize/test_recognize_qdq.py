"""Quantised chains: found, moved, multiplied as bytes, their scales folded, and plain again."""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.compiler.lowering.op_table import has_kernel, lowerer_of
from irc_compiler.compiler.passes.canonicalize.fold_constants import (
    fold_constants,
    fold_constants_but_quantized,
)
from irc_compiler.compiler.passes.quantize.decompose_leftovers import (
    decompose_unsupported_quantized,
)
from irc_compiler.compiler.passes.quantize.fold_requantize_scales import fold_requantize_scales
from irc_compiler.compiler.passes.quantize.i8_to_u8 import convert_i8_to_u8
from irc_compiler.compiler.passes.quantize.integer_matmul import lower_to_integer_matmul
from irc_compiler.compiler.passes.quantize.recognize_fake_quantize import recognize_fake_quantize
from irc_compiler.compiler.passes.quantize.recognize_qdq import recognize_qdq
from irc_compiler.compiler.passes.quantize.sink_dequantize import sink_dequantize
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Value
from irc_compiler.ir.op import Op
from support.models.quantized_nets import Net, check, kinds, refused
from support.rewriting import run

Shape = tuple[Any, ...]


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
@pytest.mark.parametrize("scale", [(), (1,), (5,), (4, 1), (1, 4, 5)])
@pytest.mark.parametrize("zero", ["none", "bytes", "float"])
def test_dequantised_values_are_found(dtype: str, scale: Shape, zero: str) -> None:
    net = Net()
    codes = net.input("u8", 3, 4, 5)
    factor = net.array(net.rng.uniform(0.5, 2, scale), dtype)
    if zero == "float":
        shifted = net.op(o.Convert(DType(dtype)), codes)
        shifted = net.op(o.Subtract(), shifted, net.array(np.full((4, 1), 130.0), dtype))
        value = net.op(o.Multiply(), factor, shifted)
    else:
        shift = net.bytes("u8", *scale) if zero == "bytes" else None
        value = net.dequantized(codes, factor, shift, dtype)
    found = ["Convert"] if zero == "bytes" else []
    check(net.done(value), [recognize_qdq, fold_constants], [*found, "Dequantize"][-1:])


def test_what_is_no_scale_stays() -> None:
    net = Net()
    codes = net.input("u8", 1, 4)
    wider = net.dequantized(codes, net.scales(3, 4))
    fraction = net.op(o.Subtract(), net.op(o.Convert(DType.f32), codes), net.array(0.5))
    masked = net.op(o.Multiply(), net.input("f32", 1, 4), net.op(o.Convert(DType.f32), codes))
    graph = net.done(wider, net.op(o.Multiply(), fraction, net.array(2)), masked)
    refused(graph, recognize_qdq, "a scale or zero point is not known to broadcast to the codes")


def test_groups_are_found() -> None:
    net = Net()
    picks, axis = net.array(np.arange(10) // 4, "i64"), net.array(1, "i64")
    scale = net.op(o.Gather(), net.scales(6, 3), picks, axis)
    zero = net.op(o.Gather(), net.bytes("i8", 6, 3), picks, axis)
    graph = net.done(net.dequantized(net.input("i8", 6, 10), scale, zero))
    found = check(graph, recognize_qdq, ["Dequantize"])
    (op,) = (found.op(n) for n in found.ids() if found.op(n).kind == "Dequantize")
    assert op == o.Dequantize(1, 4)


@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_quantised_values_are_found(dtype: str) -> None:
    net = Net()
    x = net.input("f32", 4, 5)
    check(
        net.done(net.quantized(x, net.scales(4, 1), net.bytes(dtype, 4, 1))),
        recognize_qdq,
        ["Quantize"],
    )
    net = Net()
    ratio = net.op(o.Divide(), net.input("f32", 4, 5), net.array(0.5))
    rounded = net.op(o.Round("half_to_even"), ratio)
    check(net.done(net.op(o.Convert(DType(dtype)), rounded)), recognize_qdq, ["Quantize"])


def centred(net: Net, codes: Value, zero: Value | None) -> Value:
    wide = net.op(o.Convert(DType.i32), codes)
    return wide if zero is None else net.op(o.Subtract(), wide, net.op(o.Convert(DType.i32), zero))


def test_int8_products_without_zero_points_are_recognized() -> None:
    net = Net()
    a = centred(net, net.input("u8", 4, 7), net.input("u8"))
    b = centred(net, net.bytes("i8", 5, 7), net.bytes("i8", 5, 1))
    check(
        net.done(net.op(o.MatMul(transpose_b=True), a, b)),
        [recognize_qdq, fold_constants_but_quantized],
        ["MatMulInteger"],
    )
    net = Net()
    x = centred(net, net.input("u8", 2, 4, 6, 5), net.bytes("u8"))
    w = centred(net, net.bytes("i8", 2, 3, 2, 3, 3), net.bytes("i8", 2, 3, 1, 1, 1))
    conv = o.GroupConvolution((2, 1), (1, 1), (1, 1))
    check(net.done(net.op(conv, x, w)), recognize_qdq, ["GroupConvInteger"])


def test_zero_points_along_the_sum_stay() -> None:
    net = Net()
    a = centred(net, net.input("u8", 4, 7), net.input("u8", 7))
    b = centred(net, net.bytes("i8", 7, 5), None)
    graph = net.done(net.op(o.MatMul(), a, b))
    refused(graph, recognize_qdq, "a scale or zero point varies along an axis that is summed")


def activation(net: Net, *shape: Any, dtype: str = "u8") -> Value:
    return net.op(o.Dequantize(), net.input(dtype, *shape), net.array(0.03), net.bytes(dtype))


def test_movement_is_of_bytes() -> None:
    net = Net()
    value = activation(net, 2, 3, 8, 8)
    pooled = net.op(o.MaxPool((2, 2), (1, 1), (1, 1), (3, 3)), value)
    turned = net.op(o.Transpose(), pooled, net.array([0, 2, 3, 1], "i64"))
    flat = net.op(o.Reshape(False), turned, net.array([2, -1], "i64"))
    check(net.done(flat), sink_dequantize, ["MaxPool", "Transpose", "Reshape", "Dequantize"])


def test_the_largest_code_is_the_largest_value_of_positive_scales_only() -> None:
    net = Net()
    value = net.op(o.Dequantize(), net.input("i8", 1, 2, 4, 4), net.array(-0.5))
    pooled = net.op(o.MaxPool((2, 2), (0, 0), (0, 0), (2, 2)), value)
    refused(net.done(pooled), sink_dequantize, "the scale is not known to be positive")


HOLLOW = {
    "paddings": ((1, 1), (2, 2), (1, 1), 1, "floor"),
    "taps": ((2, 2), (1, 1), (1, 1), 4, "floor"),
    "behind": ((1, 1), (0, 0), (0, 0), 1, "ceil"),
}


@pytest.mark.parametrize("why", HOLLOW)
def test_windows_of_nothing_but_paddings_are_not_of_bytes(why: str) -> None:
    """The largest of nothing is less than any number; of bytes it would be the least."""
    kernel, begin, end, dilation, rounding = HOLLOW[why]
    net = Net()
    value = activation(net, 1, 2, 5, 5)
    op = o.MaxPool8((3, 3), begin, end, kernel, rounding, dilations=(dilation, dilation))
    pooled = net.op(op, value)
    refused(net.done(pooled), sink_dequantize, "a window may hold paddings only")


def test_parts_and_joins_are_of_bytes() -> None:
    net = Net()
    scale, zero = net.array(0.5), net.array(7, "u8")
    left, right = (net.op(o.Dequantize(), net.input("u8", 2, 4), scale, zero) for _ in "ab")
    joined = net.op(o.Concat(1), left, right)
    split = net.op(o.Split(2), joined, net.array(1, "i64"))
    graph = net.done(split, Value(split.node, 1))
    check(graph, sink_dequantize, ["Concat", "Split", "Dequantize", "Dequantize"])
    net = Net()
    pair = [activation(net, 2, 4), net.op(o.Dequantize(), net.input("u8", 2, 4), net.array(1))]
    graph = net.done(net.op(o.Concat(1), *pair))
    refused(graph, sink_dequantize, "the inputs have different scales or zero points")


@pytest.mark.parametrize(("zero", "expected"), [(-128, DType.u8), (-127, DType.i8), (0, DType.i8)])
def test_bytes_above_the_least_zero_point_lose_their_sign(zero: int, expected: DType) -> None:
    net = Net()
    x = net.op(o.Relu(), net.input("f32", 3, 300))
    least = net.array(zero, "i8")
    codes = net.op(o.Quantize(DType.i8), x, net.array(0.01), least)
    opened = [net.op(o.Dequantize(), codes, net.array(s), least) for s in (0.01, 0.5)]
    graph = net.done(*opened)
    found = check(graph, convert_i8_to_u8, ["Relu", "Quantize", "Dequantize", "Dequantize"])
    (made,) = (found.op(n) for n in found.ids() if found.op(n).kind == "Quantize")
    assert made == o.Quantize(expected)


def test_bytes_that_are_read_as_such_keep_their_sign() -> None:
    net = Net()
    least = net.array(-128, "i8")
    codes = net.op(o.Quantize(DType.i8), net.input("f32", 3, 4), net.array(0.01), least)
    opened = net.op(o.Dequantize(), codes, net.array(0.01), least)
    refused(net.done(codes, opened), convert_i8_to_u8, "its bytes are read as such")
    net = Net()
    least = net.array(-128, "i8")
    codes = net.op(o.Quantize(DType.i8), net.input("f32", 3, 4), net.array(0.01), least)
    opened = net.op(o.Dequantize(), codes, net.array(0.01), net.array(3, "i8"))
    refused(net.done(opened), convert_i8_to_u8, "it is dequantised with another zero point")


def test_quantising_again_alike_does_nothing() -> None:
    for scale, expected in ((0.03, []), (0.04, ["Dequantize", "Quantize"])):
        net = Net()
        zero = net.array(9, "u8")
        value = net.op(o.Dequantize(), net.input("u8", 2, 200), net.array(0.03), zero)
        again = net.op(o.Quantize(DType.u8), value, net.array(scale), zero)
        check(net.done(again), sink_dequantize, expected)


@pytest.mark.parametrize("reshape", ["Reshape", "Squeeze", "Unsqueeze"])
def test_values_are_quantised_before_they_are_reshaped(reshape: str) -> None:
    net = Net()
    value = net.op(o.Tanh(), net.input("f32", 2, 1, 6))
    sizes = net.array([12, 1] if reshape == "Reshape" else [1], "i64")
    made = {"Reshape": o.Reshape(False), "Squeeze": o.Squeeze(), "Unsqueeze": o.Unsqueeze()}
    moved = net.op(made[reshape], value, sizes)
    codes = net.op(o.Quantize(DType.u8), moved, net.array([[0.03]]), net.array([7], "u8"))
    check(net.done(codes), sink_dequantize, ["Tanh", "Quantize", reshape])


def test_what_differs_or_is_read_elsewhere_is_reshaped_first() -> None:
    for scale, more, reason in (
        (0.03, True, "the reshaped value has other readers"),
        ([0.03, 0.04, 0.05], False, "scales differ"),
    ):
        net = Net()
        moved = net.op(o.Reshape(False), net.input("f32", 2, 6), net.array([4, 3], "i64"))
        codes = net.op(o.Quantize(DType.u8), moved, net.array(scale))
        others = [net.op(o.Tanh(), moved)] if more else []
        refused(net.done(codes, *others), sink_dequantize, reason)


def test_numbers_are_a_part_of_the_scale() -> None:
    """Exporters scale the keys of attention, behind where quantisers put their steps."""
    net = Net()
    value = net.op(o.Dequantize(), net.input("u8", 2, 6), net.scales(6), net.bytes("u8", 6))
    half = net.op(o.Multiply(), net.array([[0.5]]), value)
    check(net.done(net.op(o.Relu(), half)), sink_dequantize, ["Dequantize", "Relu"], 1e-6)


@pytest.mark.parametrize("number", [-0.5, 0.0, np.nan, np.inf])
def test_other_numbers_are_not(number: float) -> None:
    net = Net()
    value = net.op(o.Dequantize(), net.input("u8", 2, 6), net.array(0.25))
    graph = net.done(net.op(o.Multiply(), value, net.array(number)))
    refused(graph, sink_dequantize, "the number is not positive, or too large for the scale")


@pytest.mark.parametrize("dtype", ["u4", "i8"])
def test_weights_in_groups_become_two_dimensional(dtype: str) -> None:
    net = Net()
    weight = net.dequantized(net.bytes(dtype, 6, 3, 4), net.scales(6, 3, 1), net.bytes(dtype, 1))
    flat = net.op(o.Reshape(False), weight, net.array([6, 12], "i64"))
    product = net.op(o.MatMul(transpose_b=True), net.input("f32", 2, 12), flat)
    found = check(
        net.done(product),
        [recognize_qdq, fold_constants_but_quantized, sink_dequantize],
        ["Reshape", "Dequantize", "MatMul"],
    )
    (op,) = (found.op(n) for n in found.ids() if found.op(n).kind == "Dequantize")
    assert op == o.Dequantize(1, 4)


def test_scales_of_weights_follow_reshapes_and_transposes() -> None:
    net = Net()
    weight = net.op(o.Dequantize(), net.bytes("i8", 6, 2, 3), net.scales(6, 1, 1))
    split = net.op(o.Reshape(False), weight, net.array([2, 3, 2, 3], "i64"))
    turned = net.op(o.Transpose(), split, net.array([3, 1, 0, 2], "i64"))
    check(net.done(turned), sink_dequantize, ["Reshape", "Transpose", "Dequantize"])


PLAIN: dict[str, tuple[Op, Shape, Shape, Shape, str]] = {
    "columns": (o.MatMul(), (3, 7), (7, 5), (5,), "MatMulInteger"),
    "rows": (o.MatMul(transpose_b=True), (2, 3, 7), (5, 7), (5, 1), "MatMulInteger"),
    "conv": (o.Convolution((), (1, 1), (1, 1)), (2, 4, 6, 5), (3, 4, 3, 3), (3, 1, 1, 1),
             "ConvInteger"),
    "groups": (o.GroupConvolution(), (2, 4, 6, 5), (2, 3, 2, 3, 3), (2, 3, 1, 1, 1),
               "GroupConvInteger"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAIN)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i4"])
@pytest.mark.parametrize("each", [False, True])
def test_products_of_dequantised_values(case: str, dtype: str, each: bool) -> None:
    op, data, weights, varied, kind = PLAIN[case]
    net = Net()
    shape = varied if each else ()
    zero = net.bytes(dtype, *shape) if dtype == "u8" else None
    weight = net.op(o.Dequantize(), net.bytes(dtype, *weights), net.scales(*shape), zero)
    graph = net.done(net.op(op, activation(net, *data), weight))
    wide = ["Convert"] if dtype == "i4" else []
    check(graph, lower_to_integer_matmul, [*wide, kind, "Convert", "Multiply"], 1e-5)


def test_rows_of_their_own_scale_and_two_variable_operands() -> None:
    net = Net()
    a = net.op(o.Dequantize(), net.input("i8", 3, 7), net.scales(3, 1))
    b = net.op(o.Dequantize(), net.input("i8", 7, 5), net.scales(5), net.bytes("i8", 5))
    graph = net.done(net.op(o.MatMul(), a, b))
    check(
        graph, lower_to_integer_matmul, ["MatMulInteger", "Convert", "Multiply", "Multiply"], 1e-5
    )


def test_a_gemm_keeps_its_factors_and_addend() -> None:
    net = Net()
    b = net.op(o.Dequantize(), net.bytes("i8", 5, 7), net.scales(5, 1))
    gemm = o.Gemm(0.5, 2.0, transpose_a=True, transpose_b=True)
    a = net.op(o.Dequantize(), net.input("u8", 7, 3), net.scales(3), net.bytes("u8", 3))
    graph = net.done(net.op(gemm, a, b, net.scales(5)))
    found = ["MatMulInteger", "Convert", "Multiply", "Multiply", "Multiply", "Multiply", "Add"]
    check(graph, lower_to_integer_matmul, found, 1e-5)


def test_sums_that_might_wrap_stay_floats() -> None:
    for depth in (140_000, symbol("K")):
        net = Net()
        a, b = activation(net, 2, depth), activation(net, depth, 3)
        graph = net.done(net.op(o.MatMul(), a, b))
        refused(graph, lower_to_integer_matmul, "a sum might leave 32 bits")


def test_windows_that_reach_far_stay_float() -> None:
    net = Net()
    w = net.op(o.Dequantize(), net.bytes("i8", 3, 600, 3, 3), net.scales())
    far = o.Convolution(dilations=(1000, 1000))
    graph = net.done(net.op(far, activation(net, 1, 600, 2001, 2001), w))
    refused(graph, lower_to_integer_matmul, "no kernel of bytes has windows that reach so far")


def test_a_scale_along_the_sum_stays_float() -> None:
    net = Net()
    b = net.op(o.Dequantize(), net.bytes("i8", 7, 5), net.scales(7, 1))
    graph = net.done(net.op(o.MatMul(), activation(net, 2, 7), b))
    refused(
        graph, lower_to_integer_matmul, "a scale or zero point varies along an axis that is summed"
    )


@pytest.mark.parametrize("divisor", [(), (3, 1, 1)])
def test_the_next_scale_joins_the_constants(divisor: Shape) -> None:
    net = Net()
    weight = net.op(o.Dequantize(), net.bytes("i8", 3, 4, 3, 3), net.scales(3, 1, 1, 1))
    sums = net.op(o.Convolution(), activation(net, 2, 4, 6, 5), weight)
    biased = net.op(o.Relu(), net.op(o.Add(), sums, net.scales(3, 1, 1)))
    both = net.op(o.Add(), biased, activation(net, 2, 3, 4, 3))
    graph = net.done(net.op(o.Quantize(DType.u8), both, net.scales(*divisor), net.array(9, "u8")))
    expected = [
        "ConvInteger", "Convert", "Multiply", "Add", "Relu", "Dequantize", "Add", "Quantize"
    ]  # fmt: skip
    found = check(graph, [lower_to_integer_matmul, fold_requantize_scales], expected, 1e-5)
    (node,) = (n for n in found.ids() if found.op(n).kind == "Quantize")
    assert found.inputs(node)[1] is None


def test_scales_of_other_values_stay() -> None:
    net = Net()
    x = net.input("f32", 2, 3)
    graph = net.done(net.op(o.Quantize(DType.u8), net.op(o.Relu(), x), net.array(0.5)))
    reason = "what is quantised is not made of bytes and constants alone"
    refused(graph, fold_requantize_scales, reason)
    net = Net()
    graph = net.done(net.op(o.Quantize(DType.u8), activation(net, 2, 3), net.array(-0.5)))
    refused(graph, fold_requantize_scales, "a scale is not positive")


def test_what_no_product_takes_is_plain_again() -> None:
    net = Net()
    value = activation(net, 2, 6)
    grouped = net.op(o.Dequantize(1, 4), net.input("i8", 2, 6), net.scales(2, 2))
    graph = net.done(net.op(o.Exp(), value), grouped)
    found = run(graph, decompose_unsupported_quantized(has_kernel))
    assert "Dequantize" not in kinds(found)
    assert all(not isinstance(lowerer_of(found, n), str) for n in found.ids() if n in found and
               found.op(n).kind in ("Multiply", "Subtract", "Convert", "Gather"))  # fmt: skip


def test_weights_wait_for_their_product() -> None:
    net = Net()
    weight = net.op(o.Dequantize(), net.bytes("i8", 6, 4), net.scales(4))
    other = net.op(o.Dequantize(), net.bytes("i8", 4), net.scales(4))
    product = net.op(o.MatMul(), net.input("f32", 2, 6), weight)
    graph = net.done(net.op(o.Add(), product, other))
    check(graph, fold_constants_but_quantized, ["Dequantize", "MatMul", "Add"])
    check(graph, fold_constants, ["MatMul", "Add"])


def faked(net: Net, x: Value, low: Any, high: Any, levels: int = 256) -> Value:
    limits = [net.array(v) for v in (low, high, low, high)]
    return net.op(o.FakeQuantize(levels), x, *limits)


@pytest.mark.parametrize("levels", [256, 255])
@pytest.mark.parametrize("each", [False, True])
def test_fake_quantised_products_are_of_bytes(levels: int, each: bool) -> None:
    net = Net()
    zero = 100 if levels == 256 else 127
    step = 0.02
    limits = -zero * step, (levels - 1 - zero) * step
    x = faked(net, net.op(o.Relu(), net.input("f32", 2, 4, 6, 5)), *limits, levels)
    reach = net.rng.uniform(1, 2, (3, 1, 1, 1)) if each else np.array(1.5)
    weight = net.array(net.rng.standard_normal((3, 4, 3, 3)))
    filters = faked(net, weight, -reach, reach * (127 / 128 if levels == 256 else 1), levels)
    graph = net.done(net.op(o.Convolution(), x, filters))
    passes = [recognize_fake_quantize, fold_constants_but_quantized, lower_to_integer_matmul]
    limited = ["Clamp"] if levels == 255 else []
    found = ["Relu", *limited, "Quantize", "ConvInteger", "Convert", "Multiply"]
    check(graph, passes, found, 1e-4)


def test_a_function_between_quantisers_is_of_bytes() -> None:
    """As TensorFlow Lite rounds x * sigmoid(x): behind each operation."""
    net = Net()
    x = faked(net, net.input("f32", 3, 8), -1.28, 1.27)
    gate = faked(net, net.op(o.Sigmoid(), x), 0, 255 / 256)
    product = faked(net, net.op(o.Multiply(), x, gate), -0.30336, 0.30099)
    weight = faked(net, net.array(net.rng.standard_normal((8, 5))), -1, 127 / 128)
    graph = net.done(net.op(o.MatMul(), product, weight))
    passes = [recognize_fake_quantize, fold_constants_but_quantized, lower_to_integer_matmul]
    rounded = ["Quantize", "Dequantize"]
    found = [*rounded, "Sigmoid", *rounded, "Multiply", "Quantize"]
    check(graph, passes, [*found, "MatMulInteger", "Convert", "Multiply"], 1e-4)


def test_a_function_that_a_product_reads_is_not_of_bytes() -> None:
    net = Net()
    x = faked(net, net.input("f32", 3, 8), -1.28, 1.27)
    graph = net.done(net.op(o.MatMul(), net.op(o.Tanh(), x), net.array(np.ones((8, 5)))))
    check(graph, recognize_fake_quantize, ["FakeQuantize", "Tanh", "MatMul"])


def test_filters_in_another_layout_keep_their_scales() -> None:
    """Of a depthwise convolution as OpenVINO's converter of TensorFlow Lite writes it."""
    net = Net()
    filters = net.op(o.Dequantize(), net.bytes("i8", 1, 3, 3, 4), net.scales(1, 1, 1, 4))
    flat = net.op(o.Reshape(False), filters, net.array([3, 3, 4, 1], "i64"))
    wide = net.op(o.Unsqueeze(), flat, net.array([3], "i64"))
    turned = net.op(o.Transpose(), wide, net.array([2, 4, 3, 0, 1], "i64"))
    product = net.op(o.GroupConvolution(), activation(net, 1, 4, 6, 6), turned)
    passes = [sink_dequantize, fold_constants_but_quantized, lower_to_integer_matmul]
    check(net.done(product), passes, ["GroupConvInteger", "Convert", "Multiply"], 1e-4)


def depthwise(net: Net, zeros: Any, outputs: int = 1) -> Any:
    """A depthwise convolution of channels with scales of their own, as NNCF quantises it."""
    zero = net.array(np.broadcast_to(np.array(zeros), (1, 4, 1, 1)), "u8")
    scale = net.scales(1, 4, 1, 1)
    data = net.op(o.Dequantize(), net.input("u8", 2, 4, 6, 6), scale, zero)
    shape = 4, outputs, 1
    filters = net.op(o.Dequantize(), net.bytes("i8", *shape, 3, 3), net.scales(*shape, 1, 1))
    return net.op(o.GroupConvolution((1, 1), (1, 1), (1, 1)), data, filters)


def test_channels_of_depthwise_data_may_have_scales_of_their_own() -> None:
    net = Net()
    graph = net.done(depthwise(net, 128))
    check(graph, lower_to_integer_matmul, ["GroupConvInteger", "Convert", "Multiply"], 1e-4)


@pytest.mark.parametrize(("zeros", "outputs"), [([[[1]], [[2]], [[3]], [[4]]], 1), (128, 2)])
def test_other_scales_along_channels_stay(zeros: Any, outputs: int) -> None:
    """Zero points that differ, and channels that several outputs see."""
    net = Net()
    graph = net.done(depthwise(net, zeros, outputs))
    reason = "a scale or zero point varies along an axis that is summed"
    refused(graph, lower_to_integer_matmul, reason)


def test_fake_quantised_keys_of_attention_are_of_bytes() -> None:
    """Moved and scaled on their way."""
    net = Net()
    query, key = (faked(net, net.input("f32", 1, 5, 8), -1.28, 1.27) for _ in range(2))
    key = net.op(
        o.Multiply(), net.op(o.Transpose(), key, net.array([0, 2, 1], "i64")), net.array(2)
    )
    scores = net.op(o.MatMul(), query, key)
    passes = [recognize_fake_quantize, fold_constants_but_quantized, sink_dequantize]
    found = ["Quantize", "Transpose", "MatMulInteger", "Convert", "Multiply"]
    check(net.done(scores), [*passes, lower_to_integer_matmul], ["Quantize", *found], 1e-4)
    net = Net()
    given = [faked(net, net.input("f32", 1, 5, 8), -1.28, 1.27) for _ in range(2)]
    graph = net.done(net.op(o.ScaledDotProductAttention(), *given, net.input("f32", 1, 5, 8)))
    found = ["Quantize", "Dequantize"] * 2
    check(graph, passes[:1], [*found, "ScaledDotProductAttention"], 1e-4)


def test_fake_quantise_without_a_step_at_zero_stays() -> None:
    net = Net()
    x = faked(net, net.input("f32", 2, 6), -1.001, 1)
    weight = net.op(o.Dequantize(), net.bytes("i8", 6, 4), net.scales(4))
    graph = net.done(net.op(o.MatMul(), x, weight))
    refused(graph, recognize_fake_quantize, "0 is not a step of a range")
