"""A folder of this user alone: opened once, checked by its descriptor, used relative to it.

What is in the folder is run as machine code, so no other user may write to it, nor replace it.
The path is walked from the root, one component at a time and without following links; each folder
is opened relative to the one before and checked by `fstat` of what was opened. A folder on the way
must belong to root or to this user, and must not be writable by others unless its sticky bit keeps
them from renaming what is not theirs. Later calls use the descriptor: if the path is replaced,
nothing of the replacement is read.

Without `dir_fd` (Windows) names are joined to the path, and the folder's permissions are those of
the system.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, Final

from ...ir.errors import Error

HAS_DIR_FD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_CLOSE: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOSE
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS: Final = 40
# A folder on the way need not be readable: /home often is not.
_PASS: Final = getattr(os, "O_PATH", os.O_RDONLY)


class NotPrivateError(Error):
    """A folder, or one on the way to it, can be written or replaced by another user."""


class PrivateFolder:
    """An open folder that only this user can write to or replace. OSError where it cannot be
    opened or made, NotPrivateError where it is not this user's alone."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._fd: int | None = None
        if not HAS_DIR_FD:
            os.makedirs(self.path, exist_ok=True)
            return
        self._fd = _open_path(self.path)
        try:
            _require_own(os.fstat(self._fd), self.path)
            if os.fstat(self._fd).st_mode & 0o077:
                with contextlib.suppress(OSError):
                    os.fchmod(self._fd, 0o700)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the descriptor; the folder can't be used any more."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def open(self, name: str) -> BinaryIO:
        """A file, to read. OSError where there is none; NotPrivateError where it is a link or not a
        regular file, and where another user owns it or can write to it."""
        try:
            fd = os.open(self._path_of(name), os.O_RDONLY | _NO_LINK, dir_fd=self._fd)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, a socket
                raise
            raise NotPrivateError("not a regular file", where=name) from error
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not _is_own(found):
            os.close(fd)
            raise NotPrivateError(
                "not a regular file of this user alone", where=os.path.join(self.path, name)
            )
        return os.fdopen(fd, "rb")

    def read(self, name: str, limit: int) -> bytes:
        """The content of a file. Errors as of `open`, and NotPrivateError for a larger one."""
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise NotPrivateError("a larger file than an entry may be", where=name, got=size)
            return file.read(size)

    @contextlib.contextmanager
    def create(self, name: str, new: str) -> Iterator[BinaryIO]:
        """Store a file as a whole: written under the name `new`, then renamed. An error inside
        leaves nothing."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_LINK
        try:
            with os.fdopen(
                os.open(self._path_of(new), flags, 0o600, dir_fd=self._fd), "w+b"
            ) as file:
                yield file
            os.replace(
                self._path_of(new), self._path_of(name), src_dir_fd=self._fd, dst_dir_fd=self._fd
            )
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(new)
            raise

    def remove(self, name: str) -> None:
        """Remove a file or a link."""
        os.unlink(self._path_of(name), dir_fd=self._fd)

    def touch(self, name: str) -> None:
        """Set the time of a file's last use to now."""
        if self._fd is None:
            os.utime(self._path_of(name))
        else:
            os.utime(name, dir_fd=self._fd, follow_symlinks=False)

    def list_files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Name and status of each regular file."""
        with os.scandir(self.path if self._fd is None else self._fd) as listing:
            for item in listing:
                with contextlib.suppress(OSError):
                    found = item.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        yield item.name, found

    def _path_of(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self.path, name)


def _open_path(path: str) -> int:
    """The descriptor of a folder, made if need be; each folder on the way is checked."""
    flags = _PASS | os.O_DIRECTORY | _CLOSE
    here, links = os.open("/", flags), 0
    shown, rest = "/", deque(part for part in path.split("/") if part)
    try:
        while rest:
            part = rest.popleft()
            status = os.fstat(here)
            _require_safe(status, shown)
            try:
                inner = _open_or_make(part, here, os.O_RDONLY if not rest else _PASS)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                links += 1
                target = _read_link(part, here, os.path.join(shown, part))
                if not rest or links > _MAX_LINKS:
                    raise
                rest.extendleft(reversed([p for p in target.split("/") if p]))
                if target.startswith("/"):
                    os.close(here)
                    here, shown = os.open("/", flags), "/"
                continue
            os.close(here)
            here, shown = inner, os.path.join(shown, part)
        return here
    except BaseException:
        os.close(here)
        raise


def _open_or_make(name: str, at: int, access: int) -> int:
    """A folder in the folder `at`. ELOOP or ENOTDIR for a link and for what is not a folder."""
    flags = access | os.O_DIRECTORY | os.O_NOFOLLOW | _CLOSE
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=at)
        return os.open(name, flags, dir_fd=at)


def _read_link(name: str, at: int, shown: str) -> str:
    """The target of a link on the way, which root or this user made. The folder that holds it is
    checked: no other user can replace it."""
    if os.lstat(name, dir_fd=at).st_uid not in _trusted_users():
        raise NotPrivateError("another user made a link in the folder's path", where=shown)
    try:
        return os.readlink(name, dir_fd=at)
    except OSError as error:  # a file
        raise NotADirectoryError(error.errno, "not a folder", shown) from error


def _require_safe(found: os.stat_result, shown: str) -> None:
    """NotPrivateError where another user could rename what a folder on the way holds.

    A sticky folder keeps others from renaming what is not theirs; what is found in it is checked
    in turn, and belongs to root or to this user.
    """
    if found.st_uid not in _trusted_users():
        got = f"user {found.st_uid}"
        expected = f"root or user {os.getuid()}"
        raise NotPrivateError(
            "another user owns a folder on the way", where=shown, got=got, expected=expected
        )
    if found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
        raise NotPrivateError(
            "other users can write to a folder on the way",
            where=shown,
            got=f"mode {stat.S_IMODE(found.st_mode):o}",
            fix="take the write permission of group and others from it",
        )


def _require_own(found: os.stat_result, shown: str) -> None:
    if not _is_own(found):
        raise NotPrivateError(
            "the folder is not this user's alone",
            where=shown,
            got=f"user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}",
            expected=f"user {os.getuid()}, not writable by other users",
            fix="take the write permission of group and others from it, or name another folder",
        )


def _is_own(found: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS


def _trusted_users() -> set[int]:
    """Users who could replace any file: root, this user, and the owner of `/`, which in a user
    namespace is root under another number."""
    return {0, os.getuid(), os.stat("/").st_uid}
