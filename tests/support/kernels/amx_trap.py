"""AMX where there is none: the machine code itself, whose tile instructions the processor refuses.

Each refusal is a signal (SIGILL) at the instruction. Its handler decodes the bytes there as Intel's
manual (volume 2, VEX encodings of map 0F38) has them, lets amx_emulation.py do what they say on
the registers the signal saved, and goes on behind. So what is tested is what a machine with tiles
would run: instruction choice, addresses, strides, and which tile is which.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from dataclasses import dataclass

from support.kernels import amx_emulation

# Where <sys/ucontext.h> of Linux on x86-64 keeps the registers, in the order of their encoding.
_REGISTERS = 40
_PLACES = (13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7)
_NEXT = 16
_MEMORY, _TILES = "memory", "tiles"
# (opcode, mandatory prefix, operands): what it is. Prefixes: 0 none, 1 66, 2 F3, 3 F2.
_TABLE = {
    (0x49, 0, _MEMORY): "ldtilecfg",
    (0x49, 0, _TILES): "tilerelease",
    (0x49, 3, _TILES): "tilezero",
    (0x4B, 3, _MEMORY): "tileloadd64",
    (0x4B, 2, _MEMORY): "tilestored64",
    (0x5C, 2, _TILES): "tdpbf16ps",
    (0x5E, 1, _TILES): "tdpbusd",
    (0x5E, 2, _TILES): "tdpbsud",
    (0x5E, 3, _TILES): "tdpbssd",
}


@dataclass(frozen=True)
class Instruction:
    """A decoded tile instruction: its name, arguments, and length in bytes."""

    name: str
    arguments: tuple[int, ...]
    length: int


def decode(code: bytes, registers: Callable[[int], int]) -> Instruction | None:
    """The tile instruction that `code` starts with; `registers` gives a general register's value.
    None for anything else."""
    if code[0] != 0xC4 or code[1] & 31 != 2 or code[2] & 0x84:  # VEX.128, map 2, W 0
        return None
    index_high, base_high = (8 * (not code[1] & bit) for bit in (0x40, 0x20))
    third, prefix = ~(code[2] >> 3) & 15, code[2] & 3
    mode, tile, low = code[4] >> 6, code[4] >> 3 & 7, code[4] & 7
    name = _TABLE.get((code[3], prefix, _TILES if mode == 3 else _MEMORY))
    if name is None:
        return None
    if mode == 3:
        count = {"tilerelease": 0, "tilezero": 1}.get(name, 3)
        return Instruction(name, (tile, low, third)[:count], 5)
    at, base, index = 5, low, 4
    if low == 4:
        base, index, at = code[5] & 7, code[5] >> 3 & 7, 6
    width = {0: 0, 1: 1, 2: 4}[mode]
    if base == 5 and mode == 0:  # no base; relative to the next instruction without an index byte
        return None
    place = registers(base + base_high)
    place += int.from_bytes(code[at : at + width], "little", signed=True)
    index += index_high
    step = 0 if index == 4 else registers(index) << (code[5] >> 6)
    if name == "ldtilecfg":
        return Instruction(name, (place + step,), at + width)
    if low != 4:  # tiles are loaded and stored through an index byte only
        return None
    return Instruction(name, (tile, place, step), at + width)


class _Action(ctypes.Structure):
    """<bits/sigaction.h> of glibc."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_SA_SIGINFO, _SA_NODEFER = 4, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_before = _Action()
counted: dict[str, int] = {}


def _handle(_signal: int, _info: int, context: int) -> None:
    """Emulate a tile instruction; for any other, call the previous handler of SIGILL."""
    saved = (ctypes.c_int64 * 23).from_address(context + _REGISTERS)
    code = ctypes.string_at(saved[_NEXT], 12)
    found = decode(code, lambda number: saved[_PLACES[number]])
    if found is None:
        _libc.sigaction(signal.SIGILL, ctypes.byref(_before), None)
        return
    amx_emulation.run(found.name, *found.arguments)
    counted[found.name] = counted.get(found.name, 0) + 1
    saved[_NEXT] += found.length


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(_handle)


def catch() -> None:
    """Handle SIGILL of tile instructions from now on. Others' handlers (pytest's) stay behind."""
    action, given = _Action(), _Action()
    action.handler = ctypes.cast(_CALLBACK, ctypes.c_void_p).value
    action.flags = _SA_SIGINFO | _SA_NODEFER
    if _libc.sigaction(signal.SIGILL, ctypes.byref(action), ctypes.byref(given)):
        raise OSError(ctypes.get_errno(), "sigaction")
    if given.handler != action.handler:
        ctypes.pointer(_before)[0] = given
