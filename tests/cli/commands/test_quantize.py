"""irc quantize: what it writes and prints, bad input, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.cli.main import main
from support.quantization import nets

Captured = pytest.CaptureFixture[str]
METRIC = """
import numpy as np

DATA = dict(np.load("samples.npz"))


def agreement(run):
    return float((run(DATA)["y"].argmax(axis=1) == np.load("wanted.npy")).mean())


def fails(run):
    raise ValueError("no labels")


def batches():
    yield DATA
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """model.onnx, samples.npz, wanted.npy and the module `metrics`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("metrics", None)
    model, data = nets.mlp()
    onnx.save(model, "model.onnx")
    x = np.concatenate([batch["x"] for batch in data])
    np.savez("samples.npz", x=x)
    np.save("wanted.npy", irc.compile_model(model)(x)[0].argmax(axis=1))
    Path("metrics.py").write_text(METRIC)
    return tmp_path


@pytest.mark.slow
def test_report_and_metric(folder: Path, capsys: Captured) -> None:
    words = "quantize model.onnx --data samples.npz --metric metrics:agreement --max-drop 0.2"
    assert main([*words.split(), "--report", "report.html", "-o", "out.xml"]) == 0
    out = capsys.readouterr().out
    assert "quantized 4 of 4 layers" in out and "times as fast" in out and "SQNR" in out
    assert "metric " in out and "written out.xml" in out
    page = Path("report.html").read_text()
    assert page.count("<tr>") == 5 and "<svg" in page and "http" not in page
    assert irc.compile_model("out.xml").inputs[0].name == "x"


@pytest.mark.slow
def test_json_and_default_output(folder: Path, capsys: Captured) -> None:
    assert main("quantize model.onnx --data metrics:batches --json".split()) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["output"] == "model-int8.onnx" and len(state["quantized"]) == 4
    assert Path("model-int8.onnx").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--data samples.npz -o out.bin", 2, "the output's name has the wrong ending"),
        ("--data nothing.npz", 3, "the calibration data are not there"),
        ("--data metrics:nothing", 2, "the function of --data cannot be loaded"),
        ("--data samples.npz --metric nothing:f", 2, "the function of --metric cannot be loaded"),
        ("--data samples.npz --metric metrics:DATA", 2, "--metric names no function"),
        ("--data samples.npz --metric metrics:fails", 5, "the metric raises an error"),
        ("", 2, "calibration data are missing"),
        ("--data samples.npz --report report.txt", 2, "the report's name has the wrong ending"),
        ("--data samples.npz --keep missing", 2, "no layer that can be quantized has this name"),
        ("--data samples.npz --min-samples 100", 5, "too few calibration samples"),
    ],
)
def test_one_clear_error(
    folder: Path, capsys: Captured, words: str, code: int, message: str
) -> None:
    before = sorted(folder.iterdir())
    assert main(["quantize", "model.onnx", *words.split()]) == code
    assert message in capsys.readouterr().err
    left = sorted(p for p in folder.iterdir() if p.name != "__pycache__")
    assert left == [p for p in before if p.name != "__pycache__"]


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(folder: Path) -> None:
    """Ctrl-C while batches are read."""
    Path("endless.py").write_text(
        "import itertools, pathlib, numpy as np\n"
        "def batches():\n"
        "    for number in itertools.count():\n"
        "        if number == 5: pathlib.Path('begun').touch()\n"
        "        yield {'x': np.zeros((8, 64), np.float32)}\n"
    )
    before = {p.name for p in folder.iterdir()}
    command = [sys.executable, "-m", "irc_compiler", "quantize", "model.onnx"]
    with subprocess.Popen(
        [*command, "--data", "endless:batches"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not Path("begun").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130 and "interrupted" in err
    assert {p.name for p in folder.iterdir()} - before <= {"begun", "__pycache__"}
