"""Constants: the bytes of a `Const` layer in the .bin file, checked and made an array.

Every size is computed and compared before anything is allocated. Arrays are views of the file's
bytes where they are aligned for their type, copies where they are not; either is read-only.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ....ir.dtype import DType, parse_element_type
from ....ir.errors import MemoryLimitError, ModelFormatError
from ....ir.op import Array
from . import text as words
from .schema_records import XmlLayer
from .subbyte import is_packed, packed_bytes, unpack
from .text import BadText, shorten_text

# Element types that OpenVINO lacks, as irc's dialect names them.
_OWN_TYPES = {t.value: t for t in DType if not t.in_openvino}


_LFS_HEAD = b"version https://git-lfs"
_LFS = "the .bin is a git-lfs pointer: fetch the file itself"
_COPY = "check that the .bin belongs to this .xml and was copied in full"
# What the constants of a small file may need beyond eight times its size.
_EXTRA_CONSTANT_BYTES = 64 << 20


class Parts(Protocol):
    """A file or an array of bytes, of which parts are read. `referred`: bytes that ranges take."""

    size: int
    referred: int

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None: ...

    def part(self, first: int, last: int) -> Array: ...

    def close(self) -> None: ...


def referred_ranges(layers: Iterable[XmlLayer]) -> Iterator[tuple[int, int]]:
    """First and last byte of what each Const layer refers to. A number that can't be read is left
    out: reading the constant is the error."""
    for layer in layers:
        if layer.type != "Const" or "value" in layer.data:
            continue
        with contextlib.suppress(BadText, KeyError):
            offset, size = (
                words.parse_unsigned(layer.data["offset"]),
                words.parse_unsigned(layer.data["size"]),
            )
            yield offset, offset + size


@dataclass
class WeightsFile:
    """The .bin of a model, loaded when the first constant needs it.

    `load` opens it or raises an error that says why there is none.
    """

    load: Callable[[], Parts]
    max_memory: int | None = None
    _parts: Parts | None = None
    _copied: int = 0
    _decoded: dict[tuple[DType, int, int], Array] = field(
        default_factory=dict[tuple[DType, int, int], Array]
    )

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._parts is not None:
            self._parts.close()

    def open(self) -> Parts:
        """The file, opened once; its parts are read-only."""
        if self._parts is None:
            self._parts = self.load()
        return self._parts

    def read_shared(
        self, key: tuple[DType, int, int], size: int, layer: XmlLayer, decode: Callable[[], Array]
    ) -> Array:
        """A constant that needs `size` bytes of its own; equal ones (by `key`) share them.

        Constants of honest files do not overlap, and unpacking makes at most eight bytes of one.
        So a small file, or a sparse one, cannot request much memory: MemoryLimitError.
        """
        found = self._decoded.get(key)
        if found is not None:
            return found
        self._copied += size
        limit = 8 * (0 if self._parts is None else self._parts.referred) + _EXTRA_CONSTANT_BYTES
        if self.max_memory is not None:
            limit = min(limit, self.max_memory)
        if self._copied > limit:
            raise MemoryLimitError(
                "the constants need more memory than max_memory or the size of the weights allows",
                where=layer.location,
                got=f"{self._copied} bytes",
                expected=f"at most {limit} bytes",
            )
        array = self._decoded[key] = decode()
        array.flags.writeable = False
        return array


def element_type(text: str) -> DType:
    """`element_type`, `destination_type`, ... of a layer's data; the dialect's types too."""
    if text in _OWN_TYPES:
        return _OWN_TYPES[text]
    try:
        return parse_element_type(text)
    except ValueError:
        raise BadText("an element type such as f32, i64, boolean (not FP32 or float)") from None


def read_constant(layer: XmlLayer, weights: WeightsFile) -> tuple[DType, Array]:
    """Element type and array of a Const layer, or a ModelFormatError that names the layer."""
    data = layer.data
    for name in ("element_type", "shape"):
        if name not in data:
            raise layer.lacks(f"Const has no attribute {name!r}", name)
    dtype = layer.read("element_type", data["element_type"], element_type)
    shape = layer.read("shape", data["shape"], words.static_shape)
    if dtype is DType.dynamic:
        raise layer.error("a Const has to have an element type", got="dynamic")
    count = math.prod(shape)
    if count == 0 and math.prod(max(d, 1) for d in shape) >= words.MAX_PRODUCT:
        # Without elements no size of the weights bounds the others, which NumPy multiplies.
        raise layer.error(
            "a constant's size overflows",
            got=f"{dtype}[{_format_shape(shape)}]",
            expected="sizes whose product is below 2^59, those that are 0 left out",
        )
    offset, raw = _raw_bytes(layer, weights)
    key = dtype, offset, count
    if dtype is DType.string:
        texts = weights.read_shared(key, raw.size, layer, lambda: _strings(layer, raw, count))
        return dtype, texts.reshape(shape)
    if count == 0 and raw.size == 1:
        # OpenVINO stores one byte for a constant without elements.
        raw = raw[:0]
    needed = packed_bytes(dtype, count)
    if raw.size != needed:
        # More bytes than needed: the shape or the type is not that of the values that were written.
        small = "small" if raw.size < needed else "large"
        raise layer.error(
            f"a constant's size is too {small} for its shape and element type",
            got=f"size {raw.size}",
            expected=f"{needed} bytes for {dtype}[{_format_shape(shape)}]",
            fix="write the model again: its .xml contradicts itself",
        )
    if is_packed(dtype):
        array = weights.read_shared(key, count, layer, lambda: unpack(dtype, raw, count))
    elif dtype is DType.boolean:
        # A byte that is neither 0 nor 1 is not a valid bool of NumPy: any other value means true.
        array = weights.read_shared(key, count, layer, lambda: raw != 0)
    else:
        array = raw.view(dtype.numpy.newbyteorder("<"))
        if not array.flags.aligned or not array.dtype.isnative:
            stored = array
            array = weights.read_shared(
                key, stored.nbytes, layer, lambda: stored.astype(dtype.numpy)
            )
    return dtype, array.reshape(shape)


def _format_shape(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _raw_bytes(layer: XmlLayer, weights: WeightsFile) -> tuple[int, Array]:
    """Where a constant begins (-1 - line for one written in the XML), and its bytes."""
    data = layer.data
    if "value" in data:
        return -1 - layer.line, np.frombuffer(data["value"].encode(), dtype=np.uint8)
    for name in ("offset", "size"):
        if name not in data:
            raise layer.lacks(f"Const has no attribute {name!r}", name)
    offset = layer.read("offset", data["offset"], words.parse_unsigned)
    size = layer.read("size", data["size"], words.parse_unsigned)
    try:
        opened = weights.open()
    except ModelFormatError as error:
        if error.where is None:
            raise layer.error(
                error.what, got=error.got, expected=error.expected, fix=error.fix
            ) from error
        raise
    if offset > opened.size or size > opened.size - offset:
        raise layer.error(
            "a constant lies outside the weights (.bin)",
            got=f"offset {offset}, size {size}, weights of {opened.size} bytes",
            expected=f"offset + size at most {opened.size}",
            fix=_LFS if opened.part(0, min(23, opened.size)).tobytes() == _LFS_HEAD else _COPY,
        )
    return offset, opened.part(offset, offset + size)


def _strings(layer: XmlLayer, raw: Array, count: int) -> Array:
    """int32 n, n + 1 int32 offsets that begin with 0 and never fall, then UTF-8 text."""
    header = 4 * (count + 2)
    if raw.size < 4:
        raise layer.error("a string constant is too short", got=f"{raw.size} bytes", expected="4")
    stored = int.from_bytes(raw[:4].tobytes(), "little", signed=True)
    if stored != count:
        raise layer.error(
            "a string constant's count differs from its shape", got=stored, expected=count
        )
    if raw.size < header:
        raise layer.error(
            "a string constant is too short for its offsets",
            got=f"{raw.size} bytes",
            expected=f"at least {header} bytes for {count} strings",
        )
    offsets = np.frombuffer(raw[4:header].tobytes(), dtype="<i4").astype(np.int64)
    text = raw[header:].tobytes()
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] > len(text):
        raise layer.error(
            "a string constant's offsets are broken",
            got=f"offsets up to {int(offsets.max())} into {len(text)} bytes",
            expected="offsets that begin with 0, never fall, and end within the text",
        )
    out = np.empty(count, dtype=object)
    for i in range(count):
        piece = text[offsets[i] : offsets[i + 1]]
        try:
            out[i] = piece.decode()
        except UnicodeDecodeError:
            raise layer.error(
                f"string {i} of a constant is not UTF-8", got=shorten_text(repr(piece))
            ) from None
    return out
