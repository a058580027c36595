"""Models that multiply 8-bit integers: one native step per product, the bits of onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.plan.specs.gemm import GemmSpec
from onnx import TensorProto, helper, numpy_helper
from support.models.exact_int8 import create_session

TYPES: dict[Any, int] = {
    np.uint8: TensorProto.UINT8,
    np.int8: TensorProto.INT8,
    np.float32: TensorProto.FLOAT,
    np.int32: TensorProto.INT32,
}


def model(nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any], out: Any) -> bytes:
    """An ONNX model: inputs by name as (type, shape), its output `y` of type `out`."""
    ports = [helper.make_tensor_value_info(k, TYPES[t], s) for k, (t, s) in inputs.items()]
    y = helper.make_tensor_value_info("y", TYPES[out], None)
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "bytes", ports, [y], held)
    opset = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def values(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def agree(text: bytes, feed: dict[str, np.ndarray], *, steps: int = 1) -> Any:
    """irc's answer is onnxruntime's bit for bit, and computed by so many native steps."""
    (expected,) = create_session(text).run(None, feed)
    net = irc.compile_model(text)
    (found,) = net(feed)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    made = net.plan.kernel_steps()
    assert not net.plan.host_steps() and len(made) == steps, net.report()
    assert isinstance(made[0].spec, GemmSpec)
    return made[0].spec


@pytest.mark.slow
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [False, True])
def test_qlinear_matmul(b_type: Any, columns: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = values(rng, np.uint8, 19, 40), values(rng, b_type, 40, 33)
    scale = np.linspace(0.002, 0.02, 33, dtype=np.float32) if columns else np.float32(0.013)
    b_zero = values(rng, b_type, 33) if columns else b_type(3)
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    constants = {"sa": np.float32(0.02), "za": np.uint8(117), "b": b, "sb": scale, "zb": b_zero,
                 "sy": np.float32(0.37), "zy": np.uint8(131)}  # fmt: skip
    node = helper.make_node("QLinearMatMul", names, ["y"])
    text = model([node], {"a": (np.uint8, [19, 40])}, constants, np.uint8)
    spec = agree(text, {"a": a})
    assert (
        spec.a_zero_point is not None and spec.b_zero_point is not None and spec.packed.column_sums
    )
    assert spec.out.dtype.value == "u8"


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("shapes", [((5, 12), (12, 7)), ((2, 3, 6, 20), (3, 20, 9))], ids=str)
def test_matmul_integer(constant: bool, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Both operands variable, or a constant; zero points of rows only where there is no batch."""
    rng = np.random.default_rng(2)
    a, b = (values(rng, t, *s) for t, s in zip((np.uint8, np.int8), shapes, strict=True))
    zeros = {"az": np.uint8(200), "bz": np.int8(-5)}
    inputs = {"a": (np.uint8, shapes[0])}
    feed = {"a": a}
    if constant:
        zeros["b"] = b
    else:
        inputs["b"], feed["b"] = (np.int8, shapes[1]), b
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    spec = agree(model([node], inputs, zeros, np.int32), feed)
    assert (spec.packed is not None) == constant
    assert spec.acc.value == "i32"


def test_zero_points_of_run_time_and_rows_of_run_time() -> None:
    rng = np.random.default_rng(3)
    b = values(rng, np.int8, 24, 18)
    node = helper.make_node("MatMulInteger", ["a", "b", "az"], ["y"])
    inputs = {"a": (np.uint8, ["n", 24]), "az": (np.uint8, [])}
    text = model([node], inputs, {"b": b}, np.int32)
    for rows in (1, 5, 31):
        agree(text, {"a": values(rng, np.uint8, rows, 24), "az": np.array(9 + rows, np.uint8)})


def test_dequantised_operands_with_bias_and_activation() -> None:
    """QDQ: the product, its scale, bias, ReLU and the next quantisation are one step."""
    rng = np.random.default_rng(4)
    a, b = values(rng, np.uint8, 21, 64), values(rng, np.int8, 64, 48)
    constants = {
        "sa": np.float32(0.02), "za": np.uint8(120), "b": b, "zb": np.zeros(48, np.int8),
        "sb": np.linspace(0.002, 0.01, 48, dtype=np.float32), "sy": np.float32(0.25),
        "c": rng.standard_normal(48).astype(np.float32), "zy": np.uint8(10),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["q"]),
        helper.make_node("Relu", ["q"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["y"]),
    ]
    text = model(nodes, {"a": (np.uint8, [21, 64])}, constants, np.uint8)
    net = irc.compile_model(text)
    (found,) = net({"a": a})
    x = (a.astype(np.float64) - 120) * np.float64(np.float32(0.02))
    exact = np.maximum(x @ (b * constants["sb"].astype(np.float64)) + constants["c"], 0)
    expected = np.clip(np.rint(exact / 0.25) + 10, 0, 255)
    # A step at ties (docs/numerics.md).
    assert np.abs(found.astype(np.float64) - expected).max() <= 1
    assert (found != expected).mean() < 0.01
    (step,) = net.plan.kernel_steps()
    assert isinstance(step.spec, GemmSpec) and step.spec.a.dtype.value == "u8"


@pytest.mark.parametrize("rows", [4, 19])
def test_zero_points_of_rows_and_of_a_batch(rows: int) -> None:
    """What ONNX says of vectors (onnxruntime knows one value only): of rows, and of columns."""
    rng = np.random.default_rng(5)
    a, b = values(rng, np.int8, rows, 31), values(rng, np.uint8, 31, 20)
    az, bz = values(rng, np.int8, rows), values(rng, np.uint8, 20)
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    inputs = {"a": (np.int8, [rows, 31]), "az": (np.int8, [rows]), "bz": (np.uint8, [20])}
    net = irc.compile_model(model([node], inputs, {"b": b}, np.int32))
    wide = [x.astype(np.int32) for x in (a, az, b, bz)]
    expected = (wide[0] - wide[1][:, None]) @ (wide[2] - wide[3])
    np.testing.assert_array_equal(net({"a": a, "az": az, "bz": bz})[0], expected)
    spec = net.plan.kernel_steps()[-1].spec
    assert isinstance(spec, GemmSpec) and len(spec.zero_points) == 2


@pytest.mark.parametrize("m", [1, 17])
def test_transposed_dequantised_weights(m: int) -> None:
    """Gemm with transB over a constant [N, K] whose scales are per output."""
    rng = np.random.default_rng(6)
    a, b = values(rng, np.uint8, m, 36), values(rng, np.int8, 25, 36)
    scale = np.linspace(0.002, 0.01, 25, dtype=np.float32)
    constants = {"sa": np.float32(0.02), "za": np.uint8(120), "b": b, "sb": scale,
                 "zb": np.zeros(25, np.int8)}  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["w"], axis=0),
        helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),
    ]
    net = irc.compile_model(model(nodes, {"a": (np.uint8, [m, 36])}, constants, np.float32))
    (found,) = net({"a": a})
    sums = (a.astype(np.float64) - 120) @ b.T.astype(np.float64)
    np.testing.assert_allclose(found, sums * 0.02 * scale.astype(np.float64), rtol=1e-6)
    (step,) = net.plan.kernel_steps()
    assert isinstance(step.spec, GemmSpec) and step.spec.packed.column_sums
