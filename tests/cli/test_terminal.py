"""Every verb on a terminal of 60 columns: no line is wider, and units are ones that people read."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from irc_compiler.cli.main import COMMANDS

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits"
COLUMNS = 60
VERBS = [
    "--help",
    "demo",
    "convert model.onnx -o model.xml",
    "compile model.onnx -o model.irc",
    "run model.onnx --input image=x.npy",
    "bench model.onnx --threads 1,2 --seconds 0.05 --against onnxruntime",
    "compare model.onnx --against reference --layers",
    "profile model.onnx",
    "inspect model.onnx",
    "inspect model.onnx --plan",
    "quantize model.onnx --weights int4 -o int4.onnx",
    "graph model.onnx -o graph.html",
    "doctor",
    "cache list",
]


def on_terminal(words: list[str], folder: Path, **environment: str) -> str:
    """What a command writes to stdout and stderr, which are one terminal."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm"} | environment
    process = subprocess.Popen(words, stdout=theirs, stderr=theirs, cwd=folder, env=env)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait() == 0, text
    return text.decode().replace("\r\n", "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "model.onnx")
    images = np.load(DIGITS / "held_out.npz")["images"]
    np.save(tmp_path / "x.npy", (images[:2].reshape(2, 64) / 16).astype(np.float32))
    return tmp_path


def test_every_verb_is_run() -> None:
    run = {verb.split()[0] for verb in VERBS} - {"--help"}
    other = {"completion", "shim", "serve", "generate", "chat"}
    assert run == COMMANDS.keys() - other, "these do not end with a table"


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_output_fits_the_terminal_and_has_units(verb: str, folder: Path) -> None:
    words = [sys.executable, "-m", "irc_compiler", *verb.split()]
    text = on_terminal(words, folder, IRC_CACHE_DIR=str(folder / "cache"), IRC_PROGRESS="0")
    # A path is not broken.
    lines = (line for line in text.split("\n") if str(folder) not in line)
    wide = [line for line in lines if len(line) > COLUMNS]
    assert not wide, "\n".join(wide)
    # Above 1000 of a unit the next unit is printed.
    assert not re.search(r"\b\d{4,}(\.\d+)? ?(us|ms|KiB|MiB|bytes)\b", text), text


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["profile model.onnx", "bench model.onnx --seconds 0.05"])
def test_first_line_states_the_sizes_that_were_chosen(verb: str, folder: Path) -> None:
    words = [sys.executable, "-m", "irc_compiler", *verb.split()]
    text = on_terminal(words, folder, IRC_PROGRESS="0")
    assert text.startswith("sizes: N=1, chosen by irc; --shape and --input set others\n")
    text = on_terminal([*words, "--shape", "image=3,64"], folder, IRC_PROGRESS="0")
    assert "sizes:" not in text
