"""Whole models whose machine code is for a machine with AMX, from the file to numbers.

Where the machine has none, its features are claimed and the tile instructions are caught
(amx_trap.py): everything else, workers included, is what such a machine runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.runtime.jit import amx_permission as amx
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.machine import detect as machine
from support.kernels import amx_emulation, amx_trap
from support.kernels.harness import HAS_AMX, TILED
from support.models.convnets import resnet
from support.models.encoders import bert, bert_inputs
from support.models.quantized import static

pytestmark = pytest.mark.skipif(
    not TILED, reason="not run: packing for tiles needs AVX512-BF16 and VNNI, not on this machine"
)


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine with AMX."""
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path))
    if not HAS_AMX:
        features = host.host_features() | set(amx_emulation.FEATURES)
        monkeypatch.setattr(host, "_detect_features", lambda: features)
        monkeypatch.setattr(amx, "_request", lambda: 0)
        amx_trap.catch()
    for cached in (amx._request_permission, machine._target_of):
        cached.cache_clear()
    yield
    for cached in (amx._request_permission, machine._target_of):
        cached.cache_clear()


def _encoder() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    return bert(1, 64, 2, 128, 50, positions=32, scale=0.2), bert_inputs(2, 17, 50)


def _resnet() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    image = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    return resnet(32), {"x": image}


MODELS = {"encoder": _encoder, "resnet": _resnet}


def answers(model: onnx.ModelProto, inputs: Any, **options: Any) -> list[np.ndarray]:
    net = irc.compile_model(model, **options)
    return [np.asarray(found) for found in net(inputs)]


def compared(
    model: onnx.ModelProto, inputs: Any, before: list[np.ndarray], **options: Any
) -> float:
    """The largest error relative to the largest value of `before`; no bit depends on workers."""
    caught = dict(amx_trap.counted)
    found = answers(model, inputs, num_threads=1, **options)
    assert HAS_AMX or amx_trap.counted != caught
    for a, b in zip(answers(model, inputs, num_threads=2, **options), found, strict=True):
        np.testing.assert_array_equal(a, b)
    errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, before, strict=True)]
    amx_emulation.check()
    return float(max(errors))


@pytest.mark.slow
@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("name", ["encoder", "resnet"])
def test_bf16(name: str) -> None:
    model, inputs = MODELS[name]()
    exact = answers(model, inputs)
    assert 1e-5 < compared(model, inputs, exact, precision="bf16") < 2e-2


@pytest.mark.slow
@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("name", ["encoder", "resnet"])
def test_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact on every unit: the same bits as with AVX2."""
    model, inputs = MODELS[name]()
    model = static(model, inputs=inputs)
    with monkeypatch.context() as narrow:
        narrow.setenv("IRC_ISA", "avx2")
        exact = answers(model, inputs)
    assert compared(model, inputs, exact) == 0
