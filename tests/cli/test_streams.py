"""Who reads what a command says: a terminal, a file, a pipe that closes, nobody."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.cli.main import main

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
LONG = 30.0  # seconds, after which what hangs fails

# Compiles only after a line on stdin, so that the test can read what is shown meanwhile; or takes
# longer than it takes until something is shown.
SLOWLY = """
import sys, time
import irc_compiler.compiler.lowering as lowering
at_once = lowering.lower
def slowly(*args, **options):
    sys.stdin.readline() if sys.argv[1] == "paused" else time.sleep(1.3)
    return at_once(*args, **options)
lowering.lower = slowly
"""
BY_COMMAND = f"""{SLOWLY}
from irc_compiler.cli.main import main
sys.exit(main(["compile", "model.onnx", "-o", "m.irc", *sys.argv[2:]]))
"""
BY_CALL = f"""{SLOWLY}
import irc_compiler as irc
print(len(irc.compile_model("model.onnx").plan.kernel_steps()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DIGITS, tmp_path / "model.onnx")
    return tmp_path


# As a user's Python is: what nobody took is still there at exit.
BUFFERED = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
SHELL = {
    "results": ("inspect model.onnx | true", 0),
    "help": ("inspect --help | true", 0),
    "the list of verbs": ("--help | true", 0),
    "one line": ("inspect model.onnx | head -n 1", 0),
    "an error's message": ("inspect none.onnx 2>&1 | true", 3),
    "usage": ("fly 2>&1 | true", 2),
    "usage of a verb": ("inspect 2>&1 | true", 2),
    "no verb": ("2>&1 | true", 2),
    "notes": ("compile model.onnx -v 2>&1 | true", 0),
}

REPEATED = {"help", "usage", "usage of a verb", "no verb"}  # argparse prints, as for "--help"


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["what"] in REPEATED)
@pytest.mark.parametrize("what", SHELL)
def test_a_closed_pipe_is_no_error(what: str, folder: Path) -> None:
    words, code = SHELL[what]
    script = f"{sys.executable} -m irc_compiler {words}; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, env=BUFFERED
    )
    assert done.stdout.splitlines()[-1] == str(code) and done.stderr == ""


NOBODY = {
    "results": ("inspect model.onnx >&-", 0),
    "an error": ("inspect none.onnx 2>&-", 3),
    "a file": ("compile model.onnx -o m.irc >&- 2>&-", 0),
    "a full disk": ("inspect model.onnx >/dev/full", 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NOBODY)
def test_closed_streams(what: str, folder: Path) -> None:
    """What is said goes nowhere; not into the file that is opened next."""
    words, code = NOBODY[what]
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m irc_compiler {words}"],
        cwd=folder, capture_output=True, text=True, env=BUFFERED,
    )  # fmt: skip
    assert done.returncode == code and "internal" not in done.stderr
    if what == "a file":
        assert (folder / "m.irc").read_bytes().startswith(b"\x89IRC")
    if what == "a full disk":
        assert done.stderr.count("\n") == 2 and "No space left on device" in done.stderr


def read_until(handle: int, word: bytes) -> bytes:
    """What comes from a terminal until the word does, or its other end closes."""
    found, end = b"", time.monotonic() + LONG
    while word not in found and time.monotonic() < end:
        if select.select([handle], [], [], 1)[0]:
            try:
                more = os.read(handle, 4096)
            except OSError:  # what Linux says at the end of a terminal
                break
            if not more:
                break
            found += more
    return found


def on_a_terminal(
    folder: Path, code: str, *words: str, until: bytes = b"never", **environment: str
) -> tuple[bytes, bytes, int]:
    """stderr is a terminal, stdout a pipe. What came on both, and the exit code; stdin is written
    to when the word has been seen."""
    ours, theirs = os.openpty()
    clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**clean, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    try:
        stderr = read_until(ours, until)
        out, _ = process.communicate(b"go\n", timeout=LONG)
        stderr += read_until(ours, b"never")
    finally:
        process.kill()
        os.close(ours)
    return out, stderr, process.returncode


PROGRESS_LINE = rb"\rcompiling model.onnx \.\.\. \d+ s "


@pytest.mark.slow
def test_progress_is_for_a_terminals_stderr(folder: Path) -> None:
    out, stderr, code = on_a_terminal(folder, BY_COMMAND, "paused", "--json", until=b" s ")
    assert code == 0 and json.loads(out)["native_steps"] == 5
    assert re.match(PROGRESS_LINE, stderr) and stderr.endswith(b" \r")
    assert on_a_terminal(folder, BY_COMMAND, "late", "-q") == (b"", b"", 0)


@pytest.mark.slow
def test_progress_of_a_call(folder: Path) -> None:
    out, stderr, code = on_a_terminal(folder, BY_CALL, "paused", until=b" s ")
    assert (
        (out, code) == (b"5\n", 0) and re.match(PROGRESS_LINE, stderr) and stderr.endswith(b" \r")
    )
    assert on_a_terminal(folder, BY_CALL, "late", IRC_PROGRESS="0") == (b"5\n", b"", 0)
    without = BY_CALL.replace('"model.onnx"', '"model.onnx", progress=False')
    assert on_a_terminal(folder, without, "late") == (b"5\n", b"", 0)
    with_ = BY_CALL.replace('"model.onnx"', '"model.onnx", progress=True')
    out, stderr, code = on_a_terminal(folder, with_, "paused", until=b" s ", IRC_PROGRESS="0")
    assert (out, code) == (b"5\n", 0) and re.match(PROGRESS_LINE, stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "line"),
    [
        ("read_xml", rb"reading model.xml"),
        ("write_xml", rb"writing copy.xml"),
    ],
)
def test_progress_of_reading_and_writing(slow: str, line: bytes, folder: Path) -> None:
    """irc.read_model and irc.save_model show what they do, unless progress=False."""
    irc.save_model(str(folder / "model.onnx"), folder / "model.xml")
    module = "irc_compiler.compiler." + {"read_xml": "frontends.xml.reader"}.get(slow, "export.xml")
    code = f"""
import sys, time
import {module} as module
import irc_compiler as irc
real = module.{slow}
def wait(*a, **k):
    sys.stdin.readline() if sys.argv[1] == "paused" else time.sleep(1.3)
    return real(*a, **k)
module.{slow} = wait
how = {{"progress": False}} if sys.argv[1] == "late" else {{}}
irc.save_model(irc.read_model("model.xml", **how), "copy.xml", **how)
"""
    # On a busy machine the other half may take long enough to be shown, too.
    _, stderr, exit_code = on_a_terminal(folder, code, "paused", until=line + b" ... ")
    assert exit_code == 0 and re.search(rb"\r" + line + rb" \.\.\. \d+ s ", stderr), stderr
    assert on_a_terminal(folder, code, "late") == (b"", b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("code", [BY_COMMAND, BY_CALL], ids=["command", "call"])
def test_no_progress_elsewhere(code: str, folder: Path) -> None:
    words = [sys.executable, "-c", code, "late"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout


@pytest.mark.slow
def test_one_line_of_progress_is_shown_at_a_time(folder: Path) -> None:
    code = """
import sys, time
from irc_compiler.api.progress import show_progress
with show_progress("outer \\x1b[2J" + "x" * 200):
    with show_progress("inner"):
        sys.stdin.readline()
    try:
        with show_progress("failing"):
            raise KeyError
    except KeyError:
        pass
with show_progress("next"):
    time.sleep(1.3)
"""
    _, stderr, exit_code = on_a_terminal(folder, code, until=b" s ", COLUMNS="40")
    lines = [x for x in stderr.split(b"\r") if x.strip()]
    assert exit_code == 0 and {x.split()[0] for x in lines} == {b"outer", b"next"}
    assert all(b"\x1b" not in x and len(x) < 40 for x in lines)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_on_a_terminal(environment: dict[str, str], folder: Path) -> None:
    code = "import sys; from irc_compiler.cli.main import main; sys.exit(main(sys.argv[1:]))"
    out, stderr, exit_code = on_a_terminal(folder, code, "inspect", "none.onnx", **environment)
    assert (out, exit_code) == (b"", 3) and b"none.onnx" in stderr
    assert (b"\x1b[" in stderr) == (not environment)


def test_no_colours_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder / "none.onnx")]) == 3
    assert "\x1b" not in capsys.readouterr().err
