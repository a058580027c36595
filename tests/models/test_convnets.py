"""Convolutional networks against onnxruntime; every step runs natively."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.runtime.driver.abi import SHARED
from irc_compiler.runtime.execution.session import Session
from support.models import convnets
from support.models.oracles import random_inputs, run_onnxruntime

NETS = {
    "resnet": convnets.resnet,
    "mobilenet": convnets.mobilenet,
    "excited": convnets.excited,
    "inception": convnets.inception,
}


def check(net: irc.CompiledModel, model: onnx.ModelProto, **dims: int) -> np.ndarray:
    inputs = random_inputs(model, **dims)
    (expected,) = run_onnxruntime(model, inputs).values()
    (found,) = net(inputs)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= 1e-5 * np.max(np.abs(expected))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_against_onnxruntime(name: str) -> None:
    model = NETS[name]()
    nets = [irc.compile_model(model, num_threads=n) for n in (1, 2)]
    assert not nets[0].plan.host_steps()
    one, two = (check(net, model) for net in nets)
    assert one.tobytes() == two.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_symbolic_batch(name: str) -> None:
    model = NETS[name](33, batch="N")
    net = irc.compile_model(model)
    assert not net.plan.host_steps()
    for batch in (1, 3):
        check(net, model, N=batch)


@pytest.mark.slow
def test_products_of_squeezed_channels_form_no_tasks() -> None:
    """The calling thread runs these small steps one after the other, whatever shares the images."""
    model = convnets.excited(batch="N")
    net = irc.compile_model(model, num_threads=1)
    families = [s.spec.family for s in net.plan.kernel_steps()]
    pools = [n for n, family in enumerate(families) if family == "reduce"]
    small = [n + i for n in pools[:2] for i in (1, 2)]
    assert {families[n] for n in small} == {"gemm"} and len(pools) == 3
    for batch in (1, 3):
        inputs = list(random_inputs(model, N=batch).values())
        shapes = tuple(a.shape for a in inputs)
        flags = Session(net.program, num_threads=2).regions.layout(0, shapes).flags
        assert not any(flags[n] & SHARED for n in small)
        want = Session(net.program, num_threads=1).run(inputs)
        for threads in (2, 3, 5):
            session = Session(net.program, num_threads=threads, share_work=0, wake_work=0)
            for _ in range(20):
                for a, b in zip(session.run(inputs), want, strict=True):
                    assert a.tobytes() == b.tobytes(), (batch, threads)
