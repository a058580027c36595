"""ELF objects as LLVM writes them: sections, symbols and relocations, read without a linker."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...ir.lazy_dataclass import dataclass

_SYMTAB, _RELA = 2, 4
_IGNORED = {"", "_GLOBAL_OFFSET_TABLE_"}


@dataclass(frozen=True)
class ElfSection:
    """One section; `content` is empty where the file holds none (zeroes, or nothing)."""

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    content: bytes


@dataclass(frozen=True)
class ElfSymbol:
    """section: its number, 0 for a name that is defined elsewhere."""

    name: str
    is_global: bool
    section: int
    value: int


@dataclass(frozen=True)
class Relocation:
    """An address (section's number and offset) that takes a symbol's address plus addend."""

    section: int
    offset: int
    kind: int
    symbol: ElfSymbol
    addend: int


@dataclass(frozen=True)
class ElfObject:
    """A relocatable object of `machine` (62: x86-64)."""

    machine: int
    sections: Sequence[ElfSection]
    symbols: Sequence[ElfSymbol]
    relocations: Sequence[Relocation]

    def defined_names(self) -> frozenset[str]:
        """Global names that it gives."""
        return frozenset(s.name for s in self.symbols if s.section and s.is_global)

    def needed_names(self) -> frozenset[str]:
        """Names that it takes from elsewhere."""
        return frozenset(s.name for s in self.symbols if not s.section) - _IGNORED


def read_object(data: bytes) -> ElfObject | None:
    """A 64-bit little-endian ELF object of LLVM's; None for another format."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (machine,) = struct.unpack_from("<H", data, 0x12)
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry_size) for i in range(count)
    ]
    nobits = 8
    sections = [
        ElfSection(
            _text(data, headers[names][4] + name),
            kind,
            flags,
            size,
            alignment,
            b"" if kind == nobits else data[offset : offset + size],
        )
        for name, kind, flags, _, offset, size, _, _, alignment, _ in headers
    ]
    symbols: list[ElfSymbol] = []
    for _, kind, _, _, offset, size, link, *_ in headers:
        if kind == _SYMTAB:
            strings = headers[link][4]
            for at in range(offset, offset + size, 24):
                name, info, _, section, value = struct.unpack_from("<IBBHQ", data, at)
                symbols.append(
                    ElfSymbol(_text(data, strings + name), info >> 4 > 0, section, value)
                )
    relocations: list[Relocation] = []
    for _, kind, _, _, offset, size, _, target, *_ in headers:
        if kind == _RELA:
            for at in range(offset, offset + size, 24):
                position, info, addend = struct.unpack_from("<QQq", data, at)
                symbol, how = symbols[info >> 32], info & 0xFFFFFFFF
                relocations.append(Relocation(target, position, how, symbol, addend))
    return ElfObject(machine, sections, symbols, relocations)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
