"""Control flow end to end, bit for bit what onnxruntime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc
import numpy as np
import onnxruntime
import pytest

from .control_flow import INPUTS, TEXTS, control_flow


def same(got: Any, wanted: list[np.ndarray[Any, Any]]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def rival(name: str) -> onnxruntime.InferenceSession:
    text = control_flow(name).SerializeToString()
    return onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TEXTS)
def test_same_as_onnxruntime(name: str, threads: int) -> None:
    net, other = irc.compile_model(control_flow(name), num_threads=threads), rival(name)
    for make in INPUTS[name]:
        inputs = make()
        wanted = other.run(None, inputs)
        same(net(inputs), wanted)
        call = net.bind(inputs)
        same(call(), wanted)
        same(call(), wanted)


@pytest.mark.parametrize("name", TEXTS)
def test_artefacts(name: str, tmp_path: Path) -> None:
    net = irc.compile_model(control_flow(name))
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert again.plan == net.plan
    for make in INPUTS[name]:
        inputs = make()
        same(again(inputs), list(net(inputs)))


def test_bodies_run_by_kernels() -> None:
    """What Python does is choosing and counting: every operation inside has a kernel."""
    for name in TEXTS:
        net = irc.compile_model(control_flow(name))
        kinds = {step.op.kind for step in net.plan.host_steps()}
        assert kinds <= {"Loop", "If", "TensorIterator"}, name
