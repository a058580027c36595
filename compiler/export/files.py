"""Files written whole or not at all: temporary files next to the target, fsync, rename."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from ...ir.errors import Error


@contextlib.contextmanager
def replace_files(*targets: Path) -> Generator[list[BinaryIO]]:
    """Streams that replace `targets`, in this order, when the block ends without an error.

    On any error the targets keep their contents and no temporary file remains. The last target is
    the one that a reader opens by its name; its old file is removed before the others are
    replaced. A process that is killed between two renames therefore leaves no model under that
    name, rather than an old one next to new weights. Raises Error naming the file where the
    system refuses.
    """
    streams: list[BinaryIO] = []
    made: list[Path] = []
    try:
        with contextlib.ExitStack() as stack:
            for target in targets:
                path = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}.tmp"
                made.append(path)  # before it is there: an interrupt may come at any moment
                streams.append(stack.enter_context(_open_new(path, target)))
            yield streams
            for stream in streams:
                stream.flush()
                os.fsync(stream.fileno())
        _put_in_place(list(zip(made, targets, strict=True)))
        made.clear()
        _sync_folder(targets[0].parent)
    except OSError as error:
        shown = " and ".join(repr(str(t)) for t in targets)
        raise Error(
            "the file cannot be written",
            where=shown,
            got=error.strerror or str(error),
            expected="a folder that is there, may be written to, and has room",
        ) from error
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _put_in_place(pairs: list[tuple[Path, Path]]) -> None:
    """Rename the new files, all of them also where an interrupt comes between."""
    try:
        if len(pairs) > 1:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(pairs[-1][1])
        for path, target in pairs:
            os.replace(path, target)
    except OSError:
        raise
    except BaseException:
        for path, target in pairs:
            with contextlib.suppress(FileNotFoundError):  # it is there already
                os.replace(path, target)
        raise


def _open_new(path: Path, target: Path) -> BinaryIO:
    """A new file with the permissions that any new file has."""
    if target.is_dir():
        raise IsADirectoryError(21, "it is a directory", str(target))
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666), "wb")


def _sync_folder(folder: Path) -> None:
    """Make the renames themselves durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
