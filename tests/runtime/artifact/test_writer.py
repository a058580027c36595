"""Writing artefacts: whole or not at all; and the pieces in which they are read."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, BinaryIO

import irc_compiler as irc
import pytest
from irc_compiler.runtime.artifact import container_format as container
from irc_compiler.runtime.artifact import writer as artifact_writer
from irc_compiler.runtime.artifact.container_reader import Container, ReadRequest


class Full:
    """A stream on a disk with room for `room` bytes."""

    def __init__(self, stream: BinaryIO, room: int) -> None:
        self.stream, self.room = stream, room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@pytest.mark.parametrize("room", [0, 100, 300, 3000, 8000])
def test_a_full_disk_leaves_nothing(
    room: int,
    tiny_net: irc.CompiledModel,
    tiny_artifact: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(b"what was there")
    write = artifact_writer.write_artifact

    def full(stream: BinaryIO, *rest: Any) -> Any:
        return write(Full(stream, room), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(artifact_writer, "write_artifact", full)
    with pytest.raises(irc.Error, match="cannot be written") as caught:
        tiny_net.export(path)
    assert "No space left" in str(caught.value) and str(path) in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m.irc"]
    assert path.read_bytes() == b"what was there"


def test_a_folder_that_is_not_there(tiny_net: irc.CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(irc.Error, match="cannot be written"):
        tiny_net.export(tmp_path / "no" / "m.irc")


def test_pieces_of_a_chunk(tmp_path: Path) -> None:
    """Pieces besides one another, apart, empty, and across chunks, in any order."""
    content = bytes(range(256)) * 40
    with open(tmp_path / "c", "wb") as stream:
        writer = container.Writer(stream)
        writer.begin("a")
        writer.write(content)
        writer.finish({})
    file = Container(tmp_path / "c")
    wanted = [(0, 10), (10, 5), (10, 0), (300, 1), (1024, 4096), (10239, 1), (9000, 0)]
    memory = [bytearray(size) for _, size in wanted]
    pieces = [
        ReadRequest(128 + at, memoryview(m)) for (at, _), m in zip(wanted, memory, strict=True)
    ]
    file.fill(pieces[::-1])
    for (at, size), m in zip(wanted, memory, strict=True):
        assert bytes(m) == content[at : at + size]
    assert file.read(0) == content
