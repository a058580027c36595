"""`install("openvino")` next to OpenVINO: its models and tensors, run by irc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from irc_compiler.compat import install, uninstall
from irc_compiler.compat.openvino import CompiledModel, InferRequest

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
RealModel, real_compile = ov.Model, ov.compile_model


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The report of sessions, while irc runs OpenVINO's models."""
    monkeypatch.setenv("IRC_SHIM_REPORT", str(tmp_path / "report"))
    assert install("openvino") is ov and install("openvino") is ov
    yield tmp_path / "report"
    uninstall("openvino")
    assert ov.compile_model is real_compile and ov.Core().__class__.__module__ != __name__


def random_picture() -> Any:
    return np.random.default_rng(0).random((2, 1, 8, 8), np.float32)


def test_models_are_openvinos_and_irc_runs_them(installed: Path) -> None:
    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1})
    model = core.read_model(DIGITS)
    assert type(model) is RealModel and core.available_devices == ["CPU"]
    compiled: Any = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    assert isinstance(compiled, CompiledModel) and isinstance(compiled, ov.CompiledModel)
    request = compiled.create_infer_request()
    assert isinstance(request, InferRequest)
    port = model.input(0)
    x = random_picture().reshape([2, *[d.get_length() for d in list(port.partial_shape)[1:]]])
    want = compiled(x)[0]
    # OpenVINO's own tensors and ports are taken, too.
    assert np.array_equal(compiled([ov.Tensor(x)])[model.output(0)], want)
    request.set_tensor(port, ov.Tensor(x))
    request.infer()
    assert np.array_equal(request.get_tensor(model.output(0)).data, want)
    mine = np.empty_like(want)
    request.set_output_tensor(0, ov.Tensor(mine, shared_memory=True))
    request.infer([x])
    assert np.array_equal(mine, want)
    lines = [json.loads(line) for line in installed.read_text().splitlines()]
    assert [line["engine"] for line in lines] == ["irc"]


def test_the_module_compiles_with_irc() -> None:
    compile_model: Any = ov.compile_model
    assert isinstance(compile_model(str(DIGITS), {"INFERENCE_NUM_THREADS": "1"}), CompiledModel)


def test_a_model_that_irc_does_not_support_goes_to_openvino(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from irc_compiler import UnsupportedOperationError, api

    def refuse(*given: Any, **named: Any) -> Any:
        raise UnsupportedOperationError("irc has no such operation", got="Strange")

    monkeypatch.setattr(api, "compile_model", refuse)
    core = ov.Core()
    compiled = core.compile_model(core.read_model(DIGITS), "CPU", {"NUM_STREAMS": "1"})
    assert not isinstance(compiled, CompiledModel) and len(compiled.outputs) > 0
    (line,) = [json.loads(line) for line in installed.read_text().splitlines()]
    assert line["engine"] == "openvino" and "Strange" in line["reason"]


@pytest.mark.slow
def test_the_shim_runs_a_program_that_imports_openvino() -> None:
    program = (
        "import openvino, openvino.opset13; from openvino import Core; c = Core()\n"
        f"print(type(c.compile_model(c.read_model({str(DIGITS)!r}), 'CPU')).__module__)"
    )
    command = [sys.executable, "-m", "irc_compiler", "shim", "--report", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[0] == "irc_compiler.compat.openvino.compiled_model"
    assert "1 sessions" in done.stdout + done.stderr


@pytest.mark.slow
def test_without_openvino_the_stand_in_is_all_there_is() -> None:
    code = f"""
from irc_compiler.compat import install, stand_ins
stand_ins._folders_of = lambda name: []
ov = install("openvino")
import openvino.runtime, openvino.preprocess
import openvino.properties.hint as hint
from openvino.opset13 import relu
from openvino import Core
assert Core is ov.Core and openvino is ov
core = Core()
core.set_property("CPU", {{hint.performance_mode: hint.PerformanceMode.LATENCY}})
print(core.compile_model(core.read_model({str(DIGITS)!r}), "CPU").net is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.strip() == "True", done.stderr
