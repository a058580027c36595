"""The file behind an artefact: a header, sections of bytes, a JSON manifest, digests of all of it.

    0     header of 128 bytes: magic, format version, the file's size, where the manifest lies and
          its SHA-256; the rest is zero
    128   the body: sections, each at a multiple of 64 bytes, zeros between them
    ...   the manifest, to the end of the file. It lists the sections and the body's chunks, of at
          most 4 MiB each: size and SHA-256

What is written in one piece of 1 MiB or more, a large weight, begins and ends a chunk, so that it
can be read, checked and packed on its own.

Every byte is covered by a digest or can have one value only, so damage is always noticed. A
digest says that the file is as it was written, not that it can be trusted.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from ...ir.lazy_dataclass import dataclass

MAGIC: Final = b"\x89IRC\r\n\x1a\n"
FORMAT: Final = 1
CHUNK_BYTES: Final = 4 << 20
# What is written in one piece of at least this size has chunks of its own.
MIN_OWN_CHUNK_BYTES: Final = 1 << 20
ALIGN_BYTES: Final = 64
HEADER_BYTES: Final = 128
FIELDS: Final = struct.Struct("<8sIIQQQ32s")

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Section:
    """A run of bytes of the file."""

    kind: str
    offset: int
    size: int


class Writer:
    """Writes a container to a seekable stream, section after section, every byte once. The file
    is none before `finish`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._end = stream, HEADER_BYTES
        self._chunk, self._chunk_start = hashlib.sha256(), HEADER_BYTES
        self._chunks: list[tuple[int, str]] = []
        self._sections: list[Section] = []
        stream.write(bytes(HEADER_BYTES))

    def begin(self, kind: str) -> int:
        """Start a section: what is written until the next one is its content. Its number."""
        self._close_section()
        self.write(bytes(-self._end % ALIGN_BYTES))
        self._sections.append(Section(kind, self._end, 0))
        return len(self._sections) - 1

    def write(self, data: Bytes) -> int:
        """Append bytes, as a stream does."""
        view = memoryview(data).cast("B")
        if len(view) >= MIN_OWN_CHUNK_BYTES:
            self._close_chunk()
        done = 0
        while done < len(view):
            part = view[done : done + CHUNK_BYTES - (self._end - self._chunk_start)]
            self._chunk.update(part)
            self._end += len(part)
            done += len(part)
            if self._end - self._chunk_start == CHUNK_BYTES:
                self._close_chunk()
        if len(view) >= MIN_OWN_CHUNK_BYTES:
            self._close_chunk()
        self._stream.write(view)
        return len(view)

    def finish(self, content: Mapping[str, Any]) -> None:
        """Write the manifest, `content` and what the container adds to it, and the header."""
        self._close_section()
        self._close_chunk()
        sections = [[s.kind, s.offset, s.size] for s in self._sections]
        manifest = {**content, "chunks": self._chunks, "sections": sections}
        text = json.dumps(manifest, separators=(",", ":"), allow_nan=False).encode()
        self._stream.write(text)
        size, digest = self._end + len(text), hashlib.sha256(text).digest()
        self._stream.seek(0)
        self._stream.write(FIELDS.pack(MAGIC, FORMAT, 0, size, self._end, len(text), digest))

    def _close_section(self) -> None:
        if self._sections:
            last = self._sections[-1]
            self._sections[-1] = Section(last.kind, last.offset, self._end - last.offset)

    def _close_chunk(self) -> None:
        size = self._end - self._chunk_start
        if size:
            self._chunks.append((size, self._chunk.hexdigest()))
            self._chunk, self._chunk_start = hashlib.sha256(), self._end
