"""Tiles of AMX whose sums wait in the buffer: they are finished during the next tile's products.

The unit that multiplies tiles and those of vectors work at once, but the window in which a core
looks for independent instructions is shorter than an epilogue. So each step of K of the next tile
finishes a few rows. A block's last tile is finished behind it.
"""

from __future__ import annotations

from ...llvmir.builder import Function
from ...llvmir.values import I64, PTR, Value, integer
from ..emit.amx_registers import AMX_ROWS
from ..emit.register_tile import unrolled_loop
from .context import GemmContext
from .epilogue import FullRows
from .schedule import AmxSchedule

# Where the words of a waiting tile are: how many rows, then the arguments of the epilogue.
_ROWS, _BUFFER, _M, _N, _COLS, _ROW_TERMS, _COLUMN_TERMS = range(0, 56, 8)


class DeferredEpilogue:
    """The tile that waits, in memory of the kernel's own: `address`."""

    def __init__(
        self, f: Function, g: GemmContext, schedule: AmxSchedule, finish: Function
    ) -> None:
        self.g, self.schedule = g, schedule
        self.address, self.finish = f.stack(64), finish
        self.corrects = bool(g.corrections)

    def clear(self, f: Function) -> None:
        """No tile waits."""
        f.store(f.as_value(0, I64), f.offset(self.address, _ROWS))

    def defer(self, f: Function, rows: Value, what: tuple[Value, ...]) -> None:
        """`rows` of a tile wait from now on: buffer, m, n, columns, and the terms."""
        f.store(rows, f.offset(self.address, _ROWS))
        for at, value in zip(
            (_BUFFER, _M, _N, _COLS, _ROW_TERMS, _COLUMN_TERMS), what, strict=False
        ):
            f.store(value, f.offset(self.address, at))

    def flush(self, f: Function, frame: Value) -> None:
        """Finish the tile that waits, if one does."""
        rows = DeferredRows(self, f, frame, self.address)
        with f.if_(f.icmp("sgt", rows.rows, 0)):
            rows.call(f.as_value(0, I64), rows.rows)


class DeferredRows:
    """The rows of the tile that waits, in a function that gets its `address`."""

    def __init__(
        self,
        waiting: DeferredEpilogue,
        f: Function,
        frame: Value,
        address: Value,
        finish: Value | None = None,
    ) -> None:
        """finish: the address of the epilogue's function, where the text is not to name it."""
        self.waiting, self.f, self.frame, self.finish = waiting, f, frame, finish
        self.rows = f.load(I64, f.offset(address, _ROWS))
        words = ((PTR, _BUFFER), (I64, _M), (I64, _N), (I64, _COLS))
        self.buffer, self.m, self.n, self.cols = (f.load(k, f.offset(address, x)) for k, x in words)
        self.terms = [
            f.load(PTR, f.offset(address, x))
            for x in ((_ROW_TERMS, _COLUMN_TERMS) if waiting.corrects else ())
        ]

    def call(self, first: Value, count: Value) -> None:
        """Finish `count` rows from `first` on."""
        f, finish = self.f, self.waiting.finish
        row = self.waiting.g.schedule.width * self.waiting.g.bytes
        terms = self.terms and [f.offset(self.terms[0], f.mul(first, 4)), self.terms[1]]
        buffer, m = f.offset(self.buffer, f.mul(first, row)), f.add(self.m, first)
        what = (self.frame, buffer, m, self.n, count, self.cols, *terms)
        f.call_function(finish, *what, address=self.finish)

    def call_some(self, first: Value, each: Value) -> None:
        """The `each` rows from `first` on, as far as there are any."""
        f = self.f
        with f.if_(f.icmp("slt", first, self.rows)):
            self.call(first, f.smin(f.sub(self.rows, first), each))

    def emit_some(self, k: Value, each: int) -> None:
        """At the step of K that begins with cell k: the `each` rows that are its share. A short
        program is written out where that is once (bytes of 128x768x768 take 0.95 of the time). A
        dynamic M has three kinds of tiles: they would take up to 2.4 times as long to compile."""
        f, g = self.f, self.waiting.g
        first = f.mul(f.udiv(k, AMX_ROWS), each)
        if g.schedule.guarded or not self.waiting.schedule.inline_epilogue:
            self.call_some(first, integer(each))
            return
        with f.if_(f.icmp("slt", first, self.rows)):
            count = f.smin(f.sub(self.rows, first), each)
            with f.if_(f.icmp("eq", self.cols, g.schedule.width)) as branch:
                origin = (self.buffer, self.m, self.n)
                full = FullRows(g, f, self.frame, origin, self.terms)
                unrolled_loop(f, count, 2, lambda i: full.finish(f.add(first, i)))
                branch.else_()
                self.call(first, count)

    def rest(self, done: Value) -> None:
        """The rows from `done` on."""
        f = self.f
        with f.if_(f.icmp("slt", done, self.rows)):
            self.call(done, f.sub(self.rows, done))
