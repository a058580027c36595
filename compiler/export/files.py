"""Files written whole or not at all: temporary files beside the target, fsync, rename."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from ...ir.errors import Error


@contextlib.contextmanager
def replacing(*targets: Path) -> Generator[list[BinaryIO]]:
    """Streams that replace `targets`, in this order, when the block ends without an error.

    On any error the targets stay as they were and nothing is left behind. Raises Error naming the
    file where the system refuses.
    """
    streams: list[BinaryIO] = []
    made: list[str] = []
    try:
        with contextlib.ExitStack() as stack:
            for target in targets:
                stream, path = _open_beside(target)
                made.append(path)
                streams.append(stack.enter_context(stream))
            yield streams
            for stream in streams:
                stream.flush()
                os.fsync(stream.fileno())
        for path, target in zip(list(made), targets, strict=True):
            os.replace(path, target)
            made.remove(path)
        _sync_folder(targets[0].parent)
    except OSError as error:
        shown = " and ".join(repr(str(t)) for t in targets)
        raise Error(
            "the file cannot be written", where=shown, got=error.strerror or str(error)
        ) from error
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _open_beside(target: Path) -> tuple[BinaryIO, str]:
    if target.is_dir():
        raise IsADirectoryError(21, "it is a directory", str(target))
    handle, path = tempfile.mkstemp(
        prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent
    )
    # mkstemp's files are private; a model gets the permissions any new file has.
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)
    return os.fdopen(handle, "wb"), path


def _sync_folder(folder: Path) -> None:
    """Make the renames themselves durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
