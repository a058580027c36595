"""onnxruntime's operations on quantised tensors, against onnxruntime: nodes, and a network that its
static quantisation wrote in the operator form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.frontends.ml_models import one_node
from support.models.exact_int8 import create_session

MS = "com.microsoft"
_R = np.random.default_rng(7)


def q(*shape: int, kind: type = np.uint8) -> Any:
    info = np.iinfo(kind)
    return _R.integers(info.min, info.max + 1, shape).astype(kind)


def s(value: float) -> Any:
    return np.array(value, np.float32)


def z(value: int, kind: type = np.uint8) -> Any:
    return np.array(value, kind)


I8 = np.int8
X, A, B = q(2, 6, 5, 7), [q(3, 8), s(0.02), z(120)], [q(8, 5, kind=I8), s(0.03), z(-3, I8)]
COLUMNS = [q(5, 8, kind=I8), _R.random(5).astype(np.float32), q(5, kind=I8)]
NODES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("QLinearAdd", [X, s(0.02), z(100), q(6, 1, 1), s(0.03), z(7), s(0.04), z(110)], {}),
    ("QLinearAdd", [*B, q(5, kind=I8), s(0.1), z(-5, I8), s(0.1), z(0, I8)], {}),
    ("QLinearMul", [X, s(0.02), z(100), q(7), s(0.03), z(7), s(0.05), z(110)], {}),
    ("QLinearSigmoid", [X, s(0.03), z(128), s(1 / 256), z(0)], {}),
    ("QLinearLeakyRelu", [X, s(0.03), z(128), s(0.02), z(40)], {"alpha": 0.2}),
    ("QLinearSoftmax", [X, s(0.05), z(128), s(1 / 256), z(0)], {"axis": -1, "of": 13}),
    ("QLinearConcat", [s(0.1), z(9), X, s(0.02), z(100), q(2, 1, 5, 7), s(0.2), z(3)], {"axis": 1}),
    ("QLinearAveragePool", [X, s(0.02), z(100), s(0.03), z(90)],
     {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ("QLinearGlobalAveragePool", [X, s(0.02), z(100), s(0.01), z(90)], {}),
    ("QLinearGlobalAveragePool", [X, s(0.02), z(100), s(0.01), z(90)], {"channels_last": 1}),
    ("QGemm", [*A, *B, q(5).astype(np.int32), s(0.1), z(128)], {}),
    ("QGemm", [*A, *B], {"alpha": 0.5}),
    ("QGemm", [*A, *COLUMNS, None, s(3), z(128)], {"transB": 1}),
    ("QuantizeLinear", [COLUMNS[1], s(1e-4), z(9, np.int16)], {}),
    ("DequantizeLinear", [q(3, 4, kind=np.uint16), s(1e-4), z(9, np.uint16)], {}),
]  # fmt: skip


def node(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A model of one node, and its feeds; `of` is what QLinearSoftmax calls opset."""
    given = {k: v for k, v in attributes.items() if k != "of"}
    model, feeds = one_node(op_type, inputs, ["y"], domain=MS, **given)
    if "of" in attributes:
        model.graph.node[0].attribute.append(helper.make_attribute("opset", attributes["of"]))
    return model, feeds


def results(model: onnx.ModelProto | str, feeds: dict[str, Any]) -> tuple[Any, Any]:
    """What irc and onnxruntime give."""
    (wanted,) = create_session(model).run(None, feeds)
    net = irc.compile_model(model)
    assert not any(net.graph.op(n).kind == "OnnxNode" for n in net.graph.ids())
    (found,) = net(feeds)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return found, wanted


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], dict[str, Any]]) -> None:
    """At most a step off, where onnxruntime rounds in its own order."""
    op_type, inputs, attributes = case
    found, wanted = results(*node(op_type, inputs, attributes))
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        return
    steps = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
    assert steps.max() <= 1 and (steps > 0).mean() <= 0.05


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("QLinearSoftmax", [X, s(0.05), z(128), s(1 / 256), z(0)], {"axis": 1, "of": 11}),
    ],
)  # fmt: skip
def test_what_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    model, _ = node(op_type, inputs, attributes)
    with pytest.raises(irc.UnsupportedOperationError, match=op_type):
        irc.compile_model(model)


def small_network() -> onnx.ModelProto:
    """Convolutions with odd channels, a residual sum, a mean and a layer."""
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype("f4"), name)

    def conv(x: str, w: str, y: str, **more: Any) -> list[onnx.NodeProto]:
        pads = more.pop("pads", [1] * 4)
        made = helper.make_node("Conv", [x, w, f"{w}b"], [f"{y}0"], name=y, pads=pads, **more)
        return [made, helper.make_node("Relu", [f"{y}0"], [y])]

    nodes = [
        *conv("x", "w0", "a", strides=[2, 2]),
        *conv("a", "w1", "b", group=7),
        *conv("b", "w2", "c", pads=[0] * 4),
        helper.make_node("Add", ["a", "c"], ["d"], name="sum"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], name="mean"),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "w3b"], ["y"], name="layer"),
    ]
    sizes = {"w0": (7, 3, 3, 3), "w1": (7, 1, 3, 3), "w2": (7, 7, 1, 1), "w3": (7, 5)}
    made = [weights(n, *shape) for n, shape in sizes.items()]
    made += [weights(f"{n}b", 5 if n == "w3" else shape[0]) for n, shape in sizes.items()]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 19, 18])]
    ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])]
    graph = helper.make_graph(nodes, "net", ports, ends, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
@pytest.mark.parametrize(("kind", "per_channel"), [("QUInt8", True), ("QInt8", False)])
def test_what_static_quantisation_writes(
    form: str, kind: str, per_channel: bool, tmp_path: Path
) -> None:
    """Both forms take native steps only, and are as far from the model as onnxruntime's."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static as static

    x = _R.standard_normal((1, 3, 19, 18)).astype(np.float32)

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"x": x}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    plain, target = str(tmp_path / "plain.onnx"), str(tmp_path / "quantised.onnx")
    onnx.save(small_network(), plain)
    kinds = {"activation_type": getattr(QuantType, kind), "weight_type": QuantType.QInt8}
    form_ = getattr(QuantFormat, form)
    static(plain, target, Reader(), quant_format=form_, per_channel=per_channel, **kinds)
    if form == "QOperator":
        written = {n.op_type for n in onnx.load(target).graph.node}
        assert {"QLinearConv", "QLinearAdd", "QGemm", "QLinearGlobalAveragePool"} <= written
    found, wanted = results(target, {"x": x})
    np.testing.assert_allclose(found, wanted, atol=0.02 * float(np.abs(wanted).max()))
    net = irc.compile_model(target)
    assert not net.plan.host_steps()
    products = [s.spec for s in net.plan.kernel_steps() if s.spec.family in ("conv", "gemm")]
    assert len(products) == 4 and all(p.acc.value == "i32" for p in products)
