"""Machine code as irc keeps it, in memory, in the cache and in artefacts: an Image.

A flat image is code and constants laid out as they are in memory, all of it position-independent,
with the offsets of its functions and of the words where addresses of others belong. LLVM's linker
is not needed to load one, and so neither is LLVM (image_loader.py). An image of kind OBJECT holds
an object file that elf_flatten.py could not lay out; LLVM loads that one.

    magic "ircI", kind u32, bytes of the table u32, bytes of the code u32   (little-endian)
    table: per name: offset u32, what u8 (0 function, 1 address wanted), length u8, the name
    code

An image is read as if forged: what its checks accept can be laid into memory without a fault. What
the code then does cannot be verified: it comes from the user's own cache, or is trusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from ...ir.errors import Error, VerificationError
from ...ir.lazy_dataclass import dataclass

FLAT: Final = 1
OBJECT: Final = 2
# Changes whenever the meaning of an image does: part of what names code in the cache.
FORMAT: Final = "image 2"
# Images begin at multiples of this many bytes of memory.
ALIGN_BYTES: Final = 64
WORD_BYTES: Final = 8

_MAGIC: Final = b"ircI"
_HEAD: Final = struct.Struct("<4sIII")
_ENTRY: Final = struct.Struct("<IBB")
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.$]{0,254}")
_MAX_NAMES: Final = 4096


@dataclass(frozen=True)
class CodeImage:
    """Machine code. exports: offsets of functions. imports: offsets of words that take addresses.

    An image of kind OBJECT has neither: the names are in the object file.
    """

    kind: int
    code: bytes
    exports: Mapping[str, int] = field(default_factory=dict[str, int])
    imports: Mapping[str, int] = field(default_factory=dict[str, int])

    def to_bytes(self) -> bytes:
        """What read_image reads."""
        table = b"".join(
            _ENTRY.pack(offset, what, len(name)) + name.encode()
            for what, names in enumerate((self.exports, self.imports))
            for name, offset in sorted(names.items())
        )
        return _HEAD.pack(_MAGIC, self.kind, len(table), len(self.code)) + table + self.code


def read_image(data: bytes) -> CodeImage:
    """The image that to_bytes wrote. VerificationError for anything that could not be loaded."""
    if len(data) < _HEAD.size:
        raise _damaged_error(f"{len(data)} bytes", "an image")
    magic, kind, table, size = _HEAD.unpack_from(data)
    if magic != _MAGIC or kind not in (FLAT, OBJECT):
        raise _damaged_error(f"{magic!r} of kind {kind}", f"{_MAGIC!r} of kind {FLAT} or {OBJECT}")
    begin = _HEAD.size + table
    if len(data) != begin + size or not size:
        raise _damaged_error(f"{len(data)} bytes", f"{begin + size} bytes, some of them code")
    found: tuple[dict[str, int], dict[str, int]] = {}, {}
    at = _HEAD.size
    while at < begin:
        if at + _ENTRY.size > begin or len(found[0]) + len(found[1]) >= _MAX_NAMES:
            raise _damaged_error("a table that is cut short or too long", "whole entries")
        offset, what, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        name = data[at : at + length]
        at += length
        if at > begin or what > 1 or _NAME.fullmatch(name) is None:
            raise _damaged_error(name[:80], "the name of a function, or of an address wanted")
        text = name.decode()
        if text in found[0] or text in found[1]:
            raise _damaged_error(text, "each name once")
        if what == 0 and offset >= size:
            raise _damaged_error(f"{text} at {offset}", f"a function within {size} bytes")
        if what == 1 and (offset % WORD_BYTES or offset + WORD_BYTES > size):
            raise _damaged_error(f"{text} at {offset}", f"an aligned word within {size} bytes")
        found[what][text] = offset
    exports, imports = found
    if kind == OBJECT and (exports or imports):
        raise _damaged_error(", ".join([*exports, *imports])[:80], "an object without a table")
    if len(set(imports.values())) != len(imports):
        raise _damaged_error("one word for two addresses", "a word for each")
    return CodeImage(kind, data[begin:], exports, imports)


def _damaged_error(got: object, expected: str) -> VerificationError:
    return VerificationError(
        "machine code is damaged or was not made by irc", got=got, expected=expected
    )


def missing_functions_error(missing: Iterable[str], known: Iterable[str]) -> Error:
    """The error of code that calls functions which the loader does not give.

    A JIT would resolve a stray call (`expf`, `__extendhfsf2`) from whatever the process happens
    to have loaded; a kernel that needs one is a fault, reported on every machine alike.
    """
    return Error(
        "generated code needs functions that kernels do not have: this is a bug of irc",
        got=", ".join(sorted(missing))[:500],
        expected=", ".join(sorted(known))[:500],
    )
