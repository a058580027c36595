"""Convolutional networks against onnxruntime; every step runs natively."""

from __future__ import annotations

import irc
import numpy as np
import onnx
import pytest

from models import convnets
from models.oracles import random_inputs, run_onnxruntime

NETS = {"resnet": convnets.resnet, "mobilenet": convnets.mobilenet, "inception": convnets.inception}


def check(net: irc.CompiledModel, model: onnx.ModelProto, **dims: int) -> np.ndarray:
    inputs = random_inputs(model, **dims)
    (expected,) = run_onnxruntime(model, inputs).values()
    (found,) = net(inputs)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= 1e-5 * np.max(np.abs(expected))
    return np.array(found)


@pytest.mark.parametrize("name", NETS)
def test_against_onnxruntime(name: str) -> None:
    model = NETS[name]()
    nets = [irc.compile_model(model, num_threads=n) for n in (1, 2)]
    assert not nets[0].plan.host_steps()
    one, two = (check(net, model) for net in nets)
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("name", NETS)
def test_symbolic_batch(name: str) -> None:
    model = NETS[name](33, batch="N")
    net = irc.compile_model(model)
    assert not net.plan.host_steps()
    for batch in (1, 3):
        check(net, model, N=batch)
