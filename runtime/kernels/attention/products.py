"""The two products of attention, by the register tiles of matrix products.

Lanes are queries: scores are keys x queries, results are values x queries. So keys and values are
left operands, whose elements are broadcast from where they lie, the softmax works lane by lane,
and the exponentials are at once the panel that the second product reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ....ir.dtype import DType
from ....ir.scalar.builder import identity
from ....plan.packing.panel_params import BYTES, cell_depth, panel_width
from ....plan.specs.attention import BLOCK_KEYS, BYTES_PER_CELL, AttentionSpec
from ....plan.specs.base import Operand
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import ELEMENT, Value, integer
from ..gemm.context import GemmContext, TileShape
from ..gemm.micro_kernel import VectorMicroKernel
from ..gemm.operand_packing import uncrowded_rows
from ..gemm.packing.panels import pack_a_function
from ..gemm.tiling import choose_vector_schedule, tile_rows

F32 = DType.f32


class Products:
    """Geometry and tiles of both products. `nr`: queries of a panel; `cells`: steps of `kr` values
    along a row of keys; `weight_kr`: keys of a cell of exponentials, which are filled up with zeros
    to a multiple of `step` cells."""

    step = 1

    def __init__(self, spec: AttentionSpec, target: Target, module: Module) -> None:
        self.spec, self.module = spec, module
        self.lanes = target.lanes(32)
        few = isinstance(spec.queries, int) and spec.queries <= self.lanes
        self.nr = self.lanes if few else panel_width(target, 32)
        self.weight_kr = cell_depth(target, spec.compute_dtype)
        self.kr = self.weight_kr if spec.quantization is None else BYTES_PER_CELL
        self.cells = -(-spec.head_size // self.kr)
        self.scores = self._scores(target)
        self.mixture = self._mixture(target)
        self._score_kernels = VectorMicroKernel(self.scores)
        self._mixture_kernels = VectorMicroKernel(self.mixture)

    def _context(self, target: Target, rows: int, k: int, a: Operand, **cut: Any) -> GemmContext:
        """A product whose right operand is a panel, and whose sums go to one: in 32 bits of
        integers where the left one is bytes."""
        bytes_ = a.dtype in BYTES
        acc = DType.i32 if bytes_ else F32
        spec = GemmSpec(
            batch=(),
            m=rows,
            n=self.nr,
            k=k,
            a=a,
            b=Operand(DType.i8 if bytes_ else F32, (self.nr, 1)),
            out=Operand(acc, (self.nr, 1)),
            acc=acc,
            packed=None,
            epilogue=identity(acc),
            compute_dtype=None if bytes_ else self.spec.compute_dtype,
        )
        schedule = replace(
            choose_vector_schedule(spec, target),
            nr=self.nr,
            vectors=self.nr // self.lanes,
            mr=rows,
            heights=(rows,),
            buffered=True,
            panels=1,
            pack_b=True,
            fetch=0,
            **cut,
        )
        return GemmContext.of(spec, target, self.module, schedule)

    def _scores(self, target: Target) -> GemmContext:
        """keys x size, times size x queries."""
        spec = self.spec
        row = spec.key.strides[-2]
        rows = tile_rows(target, self.nr // self.lanes)
        # Rows are addressed by constants, or copied to where they are.
        copied = not self._as_it_lies(spec.key) or not isinstance(row, int)
        if isinstance(row, int) and not copied:
            rows = min(rows, uncrowded_rows(row * spec.key.dtype.bits // 8, target))
        return self._context(
            target,
            rows,
            spec.head_size,
            Operand(spec.key.dtype, (row, 1)),
            kc=self.cells,
            blocked=False,
            pack_a="rows" if copied else "no",
            a_row=-(-self.cells // 16) * 16 + 16,
        )

    def _mixture(self, target: Target) -> GemmContext:
        """width x keys, times keys x queries, added to what a panel has."""
        spec = self.spec
        return self._context(
            target,
            tile_rows(target, self.nr // self.lanes),
            BLOCK_KEYS,
            Operand(spec.value.dtype, (1, spec.value.strides[-2])),
            kc=BLOCK_KEYS // self.weight_kr,
            blocked=True,
            pack_a="no" if self._as_it_lies(spec.value) else "columns",
            a_row=-(-spec.value_size // self.lanes) * self.lanes,
        )

    @property
    def value_cells(self) -> int:
        """Cells of a copy of a block's values."""
        return BLOCK_KEYS // self.weight_kr * self.mixture.schedule.a_row

    def pack_values(self) -> Function:
        """pack(frame, source, to, width, count) of a block's values."""
        return pack_a_function(self.mixture)

    def configure(self, f: Function) -> None:
        """What a kernel does before its first product."""

    def release(self, f: Function) -> None:
        """What it does behind its last."""

    def _as_it_lies(self, operand: Operand) -> bool:
        floats = operand.dtype is F32 and self.spec.compute_dtype is None
        return floats or operand.dtype in BYTES

    # -- tiles --------------------------------------------------------------------------------

    def score_tiles(
        self, f: Function, frame: Value, vectors: int, keys: Value, queries: Value, to: Value,
        count: Value,
    ) -> None:  # fmt: skip
        """The scores of `count` keys for `vectors` registers of queries, a row per key."""
        g = self.scores
        a = g.a_access(in_place=False)
        across = g.size(f, frame, a.across)

        def tile(height: int, start: Value) -> None:
            address = f.at(keys, f.mul(start, across), ELEMENT[a.dtype.value])
            row = f.at(to, f.mul(start, self.nr), g.acc)
            shape, cells = (height, vectors), integer(self.cells)
            self._call(f, self._score_kernels, frame, shape, address, queries, cells, row)

        self._cover(f, count, tile)

    def _cover(self, f: Function, count: Value, tile: Callable[[int, Value], None]) -> None:
        """tile(height, first row) until `count` rows are written. The last tile begins early where
        rows are left over: it writes the same values again."""
        most, n = self.scores.schedule.mr, self.spec.keys
        counts = [BLOCK_KEYS] if not isinstance(n, int) or n >= BLOCK_KEYS else []
        counts += [n % BLOCK_KEYS] if isinstance(n, int) and n % BLOCK_KEYS else []
        fixed = isinstance(n, int) and self.spec.causal is None
        ladder = [] if fixed else [even_height(BLOCK_KEYS, most)]
        # Fewer keys than a tile has rows are rare, and each height is compiled.
        while ladder and ladder[-1] > 1:
            ladder.append(max(1, ladder[-1] // 4))

        def emit_rows(height: int) -> None:
            with f.range(0, count, height, outer=True) as row:
                tile(height, f.smin(row, f.sub(count, height)))

        def choose(left: Sequence[tuple[Value, int]]) -> None:
            (condition, height), *rest = left
            if not rest:
                emit_rows(height)
                return
            with f.if_(condition) as branch:
                emit_rows(height)
                branch.else_()
                choose(rest)

        ways = [(f.icmp("eq", count, c), even_height(c, most)) for c in counts]
        ways += [(f.icmp("sge", count, height), height) for height in ladder]
        choose(ways or [(f.icmp("eq", count, 0), 1)])

    def mixture_tiles(
        self, f: Function, frame: Value, vectors: int, values: Value, exponentials: Value,
        sums: Value, steps: Value,
    ) -> None:  # fmt: skip
        """Add what `steps` cells of keys contribute to a panel's sums."""
        g, width = self.mixture, self.spec.value_size
        element = ELEMENT[g.a_access(in_place=False).dtype.value]
        most = tile_rows(f.target, vectors)
        tiles = -(-width // most)
        if not isinstance(self.spec.queries, int):
            # Two kinds of panels are compiled: a height that leaves nothing over spares another.
            full = [width // h for h in range(most, most // 2, -1) if width % h == 0]
            tiles = next(iter(full), tiles)
        low, longer = divmod(width, tiles)
        for first, last, height in ((0, longer, low + 1), (longer, tiles, low)):
            if first == last:
                continue
            with f.range(first, last, outer=True) as i:
                d = f.add(f.mul(i, height), integer(0 if first == 0 and height > low else longer))
                row = f.at(sums, f.mul(d, self.nr), g.acc)
                address = f.at(values, d, element)
                kernels, shape = self._mixture_kernels, (height, vectors)
                self._call(f, kernels, frame, shape, address, exponentials, steps, row)

    def _call(
        self, f: Function, kernels: VectorMicroKernel, frame: Value, shape: tuple[int, int],
        a: Value, b: Value, steps: Value, to: Value,
    ) -> None:  # fmt: skip
        tile = kernels.tile(TileShape(shape[0], shape[1], 1, edge=False))
        zero = integer(0)
        f.call_function(tile, frame, a, b, zero, zero, zero, steps, 0, to, b, zero)


def even_height(count: int, most: int) -> int:
    """The height of tiles that cover `count` rows evenly."""
    return -(-count // max(1, -(-count // most)))
