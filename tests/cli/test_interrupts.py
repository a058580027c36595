"""Ctrl-C ends a command wherever it falls: in a class being made, a callback, an import."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable

import pytest
from irc.cli.interrupts import keep_own_stack
from irc.cli.main import main

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
    end = time.monotonic() + 300
    while time.monotonic() < end:
        time.sleep(0.01)
    assert watch() is None


@pytest.fixture(autouse=True)
def own_stack() -> None:
    """Tests before may have used OpenVINO in this process."""
    keep_own_stack()


@pytest.mark.parametrize(
    "how", [plainly, in_a_class, in_a_library_that_says_something_else, in_a_callback]
)
def test_an_interrupt_is_one(
    how: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    before = sys.unraisablehook
    monkeypatch.setattr("irc.cli.main._dispatch", lambda arguments: how())
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "irc: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sys.unraisablehook is before


def test_where_interrupts_are_ignored_they_stay_so(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """As in what a shell starts in the background."""

    def pressed(arguments: list[str]) -> int:
        press()
        return 0

    monkeypatch.setattr("irc.cli.main._dispatch", pressed)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["demo"]) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""


def test_after_the_end_there_is_nothing_to_interrupt() -> None:
    code = (
        "import atexit, os, signal, sys; sys.argv = ['irc', '--version']\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from irc.cli.main import entry\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("irc ") and done.stderr == ""
