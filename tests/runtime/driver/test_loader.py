"""The driver is loaded by a thread while a model is read."""

from __future__ import annotations

import threading
import time

import pytest
from irc_compiler.ir.errors import Error
from irc_compiler.runtime.driver import loader


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_driver", None)


@pytest.mark.usefixtures("unloaded")
def test_a_thread_loads_the_driver_during_the_call() -> None:
    @loader.in_default_mode
    def wait_for_driver() -> bool:
        end = time.monotonic() + 60
        while loader._driver is None and time.monotonic() < end:
            time.sleep(0.001)
        return loader._driver is not None

    assert wait_for_driver()


@pytest.mark.usefixtures("unloaded")
def test_an_error_is_raised_where_the_driver_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaders: list[str] = []

    def refuse(*_: object) -> loader.Driver:
        loaders.append(threading.current_thread().name)
        raise Error("no executable memory")

    monkeypatch.setattr(loader, "load_driver_for", refuse)

    @loader.in_default_mode
    def answer() -> int:
        return 42

    assert answer() == 42
    for thread in threading.enumerate():
        if thread.name == "irc-load":
            thread.join(60)
    with pytest.raises(Error, match="no executable memory"):
        loader.load_driver()
    assert loaders == ["irc-load", threading.main_thread().name]


@pytest.mark.usefixtures("unloaded")
def test_a_system_that_gives_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert loader.in_default_mode(lambda: loader.load_driver() is loader._driver)()
