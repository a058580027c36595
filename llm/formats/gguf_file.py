"""Headers of GGUF files: metadata and the table of tensors, checked before anything is allocated.

Format: version 2 and 3, little-endian (docs/gguf.md of ggml). A header's counts and lengths are
compared with the bytes that the file has before they are used, so a file cannot request more memory
than a small multiple of its own size.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ...compiler.frontends.xml.source import FileState, OpenFile, record_files
from ...ir.errors import ModelFormatError, UnsupportedOperationError
from ...ir.op import Array
from .stored_tensor import StoredTensor

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_HEADER_BYTES = 1 << 30
_MAX_TENSORS = 1 << 16
_MAX_ENTRIES = 1 << 16
_MAX_AXES = 4
_MAX_NAME_BYTES = 1 << 10
_MAX_SIZE = 1 << 48
# Bytes that are read at a time: more than most headers have.
_FIRST_BYTES = 8 << 20

# Number of a metadata type -> NumPy's type; 8 is a string, 9 an array.
_SCALARS = {
    0: np.dtype("u1"), 1: np.dtype("i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"),
    4: np.dtype("<u4"), 5: np.dtype("<i4"), 6: np.dtype("<f4"), 7: np.dtype("?"),
    10: np.dtype("<u8"), 11: np.dtype("<i8"), 12: np.dtype("<f8"),
}  # fmt: skip
_STRING, _ARRAY = 8, 9
# Number of a tensor type -> name, elements of a block, bytes of a block.
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    20: ("IQ4_NL", 32, 18), 23: ("IQ4_XS", 256, 136), 30: ("BF16", 1, 2), 39: ("MXFP4", 32, 17),
}  # fmt: skip
# Types that exist, and that irc does not read.
_OTHER_TYPES = {
    15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0",
}  # fmt: skip


class GgufFile:
    """An open GGUF file. metadata: key -> number, bool, str, list of str, or array of numbers."""

    def __init__(self, path: str | os.PathLike[str], *, max_memory: int | None = None) -> None:
        self.path = os.fspath(path)
        with record_files() as files:
            self._file = OpenFile(path, "the GGUF file", max_memory=max_memory)
        self.files: tuple[FileState, ...] = tuple(files)
        try:
            cursor = _Cursor(self._file, self.path)
            self.metadata: dict[str, Any] = {}
            self.tensors: dict[str, StoredTensor] = {}
            _read_header(cursor, self)
        except BaseException:
            self._file.close()
            raise

    def bytes_of(self, tensor: StoredTensor) -> Array:
        """A tensor's bytes, read-only."""
        return self._file.part(tensor.first, tensor.last)

    def row_reader(self, tensor: StoredTensor) -> Callable[[int, int], Array]:
        """Reads the bytes of rows first to last of a tensor of two axes. It keeps the file open,
        and nothing else of this object in memory. ModelFormatError once the file has changed."""
        file, start = self._file, tensor.first
        size = (tensor.last - start) // tensor.shape[0]

        def read(first: int, last: int) -> Array:
            data = file.part(start + first * size, start + last * size)
            file.require_unchanged()
            return data

        return read

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._file.close()

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Cursor:
    """Reads a header front to back, in pieces; no further than the file goes."""

    def __init__(self, file: OpenFile, where: str) -> None:
        self._file, self._where = file, where
        self.size, self.at = file.size, 0
        self._held, self._first = memoryview(b""), 0

    def fail(self, what: str, got: object = None, expected: object = None) -> ModelFormatError:
        """An error at this offset of the file."""
        where = f"{self._where!r}, byte {self.at}"
        return ModelFormatError(what, where=where, got=got, expected=expected)

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes."""
        left = min(self.size, _MAX_HEADER_BYTES) - self.at
        if count > left:
            raise self.fail(f"the header ends inside {what}", f"{count} bytes", f"at most {left}")
        if self.at + count > self._first + len(self._held):
            last = min(self.size, self.at + max(count, _FIRST_BYTES))
            part: Any = self._file.part(self.at, last)
            self._held = memoryview(part).cast("B")
            self._first = self.at
        start = self.at - self._first
        self.at += count
        return self._held[start : start + count]

    def unpack(self, form: str, what: str) -> int:
        """The next integer."""
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def text(self, what: str, most: int) -> str:
        """A length in 8 bytes and that many bytes of UTF-8."""
        count = self.unpack("<Q", what)
        if count > most:
            raise self.fail(f"{what} is too long", f"{count} bytes", f"at most {most}")
        return str(self.take(count, what), "utf-8", "replace")

    def texts(self, count: int, what: str) -> list[str]:
        """So many texts, one after another."""
        found: list[str] = []
        while len(found) < count:
            # As many as the held bytes have; the next one is taken alone, which reads on.
            data, at = self._held, self.at - self._first
            while len(found) < count and at + 8 <= len(data):
                (size,) = struct.unpack_from("<Q", data, at)
                if size > len(data) - at - 8:
                    break
                found.append(str(data[at + 8 : at + 8 + size], "utf-8", "replace"))
                at += 8 + size
            self.at = self._first + at
            if len(found) < count:
                found.append(self.text(what, _MAX_HEADER_BYTES))
        return found


def _read_header(c: _Cursor, file: GgufFile) -> None:
    magic = bytes(c.take(4, "the magic number")) if c.size >= 4 else b""
    if magic != _MAGIC:
        raise c.fail("this is not a GGUF file", repr(magic), repr(_MAGIC))
    version = c.unpack("<I", "the version")
    if version not in _VERSIONS:
        swapped = version & 0xFFFF == 0
        got = "a big-endian file" if swapped else f"version {version}"
        raise c.fail("this version of GGUF is not read", got, "version 2 or 3, little-endian")
    tensors, entries = c.unpack("<Q", "the counts"), c.unpack("<Q", "the counts")
    for what, count, most in (
        ("tensors", tensors, _MAX_TENSORS),
        ("metadata entries", entries, _MAX_ENTRIES),
    ):
        if count > most:
            raise c.fail(f"the file claims too many {what}", count, f"at most {most}")
    for _ in range(entries):
        key = c.text("a metadata key", _MAX_NAME_BYTES)
        if key in file.metadata:
            raise c.fail("a metadata key occurs twice", key[:80])
        file.metadata[key] = _read_value(c, c.unpack("<I", "a metadata type"), key)
    records = [_read_record(c) for _ in range(tensors)]
    align = file.metadata.get("general.alignment", 32)
    if not isinstance(align, int) or not 1 <= align <= 1 << 16 or align & (align - 1):
        raise c.fail("the alignment is not a power of 2", align, "1 to 65536")
    start = -(-c.at // align) * align
    for name, kind, shape, offset in records:
        if name in file.tensors:
            raise c.fail("two tensors have one name", name[:80])
        if offset % align:
            raise c.fail(f"tensor {name[:80]!r} is not aligned", offset, f"a multiple of {align}")
        file.tensors[name] = _place_tensor(c, name, kind, shape, start + offset)
    _check_overlap(c, file)


def _read_value(c: _Cursor, kind: int, key: str) -> Any:
    if kind in _SCALARS:
        dtype = _SCALARS[kind]
        return np.frombuffer(c.take(dtype.itemsize, key), dtype)[0].item()
    if kind == _STRING:
        return c.text(f"the text of {key[:80]!r}", _MAX_HEADER_BYTES)
    if kind != _ARRAY:
        raise c.fail(f"metadata {key[:80]!r} has an unknown type", kind, "0 to 12")
    inner, count = c.unpack("<I", key), c.unpack("<Q", key)
    if inner in _SCALARS:
        dtype = _SCALARS[inner]
        return np.frombuffer(c.take(count * dtype.itemsize, f"array {key[:80]!r}"), dtype).copy()
    if inner != _STRING:
        raise c.fail(f"array {key[:80]!r} has elements of an unknown type", inner, "0 to 8, 10-12")
    if count * 8 > c.size - c.at:
        left = (c.size - c.at) // 8
        raise c.fail(f"array {key[:80]!r} is longer than the file", count, f"at most {left}")
    return c.texts(count, f"a text of {key[:80]!r}")


def _read_record(c: _Cursor) -> tuple[str, int, tuple[int, ...], int]:
    """(name, type, shape outermost first, offset in the data) of a tensor."""
    name = c.text("a tensor's name", _MAX_NAME_BYTES)
    rank = c.unpack("<I", "a tensor's rank")
    if not 1 <= rank <= _MAX_AXES:
        raise c.fail(f"tensor {name[:80]!r} has an impossible rank", rank, f"1 to {_MAX_AXES}")
    sizes = struct.unpack(f"<{rank}Q", c.take(8 * rank, "a tensor's shape"))
    kind, offset = c.unpack("<I", "a tensor's type"), c.unpack("<Q", "a tensor's offset")
    return name, kind, tuple(reversed(sizes)), offset


def _place_tensor(
    c: _Cursor, name: str, kind: int, shape: tuple[int, ...], first: int
) -> StoredTensor:
    shown = name[:80]
    known = TENSOR_TYPES.get(kind)
    if known is None and kind in _OTHER_TYPES:
        raise UnsupportedOperationError(
            f"tensor {shown!r} has a type that irc does not read",
            where=repr(c._where),
            got=_OTHER_TYPES[kind],
            expected=", ".join(t[0] for t in TENSOR_TYPES.values()),
        )
    if known is None:
        numbers = ", ".join(str(n) for n in TENSOR_TYPES)
        raise c.fail(f"tensor {shown!r} has an unknown type", kind, f"one of {numbers}")
    label, block, size = known
    count = math.prod(shape)
    if not 0 < count < _MAX_SIZE:
        raise c.fail(f"tensor {shown!r} has an impossible shape", shape, "1 or more elements")
    if shape[-1] % block:
        raise c.fail(f"rows of {shown!r} are not whole blocks", shape, f"a multiple of {block}")
    last = first + count // block * size
    if last > c.size:
        raise c.fail(f"tensor {shown!r} ends behind the file", last, f"at most {c.size} bytes")
    return StoredTensor(name, label, shape, first, last)


def _check_overlap(c: _Cursor, file: GgufFile) -> None:
    order = sorted(file.tensors.values(), key=lambda t: t.first)
    for before, after in zip(order, order[1:], strict=False):
        if after.first < before.last:
            got = f"{before.name[:80]!r} ends at {before.last}, {after.name[:80]!r} begins before"
            raise c.fail("two tensors overlap", got, "tensors one after another")
