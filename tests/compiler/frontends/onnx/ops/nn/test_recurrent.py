"""Recurrent operators with every activation that ONNX names, against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from support.frontends.ml_models import compare, one_node
from support.models.exact_int8 import create_session

_R = np.random.default_rng(11)
# Activations, and numbers for their parameters in order: alpha, beta.
ACTIVATIONS: dict[str, tuple[float, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softsign": (),
    "Softplus": (),
    "LeakyRelu": (0.3,),
    "ThresholdedRelu": (0.2,),
    "Elu": (0.7,),
    "HardSigmoid": (0.3, 0.4),
    "ScaledTanh": (0.8, 0.6),
    "Affine": (0.4, 0.1),
}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def check(op_type: str, names: list[str], direction: str, *, given: bool = True) -> None:
    """Against onnxruntime; parameters from the table, or the defaults."""
    d, g, hidden, width = 1 + (direction == "bidirectional"), GATES[op_type], 5, 3
    inputs = [
        *(_R.uniform(-1, 1, s).astype(np.float32) for s in ((4, 2, width), (d, g * hidden, width))),
        *(_R.uniform(-1, 1, s).astype(np.float32) for s in ((d, g * hidden, hidden),)),
        _R.uniform(-1, 1, (d, 2 * g * hidden)).astype(np.float32),
        np.array([4, 3], np.int32),
    ]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    attributes["activations"] = names
    if given:
        numbers = [ACTIVATIONS[name] for name in names]
        for i, key in enumerate(("activation_alpha", "activation_beta")):
            # In order, of those activations that have the parameter.
            listed = [n[i] for n in numbers if len(n) > i]
            attributes |= {key: listed} if listed else {}
    outputs = ["y", "h", "c"] if op_type == "LSTM" else ["y", "h"]
    model, feeds = one_node(op_type, inputs, outputs, domain="", **attributes)
    compare(model, feeds, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("op_type", GATES)
def test_every_activation(op_type: str, name: str) -> None:
    for place in range(len(DEFAULTS[op_type])):
        names = [*DEFAULTS[op_type]]
        names[place] = name
        check(op_type, names, "forward")


@pytest.mark.parametrize("name", ["LeakyRelu", "Elu", "HardSigmoid"])
def test_default_parameters(name: str) -> None:
    check("RNN", [name], "forward", given=False)


@pytest.mark.parametrize(
    ("name", "alpha", "beta"), [("ThresholdedRelu", 1.0, 0.0), ("Affine", 1.0, 0.0)]
)
def test_default_parameters_are_those_of_onnxs_operators(
    name: str, alpha: float, beta: float
) -> None:
    """onnxruntime has 0 for both."""
    x, w, r = (_R.uniform(-1, 3, s).astype(np.float32) for s in ((3, 2, 3), (1, 4, 3), (1, 4, 4)))
    given = {"activation_alpha": [alpha], "activation_beta": [beta]}
    results = []
    for more in ({}, given):
        attributes: dict[str, Any] = {"hidden_size": 4, "activations": [name], **more}
        model, feeds = one_node("RNN", [x, w, r], ["y"], domain="", **attributes)
        results.append(irc.compile_model(model)(feeds)[0])
    np.testing.assert_array_equal(*results)


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_activations_that_differ_by_direction(op_type: str) -> None:
    names = ["HardSigmoid", "LeakyRelu", "ScaledTanh", "Affine", "Elu", "Softsign"]
    count = len(DEFAULTS[op_type])
    check(op_type, [*DEFAULTS[op_type], *names[:count]], "bidirectional")
    check(op_type, [*names[:count], *names[-count:]], "bidirectional")


def test_parameters_that_differ_by_direction() -> None:
    """The lists go on where the first direction's activations end."""
    x, w, r = (_R.uniform(-1, 1, s).astype(np.float32) for s in ((3, 2, 3), (2, 4, 3), (2, 4, 4)))
    model, feeds = one_node(
        "RNN",
        [x, w, r],
        ["y", "h"],
        domain="",
        hidden_size=4,
        direction="bidirectional",
        activations=["LeakyRelu", "LeakyRelu"],
        activation_alpha=[0.1, 0.9],
    )
    compare(model, feeds, rtol=2e-5, atol=2e-5)


def test_an_alpha_of_zero_is_no_default() -> None:
    check_alpha = {"activations": ["HardSigmoid"], "activation_alpha": [0.0]}
    x, w, r = (np.ones(s, np.float32) for s in ((2, 1, 3), (1, 2, 3), (1, 2, 2)))
    model, feeds = one_node("RNN", [x, w, r], ["y"], domain="", hidden_size=2, **check_alpha)
    np.testing.assert_array_equal(irc.compile_model(model)(feeds)[0], np.full((2, 1, 1, 2), 0.5))


@pytest.mark.parametrize("names", [["Tanh"], ["Tanh"] * 5])
def test_another_number_of_activations(names: list[str]) -> None:
    x, w, r = (np.ones(s, np.float32) for s in ((2, 1, 3), (1, 8, 3), (1, 8, 2)))
    model, _ = one_node("LSTM", [x, w, r], ["y"], domain="", hidden_size=2, activations=names)
    with pytest.raises(irc.ModelFormatError, match="number of activations"):
        irc.compile_model(model)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("per_row", [False, True])
def test_dynamically_quantised_layers_compute_with_the_weights_numbers(
    per_row: bool, direction: str
) -> None:
    """Exactly as a layer of those numbers, and as onnxruntime up to the bytes of its states."""
    d, hidden, width = 1 + (direction == "bidirectional"), 6, 3
    x = _R.uniform(-1, 1, (4, 2, width)).astype(np.float32)
    bias = _R.uniform(-1, 1, (d, 8 * hidden)).astype(np.float32)
    lengths = np.array([4, 3], np.int32)
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "clip": 2.0}
    quantised: list[np.ndarray] = []
    numbers: list[np.ndarray] = []
    scales: list[np.ndarray] = []
    for rows in (width, hidden):
        shape = (d, 4 * hidden) if per_row else (d,)
        codes = _R.integers(-128, 128, (d, rows, 4 * hidden)).astype(np.int8)
        # Of scales per row onnxruntime takes weights without a zero point only.
        zero = np.zeros(shape, np.int8) if per_row else np.arange(3, 3 + d).astype(np.int8)
        scale = _R.uniform(0.003, 0.006, shape).astype(np.float32)
        at = (slice(None), None) if per_row else (slice(None), None, None)
        number = (codes.astype(np.float32) - zero[at]) * scale[at]
        numbers.append(np.ascontiguousarray(number.swapaxes(1, 2), np.float32))
        quantised.append(codes)
        scales += [scale, zero]
    outputs = ["y", "h", "c"]
    plain, feeds = one_node("LSTM", [x, *numbers, bias, lengths], outputs, domain="", **attributes)
    parts = [x, *quantised, bias, lengths, None, None, None, *scales]
    model, given = one_node(
        "DynamicQuantizeLSTM", parts, outputs, domain="com.microsoft", **attributes
    )
    # Weights are constants here, as in all models: the layer is native then.
    for name in [p.name for p in model.graph.input if p.name not in ("x0", "x4")]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(given.pop(name), name))
    kept = [p for p in model.graph.input if p.name in given]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    net = irc.compile_model(model)
    assert not net.plan.host_steps(), net.report()
    found = net(given)
    for source, inputs, tolerance in ((plain, feeds, 2e-5), (model, given, 0.03)):
        session = create_session(source)
        for got, want in zip(found, session.run(None, inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[0, 2], [0, 0], [4, 0]])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("op_type", GATES)
def test_empty_sequences_end_in_zeros(
    op_type: str, constant: bool, lengths: list[int], direction: str
) -> None:
    """Whatever their initial states, as in onnxruntime; native code with constant weights."""
    d, g, hidden, width = 1 + (direction == "bidirectional"), GATES[op_type], 5, 3
    shapes = [(4, 2, width), (d, g * hidden, width), (d, g * hidden, hidden), (d, 2 * g * hidden)]
    inputs = [_R.uniform(-1, 1, s).astype(np.float32) for s in shapes]
    states = [_R.uniform(-1, 1, (d, 2, hidden)).astype(np.float32)] * (1 + (op_type == "LSTM"))
    outputs = ["y", "h", "c"][: 1 + len(states)]
    all_inputs = [*inputs, np.array(lengths, np.int32), *states]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    model, given = one_node(op_type, all_inputs, outputs, domain="", **attributes)
    if constant:
        for name in ("x1", "x2", "x3"):
            model.graph.initializer.append(onnx.numpy_helper.from_array(given.pop(name), name))
        kept = [p for p in model.graph.input if p.name in given]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        assert not irc.compile_model(model).plan.host_steps()
    compare(model, given, rtol=2e-5, atol=2e-5)
