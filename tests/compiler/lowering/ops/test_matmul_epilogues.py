"""What a product computes behind its sums: all activations, and the chains of quantisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino
import pytest
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.ops import ACTIVATIONS, Constant, Gemm, Parameter, Result
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.text import print_plan
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from openvino import opset15 as op
from support.models.exact_int8 import OPENVINO_CONFIG, create_session

RNG = np.random.default_rng(3)


def dense(name: str, dtype: DType, rows: int | str) -> tuple[Graph, list[np.ndarray]]:
    arrays = [RNG.standard_normal(s).astype(dtype.numpy) for s in ((5, 24), (24, 33), (33,))]
    graph = Graph("test")
    size = symbol(rows) if isinstance(rows, str) else rows
    values = [Value(graph.add(Parameter(dtype, (size, 24)), name="x"))]
    values += [Value(graph.add(Constant.of(a, dtype))) for a in arrays[1:]]
    graph.add(Result(), [Value(graph.add(Gemm(activation=name), values))], name="y")
    infer_graph(graph)
    return graph, arrays


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, "N"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_the_product_s_own(
    name: str, rows: int | str, compile_graph: Callable[..., irc.CompiledModel]
) -> None:
    for dtype, limit in ((DType.f32, 2e-5), (DType.f64, 1e-11)):
        graph, arrays = dense(name, dtype, rows)
        net = compile_graph(graph, True, 1)
        (step,) = net.plan.kernel_steps()
        assert isinstance(step.spec, GemmSpec) and not net.plan.host_steps()
        (wanted,) = Gemm(activation=name).evaluate(*(a.astype(np.float64) for a in arrays))
        np.testing.assert_allclose(net(arrays[0])[0], wanted, rtol=limit, atol=limit)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [16, "M"])
@pytest.mark.parametrize("weight", [np.int8, np.uint8])
def test_dynamic_quantisation_is_undone_behind_the_sums(weight: Any, rows: int | str) -> None:
    """As onnxruntime's quantize_dynamic writes a layer: cast, product of scales, addend and
    activation stand behind the MatMulInteger, and nothing else touches its result."""
    info = np.iinfo(weight)
    made = {
        "w": RNG.integers(info.min, info.max, (24, 33), endpoint=True).astype(weight),
        "s": RNG.uniform(0.01, 0.1, 33).astype("f4"),
        "z": np.array(3, weight),
        "b": RNG.standard_normal(33).astype("f4"),
    }
    nodes = [
        ("DynamicQuantizeLinear", "x", "q sx zx"), ("Mul", "sx s", "both"),
        ("MatMulInteger", "q w zx z", "i"), ("Cast", "i", "f"), ("Mul", "f both", "p"),
        ("Add", "p b", "t"), ("Relu", "t", "y"),
    ]  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node(k, i.split(), o.split(), **({"to": T.FLOAT} if k == "Cast" else {}))
            for k, i, o in nodes
        ],
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, [rows, 24])],
        [helper.make_tensor_value_info("y", T.FLOAT, [rows, 33])],
        [numpy_helper.from_array(a, n) for n, a in made.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    net = irc.compile_model(model)
    *before, last = net.plan.kernel_steps()
    assert not net.plan.host_steps(), print_plan(net.plan)
    assert isinstance(last.spec, GemmSpec) and last.spec.a.dtype is DType.u8
    assert last.spec.out.dtype is DType.f32
    assert not any(isinstance(s.spec, GemmSpec) for s in before)
    x = RNG.standard_normal((16, 24)).astype("f4")
    (wanted,) = create_session(model).run(None, {"x": x})
    np.testing.assert_allclose(net({"x": x})[0], wanted, rtol=1e-6, atol=1e-5)


def codes(kind: str, n: int, k: int) -> Any:
    """Weights as NNCF leaves them: FakeQuantize on floats, or codes with their scales."""
    floats = RNG.standard_normal((n, k)).astype("f4")
    most = np.abs(floats).max(1, keepdims=True)
    if kind == "fake":
        low, high = op.constant(-most), op.constant(most)
        return op.fake_quantize(op.constant(floats), low, high, low, high, 255)
    whole, scale = np.round(floats / most * 127), op.constant(most / 127)
    if kind == "i8":
        return op.multiply(op.convert(op.constant(whole.astype("i1")), "f32"), scale)
    wide = op.convert(op.constant((whole + 128).astype("u1")), "f32")
    return op.multiply(op.subtract(wide, op.constant(np.full_like(most, 128))), scale)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [16, -1])
@pytest.mark.parametrize("kind", ["fake", "i8", "u8"])
@pytest.mark.parametrize("signed", [True, False])
def test_fake_quantized_layers_pass_int8_values(
    kind: str, signed: bool, rows: int, tmp_path: Any
) -> None:
    def fake(value: Any, low: float, high: float) -> Any:
        ends = [op.constant(np.float32(e)) for e in (low, high)]
        return op.fake_quantize(value, *ends, *ends, 256)

    x = op.parameter([rows, 64], np.float32, name="x")
    first = fake(x, -2.56 if signed else 0, 2.54)
    hidden = op.relu(op.matmul(first, codes(kind, 96, 64), False, True))
    last = op.matmul(fake(hidden, 0, 25.4), codes(kind, 48, 96), False, True)
    model = openvino.Model([op.add(last, op.constant(np.ones((1, 48), "f4")))], [x], "m")
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    net = irc.compile_model(tmp_path / "m.xml")
    products = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, GemmSpec)]
    assert [(s.a.dtype, s.b.dtype.bits, s.out.dtype) for s in products] == [
        (DType.u8, 8, DType.u8), (DType.u8, 8, DType.f32),
    ]  # fmt: skip
    assert len(net.plan.kernel_steps()) == 3
    data = RNG.standard_normal((16, 64)).astype("f4")
    wanted = openvino.Core().compile_model(model, "CPU", OPENVINO_CONFIG)({"x": data})[0]
    # Sums in another order may end on another code of the hidden values.
    assert np.abs(net({"x": data})[0] - wanted).max() <= 0.02 * np.abs(wanted).max()
