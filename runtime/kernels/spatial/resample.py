"""Resampling of axes: elements picked or weighed along them, vectors along the inner axis.

A task is one index of the output axis: which elements it is made of follows from its position
alone and is found once for all `middle * inner` elements behind it. With columns, each element is
made of those of some rows and columns, so that nothing is stored between the two axes. Padded axes
of neighbours are done row by row instead (pad_rows.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....plan.specs.base import EMPTY_AXIS
from ....plan.specs.resample import COMPUTING, PICKING, Columns, ResampleSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.values import I1, Value, integer, vec
from ..emit.casts import bfloat_of_flushed, cast, memory_type
from ..emit.contract import Kernel
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import Lane, RuntimeSizes, base_pointer, each_pair
from ..emit.tail_mask import TailMask, tail_mask
from ..rows.reduce import Join
from .pad_rows import PaddedRows, is_in_rows
from .resample_coords import Taps, taps_of
from .resample_rows import ResampledRows, is_along_rows

# Vectors that one turn of the inner loop serves.
_UNROLL = 4
_WORDS = {8: DType.u8, 16: DType.u16, 32: DType.u32, 64: DType.u64}


def generate(spec: ResampleSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a resampled axis. UnsupportedOperationError for what it cannot do."""
    if spec.rule not in (*PICKING, *COMPUTING):
        raise UnsupportedOperationError("no kernel resamples by this", got=spec.rule)
    memory_type(spec.data.dtype)  # refuses types that are not whole bytes
    module = Module(target)
    shared = SharedSizes(spec.runtime_dims)
    sized = _share_sizes(shared, spec, target)
    entry = open_kernel(module, symbol, [READ, WRITE], shared.runtime_dims, numbers=shared.numbers)
    f, sizes = entry.function, RuntimeSizes(entry.function, entry.dims)
    pointers = [
        base_pointer(f, sizes, p, o) for p, o in zip(entry.buffers, sized.operands(), strict=True)
    ]
    made = _Resample(sized, f, sizes, pointers, _stays(spec))
    if spec.rule != "constant":
        wanted = sizes.product(spec.iteration_spaces()[1])
        # Of two axes either one may be empty.
        least = functools.reduce(f.smin, map(sizes.value, spec.reduced_axes()))
        missing = f.and_(f.icmp("sle", least, 0), f.icmp("sgt", wanted, 0))
        with f.if_(missing):
            f.store(integer(0), entry.scratch)
            f.ret(EMPTY_AXIS)
        if missing.known:
            return Kernel(symbol, module.text())
    if is_in_rows(spec):
        PaddedRows(sized, f, sizes, pointers, _copied_type(spec)).run(entry.worker, entry.workers)
    elif is_along_rows(spec):
        dtypes = (made.lines[0].dtype, made.lines[1].dtype)
        rows = ResampledRows(
            sized, f, sizes, pointers, dtypes, stays=made.stays, narrow=made.narrow_results
        )
        rows.run(entry.worker, entry.workers)
    else:
        made.run(entry.worker, entry.workers)
    f.ret(0)
    return Kernel(symbol, module.text())


def _share_sizes(shared: SharedSizes, spec: ResampleSpec, target: Target) -> ResampleSpec:
    """The spec with its sizes as parameters, but for the strides of lanes."""
    data, out = (
        replace(o, strides=(*shared.share_all(o.strides[:3]), o.strides[3]))
        for o in (shared.share_offset(o) for o in spec.operands())
    )
    inner = shared.share_row(spec.inner, _lane_count(spec, target), _UNROLL)
    outer, axis, count, middle = shared.share_all([spec.outer, spec.axis, spec.count, spec.middle])
    columns = spec.columns
    if columns is not None:
        axes = (shared.share(columns.axis), shared.share(columns.count))
        columns = Columns(*axes, columns.scale)
    return replace(
        spec,
        outer=outer,
        axis=axis,
        count=count,
        middle=middle,
        inner=inner,
        begin=shared.share(spec.begin, constants=(0,)),
        data=data,
        out=out,
        columns=columns,
    )


def _stays(spec: ResampleSpec) -> bool | None:
    known = isinstance(spec.axis, int) and isinstance(spec.count, int)
    return spec.axis == spec.count if known else None


def _lane_count(spec: ResampleSpec, target: Target) -> int:
    if spec.rule in PICKING:
        return target.lanes(_copied_type(spec).bits)
    return target.lanes(max(max(8, t.bits) for t in (spec.data.dtype, spec.out.dtype, spec.acc)))


def _copied_type(spec: ResampleSpec) -> DType:
    """The type that elements are copied as."""
    return _WORDS[max(8, spec.data.dtype.bits)]


class _Resample:
    def __init__(
        self,
        spec: ResampleSpec,
        f: Function,
        sizes: RuntimeSizes,
        pointers: Sequence[Value],
        stays: bool | None,
    ) -> None:
        """stays: whether the axis stays as long as it was; None where that is not known."""
        self.spec, self.f, self.sizes, self.pointers = spec, f, sizes, pointers
        self.stays = stays
        types = (spec.data.dtype, spec.out.dtype)
        if spec.rule in PICKING:
            types = (_copied_type(spec),) * 2
        self.lanes = _lane_count(spec, f.target)
        self.lines = [
            Lane(f, sizes, t, o.strides[3], self.lanes)
            for t, o in zip(types, spec.operands(), strict=True)
        ]
        self.axis, self.count = sizes.value(spec.axis), sizes.value(spec.count)

    def run(self, worker: Value, workers: Value) -> None:
        """This worker's indices of the output axis."""
        f, spec = self.f, self.spec
        rows = f.mul(self.sizes.value(spec.outer), self.count)
        lo, hi = share(f, rows, worker, workers)
        # A share without rows may be one of an axis without elements.
        with f.if_(f.icmp("slt", lo, hi)), each_pair(f, lo, hi, self.count) as (outer, i):
            if spec.rule in ("mean", "max"):
                first = f.udiv(f.mul(i, self.axis), self.count)
                last = f.ceil_div(f.mul(f.add(i, 1), self.axis), self.count)
                self.emit_element(
                    outer, i, lambda at, c, p: self.combine_range(at, c, p, first, last)
                )
                return
            taps = taps_of(f, spec, i, self.axis, self.count, self.sizes.value(spec.begin))
            if spec.columns is not None:
                self.emit_columns(outer, i, taps, spec.columns)
                return
            if taps.weights and spec.scale is None:
                # An axis that stays as long as it was: no weight of 0 makes NaN of an infinity.
                same = f.icmp("eq", self.axis, self.count)
                with f.if_(same if self.stays is None else integer(self.stays, I1)) as branch:
                    self.emit_element(outer, i, lambda at, c, p: self.copy_element(at, c, p, i))
                    branch.else_()
                    self.emit_element(outer, i, lambda at, c, p: self.weighted_sum(at, c, p, taps))
                return
            if taps.inside is None:
                self.emit_element(outer, i, lambda at, c, p: self.weighted_sum(at, c, p, taps))
                return
            with f.if_(taps.inside) as branch:
                self.emit_element(outer, i, lambda at, c, p: self.weighted_sum(at, c, p, taps))
                branch.else_()
                self.emit_element(outer, i, self.fill_outside)

    def emit_element(
        self,
        outer: Value,
        i: Value,
        compute: Callable[[Value, Value, Sequence[TailMask | None]], list[Value]],
    ) -> None:
        """All elements of one index; `compute` gives vectors of the output's type from where its
        row of data begins, the first of their elements, and which parts of them there are."""
        f, spec = self.f, self.spec
        with f.range(0, self.sizes.value(spec.middle), unroll=1) as m:
            data = self.address(0, outer, integer(0), m)
            to = self.address(1, outer, i, m)
            self.emit_row(to, lambda c, tails: compute(data, c, tails))

    def emit_columns(self, outer: Value, i: Value, rows: Taps, columns: Columns) -> None:
        """All elements of one row of the output, of the rows of data at `rows`."""
        f, spec = self.f, self.spec
        axis, count = self.sizes.value(columns.axis), self.sizes.value(columns.count)
        across = replace(spec, scale=columns.scale)
        with f.range(0, count, unroll=1) as j:
            taps = taps_of(f, across, j, axis, count, integer(0))
            addresses = [
                [self.address(0, outer, row, column) for row in rows.positions]
                for column in taps.positions
            ]

            def compute(c: Value, tails: Sequence[TailMask | None]) -> list[Value]:
                loaded = [[self.loads(a, c, tails) for a in column] for column in addresses]
                if not rows.weights:
                    return loaded[0][0]
                sums = [self.add_weighted(map(self.widen, col), rows.weights) for col in loaded]
                return self.narrow_results(self.add_weighted(sums, taps.weights))

            self.emit_row(self.address(1, outer, i, j), compute)

    def address(self, operand: int, outer: Value, at: Value, middle: Value) -> Value:
        """The first of the inner elements at these positions."""
        f = self.f
        strides = [self.sizes.value(s) for s in self.spec.operands()[operand].strides]
        offsets = (f.mul(x, s) for x, s in zip((outer, at, middle), strides[:3], strict=True))
        element = self.lines[operand].element
        return f.at(self.pointers[operand], functools.reduce(f.add, offsets), element)

    def emit_row(
        self, to: Value, compute: Callable[[Value, Sequence[TailMask | None]], list[Value]]
    ) -> None:
        """The inner elements at address `to`, in vectors that `compute` gives."""
        f, line = self.f, self.lines[1]
        n, block = self.sizes.value(self.spec.inner), self.lanes * _UNROLL
        block_end = f.round_down(n, block)
        line.begin(to, reads=False)

        def write(c: Value, tails: Sequence[TailMask | None]) -> None:
            for u, (y, tail) in enumerate(zip(compute(c, tails), tails, strict=True)):
                line.store(y, f.add(c, u * self.lanes), tail)

        with f.range(0, block_end, block, unroll=1) as c:
            write(c, [None] * _UNROLL)
        with f.range(block_end, n, self.lanes, unroll=1) as c:
            left = f.sub(n, c)
            whole = n.known is None and n.is_multiple(self.lanes)
            with f.if_(integer(1, I1) if whole else f.icmp("sge", left, self.lanes)) as branch:
                write(c, [None])
                branch.else_()
                write(c, [tail_mask(f, self.lanes, left)])

    def element_address(self, data: Value, at: Value) -> Value:
        """The address of element `at` of the axis, of the row of data at `data`."""
        step = self.sizes.value(self.spec.data.strides[1])
        return self.f.at(data, self.f.mul(at, step), self.lines[0].element)

    def loads(self, row: Value, c: Value, tails: Sequence[TailMask | None]) -> list[Value]:
        """The inner elements at address `row`: vectors from `c` on, as they are in memory."""
        f, line = self.f, self.lines[0]
        line.begin(row)
        return [line.load(f.add(c, u * self.lanes), p) for u, p in enumerate(tails)]

    def widen(self, values: Sequence[Value]) -> list[Value]:
        spec = self.spec
        return [cast(self.f, v, spec.data.dtype, spec.acc) for v in values]

    def narrow_results(self, values: Sequence[Value]) -> list[Value]:
        spec = self.spec
        if (spec.data.dtype, spec.out.dtype) == (DType.f32, DType.bf16):
            # Stored as the products that read it would round it.
            return [bfloat_of_flushed(self.f, v) for v in values]
        return [cast(self.f, v, spec.acc, spec.out.dtype) for v in values]

    def copy_element(
        self, data: Value, c: Value, tails: Sequence[TailMask | None], i: Value
    ) -> list[Value]:
        """The element of the index itself."""
        return self.narrow_results(self.widen(self.loads(self.element_address(data, i), c, tails)))

    def weighted_sum(
        self, data: Value, c: Value, tails: Sequence[TailMask | None], taps: Taps
    ) -> list[Value]:
        """The sum of the taps by their weights, or the one tap there is."""
        loaded = [self.loads(self.element_address(data, at), c, tails) for at in taps.positions]
        if not taps.weights:
            return loaded[0]
        return self.narrow_results(self.add_weighted(map(self.widen, loaded), taps.weights))

    def add_weighted(
        self, terms: Iterable[Sequence[Value]], weights: Sequence[Value]
    ) -> list[Value]:
        """The sum of vectors, each by its weight."""
        f, sums = self.f, list[Value]()
        for values, weight in zip(terms, weights, strict=True):
            by = f.splat(weight, self.lanes)
            sums = (
                [f.fma(v, by, s) for v, s in zip(values, sums, strict=True)]
                if sums
                else [f.fmul(v, by) for v in values]
            )
        return sums

    def combine_range(
        self, data: Value, c: Value, tails: Sequence[TailMask | None], first: Value, last: Value
    ) -> list[Value]:
        """The mean or the largest of elements first..last."""
        f, spec = self.f, self.spec
        join = Join(f, "max" if spec.rule == "max" else "sum", spec.acc)
        accumulators = [f.var(join.start(self.lanes).type, join.start(self.lanes)) for _ in tails]
        with f.range(first, last, unroll=1) as at:
            for h, x in zip(
                accumulators,
                self.widen(self.loads(self.element_address(data, at), c, tails)),
                strict=True,
            ):
                h.set(join(h.get(), x))
        found = [h.get() for h in accumulators]
        if spec.rule == "mean":
            by = f.splat(cast(f, f.sub(last, first), DType.i64, spec.acc), self.lanes)
            found = [f.fdiv(v, by) for v in found]
        return self.narrow_results(found)

    def fill_outside(self, data: Value, c: Value, tails: Sequence[TailMask | None]) -> list[Value]:
        """The value of pixels outside the data."""
        return [integer(self.spec.fill, vec(self.lines[1].element, self.lanes)) for _ in tails]
