"""Files of a model, read into memory that we own.

A file that is truncated or replaced while we read it is an error, never a signal; what is not a
regular file (a directory, a pipe, a device) is refused before a byte of it is read. `record_files`
records which files were read and their state, so that a model can be read again later.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike
from typing import Any

import numpy as np

from ....ir.errors import MemoryLimitError, ModelFormatError
from ....ir.lazy_dataclass import dataclass
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

    def describe_change(self) -> str | None:
        """What happened to the file since, or None."""
        try:
            now = FileState.of(self.path, os.stat(self.path))
        except OSError as error:
            return _reason(error)
        return None if now == self else "it has been written or replaced since"


_record: ContextVar[list[FileState] | None] = ContextVar("files read", default=None)


@contextmanager
def record_files() -> Generator[list[FileState]]:
    """The files that this thread reads inside, in order."""
    files: list[FileState] = []
    token = _record.set(files)
    try:
        yield files
    finally:
        _record.reset(token)


class OpenFile:
    """A regular file, open for reading: parts of it, each in memory of its own.

    `what` names its role in messages ("the weights"); `opener` opens it otherwise than by its path.
    Raises ModelFormatError where it can't be
    read in full, MemoryLimitError where it is larger than `max_memory`.
    """

    _handle = -1  # closed

    def __init__(
        self,
        path: Path,
        what: str,
        *,
        max_memory: int | None = None,
        opener: Callable[[], int] | None = None,
    ) -> None:
        self.what, self.shown = what, os.fspath(path)
        try:
            self._handle = open_at_once(path) if opener is None else opener()
        except (OSError, ValueError) as error:
            raise ModelFormatError(
                f"cannot open {what}",
                where=repr(self.shown),
                got=_reason(error),
                expected="a file",
            ) from error
        try:
            status = os.fstat(self._handle)
            self._check(status, max_memory)
        except BaseException:
            self.close()
            raise
        self.size = status.st_size
        self._state = FileState.of(path, status)
        if (record := _record.get()) is not None:
            record.append(self._state)

    def _check(self, status: os.stat_result, max_memory: int | None) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise ModelFormatError(
                f"{self.what} is not a regular file",
                where=repr(self.shown),
                got=kind_of(status.st_mode),
                expected="a regular file",
            )
        if max_memory is not None and status.st_size > max_memory:
            raise MemoryLimitError(
                f"{self.what} is larger than max_memory allows",
                where=repr(self.shown),
                got=f"{status.st_size} bytes",
                expected=f"at most {max_memory} bytes",
                fix="raise max_memory",
            )

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; parts that were read stay."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def require_unchanged(self) -> None:
        """ModelFormatError if the file was written since it was opened."""
        if FileState.of(self._state.path, os.fstat(self._handle)) != self._state:
            raise ModelFormatError(
                f"{self.what} was written while it was read",
                where=repr(self.shown),
                fix="read the model again",
            )

    def part(self, first: int, last: int) -> Array:
        """Bytes `first` to `last`, read-only; where they come from is noted (ir/provenance.py).

        Large parts are read by several threads: most of the time goes into fresh pages.
        """
        try:
            data: Any = np.empty(last - first, dtype=np.uint8)
        except MemoryError as error:
            raise MemoryLimitError(
                f"no memory for {self.what}",
                where=repr(self.shown),
                got=f"{last - first} bytes",
            ) from error
        cuts = range(0, last - first, _PIECE_BYTES)
        pieces = [(memoryview(data)[at : at + _PIECE_BYTES], first + at) for at in cuts]
        if len(pieces) < 2:
            for piece in pieces:
                self._fill(*piece)
        else:
            with ThreadPoolExecutor(_READER_THREADS, "irc-read") as pool:
                list(pool.map(self._fill, *zip(*pieces, strict=True)))
        data.flags.writeable = False
        note(data, self._state, first)
        return data

    def _fill(self, memory: memoryview, at: int) -> None:
        done = 0
        try:
            while done < len(memory):
                count = os.preadv(self._handle, [memory[done:]], at + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise ModelFormatError(
                f"cannot read {self.what}", where=repr(self.shown), got=_reason(error)
            ) from error
        if done != len(memory):
            raise ModelFormatError(
                f"{self.what} became shorter while it was read",
                where=repr(self.shown),
                got=f"{at + done} bytes",
                expected=f"{self.size} bytes",
            )


class HeldArray:
    """A read-only array of bytes, as the parts of a file; they are views."""

    def __init__(self, data: Array) -> None:
        self._data = data
        self.size = self.referred = data.size

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Nothing: all of it is in memory."""

    def part(self, first: int, last: int) -> Array:
        """Bytes `first` to `last`."""
        return self._data[first:last]

    def close(self) -> None:
        """Nothing: there is no file."""


class HeldBytes:
    """Bytes in memory, read as a file is."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = np.frombuffer(data, dtype=np.uint8)
        self.size = self._data.size

    def part(self, first: int, last: int) -> Array:
        """A copy of bytes `first` to `last`: later changes of the caller's are not seen."""
        return self._data[first:last].copy()


def open_at_once(path: Path, flags: int = os.O_RDONLY) -> int:
    """A file's handle. O_NONBLOCK: opening a pipe without a writer must not wait."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | _BINARY)


_BINARY = getattr(os, "O_BINARY", 0)
# Bytes that one thread reads at a time, and how many threads do.
_PIECE_BYTES = 32 << 20
_READER_THREADS = 4


def require_size(size: int, most: int, what: str, where: str, fix: str | None = None) -> None:
    """ModelFormatError for what is too large to be read at all. Only its size is used."""
    if size > most:
        got, expected = f"{size} bytes", f"at most {most} bytes"
        raise ModelFormatError(
            f"{what} is too large", where=where, got=got, expected=expected, fix=fix
        )


def as_read_only(data: bytes | bytearray | memoryview) -> Array:
    """A caller's bytes as a read-only array; copied unless they can't change."""
    fixed = data if isinstance(data, bytes) else bytes(data)
    return np.frombuffer(fixed, dtype=np.uint8)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def kind_of(mode: int) -> str:
    """What a thing that is not a regular file is."""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "a special file"
