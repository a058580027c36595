"""Reading a container (container_format.py): damage is found before anything of a section is used.

Sections are read into memory of our own, not mapped. A file that is truncated in place under a
mapping (`cp new.irc model.irc` does that) kills the process with a signal at the next page it
touches, and one that is overwritten changes weights whose digest was right. Reading adds about a
quarter to the time that digesting takes anyway, and what was packed is given back at once. A file
that is replaced by rename stays readable as it was: the descriptor is kept.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import os
import stat
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, Final, NoReturn

from ...ir.errors import ArtifactError
from ...ir.lazy_dataclass import dataclass
from ..machine.cpus import usable_cores
from .container_format import (
    ALIGN_BYTES,
    CHUNK_BYTES,
    FIELDS,
    FORMAT,
    HEADER_BYTES,
    MAGIC,
    Bytes,
    Section,
)

# What parsing JSON may take, estimated before it is parsed: room for some 70 000 steps.
_MAX_PARSED_BYTES: Final = 256 << 20
# A system call fills at most 1024 pieces of memory (IOV_MAX on Linux and macOS).
_MAX_PIECES_PER_CALL: Final = 512
_COPY_AGAIN: Final = "copy the file again, or compile the model again"


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """Memory for the bytes of the file that begin at `offset`."""

    offset: int
    memory: memoryview


class Container:
    """An open container. `content` is its manifest, `sections` are in the order of the file,
    `digest` covers every byte: files with equal digests are equal.

    source: a path, or the content of a file. Header and manifest are checked at once, sections as
    they are read. ArtifactError for all damage; one that is open may be read in any thread.
    """

    def __init__(self, source: str | os.PathLike[str] | Bytes) -> None:
        self.name, self._fd, self._held = _open(source)
        if self._fd is not None:
            self._close = weakref.finalize(self, os.close, self._fd)
        self.size = os.fstat(self._fd).st_size if self._fd is not None else len(self._held)
        self._scratch = threading.local()
        self.content = self._read_manifest()
        self.sections = self._read_sections()
        self._digests, self._starts = self._read_chunks()

    def fail(
        self, what: str, got: object = None, expected: object = None, *, section: int | None = None
    ) -> ArtifactError:
        """The error that says so of this file, or of a section of it."""
        where = self.name
        if section is not None:
            s = self.sections[section]
            where += f", section {section} ({s.kind}, offset {s.offset}, {s.size} bytes)"
        return ArtifactError(what, where=where, got=got, expected=expected, fix=_COPY_AGAIN)

    # Opening ----------------------------------------------------------------------------------

    def _read_manifest(self) -> dict[str, Any]:
        head = bytearray(min(HEADER_BYTES, self.size))
        self._read_into(0, [memoryview(head)])
        if not head.startswith(MAGIC):
            raise ArtifactError(
                "this is not an irc artefact",
                where=self.name,
                got=_looks_like(head),
                expected="a file that `irc compile` wrote",
                fix="give the model itself (.onnx, .xml), or compile it first",
            )
        if len(head) < HEADER_BYTES:
            self._cut_short(f"at least {HEADER_BYTES} bytes")
        _, version, zero, size, offset, length, digest = FIELDS.unpack_from(head)
        if version != FORMAT:
            raise ArtifactError(
                "the artefact is of another version of the format",
                where=self.name,
                got=f"version {version}",
                expected=f"version {FORMAT}",
                fix="compile the model again with this irc",
            )
        if self.size < size:
            self._cut_short(f"{size} bytes")
        if self.size != size or zero or any(head[FIELDS.size :]):
            raise self.fail("the artefact's header is damaged", f"{self.size} bytes", size)
        if not HEADER_BYTES <= offset <= size or offset + length != size:
            raise self.fail("the artefact's header is damaged", f"manifest at {offset}, {length}")
        text = bytearray(length)
        self._read_into(offset, [memoryview(text)])
        self._head, self._text = bytes(head), text
        if (found := hashlib.sha256(text)).digest() != digest:
            got, expected = found.hexdigest(), digest.hex()
            raise self.fail(f"the artefact's manifest (offset {offset}) is damaged", got, expected)
        self._end, self.digest = offset, digest
        return self.parse(bytes(text), "manifest")

    def parse(self, text: bytes, what: str) -> dict[str, Any]:
        """A JSON object of the file. ArtifactError where it is none."""
        need = 88 * (text.count(b"[") + text.count(b"{")) + 48 * text.count(b",") + len(text)
        if need > _MAX_PARSED_BYTES:
            raise self.fail(f"the artefact's {what} is too large", f"about {need} bytes parsed")
        try:
            found: object = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise self.fail(f"the artefact's {what} is not a JSON", str(error)[:200]) from error
        if not isinstance(found, dict):
            raise self.fail(f"the artefact's {what} is not a JSON object", type(found).__name__)
        return found

    def _read_sections(self) -> tuple[Section, ...]:
        listed = self.content.get("sections")
        if not isinstance(listed, list):
            raise self.fail("the manifest lists no sections", repr(listed)[:80])
        sections: list[Section] = []
        at = HEADER_BYTES
        for entry in listed:
            kinds = [type(e) for e in entry] if isinstance(entry, list) else []
            good = kinds == [str, int, int] and entry[1] % ALIGN_BYTES == 0
            if not good or not at <= entry[1] <= entry[1] + entry[2] <= self._end:
                expected = f"[kind, offset, size] within {at}..{self._end}"
                raise self.fail("the manifest lists a bad section", repr(entry)[:80], expected)
            sections.append(Section(*entry))
            at = entry[1] + entry[2]
        return tuple(sections)

    def _read_chunks(self) -> tuple[list[str], list[int]]:
        """Each chunk's digest, and where it begins; at last where the body ends."""
        listed = self.content.get("chunks")
        if not isinstance(listed, list):
            raise self.fail("the manifest lists no chunks", repr(listed)[:80], "a list")
        digests: list[str] = []
        starts = [HEADER_BYTES]
        for entry in listed:
            kinds = [type(e) for e in entry] if isinstance(entry, list) else []
            if kinds != [int, str] or not 0 < entry[0] <= CHUNK_BYTES:
                raise self.fail("the manifest lists a bad chunk", repr(entry)[:80])
            digests.append(entry[1])
            starts.append(starts[-1] + entry[0])
        if starts[-1] != self._end:
            raise self.fail("the chunks are not the whole body", starts[-1], self._end)
        return digests, starts

    def _cut_short(self, expected: str) -> NoReturn:
        raise self.fail("the artefact is cut short", f"{self.size} bytes", expected)

    # Reading ----------------------------------------------------------------------------------

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return len(self._digests)

    def chunks_of(self, offset: int, size: int) -> range:
        """The chunks that hold some of these bytes of the body."""
        if not size:
            return range(0)
        first = bisect.bisect_right(self._starts, offset) - 1
        return range(first, bisect.bisect_left(self._starts, offset + size))

    def read(self, section: int) -> bytes:
        """A section's content, checked."""
        s = self.sections[section]
        memory = bytearray(s.size)
        self.fill([ReadRequest(s.offset, memoryview(memory))], self.chunks_of(s.offset, s.size))
        return bytes(memory)

    def fill(self, pieces: Sequence[ReadRequest], chunks: Sequence[int] | None = None) -> None:
        """Check chunks (None: all, the whole file) and put their bytes into the pieces.

        Pieces do not overlap; what of them is in other chunks is left alone. All usable CPUs
        take part. After an ArtifactError the pieces hold nothing of use.
        """
        ordered = sorted((p for p in pieces if len(p.memory)), key=lambda p: p.offset)
        starts = [p.offset for p in ordered]
        wanted = range(len(self._digests)) if chunks is None else chunks
        if len(wanted) < 2:
            for chunk in wanted:
                self._check_chunk(chunk, ordered, starts)
            return
        with ThreadPoolExecutor(min(usable_cores(), len(wanted)), "irc-load") as pool:
            for _ in pool.map(lambda chunk: self._check_chunk(chunk, ordered, starts), wanted):
                pass

    def read_at(self, piece: ReadRequest) -> None:
        """Fill one piece, in the calling thread alone."""
        for chunk in self.chunks_of(piece.offset, len(piece.memory)):
            self._check_chunk(chunk, [piece], [piece.offset])

    def copy_to(self, stream: BinaryIO) -> None:
        """Write the whole file again, every digest checked."""
        stream.write(self._head)
        for chunk in range(len(self._digests)):
            begin, end = self._starts[chunk : chunk + 2]
            memory = memoryview(bytearray(end - begin))
            self._check_chunk(chunk, [ReadRequest(begin, memory)], [begin])
            stream.write(memory)
        stream.write(self._text)

    def _check_chunk(
        self, chunk: int, pieces: Sequence[ReadRequest], starts: Sequence[int]
    ) -> None:
        """Read a chunk, into pieces where they want it, and compare its digest."""
        begin, end = self._starts[chunk : chunk + 2]
        at, digest = begin, hashlib.sha256()
        n = max(0, bisect.bisect_right(starts, at) - 1)
        listed: list[memoryview] = []
        while at < end:
            while n < len(pieces) and starts[n] + len(pieces[n].memory) <= at:
                n += 1
            if n < len(pieces) and starts[n] <= at:
                skip = at - starts[n]
                listed.append(pieces[n].memory[skip : skip + end - at])
            else:
                until = min(end, starts[n]) if n < len(pieces) else end
                listed.append(self._scratch_memory()[at - begin : until - begin])
            at += len(listed[-1])
        at = begin
        for first in range(0, len(listed), _MAX_PIECES_PER_CALL):
            some = listed[first : first + _MAX_PIECES_PER_CALL]
            self._read_into(at, some)
            for part in some:
                digest.update(part)
                at += len(part)
        if digest.hexdigest() != self._digests[chunk]:
            self._raise_damaged(begin, end, digest.hexdigest(), self._digests[chunk])

    def _scratch_memory(self) -> memoryview:
        """Memory of this thread for bytes that only their digest needs."""
        memory = getattr(self._scratch, "memory", None)
        if memory is None:
            memory = self._scratch.memory = memoryview(bytearray(CHUNK_BYTES))
        return memory

    def _raise_damaged(self, begin: int, end: int, got: str, expected: object) -> NoReturn:
        inside = [s for s in self.sections if s.offset < end and s.offset + s.size > begin]
        named = ", ".join(f"{self.sections.index(s)} ({s.kind})" for s in inside[:5]) or "none"
        raise ArtifactError(
            "the artefact is damaged: its bytes are not those that were written",
            where=f"{self.name}, bytes {begin}..{end}, in section {named}",
            got=f"SHA-256 {got}",
            expected=repr(expected)[:80],
            fix=_COPY_AGAIN,
        )

    def _read_into(self, offset: int, memory: list[memoryview]) -> None:
        """Fill the memory with the bytes at `offset`, or fail."""
        if self._fd is None:
            for part in memory:
                part[:] = self._held[offset : offset + len(part)]
                offset += len(part)
            return
        while memory:
            try:
                count = os.preadv(self._fd, memory, offset)
            except OSError as error:
                raise self.fail("the artefact cannot be read", error.strerror or error) from error
            if count == 0 and any(memory):
                raise self.fail("the artefact became shorter while it was read", f"{offset} bytes")
            offset += count
            memory = _remaining_views(memory, count)


def _remaining_views(memory: list[memoryview], count: int) -> list[memoryview]:
    """The rest to fill after `count` bytes."""
    for n, part in enumerate(memory):
        if count < len(part):
            return [part[count:], *memory[n + 1 :]]
        count -= len(part)
    return []


def _open(source: str | os.PathLike[str] | Bytes) -> tuple[str, int | None, memoryview]:
    """(name for messages, descriptor or None, content if it is not a file)."""
    if isinstance(source, bytes | bytearray | memoryview):
        return "<artefact>", None, memoryview(bytes(source))
    name = os.fspath(source)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        # O_NONBLOCK: opening a pipe without a writer must not wait.
        fd = os.open(name, flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArtifactError(
            "the artefact cannot be opened", where=repr(name), got=reason, expected="a file"
        ) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        got = "a directory" if stat.S_ISDIR(mode) else "a pipe or device"
        raise ArtifactError(
            "the artefact is not a regular file", where=repr(name), got=got, expected="a file"
        )
    return repr(name), fd, memoryview(b"")


def _looks_like(head: Bytes) -> str:
    """What a file that is none of ours seems to be."""
    start = bytes(head[:16]).lstrip(b"\xef\xbb\xbf \t\r\n")
    known = {
        b"<": "XML (an OpenVINO model?)",
        b"PK": "a zip archive",
        b"\x93NUMPY": "a NumPy array",
        b"version https": "a pointer of git-lfs, not the file itself",
        b"\x08": "a protobuf message (an ONNX model?)",
    }
    named = next((what for sign, what in known.items() if start.startswith(sign)), None)
    return named or (f"bytes {bytes(head[:8])!r}" if head else "an empty file")


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
