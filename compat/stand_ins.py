"""`install(name)`: programs that import another engine run on irc without a change.

The stand-in's modules take the engine's names in `sys.modules`. Where the engine itself is
installed, its other submodules and attributes are still found, and models that irc does not support
are loaded by it. OpenVINO, where it is installed, keeps its module: only what compiles and runs
models is replaced in it. Where an engine is not installed, `importlib.metadata.version(name)`
answers with the release whose API the stand-in follows.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# Engine -> its stand-in.
STAND_INS = {
    "onnxruntime": "irc_compiler.compat.onnxruntime",
    "openvino": "irc_compiler.compat.openvino",
}
# The stand-in's submodules that are found under the engine's name, by their first parts.
_SUBMODULES = {"onnxruntime": r"capi", "openvino": r"runtime|preprocess|properties|opset\d+"}
# Stand-ins whose engine, where it is installed, keeps its objects: this module replaces what
# compiles and runs models.
_PARTIAL = {"openvino": "irc_compiler.compat.openvino.installed_engine"}
# The folder that `irc shim` puts before others, and the file that it reads sessions from.
SHIM_FOLDER, SHIM_REPORT = "IRC_SHIM_FOLDER", "IRC_SHIM_REPORT"

_lock = threading.RLock()
_installed: dict[str, _Engine] = {}
# Engines of _PARTIAL -> what was replaced in their modules.
_replaced: dict[str, dict[str, Any]] = {}


class _Engine:
    """A finder of what an engine has besides its stand-in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folders = _folders_of(name)
        self._real: ModuleType | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A submodule of the engine, in the engine's own folders."""
        parent, _, _ = fullname.rpartition(".")
        if parent != self.name and not parent.startswith(self.name + "."):
            return None
        inner = parent.removeprefix(self.name).strip(".").split(".")
        folders = [os.path.join(folder, *inner) for folder in self.folders]
        return PathFinder.find_spec(fullname, folders)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """The stand-in's version, where the engine is not installed."""
        from .stand_in_metadata import StandInDistribution

        asked = getattr(context, "name", None)
        if not self.folders and asked in (self.name, None):
            stand_in = importlib.import_module(STAND_INS[self.name])
            yield StandInDistribution(self.name, stand_in.__version__)

    def load(self) -> ModuleType | None:
        """The engine itself, next to its stand-in, or None."""
        with _lock:
            if self._real is None and self.folders:
                with _hide_stand_in(self):
                    self._real = importlib.import_module(self.name)
            return self._real


@contextlib.contextmanager
def _hide_stand_in(engine: _Engine) -> Iterator[None]:
    """Inside the block the engine's names mean the engine."""
    removed = _take_modules(engine.name)
    before, paths = list(sys.meta_path), list(sys.path)
    sys.meta_path.remove(engine)
    sys.path[:] = [p for p in paths if p != os.environ.get(SHIM_FOLDER)]
    try:
        yield
    finally:
        sys.path[:], sys.meta_path[:] = paths, before
        _take_modules(engine.name)
        sys.modules.update(removed)


def _take_modules(name: str) -> dict[str, ModuleType]:
    """Remove a package and its submodules from sys.modules."""
    names = [n for n in sys.modules if n == name or n.startswith(name + ".")]
    return {n: sys.modules.pop(n) for n in names}


def _folders_of(name: str) -> list[str]:
    """Where the engine's package is, besides the folder of `irc shim`. Nothing: not installed."""
    shim = os.environ.get(SHIM_FOLDER)
    spec = PathFinder.find_spec(name, [p for p in sys.path if p != shim])
    found: Iterable[str] = () if spec is None else spec.submodule_search_locations or ()
    return list(found)


def install(name: str = "onnxruntime") -> ModuleType:
    """Let `import onnxruntime` mean irc's stand-in in this process; the stand-in. UsageError.

    Modules that imported the engine before keep it, so call this first.
    """
    if name not in STAND_INS:
        raise UsageError(
            "irc has no stand-in of this name", got=repr(name)[:80], expected=", ".join(STAND_INS)
        )
    with _lock:
        if name in _replaced:
            return sys.modules[name]
        if name in _PARTIAL and _folders_of(name):
            return _replace_part(name)
        stand_in = importlib.import_module(STAND_INS[name])
        if name not in _installed:
            engine = _Engine(name)
            _installed[name] = engine
            _take_modules(name)
            sys.meta_path.insert(0, engine)
            sys.modules[name] = stand_in
            own = re.compile(rf"{re.escape(STAND_INS[name])}\.(({_SUBMODULES[name]})(\..*)?)")
            for found in filter(None, map(own.fullmatch, list(sys.modules))):
                sys.modules[f"{name}.{found[1]}"] = sys.modules[found[0]]
        return stand_in


def _replace_part(name: str) -> ModuleType:
    """The engine itself, in whose module irc's classes replace those that run models."""
    paths, shim = list(sys.path), os.environ.get(SHIM_FOLDER)
    loaded = str(getattr(sys.modules.get(name), "__file__", ""))
    if shim and loaded.startswith(shim + os.sep):
        del sys.modules[name]
    sys.path[:] = [p for p in paths if p != shim]
    try:
        engine = importlib.import_module(name)
    finally:
        sys.path[:] = paths
    _replaced[name] = importlib.import_module(_PARTIAL[name]).replace_names(engine)
    return engine


def uninstall(name: str = "onnxruntime") -> None:
    """Let the name mean the engine again, in imports from now on."""
    with _lock:
        if name in _replaced:
            partial = importlib.import_module(_PARTIAL[name])
            partial.restore_names(sys.modules[name], _replaced.pop(name))
        engine = _installed.pop(name, None)
        if engine is not None:
            sys.meta_path.remove(engine)
            _take_modules(name)


def find_engine(name: str) -> ModuleType | None:
    """The engine itself, where its stand-in is installed by `install` and so is the engine."""
    engine = _installed.get(name)
    return None if engine is None else engine.load()


def find_attribute(module: str, name: str) -> Any:
    """An attribute that a stand-in's module lacks, of the engine itself. AttributeError."""
    for engine, stand_in in STAND_INS.items():
        if module != stand_in and not module.startswith(stand_in + "."):
            continue
        real = find_engine(engine)
        for part in module.removeprefix(stand_in).split(".")[1:]:
            real = getattr(real, part, None)
        if hasattr(real, name):
            return getattr(real, name)
    raise AttributeError(name)


def record_session(model: str, engine: str, reason: str = "") -> None:
    """A line of the report of `irc shim --report`: a session, who runs it, and why."""
    path = os.environ.get(SHIM_REPORT)
    if path:
        line = json.dumps({"model": model, "engine": engine, "reason": reason})
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
