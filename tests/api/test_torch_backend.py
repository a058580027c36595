"""torch.compile(module, backend="irc"). scripts/extended.sh torch runs this."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from irc_compiler.api import torch_backend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torch") is None, reason="not run: torch is not installed"),
]


@pytest.fixture
def torch() -> Any:
    module = importlib.import_module("torch")
    module._dynamo.reset()
    module.manual_seed(0)
    torch_backend.reports.clear()
    return module


def test_torch_finds_the_backend(torch: Any) -> None:
    assert "irc" in torch.compiler.list_backends()


def test_dynamic_sizes_are_compiled_once(torch: Any) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    compiled = torch.compile(network.eval(), backend="irc", dynamic=True)
    with torch.no_grad():
        for rows in (2, 3, 5, 9):
            x = torch.randn(rows, 4)
            np.testing.assert_allclose(compiled(x), network(x), rtol=1e-4, atol=1e-5)
    (report,) = torch_backend.reports
    assert report.operations >= 3 and report.models == 1 and report.eager == ()
    assert str(report).startswith(f"{report.operations} operations in 1 models")


def test_unsupported_operations_stay_in_eager_and_are_listed(torch: Any) -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return torch.special.bessel_j0(self.layer(x)) + self.layer(x) * x.shape[0]

    network = Mixed().eval()
    compiled = torch.compile(network, backend="irc", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5):
            x = torch.randn(rows, 4)
            np.testing.assert_allclose(compiled(x), network(x), rtol=1e-4, atol=1e-5)
    (report,) = torch_backend.reports
    assert report.models == 2 and report.operations > 3
    assert [name for name, _ in report.eager] == ["aten.special_bessel_j0.default"]


def test_outputs_are_taken_without_a_copy(torch: Any) -> None:
    compiled = torch.compile(torch.nn.ReLU(), backend="irc")
    with torch.no_grad():
        one, two = compiled(torch.ones(4)), compiled(-torch.ones(4))
    assert one.tolist() == [1] * 4 and two.tolist() == [0] * 4
    one += 1  # fresh memory of the call, which torch may write
    assert one.tolist() == [2] * 4


def test_graphs_that_need_gradients_stay_with_torch(torch: Any) -> None:
    network = torch.nn.Linear(3, 2)
    compiled = torch.compile(network, backend="irc")
    x = torch.randn(2, 3, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad is not None
    (report,) = torch_backend.reports
    assert report.models == 0 and {reason for _, reason in report.eager} == {"needs gradients"}


def test_options_reach_irc(torch: Any) -> None:
    compiled = torch.compile(torch.nn.Linear(64, 64), backend="irc", options={"num_threads": 1})
    with torch.no_grad():
        assert compiled(torch.randn(2, 64)).shape == (2, 64)
    assert torch_backend.reports[0].models == 1
