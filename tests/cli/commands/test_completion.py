"""`irc completion`: what bash, zsh and fish complete with the scripts it prints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from irc_compiler.cli.commands.completion import bash, fish, zsh
from irc_compiler.cli.main import COMMANDS, main

Captured = pytest.CaptureFixture[str]


def complete(*words: str) -> list[str]:
    listed = " ".join(f"'{w}'" for w in ("irc", *words))
    at = len(words)
    script = f"{bash()}\nCOMP_WORDS=({listed}); COMP_CWORD={at}; _irc; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_completion_of_bash(here: Path) -> None:
    assert complete("co") == ["convert", "compile", "compare", "completion"]
    assert complete("graph", "--pro") == ["--profile"]
    assert complete("compile", "--precision", "") == ["f32", "bf16", "f16"]
    assert complete("compare", "--against", "o") == ["onnxruntime", "openvino"]
    assert complete("cache", "cl") == ["clear"]
    assert complete("inspect", "--declared-shapes", "") == ["check", "ignore"]
    assert complete("bench", "--max") == ["--max-memory"]
    assert complete("run", "x.n") == ["x.npy"]
    every = [w for verb in COMMANDS for w in complete(verb, "--")]
    assert every.count("--verbose") == len(COMMANDS)


# A person at a terminal: types a line, presses Tab once, and sees the word.
AT_A_TERMINAL = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "$1; stty cols 100; echo rea'dy'"
zpty -r z shown "*ready*"
zpty -w -n z "$2"$'\\t'
zpty -r z shown "*$3*"
"""


@pytest.mark.parametrize("how", ["a file in $fpath", "evaluated"])
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("irc co", "completion"),
        ("irc graph --pro", "--profile"),
        ("irc compile --precision ", "bf16"),
        ("irc cache cl", "clear"),
        ("irc run x.n", "x.npy"),
    ],
)
def test_completion_of_zsh(line: str, wanted: str, how: str, here: Path) -> None:
    shell = shutil.which("zsh")
    if shell is None:
        pytest.skip("not run: no zsh here to complete with (apt install zsh)")
    (here / "kept").mkdir()
    (here / "kept" / "_irc").write_text(zsh())
    setup = "fpath=($PWD/kept $fpath); autoload -Uz compinit; compinit -u -D"
    if how == "evaluated":
        setup = 'autoload -Uz compinit; compinit -u -D; eval "$(<kept/_irc)"'
    command = [shell, "-f", "-c", AT_A_TERMINAL, "zsh", setup, line, wanted]
    try:
        subprocess.run(command, check=True, timeout=60, capture_output=True)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{line!r} and Tab do not show {wanted!r}")


def test_every_verb_is_completed() -> None:
    text = zsh()
    assert text.startswith("#compdef irc\n") and all(f"        {v}) " in text for v in COMMANDS)


def test_completion_of_fish(here: Path) -> None:
    text = fish()
    for verb in COMMANDS:
        assert f"__fish_use_subcommand -a {verb} -d " in text
        assert f"-n '__fish_seen_subcommand_from {verb}' -s v -l verbose -d " in text
    shell = shutil.which("fish")
    if shell is None:
        pytest.skip("not run: no fish here to complete with (apt install fish)")
    Path("irc.fish").write_text(text)
    for line, wanted in (
        ("co", ["compare", "compile", "completion", "convert"]),
        ("graph --pro", ["--profile"]),
        ("compile --precision ", ["bf16", "f16", "f32"]),
        ("cache cl", ["clear"]),
        ("run x.n", ["x.npy"]),
    ):
        script = f"source irc.fish; complete -C 'irc {line}'"
        done = subprocess.run([shell, "--no-config", "-c", script], capture_output=True, text=True)
        assert [w.split("\t")[0] for w in done.stdout.splitlines()] == wanted, done.stderr


def test_completion_is_printed(capsys: Captured) -> None:
    for shell, text in (("bash", bash()), ("zsh", zsh()), ("fish", fish())):
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == text
