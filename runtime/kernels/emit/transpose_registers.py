"""Squares of elements in vector registers, transposed."""

from __future__ import annotations

from collections.abc import Sequence

from ...llvmir.builder import Function
from ...llvmir.values import Value, bits_of

# Bits of the registers whose lanes are moved by instructions.
_REGISTER_BITS = {"avx2": (256,), "avx512": (256, 512)}
# How instructions name elements of so many bits.
_UNPACKED = {8: "bw", 16: "wd", 32: "dq", 64: "qdq"}
# Instructions that pick the even and the odd groups of 128 bits of two registers, by how many those
# have. vperm2i128 reaches half of the registers of AVX-512.
_PICKS = {
    ("avx2", 2): ("vperm2i128 $$0x20", "vperm2i128 $$0x31"),
    ("avx512", 2): ("vshufi32x4 $$0x0", "vshufi32x4 $$0x3"),
    ("avx512", 4): ("vshufi32x4 $$0x88", "vshufi32x4 $$0xdd"),
}


def transpose_registers(f: Function, lines: Sequence[Value]) -> list[Value]:
    """The columns of n vectors of n lanes (n a power of two), by moves of 128-bit lanes.

    First w x w blocks inside the 128-bit lanes (w elements each) by rounds of unpacking row i
    with row i + w/2, then the 128-bit lanes themselves between the blocks.
    """
    n = len(lines)
    w = min(n, 128 // bits_of(lines[0].type))
    groups = n // w
    rows = list(lines)
    stages = w.bit_length() - 1
    for _ in range(stages):
        turned: list[Value] = []
        for block in range(groups):
            for i in range(w // 2):
                a, b = rows[block * w + i], rows[block * w + i + w // 2]
                turned += [_unpack(f, a, b, w, 0), _unpack(f, a, b, w, 1)]
        rows = turned
    found: list[Value | None] = [None] * n
    for j in range(w):
        for g, line in enumerate(_turn_lanes(f, [rows[k * w + j] for k in range(groups)], w)):
            found[g * w + j] = line
    return [line for line in found if line is not None]


def _unpack(f: Function, a: Value, b: Value, w: int, high: int) -> Value:
    """In each group of w lanes: the low (high) halves of a and b, interleaved."""
    n, bits = a.lanes, bits_of(a.type)
    if _has_instructions(f, a) and w * bits == 128:
        return _move(f, f"vpunpck{'lh'[high]}{_UNPACKED[bits]} ", a, b)
    picks: list[int] = []
    for start in range(0, n, w):
        for i in range(w // 2):
            at = start + high * (w // 2) + i
            picks += [at, n + at]
    return f.shuffle(a, b, picks)


def _has_instructions(f: Function, a: Value) -> bool:
    """Whether moves of its lanes are written as instructions of x86: LLVM takes ten times as long
    to find the same ones for a shuffle."""
    return bits_of(a.type) * a.lanes in _REGISTER_BITS.get(f.target.isa, ())


def _move(f: Function, instruction: str, a: Value, b: Value) -> Value:
    """instruction: with the operands in front of b and a."""
    registers = "=v,v,v" if f.target.isa == "avx512" else "=x,x,x"
    text = f'asm "{instruction}$2, $1, $0", "{registers}"'
    return f.op(a.type, f"call {a.type} {text}({a}, {b})")


def _turn_lanes(f: Function, lines: Sequence[Value], w: int) -> list[Value]:
    """A square of groups of w lanes, transposed: rounds of even groups, odd groups of a pair."""
    n = len(lines)
    if n == 1:
        return list(lines)
    even = [_pick_groups(f, lines[i], lines[i + 1], w, 0) for i in range(0, n, 2)]
    odd = [_pick_groups(f, lines[i], lines[i + 1], w, 1) for i in range(0, n, 2)]
    if n == 2:
        return [even[0], odd[0]]
    # Each half now holds one line per pair: (a0 a2 b0 b2), (c0 c2 d0 d2).
    return [
        _pick_groups(f, even[0], even[1], w, 0),
        _pick_groups(f, odd[0], odd[1], w, 0),
        _pick_groups(f, even[0], even[1], w, 1),
        _pick_groups(f, odd[0], odd[1], w, 1),
    ]


def _pick_groups(f: Function, a: Value, b: Value, w: int, odd: int) -> Value:
    n = a.lanes
    if _has_instructions(f, a) and w * bits_of(a.type) == 128:
        picks = _PICKS[f.target.isa, n // w][odd]
        return _move(f, f"{picks}, ", a, b)
    starts = range(odd * w, n, 2 * w)
    picks = [base + s + i for base in (0, n) for s in starts for i in range(w)]
    return f.shuffle(a, b, picks)
