"""Relocations of ELF objects by processor: distances written into instructions, and stubs.

x86-64 counts bytes from the relocated word. aarch64 splits an address into its page of 4 KiB,
relative to the page of the instruction (ADRP), and the offset within the page (ADD, loads and
stores): an image of aarch64 therefore begins at a multiple of 4 KiB wherever it is mapped. Sources:
"System V Application Binary Interface, AMD64" and "ELF for the Arm 64-bit Architecture".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ...ir.lazy_dataclass import dataclass
from ...plan.target import Arch

# write(code, at, target): put the distance from offset `at` to `target` into the instruction there.
Write = Callable[[bytearray, int, int], None]
PAGE_BYTES: Final = 4096


class NotFlatError(Exception):
    """This object needs a linker."""


@dataclass(frozen=True)
class ElfProcessor:
    """relocations: by kind. calls: kinds that may lead to a stub. stub: the code that jumps to the
    address in a word so many bytes after its beginning. alignment: of the images in memory."""

    relocations: Mapping[int, Write]
    calls: frozenset[int]
    stub: Callable[[int], bytes]
    stub_bytes: int
    alignment: int


def _write_distance(code: bytearray, at: int, target: int) -> None:
    try:
        struct.pack_into("<i", code, at, target - at)
    except struct.error as error:
        raise NotFlatError from error


def _jump_x86_64(distance: int) -> bytes:
    """jmp *[rip + distance], filled up to a word."""
    return b"\xff\x25" + struct.pack("<i", distance - 6) + b"\xcc\xcc"


def _set_bits(code: bytearray, at: int, value: int, low: int, mask: int) -> None:
    """Put `value` into the bits of the instruction that `mask`, shifted by `low`, names."""
    (word,) = struct.unpack_from("<I", code, at)
    struct.pack_into("<I", code, at, word & ~(mask << low) | (value & mask) << low)


def _write_page(code: bytearray, at: int, target: int) -> None:
    """ADRP: 21 bits of pages, the low two of them apart."""
    pages = (target // PAGE_BYTES) - (at // PAGE_BYTES)
    _require_range(pages, 21)
    _set_bits(code, at, pages, 29, 0x3)
    _set_bits(code, at, pages >> 2, 5, 0x7FFFF)


def _write_page_offset(code: bytearray, at: int, target: int, size: int = 1) -> None:
    """ADD, LDR, STR: the offset within a page, in units of `size` bytes."""
    offset = target % PAGE_BYTES
    if offset % size:
        raise NotFlatError
    _set_bits(code, at, offset // size, 10, 0xFFF)


def _write_branch(
    code: bytearray, at: int, target: int, bits: int = 26, low: int = 0, unit: int = 4
) -> None:
    """Branches, ADR and LDR (literal): a distance in units of instructions."""
    distance = target - at
    if distance % unit:
        raise NotFlatError
    _require_range(distance // unit, bits)
    _set_bits(code, at, distance // unit, low, (1 << bits) - 1)


def _require_range(value: int, bits: int) -> None:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise NotFlatError


def _jump_aarch64(distance: int) -> bytes:
    """ldr x16, [pc + distance]; br x16. Procedure calls may overwrite x16."""
    code = bytearray(struct.pack("<II", 0x58000010, 0xD61F0200))
    _write_branch(code, 0, distance, bits=19, low=5)
    return bytes(code)


_JUMP26, _CALL26 = 282, 283
_AARCH64: Final[dict[int, Write]] = {
    261: _write_distance,  # PREL32
    275: _write_page,  # ADR_PREL_PG_HI21
    276: _write_page,  # ADR_PREL_PG_HI21_NC
    277: _write_page_offset,  # ADD_ABS_LO12_NC
    278: _write_page_offset,  # LDST8_ABS_LO12_NC
    **{
        kind: partial(_write_page_offset, size=size)  # LDST16 to LDST128_ABS_LO12_NC
        for kind, size in ((284, 2), (285, 4), (286, 8), (299, 16))
    },
    279: partial(_write_branch, bits=14, low=5),  # TSTBR14
    280: partial(_write_branch, bits=19, low=5),  # CONDBR19
    _JUMP26: _write_branch,
    _CALL26: _write_branch,
}
_PC32, _PLT32 = 2, 4

# By the machine's number in ELF.
PROCESSORS: Final[dict[int, ElfProcessor]] = {
    62: ElfProcessor(
        {_PC32: _write_distance, _PLT32: _write_distance},
        frozenset({_PLT32}),
        _jump_x86_64,
        8,
        64,
    ),
    183: ElfProcessor(_AARCH64, frozenset({_JUMP26, _CALL26}), _jump_aarch64, 8, PAGE_BYTES),
}
_NUMBERS: Final[dict[Arch, int]] = {"x86_64": 62, "aarch64": 183}


def image_alignment(arch: Arch) -> int:
    """Flat images of that architecture begin at multiples of so many bytes of memory."""
    return PROCESSORS[_NUMBERS[arch]].alignment
