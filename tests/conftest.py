"""What tests share: golden texts, kept in `goldens/` next to the test, updated by one flag."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from irc_compiler.runtime.jit.host_features import available_isas

# Tests compile what they test: models of earlier runs stay out of it (tests/api/test_model_cache.py
# takes them in).
os.environ.setdefault("IRC_MODEL_CACHE", "0")

pytest_plugins = ["support.fixtures"]
pytest.register_assert_rewrite("support", "fuzz")

# No example is judged by its speed, and CI draws the same ones every time.
settings.register_profile("irc", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("irc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="write golden texts instead of comparing them"
    )
    parser.addoption(
        "--exhaustive",
        nargs="?",
        const="1/1",
        metavar="PART/PARTS",
        help="every combination of a kernel's cases (hours), or a part of them; "
        "in tests/interop every case of ONNX",
    )


def pytest_configure() -> None:
    """A shell that starts this process in the background may ignore SIGINT in it, and so in all
    programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A case is in one suite. `@pytest.mark.extended(when=...)` moves the cases whose parameters
    the function accepts from the slow suite to the extended one, and without `when` all of them.
    So are slow cases on lesser instruction sets (`isa`) than this machine's best: shorter tests of
    the same kernels run on all."""
    for item in items:
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        mark = item.get_closest_marker("extended")
        lesser = str(params.get("isa")).partition(" ")[0] in available_isas()[1:]
        if mark is None:
            if not lesser or item.get_closest_marker("slow") is None:
                continue
            item.add_marker("extended")
        accept = None if mark is None else mark.kwargs.get("when")
        is_extended = lesser or accept is None or bool(params and accept(params))
        dropped = "slow" if is_extended else "extended"
        item.own_markers = [m for m in item.own_markers if m.name != dropped]


@pytest.fixture(autouse=True)
def restart_generators(request: pytest.FixtureRequest) -> None:
    """A module's random generators begin again at each test: its data do not depend on which tests
    ran before it in this process."""
    module = request.node.getparent(pytest.Module)
    for name, value in vars(module.obj).items() if module is not None else ():
        if isinstance(value, np.random.Generator):
            bits = value.bit_generator
            bits.state = _FIRST_STATES.setdefault((module.nodeid, name), bits.state)


_FIRST_STATES: dict[tuple[str, str], Any] = {}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is what goldens/<name>.txt holds."""
    folder = Path(str(request.node.path)).parent / "goldens"
    update = bool(request.config.getoption("--update-goldens"))

    def check(name: str, text: str) -> None:
        path = folder / f"{name}.txt"
        if update:
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path.name} is missing: run pytest --update-goldens and look at it"
        assert text == path.read_text(encoding="utf-8")

    return check
