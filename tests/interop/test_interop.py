"""irc and OpenVINO read each other's IR: a fixed sample of ONNX's node cases (all of them with
`--exhaustive`), scored as `python -m benchmarks.interop` does it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Every 24th case by name: about 70 that OpenVINO converts.
SAMPLE = 24


def _interop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interop", ROOT / "benchmarks" / "interop.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["interop"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["read", "write"])
def test_share_of_what_openvino_converts(direction: str, request: pytest.FixtureRequest) -> None:
    interop = _interop()
    every = 1 if request.config.getoption("--exhaustive") else SAMPLE
    results = interop.score(direction, every=every)
    failed = {name: reason for name, reason in results.items() if reason is not None}
    assert len(results) > 50
    assert interop.share(results) >= interop.BAR, failed
