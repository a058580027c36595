"""irc shim: programs that import onnxruntime, unchanged, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from irc_compiler.cli.commands.shim import write_package
from irc_compiler.cli.main import main

DIGITS = Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx"
PROGRAM = f"""
import importlib.metadata, sys
import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
import onnxruntime.quantization.quant_utils
net = ort.InferenceSession({str(DIGITS)!r}, providers=["CPUExecutionProvider"])
(y,) = net.run(None, {{"image": np.zeros((2, 64), np.float32)}})
assert y.shape == (2, 10) and importlib.metadata.version("onnxruntime")
print(type(net).__module__, sys.argv[1:])
sys.exit(3)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_a_program_runs_on_irc(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shim", "--report", "--", sys.executable, program, "--report", "x"]) == 3
    out, err = capfd.readouterr()
    assert "irc_compiler.compat.onnxruntime.session ['--report', 'x']" in out
    assert "1 sessions" in err and f"{DIGITS}: irc" in err.replace("\n", "")


@pytest.mark.slow
def test_nothing_changes_outside_of_the_child(program: str) -> None:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert "onnxruntime.capi" in done.stdout


def test_a_program_without_sessions(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shim", "--report", sys.executable, "-c", "pass"]) == 0
    assert "made no session" in capfd.readouterr().err


def test_a_program_that_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shim", "--", "/nonexistent/program"]) == 2
    assert "does not start" in capsys.readouterr().err
    assert main(["shim"]) == 2
    assert "no program" in capsys.readouterr().err


def test_metadata_where_the_engine_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.metadata

    from irc_compiler.cli.commands import shim

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(shim, "version", missing)
    write_package(tmp_path, "onnxruntime")
    (found,) = importlib.metadata.distributions(name="onnxruntime", path=[str(tmp_path)])
    assert found.version == "1.20.0"
