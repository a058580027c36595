"""Relocations as instructions: what an assembler would write, and what reaches too far."""

from __future__ import annotations

import struct

import pytest
from irc_compiler.runtime.jit.elf_relocations import PROCESSORS, NotFlatError, image_alignment

AARCH64 = PROCESSORS[183].relocations
PAGE, ADD, LOAD64, LOAD128, CALL = 275, 277, 286, 299, 283
# adrp x0, 0; add x0, x0, #0; ldr x0, [x0]; ldr q0, [x0]; bl 0
WORDS = {PAGE: 0x90000000, ADD: 0x91000000, LOAD64: 0xF9400000, LOAD128: 0x3DC00000,
         CALL: 0x94000000}  # fmt: skip


def written(kind: int, at: int, target: int) -> int:
    code = bytearray(at) + struct.pack("<I", WORDS[kind])
    AARCH64[kind](code, at, target)
    return struct.unpack_from("<I", code, at)[0]


@pytest.mark.parametrize(
    "kind, at, target, word",
    [
        (PAGE, 0x10, 0x3018, 0xF0000000),  # three pages further
        (PAGE, 0x2010, 0x18, 0xD0FFFFE0),  # two pages back
        (ADD, 0, 0x3018, 0x91006000),
        (LOAD64, 0, 0x3018, 0xF9400C00),
        (LOAD128, 0, 0x3020, 0x3DC00800),
        (CALL, 0x10, 0x4, 0x97FFFFFD),
    ],
)
def test_aarch64_instructions(kind: int, at: int, target: int, word: int) -> None:
    assert written(kind, at, target) == word


@pytest.mark.parametrize(
    "kind, target", [(LOAD64, 0x3014), (CALL, 0x6), (CALL, 1 << 27), (PAGE, 1 << 32)]
)
def test_what_does_not_fit_is_not_flat(kind: int, target: int) -> None:
    with pytest.raises(NotFlatError):
        written(kind, 0, target)


def test_images_of_aarch64_begin_at_pages() -> None:
    """ADRP counts pages: within a page of memory an image cannot be moved."""
    assert image_alignment("aarch64") == 4096 and image_alignment("x86_64") == 64


def test_stubs_jump_through_a_word() -> None:
    assert PROCESSORS[62].stub(16) == bytes.fromhex("ff250a000000cccc")
    assert struct.unpack("<II", PROCESSORS[183].stub(16)) == (0x58000090, 0xD61F0200)
