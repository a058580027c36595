"""Recurrent layers of ONNX models, native, against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc
import numpy as np
import onnxruntime as ort
import pytest
from irc.ir.specs_recurrent import RecurrentSpec
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(
    kind: str, direction: str, *, lengths: bool = False, hidden: int = 6, **attributes: Any
) -> bytes:
    """One layer with random weights; batch and time are symbols, `lengths` is an input."""
    rng = np.random.default_rng(0)
    d, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    weights = {
        "w": rng.standard_normal((d, gates * hidden, 5)),
        "r": rng.standard_normal((d, gates * hidden, hidden)) * 0.5,
        "b": rng.standard_normal((d, 2 * gates * hidden)),
    }
    states = ["Y", "Y_h", "Y_c"] if kind == "LSTM" else ["Y", "Y_h"]
    ports = [("x", TensorProto.FLOAT, ["T", "N", 5])]
    if lengths:
        ports.append(("lengths", TensorProto.INT32, ["N"]))
    ports.append(("h", TensorProto.FLOAT, [d, "N", hidden]))
    names = ["x", "w", "r", "b", "lengths" if lengths else "", "h"]
    node = helper.make_node(
        kind, names, states, hidden_size=hidden, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info(*p) for p in ports],
        [helper.make_tensor_value_info(s, TensorProto.FLOAT, None) for s in states],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return made.SerializeToString()


def check(data: bytes, net: irc.CompiledModel, hidden: int = 6, tolerance: float = 1e-5) -> None:
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    d = session.get_inputs()[-1].shape[0]
    rng = np.random.default_rng(1)
    for time, batch in ((1, 1), (4, 3), (7, 2)):
        feeds: dict[str, np.ndarray] = {
            "x": rng.standard_normal((time, batch, 5)).astype(np.float32),
            "h": rng.standard_normal((d, batch, hidden)).astype(np.float32),
        }
        if len(net.inputs) == 3:
            feeds["lengths"] = rng.integers(1, time + 1, batch).astype(np.int32)
        for got, want in zip(net(feeds), session.run(None, feeds), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", sorted(GATES))
def test_against_onnxruntime(kind: str, direction: str) -> None:
    data = model(kind, direction)
    check(data, irc.compile_model(data, num_threads=2))


@pytest.mark.parametrize("kind", sorted(GATES))
def test_sequence_lengths(kind: str) -> None:
    data = model(kind, "bidirectional", lengths=True)
    check(data, irc.compile_model(data))


@pytest.mark.parametrize("kind", sorted(GATES))
def test_bf16_rounds_the_factors_of_both_products(kind: str) -> None:
    data = model(kind, "bidirectional", hidden=33)
    net = irc.compile_model(data, num_threads=2, precision="bf16")
    products = [s.spec for s in net.plan.kernel_steps() if s.spec.family in ("gemm", "recurrent")]
    assert [str(s.factors) for s in products] == ["bf16", "bf16"]
    assert "1 of 1 recurrent layers have bf16 factors" in net.report()
    check(data, net, hidden=33, tolerance=0.05)


def test_reset_after_the_product_and_clip() -> None:
    data = model("GRU", "forward", linear_before_reset=1, clip=0.5)
    check(data, irc.compile_model(data))


def test_an_unknown_activation_is_named() -> None:
    data = model("RNN", "forward", activations=["Softsign"])
    (step,) = irc.compile_model(data).plan.host_steps()
    assert step.reason == "no recurrent kernel with the activation softsign"


def test_inputs_are_one_product_and_lengths_are_dropped() -> None:
    plan = irc.compile_model(model("LSTM", "bidirectional")).plan
    specs = [s.spec for s in plan.kernel_steps()]
    assert [s.family for s in specs if s.family != "elementwise"] == ["gemm", "recurrent"]
    (layer,) = [s for s in specs if isinstance(s, RecurrentSpec)]
    assert layer.lengths is None and layer.reverse == (False, True)


def test_an_artefact_keeps_the_layer(tmp_path) -> None:
    data = model("GRU", "bidirectional", linear_before_reset=1)
    irc.compile_model(data).export(tmp_path / "net.irc")
    check(data, irc.compile_model(tmp_path / "net.irc"))
