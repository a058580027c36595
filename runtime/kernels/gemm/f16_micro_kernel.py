"""Micro-kernel of f16 factors whose products are added in f16, a few steps of K at a time.

An f16 number has 11 bits, so a long chain of f16 sums loses most of its terms. A tile therefore
begins new f16 sums every F16_SUM_STEPS steps of K, counted from the beginning of K, and adds each
of them, widened, to an f32 sum in the tile's buffer. The order over K depends on neither M, N, the
blocks nor the threads.
"""

from __future__ import annotations

from ....plan.packing.panel_params import F16_SUM_STEPS
from ...llvmir.builder import Function
from ...llvmir.values import F16, F32, I32, LLVM_F16, Value, bits_of, integer, vec
from ..emit.register_tile import unrolled_loop
from .context import TileShape
from .micro_kernel import VectorMicroKernel, prefetch_b


class F16MicroKernel(VectorMicroKernel):
    """Tiles of registers of f16 sums. Columns are counted in registers of f16."""

    @property
    def _lanes(self) -> int:
        """f16 numbers of a register."""
        return 2 * self.g.schedule.lanes

    def _columns(self, shape: TileShape) -> list[int]:
        """Where a tile's registers begin."""
        t = self.g.schedule
        registers = -(-shape.vectors * t.lanes // self._lanes)
        return [p * t.nr + v * self._lanes for p in range(shape.panels) for v in range(registers)]

    def _tile_function(self, shape: TileShape) -> Function:
        g = self.g
        f = self._open_tile(shape)
        if g.schedule.blocked:
            with f.if_(f.params["first"]):
                self._clear(f, shape)
        else:
            self._clear(f, shape)
        known = isinstance(g.spec.k, int) and not g.schedule.blocked
        if known:
            depth = g.schedule.kc if g.spec.k else 0
            full = depth // F16_SUM_STEPS * F16_SUM_STEPS
            with f.range(0, full, F16_SUM_STEPS, outer=True) as begin:
                self._add_steps(f, shape, begin, integer(F16_SUM_STEPS))
            if depth > full:
                self._add_steps(f, shape, integer(full), integer(depth - full))
            return f
        with f.range(0, f.params["k"], F16_SUM_STEPS, outer=True) as begin:
            count = f.smin(f.sub(f.params["k"], begin), F16_SUM_STEPS)
            self._add_steps(f, shape, begin, count)
        return f

    def _clear(self, f: Function, shape: TileShape) -> None:
        """Begin the f32 sums."""
        t = self.g.schedule
        for i in range(shape.rows):
            for column in self._columns(shape):
                for half in range(2):
                    address = self._sum_address(f, i, column + half * t.lanes)
                    f.store(f.as_value(0, self.g.vector), address, self.g.align)

    def _sum_address(self, f: Function, row: int, column: int) -> Value:
        return f.at(f.params["buffer"], row * self.g.schedule.width + column, F32)

    def _add_steps(self, f: Function, shape: TileShape, begin: Value, count: Value) -> None:
        """Add the products of `count` steps of K, F16_SUM_STEPS at most, to the f32 sums."""
        g, t, p = self.g, self.g.schedule, f.params
        a, b = g.a_access(in_place=False), g.b_access()
        across, panel = (g.size(f, p["frame"], x.across) for x in (a, b))
        a_step, b_step = (g.size(f, p["frame"], x.step) for x in (a, b))
        panel_bytes = f.mul(panel, bits_of(F16) // 8)
        kind, columns = vec(LLVM_F16, self._lanes), self._columns(shape)
        sums = [[f.var(kind, 0) for _ in columns] for _ in range(shape.rows)]

        def add_step(offset: Value) -> None:
            k = f.add(begin, offset)
            prefetch_b(g, f, shape, k, panel_bytes)
            row = f.at(p["b"], f.mul(k, b_step), F16)
            right: list[Value] = []
            for c in columns:
                which, within = divmod(c, t.nr)
                address = f.at(row, f.add(f.mul(panel, which), within), F16)
                right.append(f.load(kind, address, bits_of(F16) // 8))
            column = f.at(p["a"], f.mul(k, a_step), I32)
            for i, of_row in enumerate(sums):
                x = self._broadcast(f, f.at(column, f.mul(across, i), I32))
                for y, s in zip(right, of_row, strict=True):
                    s.set(f.fma(x, y, s.get()))

        unrolled_loop(f, count, t.unroll, add_step)
        for i, of_row in enumerate(sums):
            for c, s in zip(columns, of_row, strict=True):
                for half in range(2):
                    lanes = range(half * t.lanes, (half + 1) * t.lanes)
                    piece = f.shuffle(s.get(), None, lanes)
                    address = self._sum_address(f, i, c + half * t.lanes)
                    wide = f.op(g.vector, f"fpext {piece} to {g.vector}")
                    total = f.fadd(f.load(g.vector, address, g.align), wide)
                    f.store(total, address, g.align)

    def _broadcast(self, f: Function, address: Value) -> Value:
        """The left factor of a cell in all lanes. NEON multiplies by an element of a register,
        x86-64 loads 32 bits to all lanes."""
        if self.g.target.isa == "neon":
            return f.splat(f.load(LLVM_F16, address, 2), self._lanes)
        cells = f.splat(f.load(I32, address, 4), self.g.schedule.lanes)
        return f.bitcast(cells, vec(LLVM_F16, self._lanes))
