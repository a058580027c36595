"""Files inside a folder, opened so that no link and no race leads out of it.

The folder is opened once; each component of a location is opened relative to the one before,
without following links. A link is resolved here, component by component, and `..` goes back to a
folder that is open already. So what is opened is inside the folder, whatever another process moves
or replaces meanwhile. A hard link cannot be distinguished from a file; the system decides which
users may make one.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from typing import Final

HAS_DIR_FD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_MAX_LINKS: Final = 40
_CLOSE: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class LeavesFolderError(Exception):
    """A location leads out of the folder."""


def open_inside(folder: str, location: str) -> int:
    """The descriptor of a file inside a folder, by a relative location. OSError where it can't be
    opened, LeavesFolderError where a link leads out of the folder."""
    if not HAS_DIR_FD:
        return _open_resolved(folder, location)
    passing = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _CLOSE
    opened = [os.open(folder, passing)]
    try:
        return _walk(opened, os.path.realpath(folder), deque(location.split("/")), passing)
    finally:
        for fd in opened:
            os.close(fd)


def _walk(opened: list[int], folder: str, rest: deque[str], passing: int) -> int:
    """Open the components of `rest` one after another; `opened` are the folders on the way."""
    links = 0
    while rest:
        part = rest.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if len(opened) == 1:
                raise LeavesFolderError
            os.close(opened.pop())
            continue
        last = not any(p not in ("", ".") for p in rest)
        flags = os.O_RDONLY | os.O_NONBLOCK | _CLOSE if last else passing
        try:
            fd = os.open(part, flags | os.O_NOFOLLOW, dir_fd=opened[-1])
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            links += 1
            target = _read_link(part, opened[-1], error)
            if links > _MAX_LINKS:
                raise
            if target.startswith("/"):
                if target != folder and not target.startswith(folder.rstrip("/") + "/"):
                    raise LeavesFolderError from error
                target = target[len(folder) :]
                while len(opened) > 1:
                    os.close(opened.pop())
            rest.extendleft(reversed(target.split("/")))
            continue
        if last:
            return fd
        opened.append(fd)
    raise LeavesFolderError  # the folder itself, or one above a link in it


def _read_link(part: str, at: int, error: OSError) -> str:
    try:
        return os.readlink(part, dir_fd=at)
    except OSError:  # not a link: a file where a folder is needed
        raise error from None


def _open_resolved(folder: str, location: str) -> int:
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, *location.split("/")))
    if os.path.commonpath([root, path]) != root or path == root:
        raise LeavesFolderError
    return os.open(path, os.O_RDONLY | _CLOSE)
