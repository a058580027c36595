"""Files of a model, read into memory that we own.

A file that is truncated or replaced while we read it is an error, never a signal; what is not a
regular file (a directory, a pipe, a device) is refused before a byte of it is read. `recorded`
tells which files were read and in what state, so that a model can be read again later.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from ....ir.errors import MemoryLimitError, ModelFormatError
from ....ir.op import Array
from ....ir.provenance import note

Path = str | PathLike[str]


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was read; any change of it shows in one of these."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> FileState:
        return cls(
            os.path.abspath(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        )

    def changed(self) -> str | None:
        """What happened to the file since, or None."""
        try:
            now = FileState.of(self.path, os.stat(self.path))
        except OSError as error:
            return _reason(error)
        return None if now == self else "it has been written or replaced since"


_record: ContextVar[list[FileState] | None] = ContextVar("files read", default=None)


@contextmanager
def recorded() -> Generator[list[FileState]]:
    """The files that this thread reads inside, in order."""
    files: list[FileState] = []
    token = _record.set(files)
    try:
        yield files
    finally:
        _record.reset(token)


def read_file(path: Path, what: str, *, max_memory: int | None = None) -> Array:
    """The whole of a regular file as a read-only array of bytes.

    `what` names its role in messages ("the weights"). Raises ModelFormatError where it can't be
    read in full, MemoryLimitError where it is larger than `max_memory`.
    """
    shown = os.fspath(path)
    try:
        # O_NONBLOCK: opening a pipe without a writer must not wait.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except (OSError, ValueError) as error:
        raise ModelFormatError(
            f"cannot open {what}", where=repr(shown), got=_reason(error), expected="a file"
        ) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFormatError(
                f"{what} is not a regular file",
                where=repr(shown),
                got=_kind(status.st_mode),
                expected="a regular file",
            )
        if max_memory is not None and status.st_size > max_memory:
            raise MemoryLimitError(
                f"{what} is larger than max_memory allows",
                where=repr(shown),
                got=f"{status.st_size} bytes",
                expected=f"at most {max_memory} bytes",
                fix="raise max_memory",
            )
        data = _read(handle, status.st_size, what, shown)
    finally:
        os.close(handle)
    state = FileState.of(path, status)
    note(data, state)
    if (record := _record.get()) is not None:
        record.append(state)
    return data


_BINARY = getattr(os, "O_BINARY", 0)


def _read(handle: int, size: int, what: str, shown: str) -> Array:
    try:
        data: Any = np.empty(size, dtype=np.uint8)
    except MemoryError as error:
        raise MemoryLimitError(
            f"no memory for {what}", where=repr(shown), got=f"{size} bytes"
        ) from error
    done = 0
    reader = io.FileIO(handle, "rb", closefd=False)
    try:
        while done < size:
            # Some systems read no more than 2 GiB at once.
            count = reader.readinto(memoryview(data)[done : done + (1 << 30)])
            if not count:
                break
            done += count
    except OSError as error:
        raise ModelFormatError(
            f"cannot read {what}", where=repr(shown), got=_reason(error)
        ) from error
    if done != size:
        raise ModelFormatError(
            f"{what} became shorter while it was read",
            where=repr(shown),
            got=f"{done} bytes",
            expected=f"{size} bytes",
        )
    data.flags.writeable = False
    return data


def owned(data: bytes | bytearray | memoryview) -> Array:
    """A caller's bytes as a read-only array; copied unless they can't change."""
    fixed = data if isinstance(data, bytes) else bytes(data)
    return np.frombuffer(fixed, dtype=np.uint8)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "a special file"
