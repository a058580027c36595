"""Recurrent layers of ONNX models, native, against onnxruntime."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnxruntime as ort
import openvino as ov
import pytest
from irc_compiler.plan.specs.recurrent import RecurrentSpec
from support.models.exact_int8 import OPENVINO_CONFIG
from support.models.recurrent_models import GATES, feeds, model

# What ONNX names, with numbers for alpha and beta.
ACTIVATIONS: dict[str, tuple[float, ...]] = {
    "Affine": (0.4, 0.1),
    "Elu": (0.7,),
    "HardSigmoid": (0.3, 0.4),
    "LeakyRelu": (0.3,),
    "Relu": (),
    "ScaledTanh": (0.8, 0.6),
    "Softplus": (),
    "Softsign": (),
    "ThresholdedRelu": (0.2,),
}
DIRECTIONS = ("forward", "reverse", "bidirectional")


def check(
    data: bytes,
    net: irc.CompiledModel,
    hidden: int = 6,
    tolerance: float = 1e-5,
    sizes: tuple[tuple[int, int], ...] = ((1, 1), (4, 3), (7, 2)),
) -> None:
    """Native, with onnxruntime's numbers, for these times and batches."""
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    d, names = session.get_outputs()[1].shape[0], [i.name for i in session.get_inputs()]
    for time, batch in sizes:
        given = feeds(names, d, hidden, time, batch)
        for got, want in zip(net(given), session.run(None, given), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", sorted(GATES))
def test_against_onnxruntime(kind: str, direction: str) -> None:
    data = model(kind, direction)
    check(data, irc.compile_model(data, num_threads=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(GATES))
def test_sequence_lengths(kind: str) -> None:
    data = model(kind, "bidirectional", lengths=True)
    check(data, irc.compile_model(data))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(GATES))
def test_bf16_rounds_the_factors_of_both_products(kind: str) -> None:
    data = model(kind, "bidirectional", hidden=33)
    net = irc.compile_model(data, num_threads=2, precision="bf16")
    products = [s.spec for s in net.plan.kernel_steps() if s.spec.family in ("gemm", "recurrent")]
    assert [str(s.compute_dtype) for s in products] == ["bf16", "bf16"]
    assert "1 of 1 recurrent layers have bf16 factors" in net.report()
    check(data, net, hidden=33, tolerance=0.05)


def test_reset_after_the_product_and_clip() -> None:
    data = model("GRU", "forward", linear_before_reset=1, clip=0.5)
    check(data, irc.compile_model(data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("kind", sorted(GATES))
def test_every_activation(kind: str, name: str) -> None:
    """In every place at once, of a cell that begins anywhere."""
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
    numbers = ACTIVATIONS[name]
    lists = zip(("activation_alpha", "activation_beta"), numbers, strict=False)
    given = {key: [number] * count for key, number in lists}
    # Where nothing limits the state it is held small by a clip, and few steps are taken.
    data = model(kind, activations=[name] * count, clip=1.5, hidden=19, **given)
    check(data, irc.compile_model(data), 19, 1e-4, ((1, 1), (3, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_peepholes(direction: str) -> None:
    data = model("LSTM", direction, peepholes=True, lengths=True, states=("h", "c"), hidden=17)
    net = irc.compile_model(data, num_threads=2)
    assert [s.spec.family for s in net.plan.kernel_steps()].count("recurrent") == 1
    check(data, net, 17)


@pytest.mark.parametrize("peepholes", [False, True])
def test_coupled_gates(peepholes: bool) -> None:
    data = model("LSTM", "bidirectional", peepholes=peepholes, input_forget=1, clip=0.9)
    check(data, irc.compile_model(data))


@pytest.mark.slow
@pytest.mark.parametrize("states", [(), ("h",), ("c",), ("h", "c")])
@pytest.mark.parametrize("sizes", [(5, 1), (5, 7), ("T", 4), (3, "N")])
def test_first_states_and_sizes(
    states: tuple[str, ...], sizes: tuple[int | str, int | str]
) -> None:
    data = model("LSTM", "bidirectional", states=states, sizes=sizes, lengths=sizes == (5, 7))
    time, batch = (n if isinstance(n, int) else 6 for n in sizes)
    check(data, irc.compile_model(data), sizes=((time, batch),))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(GATES))
def test_the_batch_first(kind: str) -> None:
    """onnxruntime has no such layout: its answer with time first, turned."""
    plain = model(kind, "bidirectional", lengths=True)
    net = irc.compile_model(model(kind, "bidirectional", lengths=True, layout=1))
    assert not net.plan.host_steps(), net.report()
    given = feeds(["x", "lengths", "h"], 2, 6, 4, 3)
    wanted = ort.InferenceSession(plain, providers=["CPUExecutionProvider"]).run(None, given)
    turned = {n: a if n == "lengths" else a.swapaxes(0, 1) for n, a in given.items()}
    for got, want in zip(net(turned), wanted, strict=True):
        order = (2, 0, 1, 3) if want.ndim == 4 else (1, 0, 2)
        np.testing.assert_allclose(got, want.transpose(order), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU linear", "RNN"])
def test_sequences_of_openvino(kind: str, direction: str, tmp_path) -> None:
    """Clip, lengths and relu as OpenVINO's plugin computes them."""
    from openvino import opset13 as op

    name, rng, hidden = kind.split()[0], np.random.default_rng(3), 9
    d, gates = 2 if direction == "bidirectional" else 1, GATES[name]
    rows = gates + (kind == "GRU linear")
    shapes = ((d, gates * hidden, 5), (d, gates * hidden, hidden), (d, rows * hidden))
    weights = [(rng.standard_normal(s) * 0.5).astype(np.float32) for s in shapes]
    x = op.parameter([-1, -1, 5], np.float32)
    lengths = op.parameter([-1], np.int32)
    states = [op.parameter([-1, d, hidden], np.float32) for _ in range(1 + (name == "LSTM"))]
    more: dict[str, object] = {"clip": 0.7}
    more["activations"] = {"LSTM": ["sigmoid", "relu", "tanh"], "GRU": ["sigmoid", "relu"]}.get(
        name, ["relu"]
    )
    more |= {"linear_before_reset": True} if rows > gates else {}
    made = getattr(op, f"{name.lower()}_sequence")(
        x, *states, lengths, *weights, hidden, direction, **more
    )
    built = ov.Model(list(made.outputs()), [x, *states, lengths])
    ov.save_model(built, tmp_path / "m.xml", compress_to_fp16=False)
    asked = ov.Core().compile_model(built, "CPU", OPENVINO_CONFIG)
    net = irc.compile_model(tmp_path / "m.xml")
    assert not net.plan.host_steps(), net.report()
    for batch, time in ((1, 3), (4, 5)):
        given = [rng.standard_normal((batch, time, 5)).astype(np.float32)]
        given += [rng.standard_normal((batch, d, hidden)).astype(np.float32) for _ in states]
        given.append(rng.integers(1, time + 1, batch).astype(np.int32))
        wanted = asked(given)
        for n, got in enumerate(net(given)):
            np.testing.assert_allclose(got, wanted[n], rtol=1e-5, atol=1e-5)


def test_inputs_are_one_product_and_lengths_are_dropped() -> None:
    plan = irc.compile_model(model("LSTM", "bidirectional")).plan
    specs = [s.spec for s in plan.kernel_steps()]
    # Besides the two: a first cell of zeros, and results that are turned.
    assert [s.family for s in specs] == ["gemm", "elementwise", "recurrent", *["elementwise"] * 3]
    (layer,) = [s for s in specs if isinstance(s, RecurrentSpec)]
    assert layer.lengths is None and layer.reverse == (False, True)


def test_an_artefact_keeps_the_layer(tmp_path) -> None:
    data = model("GRU", "bidirectional", linear_before_reset=1)
    irc.compile_model(data).export(tmp_path / "net.irc")
    check(data, irc.compile_model(tmp_path / "net.irc"))
