"""Sessions of models that irc does not support, run by onnxruntime itself where it is installed.

A session becomes one of a class whose methods call onnxruntime's session, but for those that a
subclass defines itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Any

from .settings import RunOptions, SessionOptions
from .values import OrtValue


def delegate(session: Any, base: type, engine: ModuleType, source: Any) -> None:
    """Let onnxruntime's session of this model answer for `session`, whose class derives from
    `base`."""
    options = _session_options(engine, session.__dict__["_options"])
    real = engine.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    session.__dict__["_real"] = real
    session.__class__ = _delegating(type(session), base, engine)


@functools.cache
def _delegating(kind: type, base: type, engine: ModuleType) -> type:
    theirs = dir(engine.InferenceSession)
    methods = {
        name: _forward(name, engine)
        for name in dir(base)
        if name in theirs
        and not name.startswith("_")
        and getattr(kind, name) is getattr(base, name)
    }
    return type(kind.__name__, (kind,), methods)


def _forward(name: str, engine: ModuleType) -> Callable[..., Any]:
    def call(self: Any, *given: Any, **named: Any) -> Any:
        given = tuple(_convert_value(engine, v) for v in given)
        named = {key: _convert_value(engine, value) for key, value in named.items()}
        return getattr(self.__dict__["_real"], name)(*given, **named)

    return call


def _convert_value(engine: ModuleType, value: Any) -> Any:
    """Options and values as onnxruntime's own."""
    if isinstance(value, RunOptions):
        return _with_settings(engine.RunOptions(), value)
    if isinstance(value, OrtValue):
        return engine.OrtValue.ortvalue_from_numpy(value.numpy())
    if isinstance(value, dict):
        items: Any = value
        return {key: _convert_value(engine, v) for key, v in items.items()}
    return value


def _session_options(engine: ModuleType, given: SessionOptions) -> Any:
    made = _with_settings(engine.SessionOptions(), given)
    for key, value in given.entries.items():
        made.add_session_config_entry(key, value)
    for name, size in given.overrides.items():
        made.add_free_dimension_override_by_name(name, size)
    return made


def _with_settings(made: Any, given: SessionOptions | RunOptions) -> Any:
    for name, value in given.changed_settings().items():
        if isinstance(value, IntEnum):
            value = type(getattr(made, name))(int(value))
        setattr(made, name, value)
    return made
