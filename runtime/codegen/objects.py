"""What an ELF object defines and needs: so that a missing name is found before the linker is asked.

A JIT would resolve a stray call (`expf`, `__extendhfsf2`) from whatever the process happens to have
loaded; a kernel that needs one is a fault, and should name it on every machine alike.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SYMTAB = 2
_IGNORED = {"", "_GLOBAL_OFFSET_TABLE_"}


@dataclass(frozen=True)
class Names:
    """Global names of one object."""

    defined: frozenset[str]
    needed: frozenset[str]


def names_of(image: bytes) -> Names | None:
    """The names of a 64-bit little-endian ELF object; None for another format."""
    if image[:6] != b"\x7fELF\x02\x01":
        return None
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry_size) for i in range(count)
    ]
    defined: set[str] = set()
    needed: set[str] = set()
    for _, kind, _, _, offset, size, link, *_ in headers:
        if kind != _SYMTAB:
            continue
        strings = headers[link][4]
        for at in range(offset, offset + size, 24):
            name_at, info, _, section = struct.unpack_from("<IBBH", image, at)
            begin = strings + name_at
            name = image[begin : image.index(b"\0", begin)].decode()
            if section == 0:
                needed.add(name)
            elif info >> 4:  # global or weak
                defined.add(name)
    return Names(frozenset(defined), frozenset(needed - _IGNORED))
