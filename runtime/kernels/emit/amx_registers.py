"""Tile registers of AMX: who holds what, their configuration, and one step of products.

A tile register holds 16 rows of 64 bytes. Left factors are rows of cells (dot_units.py), right
factors are 16 columns of cells, one row per cell, sums are 16 rows of 16 columns. How eight
registers are shared:

    left rows    right columns   sums    left registers   right registers
    up to 48     up to 32        3 x 2   1                1
    up to 32     up to 32        2 x 2   2                2
    up to 16     up to 64        1 x 4   1                3

2 x 2 sums take four loads for four products. 3 x 2 take seven for six, but two of these repeat what
was just loaded: from beyond L1 come 80 lines for six products, not 96.

What is fewer than a register's rows is configured, so that nothing past an operand's end is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function
from ...llvmir.values import I8, I64, PTR, Value, integer

# Rows of a register, and cells of a row.
AMX_ROWS: Final = 16
_ROW_BYTES: Final = 64
_REGISTERS: Final = 8
# Registers of sums, for so many left factors below each other.
_SUMS: Final = {1: 4, 2: 4, 3: 6}

# Where a tile is in memory, and how many bytes its rows are apart.
TileAddress = tuple[Value, Value]


@dataclass(frozen=True)
class AmxTiles:
    """Registers for left factors of `lefts` rows each, in steps of `cells` of K. Three take turns
    in one register, so they are full: of SIDE rows."""

    lefts: tuple[int, ...]
    cells: int = AMX_ROWS

    def total(self, down: int, across: int) -> int:
        """The register of the sums of the `down`th left and the `across`th right factors."""
        return down * self._columns + across

    @property
    def _columns(self) -> int:
        """Registers of sums next to each other."""
        return _SUMS[len(self.lefts)] // len(self.lefts)

    def _a_register(self, down: int) -> int:
        """The register of the `down`th left factors."""
        return _SUMS[len(self.lefts)] + (down if len(self.lefts) < 3 else 0)

    def configure(self, f: Function) -> None:
        """Load the configuration; all registers become zero."""
        load_configuration(f, f.module.table(self.configuration(), I64))

    def configuration(self) -> list[int]:
        """What configures the registers, as words of memory."""
        rows, widths = [self.cells] * _REGISTERS, [_ROW_BYTES] * _REGISTERS
        for down, count in enumerate(self.lefts):
            for across in range(self._columns):
                rows[self.total(down, across)] = count
            rows[self._a_register(down)], widths[self._a_register(down)] = count, 4 * self.cells
        width = b"".join(w.to_bytes(2, "little") for w in widths)
        data = bytes([1, *[0] * 15]) + width.ljust(32, b"\0") + bytes(rows).ljust(16, b"\0")
        return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]

    def multiply(  # noqa: C901 - two loop orders over the same closures
        self,
        f: Function,
        instruction: str,
        shape: tuple[int, int],
        left: Callable[[int], TileAddress],
        right: Callable[[int], TileAddress],
        interleaved: Sequence[Callable[[], None]] = (),
    ) -> None:
        """Add one step's products to the sums of `shape` registers (down, across). What
        `interleaved` writes is spread among them."""
        down, across = shape
        rights = range(self._a_register(len(self.lefts) - 1) + 1, _REGISTERS)
        done = 0

        def load_left(row: int) -> None:
            on_tile(f, "tileloadd64", self._a_register(row), *left(row))

        def load_right(column: int) -> None:
            on_tile(f, "tileloadd64", rights[column % len(rights)], *right(column))

        def product(row: int, column: int) -> None:
            nonlocal done
            first, done = done * len(interleaved), done + 1
            for write in interleaved[
                first // (down * across) : done * len(interleaved) // (down * across)
            ]:
                write()
            b = rights[column % len(rights)]
            registers = (self.total(row, column), self._a_register(row), b)
            f.call(instruction, "void", *(integer(r, I8) for r in registers))

        if len(self.lefts) == 3:
            for row in range(down):
                columns = range(across)[:: -1 if row % 2 else 1]
                for column in columns:
                    if row == 0 or column != columns[0]:
                        load_right(column)
                    if column == columns[0]:
                        load_left(row)
                    product(row, column)
            return
        for first in range(0, across, len(rights)):
            columns = range(first, min(first + len(rights), across))
            for column in columns:
                load_right(column)
                if column < down:
                    load_left(column)
            for row in range(len(columns), down) if first == 0 else ():
                load_left(row)
            for row in range(down):
                for column in columns:
                    product(row, column)

    def multiply_terms(
        self,
        f: Function,
        instruction: str,
        shape: tuple[int, int],
        left: Callable[[int, int], TileAddress],
        right: Callable[[int, int], TileAddress],
        pairs: Sequence[tuple[int, int]],
    ) -> None:
        """Add the products of one step of factors that are sums of terms: for each of `pairs`, the
        left factors' term times the right factors'. left and right: where the registers of a row,
        or a column, are for a term. What a register holds already is not loaded again."""
        down, across = shape
        rights = range(self._a_register(len(self.lefts) - 1) + 1, _REGISTERS)
        held: dict[int, tuple[str, int, int]] = {}

        def load(register: int, what: tuple[str, int, int], address: TileAddress) -> None:
            if held.get(register) != what:
                held[register] = what
                on_tile(f, "tileloadd64", register, *address)

        for left_term, right_term in pairs:
            for first in range(0, across, len(rights)):
                columns = range(first, min(first + len(rights), across))
                for column in columns:
                    what = ("right", column, right_term)
                    load(rights[column % len(rights)], what, right(column, right_term))
                for row in range(down):
                    what = ("left", row, left_term)
                    load(self._a_register(row), what, left(row, left_term))
                for row in range(down):
                    for column in columns:
                        b = rights[column % len(rights)]
                        registers = (self.total(row, column), self._a_register(row), b)
                        f.call(instruction, "void", *(integer(r, I8) for r in registers))


def on_tile(f: Function, name: str, register: int, *args: Value) -> None:
    """An instruction of one tile register: tilezero, tileloadd64, tilestored64."""
    f.call(f"llvm.x86.{name}", "void", integer(register, I8), *args)


def load_configuration(f: Function, address: Value) -> None:
    """Configure the registers by a table. Its address is in a register: the emulation in tests
    decodes no address that is relative to the instruction."""
    f.call("llvm.x86.ldtilecfg", "void", f.assembly(PTR, "", "=r,0", address))


def release(f: Function) -> None:
    """Give the tiles back: every kernel that configures them ends so."""
    f.call("llvm.x86.tilerelease", "void")
