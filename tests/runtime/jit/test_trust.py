"""What docs/security.md says about trust, sentence by sentence, and that irc does it: stored
machine code that computes something else than its plan says tells which of the two has run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.cli.main import COMMANDS, main
from irc_compiler.runtime.jit import program
from irc_compiler.runtime.jit.disk_cache import DiskCache
from irc_compiler.runtime.jit.host_features import choose_isa
from support.artifacts import kernels, with_other_code

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
SAID = """
    nothing in it is ever run
    its plan is verified as if forged (`plan/verify/plan.py`), and machine code is generated from it
    With `irc compile --with-code` (in Python `net.export(path, code=True)`) a `.irc` also holds
    It is not run when the file is loaded: kernels come from your own code cache
    or are compiled again, and `irc run -v` says so
    Only `--trust-code` of `irc run` and `irc profile` (`irc.compile_model(path, trust_code=True)`)
    runs the code of the file
    it means what running a program from the file's author means: the code has all your rights
    irc checks that the file is whole, and that the code is of this version for this CPU's features
    irc cannot verify that the code is harmless
""".strip().splitlines()
X = np.array([[-1, 2, -3, 4]], np.float32)


@pytest.mark.parametrize("sentence", [s.strip() for s in SAID])
def test_the_page_says_it(sentence: str) -> None:
    text = PAGE.read_text().split("## Trust\n")[1].split("\n## ")[0]
    assert sentence in re.sub(r"\s+", " ", text)


def exported(build: Callable[[Any], Any], path: Path) -> bytes:
    x = ops.parameter("x", ["N", 4])
    net = irc.compile_model(ops.model({"y": build(x)}), num_threads=1)
    net.export(path, code=True)
    return path.read_bytes()


@pytest.fixture
def lying(cold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole, well-formed artefact of y = |x| whose machine code computes y = -x; nothing of it
    is in the cache or in this process."""
    path = tmp_path / "net.irc"
    other = exported(ops.negative, path)
    honest = exported(ops.abs, path)
    ((theirs, _, _),), ((mine, _, _),) = kernels(other), kernels(honest)
    taken: list[bytes] = []
    with_other_code(other, lambda code: taken.append(code) or code)
    symbol, wanted = (program._symbol(key).encode() for key in (theirs, mine))
    assert symbol in taken[0]
    path.write_bytes(with_other_code(honest, lambda _: taken[0].replace(symbol, wanted)))
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "empty"))
    program._loaded.clear()
    return path


def loads(path: Path) -> Mapping[str, Callable[[], irc.CompiledModel]]:
    return {
        "compile_model": lambda: irc.compile_model(path),
        "load": lambda: irc.CompiledModel.load(path),
        "bytes": lambda: irc.compile_model(path.read_bytes()),
        "Predictor": lambda: irc.Predictor(path).net,
        "trust_code=False": lambda: irc.compile_model(path, trust_code=False),
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", loads(Path()))
def test_the_files_code_is_left_alone(how: str, lying: Path) -> None:
    assert (loads(lying)[how]()(X)[0] == np.abs(X)).all()


def test_trusted_it_runs_whatever_it_does(lying: Path) -> None:
    net = irc.compile_model(lying, trust_code=True)
    assert net.has_stored_code and (net(X)[0] == -X).all()
    # Nobody else gets it: neither another load, nor a pickle of it, nor the cache.
    assert (irc.compile_model(lying)(X)[0] == np.abs(X)).all()
    program._loaded.clear()
    assert (irc.compile_model(lying)(X)[0] == np.abs(X)).all()
    # What is the user's own goes before the file's.
    assert (irc.compile_model(lying, trust_code=True)(X)[0] == np.abs(X)).all()


@pytest.mark.slow
def test_on_the_command_line(lying: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    for words, wanted, said in (
        ([], np.abs(X), "machine code is not used"),
        (["--trust-code"], -X, "machine code is trusted"),
    ):
        run = [
            sys.executable,
            "-m",
            "irc_compiler",
            "run",
            "net.irc",
            "--input",
            "x=x.npy",
            "-v",
            *words,
        ]
        done = subprocess.run(
            [*run, "-o", "y.npy"], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "IRC_CACHE_DIR": str(tmp_path / f"c{len(words)}")},
        )  # fmt: skip
        assert done.returncode == 0 and said in done.stderr, done.stderr
        assert (np.load(tmp_path / "y.npy") == wanted).all()


def test_it_is_another_versions_or_cpus_no_more(
    lying: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trusted or not: such code is not found, and the kernels are compiled."""
    with monkeypatch.context() as patch:
        patch.setattr(program, "_generators", lambda: "another irc")
        assert (irc.compile_model(lying, trust_code=True)(X)[0] == np.abs(X)).all()
    if choose_isa() == "plain":
        pytest.skip("not run: this machine has one instruction set")
    monkeypatch.setenv("IRC_ISA", "plain")
    assert (irc.compile_model(lying, trust_code=True)(X)[0] == np.abs(X)).all()


def test_a_cache_that_others_can_write_is_not_ones_own(lying: Path, tmp_path: Path) -> None:
    """The code of a stranger in such a folder is not run: the folder is not a cache."""
    shared = tmp_path / "empty"
    trusted = irc.compile_model(lying, trust_code=True)
    assert (trusted(X)[0] == -X).all()
    (key, _, _), taken = kernels(lying.read_bytes())[0], list[bytes]()
    with_other_code(lying.read_bytes(), lambda code: taken.append(code) or code)
    DiskCache(shared).put(key, taken[0])
    shared.chmod(0o777)
    assert (irc.compile_model(lying)(X)[0] == np.abs(X)).all()
    program._loaded.clear()
    shared.chmod(0o700)  # one's own folder is one's own: what lies there runs
    assert (irc.compile_model(lying)(X)[0] == -X).all()
    program._loaded.clear()


def test_only_two_verbs_have_the_option_trust(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in COMMANDS:
        assert main([verb, "--help"]) == 0
        assert ("--trust-code" in capsys.readouterr().out) == (verb in ("run", "profile"))
