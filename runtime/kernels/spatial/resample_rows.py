"""Resampling of an axis whose elements are neighbours: vectors along it, of gathered elements.

A task is one row of a block of columns. The positions and weights of a block's columns are computed
once, into a table, for all rows that a worker has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.dtype import DType
from ....plan.specs.resample import IMAGE_RULES, PICKING, ResampleSpec
from ...llvmir.builder import Function
from ...llvmir.kernel_entry import share
from ...llvmir.values import ELEMENT, I1, I32, I64, Value, bits_of, integer, vec
from ..emit.casts import cast, memory_type
from ..emit.gather_lanes import gather_at, gathers
from ..emit.strided_loops import Lane, RowCursor, RuntimeSizes, coalesce, emit_vectors
from ..emit.tail_mask import TailMask
from .resample_coords import taps_of

# Columns of a block: its table stays in L1 while rows go by.
_BLOCK = 256
# Vectors that one turn of a loop serves.
_UNROLL = 2
# Axes of so many elements have positions of 64 bits.
_LONG_AXIS = 1 << 31
# Elements that a result is made of.
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def is_along_rows(spec: ResampleSpec) -> bool:
    """Whether one axis is resampled, whose elements are neighbours before and after."""
    near = all(o.strides[1] == 1 for o in spec.operands())
    return near and spec.rule in IMAGE_RULES and spec.columns is None


class ResampledRows:
    """Writes the rows of a spec that `is_along_rows`. dtypes: what elements are read and stored as;
    stays: whether the axis stays as long as it was, None where that is not known; narrow: sums as
    they are stored."""

    def __init__(
        self,
        spec: ResampleSpec,
        f: Function,
        sizes: RuntimeSizes,
        pointers: Sequence[Value],
        dtypes: tuple[DType, DType],
        *,
        stays: bool | None,
        narrow: Callable[[Sequence[Value]], list[Value]],
    ) -> None:
        self.spec, self.f, self.sizes, self.pointers = spec, f, sizes, pointers
        self.dtypes, self.stays, self.narrow = dtypes, stays, narrow
        self.element, picks = memory_type(dtypes[0]), spec.rule in PICKING
        widest = max(bits_of(memory_type(t)) for t in dtypes)
        widest = widest if picks else max(widest, spec.acc.bits)
        self.lanes = f.target.lanes(widest) if gathers(f, self.element) else 1
        self.data, self.out = (Lane(f, sizes, t, 1, self.lanes) for t in dtypes)
        self.axis, self.count = sizes.value(spec.axis), sizes.value(spec.count)
        known = self.axis.known
        self.index = I64 if known is None or known >= _LONG_AXIS else I32
        taps = _TAPS[spec.rule]
        self.positions = [self._column_table(self.index) for _ in range(taps)]
        self.weight = ELEMENT[spec.acc.value]
        self.weights = [self._column_table(self.weight) for _ in range(0 if picks else taps)]

    def _column_table(self, element: str) -> Value:
        return self.f.stack(_BLOCK * bits_of(element) // 8)

    def run(self, worker: Value, workers: Value) -> None:
        """This worker's rows of each block of columns."""
        f, spec = self.f, self.spec
        axes = (spec.outer, spec.middle, spec.inner)
        strides = [(o.strides[0], *o.strides[2:]) for o in spec.operands()]
        space = coalesce(axes, strides)
        cursor = RowCursor(f, self.sizes, space.axes, self.pointers, self.dtypes, space.strides)
        rows, blocks = self.sizes.product(axes), f.ceil_div(self.count, _BLOCK)
        lo, hi = share(f, f.mul(rows, blocks), worker, workers)
        with (
            f.if_(f.icmp("slt", lo, hi)),
            f.range(f.udiv(lo, rows), f.ceil_div(hi, rows), unroll=1) as block,
        ):
            first, before = f.mul(block, _BLOCK), f.mul(block, rows)
            end = f.smin(f.add(first, _BLOCK), self.count)
            self.fill_table(first, end)
            begin = f.smax(f.sub(lo, before), 0)
            cursor.seek(begin)
            with f.range(begin, f.smin(f.sub(hi, before), rows), unroll=1):
                self.emit_row(cursor.pointers(), first, f.sub(end, first))
                cursor.advance()

    def fill_table(self, first: Value, end: Value) -> None:
        """The positions and weights of columns first..end."""
        f, spec = self.f, self.spec
        begin = self.sizes.value(spec.begin)
        with f.range(first, end, unroll=1) as i:
            taps, at = taps_of(f, spec, i, self.axis, self.count, begin), f.sub(i, first)
            for table, position in zip(self.positions, taps.positions, strict=True):
                f.store(f.cast(position, self.index), f.at(table, at, self.index))
            for table, weight in zip(self.weights, taps.weights, strict=True):
                f.store(weight, f.at(table, at, self.weight))

    def emit_row(self, at: Sequence[Value], first: Value, count: Value) -> None:
        """`count` columns from `first` on, of the rows of data and of the result that begin at
        `at`. An axis that stays as long as it was is copied: no weight of 0 makes NaN of an
        infinity."""
        f, row = self.f, at[0]
        self.data.begin(f.at(row, first, self.element))
        self.out.begin(f.at(at[1], first, self.out.element), reads=False)

        def pick(i: Value, tail: TailMask | None) -> Value:
            return self.load_tap(row, 0, i, tail)

        def weigh(i: Value, tail: TailMask | None) -> Value:
            return self.narrow([self.add_weighted(row, i, tail)])[0]

        def copy(i: Value, tail: TailMask | None) -> Value:
            return self.narrow([self.widen(self.data.load(i, tail))])[0]

        if not self.weights:
            self.emit_vectors(count, pick)
            return
        if self.spec.scale is not None or self.stays is False:
            self.emit_vectors(count, weigh)
            return
        same = f.icmp("eq", self.axis, self.count)
        with f.if_(same if self.stays is None else integer(self.stays, I1)) as branch:
            self.emit_vectors(count, copy)
            branch.else_()
            self.emit_vectors(count, weigh)

    def emit_vectors(
        self, count: Value, compute: Callable[[Value, TailMask | None], Value]
    ) -> None:
        """Store what `compute` gives for the vectors of `count` columns."""
        f = self.f
        for first, tails in emit_vectors(f, count, self.lanes, _UNROLL):
            for n, tail in enumerate(tails):
                at = f.add(first, n * self.lanes)
                self.out.store(compute(at, tail), at, tail)

    def widen(self, x: Value) -> Value:
        return cast(self.f, x, self.dtypes[0], self.spec.acc)

    def load_tap(self, row: Value, tap: int, at: Value, tail: TailMask | None) -> Value:
        """Elements of the row at address `row`, at a tap of the columns from `at` on."""
        f, kind = self.f, vec(self.index, self.lanes)
        # The table has room for a whole vector behind the last column; its lanes are not used.
        positions = f.load(kind, f.at(self.positions[tap], at, self.index))
        return gather_at(f, self.element, row, positions, tail)

    def add_weighted(self, row: Value, at: Value, tail: TailMask | None) -> Value:
        f, total = self.f, None
        for tap, table in enumerate(self.weights):
            x = self.widen(self.load_tap(row, tap, at, tail))
            weight = f.load(vec(self.weight, self.lanes), f.at(table, at, self.weight))
            total = f.fmul(x, weight) if total is None else f.fma(x, weight, total)
        assert total is not None
        return total
