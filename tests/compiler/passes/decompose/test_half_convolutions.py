"""Convolutions and recurrent layers of f16 run in f32, and what is around them stays of f16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.interpret import interpret
from onnx import TensorProto, helper, numpy_helper

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return (RNG.standard_normal(shape) * 0.3).astype(np.float16)


def model(
    nodes: list[Any], inputs: dict[str, tuple[int, Any]], outputs: list[str], **constants: Any
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, HALF, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return made.SerializeToString()


def residual_block() -> tuple[bytes, np.ndarray[Any, Any]]:
    """Two convolutions with a residual sum, and a product of what they give."""
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **pads),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], **pads),
        helper.make_node("Add", ["c2", "r1"], ["sum"]),
        helper.make_node("Flatten", ["sum"], ["flat"]),
        helper.make_node("MatMul", ["flat", "m"], ["y"]),
    ]
    weights = {"w1": draw(16, 8, 3, 3), "b1": draw(16), "w2": draw(16, 16, 3, 3)}
    source = model(nodes, {"x": (HALF, [1, 8, 6, 6])}, ["y", "r1"], **weights, m=draw(576, 5))
    return source, draw(1, 8, 6, 6)


def types_of(net: irc.CompiledModel, family: str) -> list[tuple[DType, ...]]:
    steps = net.plan.kernel_steps()
    return [tuple(o.dtype for o in s.spec.operands()) for s in steps if s.spec.family == family]


def test_convolutions_read_and_write_f32_and_products_keep_their_weights() -> None:
    source, x = residual_block()
    net = irc.compile_model(source, verify=True)
    first, second = types_of(net, "conv")
    assert first[0] is second[0] is first[1] is DType.f32
    assert DType.f16 in [t for types in types_of(net, "gemm") for t in types]
    assert "widen_half_convolutions" in net.report()
    found = net({"x": x})
    session = onnxruntime.InferenceSession(source)
    for made, want in zip(found, session.run(None, {"x": x}), strict=True):
        assert made.dtype == want.dtype == np.float16
        np.testing.assert_allclose(made, want, rtol=4e-3, atol=4e-3)


def test_names_and_types_of_outputs_stay() -> None:
    net = irc.compile_model(residual_block()[0])
    assert [p.name for p in net.outputs] == ["y", "r1"]
    slots = [net.plan.slots[p.slot] for p in net.plan.outputs]
    assert [str(s).partition("[")[0] for s in slots] == ["f16", "f16"]


def test_a_conversion_of_the_model_rounds() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=HALF),
        helper.make_node("Conv", ["half", "w"], ["y"]),
    ]
    source = model(nodes, {"x": (SINGLE, [1, 4, 5, 5])}, ["y"], w=draw(3, 4, 3, 3))
    net = irc.compile_model(source)
    x = RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)
    rounded = x.astype(np.float16).astype(np.float32)
    assert (x != rounded).any()
    np.testing.assert_array_equal(net({"x": x})[0], net({"x": rounded})[0])


def test_recurrent_layers_have_a_kernel() -> None:
    size = 16
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=size)
    weights = {"w": draw(1, 4 * size, 8), "r": draw(1, 4 * size, size), "b": draw(1, 8 * size)}
    source, x = model([node], {"x": (HALF, [7, 2, 8])}, ["y"], **weights), draw(7, 2, 8)
    net = irc.compile_model(source, verify=True)
    assert not net.plan.host_steps(), net.report()
    (want,) = interpret(irc.read_model(source).graph, [x])
    np.testing.assert_allclose(net({"x": x})[0], want, atol=2e-3)
    assert net({"x": x})[0].dtype == np.float16


def test_weights_that_ir_compresses_reach_recurrent_kernels(tmp_path: Path) -> None:
    """Above the size up to which constants are converted whatever they are."""
    size = 128
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=size)
    weights = {"w": draw(1, 4 * size, 64), "r": draw(1, 4 * size, size)}
    single = {n: a.astype(np.float32) for n, a in weights.items()}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", SINGLE, [3, 1, 64])],
        [helper.make_tensor_value_info("y", SINGLE, None)],
        [numpy_helper.from_array(a, n) for n, a in single.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "m.xml"
    irc.save_model(irc.read_model(made), path, compress_to_fp16=True)
    net = irc.compile_model(path)
    assert not net.plan.host_steps(), net.report()
    x = RNG.standard_normal((3, 1, 64)).astype(np.float32)
    np.testing.assert_allclose(net([x])[0], irc.compile_model(made)([x])[0], rtol=1e-5, atol=1e-6)
