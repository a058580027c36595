"""The error classes of `onnxruntime.capi.onnxruntime_pybind11_state`, as irc raises them.

What this package raises is an irc.Error and, as well, the class that onnxruntime raises there, so
that `except InvalidArgument` and `except irc.InputError` both catch it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...ir.errors import (
    ArtifactError,
    Error,
    ExecutionError,
    InputError,
    MemoryLimitError,
    ModelFormatError,
    ShapeError,
    UnsupportedOperationError,
    UsageError,
)


class DeviceReset(Exception):
    """A device was reset."""


class ModelLoadCanceled(Exception):
    """Loading was cancelled."""


class ModelRequiresCompilation(Exception):
    """The model must be compiled before."""


class NotFound(Exception):
    """Something does not exist."""


class EPFail(Exception):
    """An execution provider failed."""


class EngineError(Exception):
    """The engine failed."""


class Fail(Exception):
    """A general failure."""


class InvalidArgument(Exception):
    """An argument, input or output is wrong."""


class InvalidGraph(Exception):
    """The model's graph is broken."""


class InvalidProtobuf(Exception):
    """The file is not an ONNX model."""


class ModelLoaded(Exception):
    """The model is loaded already."""


class NoModel(Exception):
    """No model is loaded."""


class NoSuchFile(Exception):
    """The file does not exist."""


class NotImplemented(Exception):
    """The model needs an operation that does not exist here."""


class RuntimeException(Exception):
    """A run failed."""


Named = type[Exception]
NAMED: tuple[Named, ...] = (
    NotFound,
    ModelRequiresCompilation,
    ModelLoadCanceled,
    DeviceReset,
    EPFail,
    EngineError,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)
# The first class that fits decides.
LOADING: Mapping[type[Error], Named] = {
    UnsupportedOperationError: NotImplemented,
    ShapeError: Fail,
    ModelFormatError: InvalidGraph,
    ArtifactError: InvalidProtobuf,
    InputError: InvalidArgument,
    UsageError: InvalidArgument,
    MemoryLimitError: RuntimeException,
    Error: Fail,
}
RUNNING: Mapping[type[Error], Named] = {
    InputError: InvalidArgument,
    UsageError: InvalidArgument,
    UnsupportedOperationError: NotImplemented,
    ExecutionError: RuntimeException,
    MemoryLimitError: RuntimeException,
    Error: Fail,
}


@contextmanager
def raise_as(table: Mapping[type[Error], Named], *more: Named) -> Iterator[None]:
    """irc's errors inside the block become onnxruntime's of the table, and `more`, too."""
    try:
        yield
    except Error as error:
        if not isinstance(error, NAMED):
            more = (next(c for kind, c in table.items() if isinstance(error, kind)), *more)
        raise join_error(error, *more) from error


def join_error(error: Error, *named: Named) -> Error:
    """The same error, also of these classes."""
    missing = tuple(c for c in named if not isinstance(error, c))
    return _rebuild(type(error), missing, _error_fields(error)) if missing else error


def wrong_argument(
    what: str, *, expected: object, where: str | None = None, got: object = None
) -> Error:
    """An InputError that is InvalidArgument and RuntimeError, as OrtValue and IOBinding raise."""
    error = InputError(what, where=where, got=got, expected=expected)
    return join_error(error, InvalidArgument, RuntimeError)


def _error_fields(error: Error) -> dict[str, Any]:
    names = ("what", "where", "got", "expected", "fix")
    return {name: getattr(error, name) for name in names}


def _rebuild(kind: type[Error], named: tuple[Named, ...], parts: dict[str, Any]) -> Error:
    return _join(kind, named)(**parts)


@functools.cache
def _join(kind: type[Error], named: tuple[Named, ...]) -> type[Error]:
    def reduce(self: Error) -> tuple[Any, ...]:
        return _rebuild, (kind, named, _error_fields(self))

    shown = {"__module__": named[0].__module__, "__reduce__": reduce}
    return type(named[0].__name__, (kind, *named), shown)
