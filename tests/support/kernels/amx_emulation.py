"""What tile instructions of AMX do, where there are none: for machine code whose instructions are
caught (amx_trap.py), and for a kernel's text with calls in their place (`emulated`).

Written from Intel's description of each instruction (Software Developer's Manual, volume 2): a
configuration gives every tile its rows and bytes per row; loads touch those bytes only, and zero
the rest of the tile; `tdpbf16ps` sums even and odd values apart, each product added without being
rounded, denormals flushed. What a kernel must not do (a tile that was not configured, shapes that
do not fit, tiles that are not released) is kept and raised by `check`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
import threading
from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
from irc_compiler.plan.target import Target, generic_target

FEATURES = ("amx-bf16", "amx-int8", "amx-tile")


def sapphire_rapids() -> Target:
    """A typical server with AMX, as LLVM sees it."""
    target = generic_target("avx512")
    more = {"avx512bf16", "avx512vnni", *FEATURES}
    return dataclasses.replace(target, cpu_features=tuple(sorted({*target.cpu_features, *more})))


ROWS, BYTES = 16, 64
_TINY = np.float32(2.0**-126)
_problems: list[str] = []


class _Registers(threading.local):
    """The tiles of a thread: [8, 16, 64] bytes, and rows and bytes per row of each, if set."""

    def __init__(self) -> None:
        self.tiles = np.zeros((8, ROWS, BYTES), np.uint8)
        self.rows: list[int] = []
        self.widths: list[int] = []

    def shape(self, tile: int) -> tuple[int, int]:
        if not self.rows:
            raise ValueError("tiles are used before they are configured")
        rows, width = self.rows[tile], self.widths[tile]
        if not rows or not width:
            raise ValueError(f"tile {tile} has no shape")
        return rows, width


_now = _Registers()


def ldtilecfg(place: int) -> None:
    data = ctypes.string_at(place, 64)
    if data[0] != 1 or data[1] or any(data[2:16]) or any(data[32:48]) or any(data[56:]):
        raise ValueError("a configuration of another palette, or with reserved bytes set")
    _now.widths = np.frombuffer(data, np.uint16, 8, 16).tolist()
    _now.rows = list(data[48:56])
    if max(_now.rows) > ROWS or max(_now.widths) > BYTES:
        raise ValueError("a tile is too large")
    _now.tiles[...] = 0


def tilerelease() -> None:
    _now.rows, _now.widths = [], []


def tilezero(tile: int) -> None:
    _now.shape(tile)
    _now.tiles[tile] = 0


def tileloadd64(tile: int, place: int, stride: int) -> None:
    rows, width = _now.shape(tile)
    _now.tiles[tile] = 0
    for i in range(rows):
        row = ctypes.string_at(place + i * stride, width)
        _now.tiles[tile, i, :width] = np.frombuffer(row, np.uint8)


def tilestored64(tile: int, place: int, stride: int) -> None:
    rows, width = _now.shape(tile)
    for i in range(rows):
        ctypes.memmove(place + i * stride, _now.tiles[tile, i, :width].tobytes(), width)


def _fitting(sums: int, left: int, right: int) -> None:
    (m, n), (rows, depth), (cells, columns) = map(_now.shape, (sums, left, right))
    if rows != m or columns != n or depth != 4 * cells:
        raise ValueError(f"tiles {m}x{n}, {rows}x{depth}, {cells}x{columns} do not fit")


def tdpbf16ps(sums: int, left: int, right: int) -> None:
    _fitting(sums, left, right)
    a = _flushed(_now.tiles[left].view(ml_dtypes.bfloat16).astype(np.float32))
    b = _flushed(_now.tiles[right].view(ml_dtypes.bfloat16).astype(np.float32))
    c = _now.tiles[sums].view(np.float32)
    # Axes: even or odd values, cells, rows, columns.
    x, y = a.reshape(ROWS, 16, 2).T[..., None], b.reshape(16, 16, 2)
    halves = np.zeros((2, ROWS, 16), np.float32)
    with np.errstate(all="ignore"):
        products = x.astype(np.float64) * np.moveaxis(y, 2, 0)[:, :, None]
        for k in range(_now.shape(left)[1] // 4):
            halves = _flushed((halves + products[:, k]).astype(np.float32))
        c[...] = _flushed(_flushed(c) + _flushed(halves[0] + halves[1]))


def _flushed(x: np.ndarray) -> np.ndarray:
    return x * ~(np.abs(x) < _TINY)


def _bytes(left_type: type, right_type: type) -> Callable[[int, int, int], None]:
    def product(sums: int, left: int, right: int) -> None:
        _fitting(sums, left, right)
        a = _now.tiles[left].view(left_type).astype(np.int32)
        b = _now.tiles[right].view(right_type).reshape(ROWS, 16, 4).astype(np.int32)
        columns = b.swapaxes(1, 2).reshape(BYTES, 16)
        c = _now.tiles[sums].view(np.int32)
        c += a @ columns

    return product


_INSTRUCTIONS: dict[str, tuple[Callable[..., None], list[type]]] = {
    "ldtilecfg": (ldtilecfg, [ctypes.c_void_p]),
    "tilerelease": (tilerelease, []),
    "tilezero": (tilezero, [ctypes.c_uint8]),
    "tileloadd64": (tileloadd64, [ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64]),
    "tilestored64": (tilestored64, [ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64]),
    "tdpbf16ps": (tdpbf16ps, [ctypes.c_uint8] * 3),
    "tdpbusd": (_bytes(np.uint8, np.int8), [ctypes.c_uint8] * 3),
    "tdpbsud": (_bytes(np.int8, np.uint8), [ctypes.c_uint8] * 3),
    "tdpbssd": (_bytes(np.int8, np.int8), [ctypes.c_uint8] * 3),
}


def run(name: str, *args: int) -> None:
    """One instruction. What it raises cannot pass through a kernel: it is kept for `check`."""
    try:
        _INSTRUCTIONS[name][0](*args)
    except Exception as error:
        _problems.append(f"{name}{args}: {error}")


_POINTERS = {
    name: ctypes.CFUNCTYPE(None, *types)(partial(run, name))
    for name, (_, types) in _INSTRUCTIONS.items()
}


def emulated(text: str) -> tuple[str, dict[str, int]]:
    """A kernel's text with calls in place of tile instructions, and the addresses they go to."""
    used = set(re.findall(r"declare void @llvm\.x86\.(\w+)\(", text)) & set(_POINTERS)
    for name in used:
        text = text.replace(f"@llvm.x86.{name}(", f"@emulated_{name}(")
    addresses = {n: ctypes.cast(_POINTERS[n], ctypes.c_void_p).value or 0 for n in used}
    return text, {f"emulated_{name}": address for name, address in addresses.items()}


def check() -> None:
    """Raises what was wrong since the last time; between calls of kernels."""
    problems, left = list(_problems), bool(_now.rows)
    _problems.clear()
    tilerelease()
    assert not problems, problems[:3]
    assert not left, "a kernel ended without releasing its tiles"
