"""`irc compile` and `irc run` on artefacts: results, messages, exit codes, nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.formatting import format_bytes
from irc_compiler.cli.main import main

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a model, its artefact and a batch."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", "model.onnx")
    images = np.load(DIGITS / "held_out.npz")["images"]
    np.save("x.npy", (images[:5].reshape(5, 64) / 16).astype(np.float32))
    assert main(["compile", "model.onnx", "-o", "m.irc"]) == 0
    return tmp_path


def answer(model: str, *options: str) -> np.ndarray:
    assert main(["run", model, "--input", "image=x.npy", "-o", "y.npy", *options]) == 0
    return np.load("y.npy")


def test_an_artefact_runs_like_its_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "model.onnx"]) == 0
    compiled = capsys.readouterr().out
    size = (folder / "model.irc").stat().st_size
    assert "precision  f32" in compiled
    assert f"written    model.irc, {format_bytes(size)}" in compiled
    assert (folder / "model.irc").read_bytes() == (folder / "m.irc").read_bytes()
    (folder / "model.onnx").rename(folder / "moved.onnx")  # the artefact needs nothing next to it
    assert (answer("m.irc") == answer("moved.onnx")).all()
    assert (answer("m.irc", "--shape", "image=5,64") == answer("m.irc")).all()


@pytest.mark.slow
def test_precision_of_an_artefact_is_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "model.onnx", "--precision", "bf16", "-o", "short.irc"]) == 0
    assert "precision  bf16" in capsys.readouterr().out
    assert irc.compile_model("short.irc").plan.precision == "bf16"
    assert (answer("short.irc", "--precision", "f32") == answer("m.irc")).all()


def test_an_artefact_is_compiled_again(folder: Path) -> None:
    before = (folder / "m.irc").read_bytes()
    assert main(["compile", "m.irc", "-o", "again.irc"]) == 0
    assert (folder / "again.irc").read_bytes() == before
    assert main(["compile", "m.irc", "--shape", "image=5,64", "-o", "m.irc"]) == 0
    assert irc.compile_model("m.irc").inputs[0].shape == (5, 64)


BROKEN = {
    "cut short": (lambda data: data[:-100], "cut short"),
    "a changed byte": (lambda data: data[:3000] + b"\0" + data[3001:], "damaged"),
    "another version": (lambda data: data[:8] + b"\7" + data[9:], "version 7"),
    "a model renamed": (lambda _: (DIGITS / "digits.onnx").read_bytes(), "not an irc artefact"),
    "empty": (lambda _: b"", "an empty file"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("verb", ["run", "compile"])
def test_broken_artefacts(
    name: str, verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, word = BROKEN[name]
    (folder / "broken.irc").write_bytes(change((folder / "m.irc").read_bytes()))
    before = sorted(folder.iterdir())
    capsys.readouterr()
    more = ["--input", "image=x.npy"] if verb == "run" else []
    output = "y.npz" if verb == "run" else "out.irc"
    assert main([verb, "broken.irc", *more, "-o", output]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    assert err.startswith("irc: error: ") and word in err and "broken.irc" in err and "fix:" in err
    assert sorted(folder.iterdir()) == before


def test_an_artefact_that_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert main(["compile", "model.onnx", "-o", "no/such/m.irc"]) == 5
    assert "cannot be written" in capsys.readouterr().err
    (folder / "d.irc").mkdir()
    assert main(["compile", "model.onnx", "-o", "d.irc"]) == 5
    (folder / "d.irc").rmdir()
    assert sorted(folder.iterdir()) == before
