"""The code cache on disk: machine code by content key, private to the user, bounded.

An entry is a file named by its key: 32 bytes of SHA-256 over key and payload, then the payload. So
are programs of models (`open_file`), which have digests of their own.
No process reads an entry whose digest does not match, or one that another user could have put
there (private_folder.py). Writers write a temporary file and rename it, so readers see whole
entries only; when the folder grows past its bound, the entries used longest ago go. Every failure
to read or write the cache is a miss, never an error: the cache is a comfort.

`IRC_CACHE_DIR` names another folder, or "off"; `IRC_CACHE_BYTES` another bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from ...ir.errors import UsageError
from ...ir.lazy_dataclass import dataclass
from .private_folder import NotPrivateError, PrivateFolder

# About 40 kB a kernel, and up to half of it for a language model (api/model_cache.py), as one of
# half a billion weights of 8 bits: room for thousands of kernels, and several models.
DEFAULT_BYTES = 2**31
_DIGEST_BYTES = 32
_KEY_LENGTH = 64
# Files that are being written, and after how many seconds one of them counts as abandoned.
_NEW = ".new-"
# What ends the name of a program, which has digests of its own.
_PROGRAM: Final = ".program"
_STALE_SECONDS = 600.0


def cache_folder() -> Path | None:
    """The folder of the cache, or None where it is switched off."""
    chosen = os.environ.get("IRC_CACHE_DIR")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "irc" / "code"


def cache_bytes() -> int:
    """The bound of the cache in bytes. UsageError where the environment says no number."""
    text = os.environ.get("IRC_CACHE_BYTES", "")
    if text and not (text.isascii() and text.isdecimal()):
        raise UsageError(
            "the bound of the code cache is not a number",
            where="environment variable IRC_CACHE_BYTES",
            got=text[:80],
            expected="bytes, such as 2147483648",
        )
    return int(text) if text else DEFAULT_BYTES


def default_cache() -> DiskCache | None:
    """The user's cache, or None where it is off or its folder can't be trusted."""
    folder = cache_folder()
    if folder is None:
        return None
    cache = DiskCache(folder, cache_bytes())
    return cache if cache.prepare() else None


def find_cache_fault() -> str | None:
    """Why the folder of the cache is not used; None where it is, or is switched off."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        PrivateFolder(folder).close()
    except (NotPrivateError, OSError) as error:
        return str(error)
    return None


# Entries that a process puts before it looks again what others did, and the bound from which on
# trimming leaves room.
_PUTS_PER_SCAN: Final = 256
_MIN_TRIM_SLACK_BYTES: Final = 1 << 20
# By folder: the bytes it held at the last look with those put since, and how many puts that were.
_held: dict[Path, tuple[int, int]] = {}


@dataclass(frozen=True)
class CacheEntry:
    """One entry: its key, size in bytes, and time of last use (seconds since the epoch)."""

    key: str
    size: int
    used: float


class DiskCache:
    """A folder of entries; safe against concurrent readers and writers of many processes."""

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        self.folder, self.limit = folder, limit
        self._opened: PrivateFolder | None = None

    def prepare(self) -> bool:
        """Open the folder, and make it if need be. False where it is not this user's alone."""
        if self._opened is None:
            try:
                self._opened = PrivateFolder(self.folder)
            except (NotPrivateError, OSError):
                return False
        return True

    def get(self, key: str) -> bytes | None:
        """The payload stored under a key; what is not an entry of this user is removed."""
        if not _is_key(key) or not self.prepare() or self._opened is None:
            return None
        try:
            data = self._opened.read(key, self.limit)
        except OSError:
            return None
        except NotPrivateError:
            data = b""
        if data[:_DIGEST_BYTES] != _digest(key, memoryview(data)[_DIGEST_BYTES:]):
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            self._opened.touch(key)
        return data[_DIGEST_BYTES:]

    def put(self, key: str, payload: bytes) -> None:
        """Store a payload; what does not fit or can't be written is left out silently."""
        size = len(payload) + _DIGEST_BYTES
        if not _is_key(key) or size > self.limit or not self.prepare() or self._opened is None:
            return
        new = f"{_NEW}{os.urandom(8).hex()}"
        try:
            with self._opened.create(key, new) as file:
                file.writelines((_digest(key, payload), payload))
        except OSError:
            return
        self._account(size)

    def open_file(self, key: str) -> BinaryIO | None:
        """The program stored under a key; what is not this user's alone is removed."""
        name = f"{key}{_PROGRAM}"
        if not _is_key(key) or not self.prepare() or self._opened is None:
            return None
        try:
            file = self._opened.open(name)
        except OSError:
            return None
        except NotPrivateError:
            self.remove(name)
            return None
        with contextlib.suppress(OSError):
            self._opened.touch(name)
        return file

    def put_file(self, key: str, write: Callable[[BinaryIO], None], limit: int) -> None:
        """Store the program that `write` writes; one of more than `limit` bytes, or that cannot be
        written, is left out silently."""
        if not _is_key(key) or not self.prepare() or self._opened is None:
            return
        try:
            with self._opened.create(f"{key}{_PROGRAM}", f"{_NEW}{os.urandom(8).hex()}") as file:
                write(file)
                size = file.seek(0, os.SEEK_END)
                if size > limit:
                    raise OSError("larger than an entry may be")
        except OSError:
            return
        self._account(size)

    def remove_file(self, key: str) -> None:
        """Remove a program, if it is there."""
        self.remove(f"{key}{_PROGRAM}")

    def entries(self) -> list[CacheEntry]:
        """All entries, the one used longest ago first."""
        found = [
            CacheEntry(n, s.st_size, s.st_mtime)
            for n, s in self._list_files()
            if _is_key(n.removesuffix(_PROGRAM))
        ]
        return sorted(found, key=lambda e: (e.used, e.key))

    def clear(self) -> int:
        """Remove all entries; returns how many."""
        entries = self.entries()
        for entry in entries:
            self.remove(entry.key)
        self._remove_stale_files(time.time() - _STALE_SECONDS)
        return len(entries)

    def _list_files(self) -> list[tuple[str, os.stat_result]]:
        """Name and status of each file of the folder; none where it can't be read."""
        if not self.prepare() or self._opened is None:
            return []
        with contextlib.suppress(OSError):
            return list(self._opened.list_files())
        return []

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there."""
        with contextlib.suppress(OSError):
            if self._opened is not None:
                self._opened.remove(name)

    def _remove_stale_files(self, before: float) -> None:
        """Remove what writers left that were killed before then."""
        for name, status in self._list_files():
            if name.startswith(_NEW) and status.st_mtime < before:
                self.remove(name)

    def _account(self, size: int) -> None:
        """Keep the bound without a look at the whole folder for every entry: what it held at the
        last look and what this process has put since is known, others' entries are not."""
        size_before, puts = _held.get(self.folder, (self.limit, 0))
        if size_before + size > self.limit or puts >= _PUTS_PER_SCAN:
            size_before, puts = self._trim(), -1
            size = 0
        _held[self.folder] = (size_before + size, puts + 1)

    def _trim(self) -> int:
        """Remove the entries used longest ago; returns the bytes that are left. A large cache is
        trimmed by a sixteenth more, so that the next entry does not come to look again."""
        self._remove_stale_files(time.time() - _STALE_SECONDS)
        entries = self.entries()
        total = sum(e.size for e in entries)
        wanted = self.limit - (self.limit // 16 if self.limit > _MIN_TRIM_SLACK_BYTES else 0)
        for entry in entries if total > self.limit else ():
            if total <= wanted:
                break
            self.remove(entry.key)
            total -= entry.size
        return total


def _is_key(name: str) -> bool:
    return len(name) == _KEY_LENGTH and not name.strip("0123456789abcdef")


def _digest(key: str, payload: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(payload)
    return digest.digest()
