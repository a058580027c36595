"""Hostile files end in one clear error: soon, in little memory, with no traceback and no signal.

The whole table is met by one process of the command line's code (a signal would end it); each
command's time and memory are measured inside. 256 MiB above the file's size and 5 s are the bound.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.main import main
from irc_compiler.compiler.frontends.xml.reader import read_xml
from support.reliability import hostile_onnx
from support.reliability.hostile_case import Hostile
from support.reliability.hostile_files import ALL, CONST, artifact

from fuzz.broken_files import within_limits

CLASSES = collections.Counter(h.kind for h in ALL)

# Words of libraries and of Python, which do not help the owner of the file.
FOREIGN = ("XML_PARSE", "xmlCtxt", "upb_", "__init__", "allow_pickle", "positional argument")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What commands import, and this machine's code, before memory is measured."""
    irc.CompiledModel.load(artifact())(np.zeros((1, 64), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda h: f"{h.kind}, {h.name}".replace("/", " "))
def test_one_clear_error(
    case: Hostile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: Sequence[str] = case.make(tmp_path)
    # A file with holes is as large as what of it is stored.
    size = sum(p.stat().st_blocks * 512 for p in tmp_path.rglob("*") if p.is_file())
    with within_limits(size):
        code = main(list(arguments))
    out, err = capsys.readouterr()
    assert code == case.code, err
    assert out == "" and err.startswith("irc: error: ") and "Traceback" not in err
    assert "internal error" not in err and len(err) < 5000
    assert "\n  got: " in err and "\n  expected: " in err, err
    assert not any(word in err for word in FOREIGN), err
    # What is wrong, and where; in the file of which name, unless it is a run that fails.
    assert "\n  where: " in err, err
    names = {path.name for path in tmp_path.rglob("*")} | {"m.bin"}
    assert case.code == 5 or any(name in err for name in names), err
    for word in case.words:
        assert word in err, err


def test_every_class_of_the_page_has_a_case() -> None:
    """docs/dev/testing.md lists the classes: the list is this one."""
    page = Path(__file__).resolve().parents[2] / "docs" / "dev" / "testing.md"
    text = " ".join(page.read_text().split())
    missing = [kind for kind in CLASSES if kind not in text]
    assert not missing, missing


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [
        hostile_onnx.node("Relu", ["t"], ["y"]),
        hostile_onnx.node("Neg", ["x"], ["t"]),
    ]
    x = np.array([[1, -2, 3], [0, 1, -1]], np.float32)
    found = irc.compile_model(hostile_onnx.model_of(nodes).SerializeToString())(x)
    assert (found[0] == np.maximum(-x, 0)).all()


def test_a_good_bomb_is_no_bomb() -> None:
    """Folding stops at its limit, not at the size that a model may have: it is made at run time."""
    nodes = [hostile_onnx.node("Expand", ["w", "s"], ["y"])]
    made = [
        hostile_onnx.constant("w", np.float32(1)),
        hostile_onnx.constant("s", np.array([1 << 13, 1 << 12])),
    ]
    net = irc.compile_model(hostile_onnx.model_of(nodes, tensors=made).SerializeToString())
    assert net.program.constant_bytes < 1 << 20
    assert net(np.zeros((2, 3), np.float32))[0].shape == (1 << 13, 1 << 12)


def test_strings_take_memory_too() -> None:
    """A string that doubles 50 times: its size is known once it is there."""
    net = irc.compile_model(hostile_onnx.STRINGS, max_memory=1 << 20)
    with within_limits(0), pytest.raises(irc.MemoryLimitError, match="strings") as caught:
        net([])
    assert "OnnxNode t17" in str(caught.value)


@pytest.mark.slow
def test_folding_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """300 operations on 8 MiB that nobody stored: none makes the constants grow after the first."""
    names = [f"t{n}" for n in range(301)]
    nodes = [hostile_onnx.node("ConstantOfShape", ["s"], ["t0"])]
    nodes += [hostile_onnx.node("Erf", [a], [b]) for a, b in itertools.pairwise(names)]
    nodes.append(hostile_onnx.node("Identity", ["t300"], ["y"]))
    made = [hostile_onnx.constant("s", np.array([1 << 21]))]
    model = hostile_onnx.model_of(nodes, tensors=made).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(model)
    with within_limits(len(model)):
        assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("how", ["truncated", "replaced"])
def test_weights_that_change_under_the_reader(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The .bin is cut or overwritten after it was opened: an error, or the bytes as they were."""
    model, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    model.write_bytes(CONST)
    weights.write_bytes(np.arange(7, dtype=np.float32).tobytes())
    real, done = os.fstat, [False]

    def change(handle: int) -> os.stat_result:
        status = real(handle)
        if status.st_ino == weights.stat().st_ino and not done[0]:
            done[0] = True
            if how == "truncated":
                os.truncate(weights, 5)
            else:
                other = tmp_path / "other"
                other.write_bytes(bytes(28))
                os.replace(other, weights)
        return status

    monkeypatch.setattr(os, "fstat", change)
    if how == "truncated":
        with pytest.raises(irc.Error) as caught:
            read_xml(model)
        assert "m.bin" in str(caught.value) and "shorter" in str(caught.value)
        return
    graph = read_xml(model)
    (data,) = [graph.op(n).data for n in graph.ids() if graph.op(n).kind == "Constant"]
    assert data.reshape(-1).tolist() == [1, 2, 3, 4, 5, 6] and done[0]


@pytest.mark.slow
def test_the_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    """As users run it, with a hard limit of memory: three of the classes."""
    import resource
    import subprocess
    import sys

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    for kind in ("exponential functions", "DOCTYPE or entities", "artefact forged"):
        case = next(h for h in ALL if h.kind == kind)
        folder = tmp_path / kind
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "irc_compiler", *case.make(folder)],
            cwd=folder, capture_output=True, text=True, timeout=300, preexec_fn=limit,
        )  # fmt: skip
        assert done.returncode == case.code and "Traceback" not in done.stderr, done.stderr
