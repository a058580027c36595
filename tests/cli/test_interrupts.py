"""Ctrl-C ends a command wherever it falls: in a class being made, a callback, an import."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from irc_compiler.cli.entry import defer_collections
from irc_compiler.cli.interrupts import keep_own_stack
from irc_compiler.cli.main import main

Captured = pytest.CaptureFixture[str]


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def plainly() -> None:
    press()


def in_a_class() -> None:
    """Until Python 3.12 this arrives as a RuntimeError."""

    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            press()

    class Owner:
        field = Field()


def in_a_library_that_says_something_else() -> None:
    try:
        press()
    except KeyboardInterrupt:
        raise ImportError("the library can't be loaded") from None


def in_a_callback() -> None:
    """Python prints it and goes on: it has to come again."""

    class Held:
        pass

    held = Held()
    watch = weakref.ref(held, lambda _: press())
    del held
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.01)
    assert watch() is None


@pytest.mark.parametrize("command, defers", [("generate", True), ("serve", False), ("", False)])
def test_brief_commands_collect_garbage_less_often(command: str, defers: bool) -> None:
    before = gc.get_threshold()
    try:
        defer_collections([command] if command else [])
        assert (gc.get_threshold()[0] > 100 * before[0]) == defers
        assert defers or gc.get_threshold() == before
    finally:
        gc.set_threshold(*before)


HALF_MADE = """
import signal, sys
import irc_compiler.cli.entry as entry
import irc_compiler.cli.main as main

class Half:
    def __init__(self):
        self.more = self if sys.argv.pop() == "late" else None
        signal.raise_signal(signal.SIGINT)
        self.made = True

    def __del__(self):
        del self.made

signal.signal(signal.SIGINT, signal.default_int_handler)
main._dispatch = lambda arguments: Half()
entry.entry()
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at once", "late"])
def test_what_is_half_made_goes_without_a_word(when: str) -> None:
    """A finaliser that misses what its object was to hold: as the frames go, or at the very end."""
    done = subprocess.run(
        [sys.executable, "-c", HALF_MADE, when], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "irc: interrupted\n")


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Tests before may have used OpenVINO in this process, and a shell that starts tests in the
    background has interrupts ignored."""
    keep_own_stack()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "how", [plainly, in_a_class, in_a_library_that_says_something_else, in_a_callback]
)
def test_an_interrupt_is_one(
    how: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    before = sys.unraisablehook
    monkeypatch.setattr("irc_compiler.cli.main._dispatch", lambda arguments: how())
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "irc: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sys.unraisablehook is before


def test_a_lost_interrupt_comes_when_its_loss_was_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Not while that is told, where it would be lost for good: starting a thread may take longer
    than the pause before it comes again."""
    start = threading.Thread.start

    def slowly(self: threading.Thread) -> None:
        start(self)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            time.sleep(0.01)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    test_an_interrupt_is_one(in_a_callback, monkeypatch, capsys)


def test_where_interrupts_are_ignored_they_stay_so(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """As in what a shell starts in the background."""

    def pressed(arguments: list[str]) -> int:
        press()
        return 0

    monkeypatch.setattr("irc_compiler.cli.main._dispatch", pressed)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["demo"]) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["irc_compiler.cli.main", "argparse", "irc_compiler.ir.errors", "numpy"]
)
@pytest.mark.parametrize("lost", [False, True], ids=["as it is", "as another error"])
def test_while_the_command_is_loaded(module: str, lost: bool, tmp_path: Path) -> None:
    """Ctrl-C while what the command takes is imported, from its first import on."""
    (tmp_path / "m.xml").write_text("<net/>")
    code = f"""
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Press:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if {lost}:
                raise ImportError("the library can't be loaded") from None
            raise

for name in ("argparse", "numpy"):
    assert name not in sys.modules, name
sys.meta_path.insert(0, Press())
sys.argv = ["irc", "inspect", "m.xml"]
runpy.run_module("irc_compiler", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "irc: interrupted\n")


OWN_STACK = """
import ctypes, signal, sys
from pathlib import Path
import irc_compiler as irc, numpy as np
from irc_compiler.cli.interrupts import _Stack
from irc_compiler.cli.reference_engines import Task, openvino

def start():
    found = _Stack()
    ctypes.CDLL(None).sigaltstack(None, ctypes.byref(found))
    return found.start if not found.flags & 2 else None

before = start()
made = openvino(Task(Path(sys.argv[1]), {"image": np.zeros((1, 64), np.float32)}, 1, "f32"))
print("moved" if start() not in (None, before) else "kept")
"""


@pytest.mark.slow
def test_openvino_does_not_move_signals() -> None:
    """It would leave them a stack that is freed with its model; the next Ctrl-C is a crash."""
    pytest.importorskip("openvino", reason="not run: what OpenVINO does to signals needs OpenVINO")
    model = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
    done = subprocess.run(
        [sys.executable, "-c", OWN_STACK, str(model)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr[-2000:]


@pytest.mark.slow
def test_after_the_end_there_is_nothing_to_interrupt() -> None:
    code = (
        "import atexit, os, signal, sys; sys.argv = ['irc', '--version']\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from irc_compiler.cli.entry import entry\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("irc ") and done.stderr == ""


IN_A_LOOP = """
import os, signal, sys, threading
import irc_compiler as irc
import irc_compiler.cli.entry as entry
import irc_compiler.cli.commands.run as run

signal.signal(signal.SIGINT, signal.default_int_handler)
net = irc.compile_model(sys.argv[2])

def compiled(args):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    return net

run.compile_from_args = compiled
entry.entry()
"""


@pytest.mark.slow
def test_in_a_loop_that_does_not_end(tmp_path: Path) -> None:
    """No instruction of Python is reached any more: the loop is machine code."""
    port = onnx.helper.make_tensor_value_info
    float_, bool_ = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    inside = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["on"], ["go"]),
         onnx.helper.make_node("Neg", ["a"], ["b"])],
        "inside",
        [port("i", onnx.TensorProto.INT64, []), port("on", bool_, []), port("a", float_, [3])],
        [port("go", bool_, []), port("b", float_, [3])],
    )  # fmt: skip
    always = onnx.numpy_helper.from_array(np.array(True), "always")
    loop = onnx.helper.make_node("Loop", ["", "always", "x"], ["y"], body=inside)
    ports = [port("x", float_, [3])], [port("y", float_, [3])]
    graph = onnx.helper.make_graph([loop], "loop", *ports, [always])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    words = ["run", str(tmp_path / "m.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_LOOP, *words], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "irc: interrupted\n")
