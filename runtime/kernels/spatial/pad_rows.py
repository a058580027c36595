"""Padding of an axis whose elements are neighbours: rows copied in vectors, their ends filled.

A task is a piece of one row of the result, so that one long row is work for several workers. Only
its ends are looked at element by element, and those only where the mode mirrors them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.dtype import DType
from ....plan.specs.resample import PADDING, ResampleSpec
from ...llvmir.builder import Function
from ...llvmir.kernel_entry import share
from ...llvmir.values import Value, integer
from ..emit.strided_loops import Lane, RowCursor, RuntimeSizes, coalesce, each_piece
from ..emit.tail_mask import TailMask, tail_mask
from .resample_coords import taps_of

# Elements of a row that one task writes.
_ELEMENTS_PER_TASK = 4096
# Vectors that one turn of a loop serves.
_UNROLL = 4


def is_in_rows(spec: ResampleSpec) -> bool:
    """Whether elements are moved in runs: a padded axis with neighbours on both sides."""
    return spec.rule in PADDING and all(o.strides[1] == 1 for o in spec.operands())


class PaddedRows:
    """Writes the rows of an axis that `is_in_rows`, as elements of type `word`."""

    def __init__(
        self,
        spec: ResampleSpec,
        f: Function,
        sizes: RuntimeSizes,
        pointers: Sequence[Value],
        word: DType,
    ) -> None:
        self.spec, self.f, self.sizes, self.pointers = spec, f, sizes, pointers
        lanes = f.target.lanes(word.bits)
        self.lines = [Lane(f, sizes, word, o.strides[1], lanes) for o in spec.operands()]
        self.axis, self.count = sizes.value(spec.axis), sizes.value(spec.count)
        self.begin = sizes.value(spec.begin)

    def run(self, worker: Value, workers: Value) -> None:
        """This worker's pieces."""
        f, spec = self.f, self.spec
        axes = (spec.outer, spec.middle, spec.inner)
        strides = [(o.strides[0], *o.strides[2:]) for o in spec.operands()]
        space = coalesce(axes, strides)
        words = [line.dtype for line in self.lines]
        rows = RowCursor(f, self.sizes, space.axes, self.pointers, words, space.strides)
        pieces = f.ceil_div(self.count, _ELEMENTS_PER_TASK)
        lo, hi = share(f, f.mul(self.sizes.product(axes), pieces), worker, workers)
        with f.if_(f.icmp("slt", lo, hi)), each_piece(f, rows, lo, hi, pieces) as piece:
            self.piece(rows.pointers(), f.mul(piece, _ELEMENTS_PER_TASK))

    def piece(self, at: Sequence[Value], lo: Value) -> None:
        """Elements `lo` and on of the row of the result at at[1], from the row of data at at[0]."""
        f = self.f
        hi = f.smin(f.add(lo, _ELEMENTS_PER_TASK), self.count)
        first = f.smin(f.smax(self.begin, lo), hi)
        last = f.smin(f.smax(f.add(self.begin, self.axis), first), hi)
        source, target = self.lines
        source.begin(at[0])
        target.begin(at[1], reads=False)
        self.border(at, lo, first, integer(0))
        self.vectors(first, last, lambda i, tail: source.load(f.sub(i, self.begin), tail))
        self.border(at, last, hi, f.sub(self.axis, 1))

    def border(self, at: Sequence[Value], lo: Value, hi: Value, edge: Value) -> None:
        """Elements lo..hi outside the data; `edge` is the element of the data next to them."""
        f, spec, line = self.f, self.spec, self.lines[1]
        with f.if_(f.icmp("slt", lo, hi)):
            if spec.rule in ("constant", "edge"):
                one = integer(spec.fill, line.element)
                if spec.rule == "edge":
                    one = f.load(line.element, f.at(at[0], edge, line.element))
                outside = f.splat(one, line.lanes)
                self.vectors(lo, hi, lambda i, tail: outside)
                return
            with f.range(lo, hi, unroll=1) as i:
                (index,) = taps_of(f, spec, i, self.axis, self.count, self.begin).positions
                value = f.load(line.element, f.at(at[0], index, line.element))
                f.store(value, f.at(at[1], i, line.element))

    def vectors(
        self, lo: Value, hi: Value, compute: Callable[[Value, TailMask | None], Value]
    ) -> None:
        """Store what `compute` gives from an index on, for indices lo..hi."""
        f, line = self.f, self.lines[1]
        block = line.lanes * _UNROLL
        block_end = f.add(lo, f.mul(f.udiv(f.sub(hi, lo), block), block))
        with f.range(lo, block_end, block, unroll=1) as i:
            indices = [f.add(i, u * line.lanes) for u in range(_UNROLL)]
            for index, value in [(p, compute(p, None)) for p in indices]:
                line.store(value, index)
        with f.range(block_end, hi, line.lanes, unroll=1) as i:
            left = f.sub(hi, i)
            with f.if_(f.icmp("sge", left, line.lanes)) as branch:
                line.store(compute(i, None), i)
                branch.else_()
                tail = tail_mask(f, line.lanes, left)
                line.store(compute(i, tail), i, tail)
