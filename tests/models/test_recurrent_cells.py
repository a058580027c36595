"""OpenVINO's recurrent cells, alone and in a TensorIterator: native, with OpenVINO's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op
from support.models.exact_int8 import OPENVINO_CONFIG

Node = Any
CELLS: dict[str, tuple[int, int]] = {
    "rnn": (1, 1),
    "gru": (3, 3),
    "gru_linear": (3, 4),
    "lstm": (4, 4),
}


def weights(rng: np.random.Generator, name: str, inputs: int, hidden: int) -> list[np.ndarray]:
    gates, rows = CELLS[name]
    shapes = [(gates * hidden, inputs), (gates * hidden, hidden), (rows * hidden,)]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def cell(
    name: str, x: Node, states: list[Node], given: list[np.ndarray], hidden: int
) -> list[Node]:
    if name == "lstm":
        made = op.lstm_cell(x, *states, *given, hidden)
        return [made.output(0), made.output(1)]
    if name == "rnn":
        return [op.rnn_cell(x, *states, *given, hidden, ["tanh"], [], []).output(0)]
    linear = name == "gru_linear"
    return [op.gru_cell(x, *states, *given, hidden, linear_before_reset=linear).output(0)]


def check(model: ov.Model, inputs: list[np.ndarray], folder: Path) -> None:
    ov.save_model(model, folder / "m.xml", compress_to_fp16=False)
    wanted = ov.Core().compile_model(model, "CPU", OPENVINO_CONFIG)(inputs)
    net = irc.compile_model(folder / "m.xml")
    assert not net.plan.host_steps(), net.report()
    for n, got in enumerate(net(inputs)):
        assert got.shape == wanted[n].shape
        np.testing.assert_allclose(got, wanted[n], rtol=1e-5, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [3, -1])
@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str, batch: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for hidden, size in ((5, 3), (16, 8)):
        x = op.parameter([batch, size], np.float32)
        states = [op.parameter([batch, hidden], np.float32) for _ in range(1 + (name == "lstm"))]
        outs = cell(name, x, states, weights(rng, name, size, hidden), hidden)
        inputs = [rng.standard_normal((3, s)).astype(np.float32) for s in (size, hidden, hidden)]
        check(ov.Model(outs, [x, *states]), inputs[: 1 + len(states)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_cells_in_a_loop(name: str, backwards: bool, tmp_path: Path) -> None:
    """Parts of X, along time, go in; every state and the last one come out."""
    rng = np.random.default_rng(8)
    hidden, size, time, batch = 8, 4, 6, 2
    outer = [op.parameter([batch, time, size], np.float32)]
    part = op.parameter([batch, 1, size], np.float32)
    count = 1 + (name == "lstm")
    first = [op.parameter([batch, hidden], np.float32) for _ in range(count)]
    states = [op.parameter([batch, hidden], np.float32) for _ in range(count)]
    axis = op.constant([1])
    given = weights(rng, name, size, hidden)
    fresh = cell(name, op.squeeze(part, axis), states, given, hidden)
    wide = op.unsqueeze(fresh[0], axis)
    loop = op.tensor_iterator()
    loop.set_body(ov.Model([wide.output(0), *fresh], [part, *states]))
    way = (-1, -1, 1, 0) if backwards else (0, 1, 1, -1)
    loop.set_sliced_input(part, outer[0].output(0), *way, 1)
    for inside, start, end in zip(states, first, fresh, strict=True):
        loop.set_merged_input(inside, start.output(0), end)
    every = loop.get_concatenated_slices(wide.output(0), *way, 1)
    last = loop.get_iter_value(fresh[0], -1)
    inputs = [rng.standard_normal((batch, time, size)).astype(np.float32)]
    inputs += [rng.standard_normal((batch, hidden)).astype(np.float32) for _ in first]
    check(ov.Model([every, last], [*outer, *first]), inputs, tmp_path)


def test_weights_known_at_run_time_only_stay_outside(tmp_path: Path) -> None:
    x, h, w = (op.parameter(s, np.float32) for s in ([2, 3], [2, 4], [4, 3]))
    rng = np.random.default_rng(9)
    r, b = rng.standard_normal((4, 4)).astype(np.float32), np.zeros(4, np.float32)
    model = ov.Model([op.rnn_cell(x, h, w, r, b, 4, ["tanh"], [], []).output(0)], [x, h, w])
    ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    net = irc.compile_model(tmp_path / "m.xml")
    assert [s.op.kind for s in net.plan.host_steps()] == ["RNNCell"]
