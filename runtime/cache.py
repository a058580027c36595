"""The code cache on disk: machine code by content key, private to the user, bounded.

An entry is a file named by its key: 32 bytes of SHA-256 over key and payload, then the payload.
Nobody ever sees an entry whose digest does not match, nor one from a folder that others can write.
Writers write a temporary file and rename it, so readers see whole entries only; when the folder
grows past its bound, the entries used longest ago go. Every failure to read or write the cache is
a miss, never an error: the cache is a comfort.

`IRC_CACHE_DIR` names another folder, or "off"; `IRC_CACHE_BYTES` another bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..ir.errors import UsageError

# About 40 kB a kernel: room for some thousand kernels.
DEFAULT_BYTES = 256 * 2**20
_DIGEST = 32
_KEY_LENGTH = 64
# Files that are being written, and after how many seconds one of them is nobody's any more.
_NEW = ".new-"
_STALE = 600.0


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
            "the bound of the code cache is no number",
            where="environment variable IRC_CACHE_BYTES",
            got=text[:80],
            expected="bytes, such as 268435456",
        )
    return int(text) if text else DEFAULT_BYTES


def default_cache() -> DiskCache | None:
    """The user's cache, or None where it is off or its folder can't be trusted."""
    folder = cache_folder()
    if folder is None:
        return None
    cache = DiskCache(folder, cache_bytes())
    return cache if cache.prepare() else None


# Entries that a process puts before it looks again what others did, and the bound from which on
# trimming leaves room.
_LOOK_EVERY: Final = 256
_LARGE: Final = 1 << 20
# By folder: the bytes it held at the last look with those put since, and how many puts that were.
_held: dict[Path, tuple[int, int]] = {}


@dataclass(frozen=True)
class Entry:
    """One entry: its key, size in bytes, and time of last use (seconds since the epoch)."""

    key: str
    size: int
    used: float


@dataclass(frozen=True)
class DiskCache:
    """A folder of entries; safe against concurrent readers and writers of many processes."""

    folder: Path
    limit: int = DEFAULT_BYTES

    def prepare(self) -> bool:
        """Make the folder if need be. False where it is not a folder of this user alone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = self.folder.stat()
        except OSError:
            return False
        if not hasattr(os, "getuid"):
            return True
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid != os.getuid() or shared:
            return False  # what others may have put there cannot be told from what we did
        if stat.S_IMODE(found.st_mode) & 0o077:
            with contextlib.suppress(OSError):
                self.folder.chmod(0o700)
        return True

    def get(self, key: str) -> bytes | None:
        """The payload stored under a key; a damaged entry is removed and missed."""
        path = self._path(key)
        if path is None:
            return None
        try:
            data = path.read_bytes()
        except OSError:
            return None
        payload = data[_DIGEST:]
        if data[:_DIGEST] != _digest(key, payload):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Store a payload; what does not fit or can't be written is left out silently."""
        path = self._path(key)
        if path is None or len(payload) + _DIGEST > self.limit:
            return
        new = self.folder / f"{_NEW}{secrets.token_hex(8)}"
        try:
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
                with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
                    file.write(_digest(key, payload) + payload)
                os.replace(new, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new)
                raise
        except OSError:
            return
        self._account(len(payload) + _DIGEST)

    def entries(self) -> list[Entry]:
        """All entries, the one used longest ago first."""
        found: list[Entry] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as listing:
            for item in listing:
                if not _is_key(item.name):
                    continue
                with contextlib.suppress(OSError):
                    info = item.stat()
                    found.append(Entry(item.name, info.st_size, info.st_mtime))
        return sorted(found, key=lambda e: (e.used, e.key))

    def clear(self) -> int:
        """Remove all entries; returns how many."""
        entries = self.entries()
        for entry in entries:
            with contextlib.suppress(OSError):
                (self.folder / entry.key).unlink()
        self._sweep(time.time() - _STALE)
        return len(entries)

    def _path(self, key: str) -> Path | None:
        return self.folder / key if _is_key(key) else None

    def _sweep(self, before: float) -> None:
        """Remove what writers left that were killed before then."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as listing:
            for item in listing:
                with contextlib.suppress(OSError):
                    if item.name.startswith(_NEW) and item.stat().st_mtime < before:
                        os.unlink(item.path)

    def _account(self, size: int) -> None:
        """Keep the bound without a look at the whole folder for every entry: what it held at the
        last look and what this process has put since is known, others' entries are not."""
        held, puts = _held.get(self.folder, (self.limit, 0))
        if held + size > self.limit or puts >= _LOOK_EVERY:
            held, puts = self._trim(), -1
            size = 0
        _held[self.folder] = (held + size, puts + 1)

    def _trim(self) -> int:
        """Remove the entries used longest ago; returns the bytes that are left. A large cache is
        trimmed by a sixteenth more, so that the next entry does not come to look again."""
        self._sweep(time.time() - _STALE)
        entries = self.entries()
        total = sum(e.size for e in entries)
        wanted = self.limit - (self.limit // 16 if self.limit > _LARGE else 0)
        for entry in entries if total > self.limit else ():
            if total <= wanted:
                break
            with contextlib.suppress(OSError):
                (self.folder / entry.key).unlink()
            total -= entry.size
        return total


def _is_key(name: str) -> bool:
    return len(name) == _KEY_LENGTH and not name.strip("0123456789abcdef")


def _digest(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + payload).digest()
