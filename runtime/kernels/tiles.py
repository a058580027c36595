"""Tile registers of AMX: who holds what, their configuration, and one step of products.

A tile register holds 16 rows of 64 bytes. Left factors are rows of cells (units.py), right factors
are 16 columns of cells, one row per cell, sums are 16 rows of 16 columns. Of eight registers four
hold sums, one or two left factors, the rest right factors: each factor that is loaded serves two
products where two registers of left rows meet two of columns.

    left registers   right columns   sums    right registers
    2                up to 32        2 x 2   2
    1                up to 64        1 x 4   3

What is fewer than a register's rows is configured, so that nothing past an operand's end is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..codegen.emit import Function
from ..codegen.values import I8, I64, Value, integer

# Rows of a register, and cells of a row.
SIDE: Final = 16
_ROW_BYTES: Final = 64
_SUMS: Final = 4
_REGISTERS: Final = 8

# Where a tile lies in memory, and how many bytes its rows are apart.
Place = tuple[Value, Value]


@dataclass(frozen=True)
class Tiles:
    """Registers for left factors of `lefts` rows each (one or two), in steps of `cells` of K."""

    lefts: tuple[int, ...]
    cells: int = SIDE

    def total(self, down: int, across: int) -> int:
        """The register of the sums of the `down`th left and the `across`th right factors."""
        return down * (_SUMS // len(self.lefts)) + across

    def configure(self, f: Function) -> None:
        """Load the configuration; all registers become zero."""
        rows, widths = [self.cells] * _REGISTERS, [_ROW_BYTES] * _REGISTERS
        for down, count in enumerate(self.lefts):
            for across in range(_SUMS // len(self.lefts)):
                rows[self.total(down, across)] = count
            rows[_SUMS + down], widths[_SUMS + down] = count, 4 * self.cells
        width = b"".join(w.to_bytes(2, "little") for w in widths)
        data = bytes([1, *[0] * 15]) + width.ljust(32, b"\0") + bytes(rows).ljust(16, b"\0")
        place = f.stack(len(data))
        for at in range(0, len(data), 8):
            word = int.from_bytes(data[at : at + 8], "little")
            f.store(integer(word, I64), f.offset(place, at), 8)
        f.call("llvm.x86.ldtilecfg", "void", place)

    def multiply(
        self,
        f: Function,
        instruction: str,
        shape: tuple[int, int],
        left: Callable[[int], Place],
        right: Callable[[int], Place],
    ) -> None:
        """Add one step's products to the sums of `shape` registers (down, across)."""
        rights = range(_SUMS + len(self.lefts), _REGISTERS)
        down, across = shape
        for first in range(0, across, len(rights)):
            columns = range(first, min(first + len(rights), across))
            for column in columns:
                on_tile(f, "tileloadd64", rights[column - first], *right(column))
                if column < down:
                    on_tile(f, "tileloadd64", _SUMS + column, *left(column))
            for row in range(len(columns), down) if first == 0 else ():
                on_tile(f, "tileloadd64", _SUMS + row, *left(row))
            for row in range(down):
                for column in columns:
                    b = rights[column - first]
                    registers = (self.total(row, column), _SUMS + row, b)
                    f.call(instruction, "void", *(integer(r, I8) for r in registers))


def on_tile(f: Function, name: str, register: int, *args: Value) -> None:
    """An instruction of one tile register: tilezero, tileloadd64, tilestored64."""
    f.call(f"llvm.x86.{name}", "void", integer(register, I8), *args)


def release(f: Function) -> None:
    """Give the tiles back: every kernel that configures them ends so."""
    f.call("llvm.x86.tilerelease", "void")
