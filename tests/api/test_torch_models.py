"""from_torch: modules of PyTorch as models of irc. scripts/extended.sh torch runs this."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest

requires_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="not run: torch is not installed"
)
pytestmark = pytest.mark.slow


def make_network(torch: Any) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5)]
    return torch.nn.Sequential(*layers, torch.nn.Softmax(-1)).eval()


@requires_torch
def test_a_module_gives_the_same() -> None:
    torch = importlib.import_module("torch")
    network = make_network(torch)
    x = torch.randn(2, 3, 8, 8)
    model = irc.from_torch(network, (x,))
    assert model.inputs[0].shape == (2, 3, 8, 8)
    want = network(x).detach().numpy()
    np.testing.assert_allclose(irc.compile_model(model)(x)[0], want, rtol=1e-4, atol=1e-6)


@requires_torch
def test_dynamic_sizes_keep_their_equality() -> None:
    torch = importlib.import_module("torch")

    class Sum(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return torch.relu(a + b) @ b.T

    batch = torch.export.Dim("batch", min=2, max=64)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    model = irc.from_torch(Sum(), (a, b), dynamic_shapes=({0: batch}, {0: batch}))
    shapes = [p.shape for p in model.inputs]
    assert shapes[0] == shapes[1] and isinstance(shapes[0][0], str) and shapes[0][1] == 4
    a, b = torch.randn(7, 4), torch.randn(7, 4)
    want = Sum()(a, b).numpy()
    got = irc.compile_model(model)([a, b])[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@requires_torch
def test_an_exported_program_and_inputs_by_name() -> None:
    torch = importlib.import_module("torch")
    network = make_network(torch)
    x = torch.randn(1, 3, 8, 8)
    program = torch.export.export(network, (x,))
    want = network(x).detach().numpy()
    for model in (irc.from_torch(program), irc.from_torch(network, {"input": x})):
        np.testing.assert_allclose(irc.compile_model(model)(x)[0], want, rtol=1e-4, atol=1e-6)


@requires_torch
def test_a_module_that_torch_cannot_export() -> None:
    torch = importlib.import_module("torch")

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(irc.UsageError, match=r"torch\.export cannot export"):
        irc.from_torch(Branch(), torch.randn(3))


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(irc.UsageError, match="pip install torch openvino"):
        irc.from_torch(object())
