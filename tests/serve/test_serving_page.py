"""docs/serving.md: its commands and programs run against a server of its own model."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from irc_compiler.serve.model_config import parse_config
from support.serving import Server
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.slow
def test_the_page(tmp_path: Path) -> None:
    digits = ROOT / "samples" / "digits"
    shutil.copy(digits / "digits.onnx", tmp_path / "model.onnx")
    images = np.load(digits / "held_out.npz")["images"]
    np.save(tmp_path / "batch.npy", (images[:9].reshape(9, 64) / 16).astype(np.float32))
    request, config = blocks("json")
    (tmp_path / "request.json").write_text(request)
    parse_config(config.encode(), "the page")
    (start, ask), programs = blocks("sh"), blocks("py")
    assert start.split() == "irc serve model.onnx --http 8000 --grpc 8001".split()
    server = Server(tmp_path / "model.onnx")
    try:
        for line in ask.splitlines():
            answer = run(["bash", "-c", line.replace("localhost:8000", server.http)], tmp_path)
            assert answer and '"error"' not in answer, line
            if "request.json" in line:
                assert len(json.loads(answer)["outputs"][0]["data"]) == 10
        for program in programs:
            program = program.replace("localhost:8000", server.http)
            assert run([sys.executable, "-c", program], tmp_path)
    finally:
        server.stop()


def run(words: list[str], folder: Path) -> str:
    if words[0] == "bash" and shutil.which("curl") is None:
        pytest.skip("not run: curl is not there")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_application_runs_in_other_servers(tmp_path: Path) -> None:
    """`app` behind uvicorn as its users start it, with a lifespan."""
    shutil.copy(ROOT / "samples" / "digits" / "digits.onnx", tmp_path / "model.onnx")
    (tmp_path / "module.py").write_text(blocks("py")[1])
    words = [sys.executable, "-m", "uvicorn", "module:app", "--port", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = ""
        while not port:
            line = process.stderr.readline()
            assert line, "uvicorn ended"
            port = "".join(re.findall(r"running on http://127.0.0.1:(\d+)", line))
        url = f"http://127.0.0.1:{port}/v2/models/model/infer"
        body = blocks("json")[0].encode()

        def answered() -> bool:
            try:
                with urllib.request.urlopen(url, body, timeout=60) as response:
                    return len(json.load(response)["outputs"][0]["data"]) == 10
            except OSError:
                return False

        wait_until(answered)
        process.terminate()
        _, log = process.communicate(timeout=60)
        assert "Application shutdown complete" in log and "Traceback" not in log
    finally:
        process.kill()
