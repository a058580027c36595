"""The products of attention on tiles of AMX.

Tiles take what the vector unit's cells are: a panel of queries, and one of exponentials, is 16
columns of cells to a register unchanged. Left factors are rows of cells: copies of keys are so
already; values are turned around while they are copied, so that a row is what all keys of a block
have at one index. 32 rows meet 32 queries.

What fills up a step of 16 cells is zero on both sides: elements beyond a head's size, keys beyond
the last one, and the exponentials of keys that a panel does not see. Rows that fill up a register
(keys, elements of a value) go to rows of scores and sums that are not read. Blocks of keys are
whole steps, so the order of a row's sums depends on the Target alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ....plan.specs.attention import BLOCK_KEYS, AttentionSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import ELEMENT, F32, I64, PTR, Value, integer, vec
from ..emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile, release
from ..emit.dot_units import tile_instruction
from ..emit.strided_loops import masked_load, vector_and_tail
from ..emit.tail_mask import TailMask
from ..emit.transpose_registers import transpose_registers
from ..gemm.packing.pack_cells import Side, cells_of_rows
from .products import Products

_TILES: Final = AmxTiles((AMX_ROWS, AMX_ROWS))


def products_of(spec: AttentionSpec, target: Target, module: Module) -> Products:
    """The products of an attention, on tiles where the Target has them for its factors."""
    made = Products(spec, target, module)
    name = tile_instruction(target, spec.compute_dtype, made.weight_kr)
    return TileProducts(spec, target, module, name) if name and not spec.quantization else made


class TileProducts(Products):
    """Both products on tiles. `step`: exponentials are padded to a multiple of so many cells."""

    step = AMX_ROWS

    def __init__(
        self, spec: AttentionSpec, target: Target, module: Module, instruction: str
    ) -> None:
        super().__init__(spec, target, module)
        self.instruction = instruction
        # A line more than a block: rows a power of two apart would share cache sets.
        row = BLOCK_KEYS // self.kr + AMX_ROWS
        schedule = replace(self.mixture.schedule, pack_a="rows", a_row=row)
        self.mixture = replace(self.mixture, schedule=schedule)
        self._made: dict[tuple[int, int, bool], Function] = {}

    @property
    def value_cells(self) -> int:
        return -(-self.spec.value_size // AMX_ROWS) * AMX_ROWS * self.mixture.schedule.a_row

    def configure(self, f: Function) -> None:
        _TILES.configure(f)

    def release(self, f: Function) -> None:
        release(f)

    def score_tiles(
        self, f: Function, frame: Value, vectors: int, keys: Value, queries: Value, to: Value,
        count: Value,
    ) -> None:  # fmt: skip
        """The scores of `count` keys; rows up to the next multiple of SIDE are written too."""
        steps = integer(-(-self.cells // AMX_ROWS))
        self._rows(f, count, vectors, (keys, queries, to, steps), fresh=True)

    def mixture_tiles(
        self, f: Function, frame: Value, vectors: int, values: Value, exponentials: Value,
        sums: Value, steps: Value,
    ) -> None:  # fmt: skip
        """Add what `steps` cells of keys contribute to a panel's sums."""
        width = integer(self.spec.value_size)
        full = f.ceil_div(steps, AMX_ROWS)
        self._rows(f, width, vectors, (values, exponentials, sums, full), fresh=False)

    def _rows(
        self,
        f: Function,
        count: Value,
        vectors: int,
        given: tuple[Value, Value, Value, Value],
        *,
        fresh: bool,
    ) -> None:
        """Tiles of two registers of rows, and of one where no more are left."""
        left, right, to, steps = given
        row = (self.scores if fresh else self.mixture).schedule.a_row

        def tile(down: int, start: Value) -> None:
            a = f.at(left, f.mul(start, row), F32)
            address = f.at(to, f.mul(start, self.nr), F32)
            f.call_function(self._tile(down, vectors, fresh), a, right, address, steps)

        # Rows that more than one register takes.
        pairs = f.mul(f.udiv(f.add(count, AMX_ROWS - 1), 2 * AMX_ROWS), 2 * AMX_ROWS)
        with f.range(0, pairs, 2 * AMX_ROWS, unroll=1) as start:
            tile(2, start)
        with f.if_(f.icmp("slt", pairs, count)):
            tile(1, pairs)

    def _tile(self, down: int, across: int, fresh: bool) -> Function:
        """The function of a tile (a, b, to, steps): its sums begin with zero if `fresh`."""
        key = down, across, fresh
        if key not in self._made:
            self._made[key] = self._make(down, across, fresh)
        return self._made[key]

    def _make(self, down: int, across: int, fresh: bool) -> Function:
        f = self.module.function(
            self.module.unique(f"amx_{'scores' if fresh else 'mixture'}_{down}x{across}"),
            [("ptr noalias readonly", "a"), ("ptr noalias readonly", "b"), ("ptr noalias", "to")]
            + [(I64, "steps")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, row = f.params, (self.scores if fresh else self.mixture).schedule.a_row
        line = integer(4 * self.nr)
        sums = [
            (_TILES.total(d, c), f.at(p["to"], d * AMX_ROWS * self.nr + c * AMX_ROWS, F32))
            for d in range(down)
            for c in range(across)
        ]
        for register, address in sums:
            if fresh:
                on_tile(f, "tilezero", register)
            else:
                on_tile(f, "tileloadd64", register, address, line)
        with f.range(0, p["steps"], unroll=1) as step:
            k = f.mul(step, AMX_ROWS)

            def a_address(d: int) -> TileAddress:
                return f.at(p["a"], f.add(k, d * AMX_ROWS * row), F32), integer(4 * row)

            def b_address(c: int) -> TileAddress:
                return f.at(p["b"], f.add(f.mul(k, self.nr), c * AMX_ROWS), F32), line

            _TILES.multiply(f, self.instruction, (down, across), a_address, b_address)
        for register, address in sums:
            on_tile(f, "tilestored64", register, address, line)
        return f

    def pack_values(self) -> Function:
        """pack_values(frame, source, to, width, count): `count` rows of values as a row of cells
        per element, steps filled up with zeros; squares are turned around in registers."""
        f = self.module.function(
            "pack_values",
            [("ptr noalias", "frame"), (PTR, "source"), ("ptr noalias", "to")]
            + [(I64, "width"), (I64, "count")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        g, value, lanes = self.mixture, self.spec.value, self.lanes
        row = g.size(f, f.params["frame"], value.strides[-2])
        element, side = ELEMENT[value.dtype.value], Side(value.dtype, g.acc, 0)
        kind, count, keys = vec(element, lanes), f.params["count"], AMX_ROWS * self.kr

        def square(first: Value, d: Value, tail: TailMask | None, *, ends: bool) -> None:
            def load(key: Value) -> Value:
                at = f.smin(key, f.sub(count, 1)) if ends else key
                address = f.at(f.params["source"], f.add(f.mul(at, row), d), element)
                x = masked_load(f, kind, address, tail)
                return f.select(f.icmp("slt", key, count), x, 0) if ends else x

            cells = [
                cells_of_rows(g, f, side, [load(f.add(first, i + u)) for u in range(self.kr)])
                for i in range(0, keys, self.kr)
            ]
            for i, x in enumerate(transpose_registers(f, cells)):
                at = f.add(f.mul(f.add(d, i), g.schedule.a_row), f.udiv(first, self.kr))
                f.store(x, f.at(f.params["to"], at, g.acc), g.align)

        full = f.mul(f.udiv(count, keys), keys)
        for d, tail in vector_and_tail(f, self.spec.value_size, lanes):
            with f.range(0, full, keys, unroll=1) as first:
                square(first, d, tail, ends=False)
            with f.if_(f.icmp("slt", full, count)):
                square(full, d, tail, ends=True)
        return f
