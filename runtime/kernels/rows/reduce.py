"""Reductions: along rows (vectors along the reduced axis) or across them (vectors of results).

Kept elements are split over workers, never the reduced ones, so the bits do not depend on the
split; a reduction to one element is one worker's (lowering cuts those whose order changes no bit).
The order of a sum depends on the reduced sizes, their layout and the instruction set: blocks of
UNROLL vectors, one accumulator each, or, across rows, one ascending chain per result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Instr, Program
from ....plan.specs.base import Size
from ....plan.specs.rows import ReduceSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module, StackVariable
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.values import I1, Value, integer, number, vec
from ..emit.casts import cast, element_type
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program, program_types
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import (
    Lane,
    RowCursor,
    RuntimeSizes,
    Space,
    base_pointer,
    coalesce,
    share_axes,
)
from ..emit.tail_mask import TailMask, tail_mask
from .row_sweeps import UNROLL, sweep

_WORD = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
# Rows longer than this are worth a worker of their own, shorter ones come in groups.
_MIN_OWN_TASK_ELEMENTS = 256
_ROWS_PER_TASK = 16


def generate(spec: ReduceSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a reduce spec. UnsupportedOperationError for types or kinds without one."""
    if spec.kind not in _WORD:
        raise UnsupportedOperationError("no kernel reduces by this", got=spec.kind)
    module = Module(target)
    operands = spec.operands()
    buffers = [BufferAssumptions()] * len(spec.inputs)
    buffers += [BufferAssumptions(writes=True)] * len(spec.outs)
    cut = len(spec.kept)
    kept = coalesce(spec.kept, [o.strides[:cut] for o in operands])
    reduced = coalesce(spec.reduced, [o.strides[cut:] for o in spec.inputs])
    lanes = _lane_count(spec, target)
    lengths = [a for a in reduced.axes if isinstance(a, int)]
    long = len(lengths) < len(reduced.axes) or math.prod(lengths) > _MIN_OWN_TASK_ELEMENTS
    shared = SharedSizes(spec.runtime_dims)
    operands = tuple(shared.share_offset(o) for o in operands)
    across = _is_across(kept, reduced)
    vectors = _vectors_of_columns(kept, lanes) if across else UNROLL
    if across:
        kept = _share_columns(shared, kept, lanes * vectors)
        reduced = share_axes(shared, reduced, 0)
    else:
        kept, reduced = share_axes(shared, kept, 0), share_axes(shared, reduced, 1)
    k = open_kernel(module, symbol, buffers, shared.runtime_dims, numbers=shared.numbers)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    if not kept.is_empty:
        pointers = [base_pointer(f, sizes, p, o) for p, o in zip(k.buffers, operands, strict=True)]
        made = _Reduce(spec, f, sizes, kept, reduced, pointers, lanes)
        if across:
            made.reduce_columns(k.worker, k.workers, vectors)
        else:
            made.along(k.worker, k.workers, 1 if long else _ROWS_PER_TASK)
    f.ret(0)
    return Kernel(symbol, module.text())


def _lane_count(spec: ReduceSpec, target: Target) -> int:
    types = [i.dtype for i in spec.prologue.instrs] + [o.dtype for o in spec.inputs]
    return target.lanes(max(max(8, t.bits) for t in types))


def _vectors_of_columns(kept: Space, lanes: int) -> int:
    """How many vectors of results are reduced at once."""
    inner = kept.axes[-1]
    return max(1, min(UNROLL, -(-inner // lanes))) if isinstance(inner, int) else UNROLL


def _share_columns(shared: SharedSizes, kept: Space, block: int) -> Space:
    """The space of results, of which vectors are neighbours, with its sizes as parameters."""
    inner = kept.axes[-1]
    whole = isinstance(inner, int) and inner % block == 0
    found = share_axes(shared, kept, 1)
    return Space((*found.axes[:-1], shared.share(inner, block if whole else 1)), found.strides)


def _is_across(kept: Space, reduced: Space) -> bool:
    """Are neighbouring results made of neighbouring elements, and reduced ones not?"""
    if not kept.axes:
        return False
    if not reduced.axes:
        return True
    across = [s[-1] for s in kept.strides]
    along = [s[-1] for s in reduced.strides]
    return _in_vectors(across) and not _in_vectors(along)


def _in_vectors(strides: Sequence[Size]) -> bool:
    return all(s in (0, 1) for s in strides) and 1 in strides


def neutral_element(kind: str, dtype: DType) -> float | int:
    """What an empty reduction gives."""
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    if dtype.is_float:
        return -float("inf") if kind == "max" else float("inf")
    return int(dtype.min if kind == "max" else dtype.max)


@dataclass(frozen=True)
class Join:
    """The binary operation of a reduction on vectors of any lane count."""

    f: Function
    kind: str
    dtype: DType

    def __call__(self, a: Value, b: Value) -> Value:
        args = tuple(Instr("input", (i,), self.dtype) for i in range(2))
        program = Program((*args, Instr(_WORD[self.kind], (0, 1), self.dtype)), (2,))
        return emit_program(self.f, program, [a, b])[0]

    def start(self, lanes: int) -> Value:
        return number(neutral_element(self.kind, self.dtype), vec(element_type(self.dtype), lanes))

    def mask_tail(self, value: Value, tail: TailMask | None) -> Value:
        return value if tail is None else self.f.select(tail.mask, value, self.start(value.lanes))

    def total(self, values: Sequence[Value]) -> Value:
        """All lanes of all values, pairs by pairs, then halves onto halves."""
        while len(values) > 1:
            values = [self(values[i], values[i + 1]) for i in range(0, len(values), 2)]
        v = values[0]
        while v.lanes > 1:
            half = v.lanes // 2
            low = self.f.shuffle(v, None, range(half))
            v = self(low, self.f.shuffle(v, None, range(half, 2 * half)))
        return v


class _Reduce:
    def __init__(
        self,
        spec: ReduceSpec,
        f: Function,
        sizes: RuntimeSizes,
        kept: Space,
        reduced: Space,
        pointers: list[Value],
        lanes: int,
    ) -> None:
        self.spec, self.f, self.sizes, self.lanes = spec, f, sizes, lanes
        self.kept, self.reduced, self.pointers = kept, reduced, pointers
        self.acc, self.results = program_types(spec.prologue)[0], len(spec.prologue.results)
        self.join = Join(f, spec.kind, self.acc)
        self.dtypes = [o.dtype for o in spec.operands()]

    def start(self, lanes: int) -> list[StackVariable]:
        """Accumulators of the prologue's results, as they are before the first element."""
        first = self.join.start(lanes)
        return [self.f.var(first.type, first) for _ in range(self.results)]

    def epilogue(self, values: Sequence[Value]) -> list[Value]:
        """The stored results of reduced values (any lane count)."""
        f, spec, lanes = self.f, self.spec, values[0].lanes
        count = cast(f, self.sizes.product(self.reduced.axes), DType.i64, self.acc)
        results = emit_program(f, spec.epilogue, [*values, f.splat(count, lanes)], lanes=lanes)
        types = program_types(spec.epilogue)
        return [cast(f, x, t, o.dtype) for x, t, o in zip(results, types, spec.outs, strict=True)]

    def nest(
        self,
        axes: Sequence[Size],
        strides: Sequence[Sequence[Size]],
        lines: Sequence[Lane],
        pointers: Sequence[Value],
        body: Callable[[], None],
    ) -> None:
        """body() at every index of `axes`, the lines beginning there."""
        f = self.f
        if not axes:
            for line, pointer in zip(lines, pointers, strict=True):
                line.begin(pointer)
            body()
            return
        with f.range(0, self.sizes.value(axes[0]), unroll=1) as i:
            inside = [
                f.at(p, f.mul(i, self.sizes.value(s[0])), line.element)
                for p, s, line in zip(pointers, strides, lines, strict=True)
            ]
            self.nest(axes[1:], [s[1:] for s in strides], lines, inside, body)

    # -- along --------------------------------------------------------------------------------

    def along(self, worker: Value, workers: Value, rows_per_task: int) -> None:
        """Rows, of which a task has so many."""
        f, sizes = self.f, self.sizes
        axes = self.reduced.axes or (1,)
        strides = [s or (0,) for s in self.reduced.strides]
        n = sizes.value(axes[-1])
        rows = RowCursor(f, sizes, self.kept.axes, self.pointers, self.dtypes, self.kept.strides)
        lines = [
            Lane(f, sizes, o.dtype, s[-1], self.lanes)
            for o, s in zip(self.spec.inputs, strides, strict=True)
        ]
        inputs = len(lines)
        outs = [Lane(f, sizes, o.dtype, 1, 1) for o in self.spec.outs]
        accumulators = [self.start(self.lanes) for _ in range(UNROLL)]

        def visit(i: Value, tails: Sequence[TailMask | None]) -> None:
            at = [f.add(i, u * self.lanes) for u in range(len(tails))]
            loaded = [[x.load(a, p) for x in lines] for a, p in zip(at, tails, strict=True)]
            for u, (values, tail) in enumerate(zip(loaded, tails, strict=True)):
                self.accumulate(accumulators[u], values, tail)

        def visit_row() -> None:
            sweep(f, n, self.lanes, visit)

        total = sizes.product(self.kept.axes)
        lo, hi = share(f, total, worker, workers, rows_per_task)
        with f.if_(f.icmp("slt", lo, hi)):
            rows.seek(lo)
            with f.range(lo, hi, unroll=1):
                pointers = rows.pointers()
                for a in (a for each in accumulators for a in each):
                    a.set(self.join.start(self.lanes))
                with f.if_(f.icmp("sgt", sizes.product(axes), 0)):
                    before = pointers[:inputs]
                    self.nest(axes[:-1], [s[:-1] for s in strides], lines, before, visit_row)
                found = [
                    self.join.total([a.get() for a in result])
                    for result in zip(*accumulators, strict=True)
                ]
                for out, to, x in zip(outs, pointers[inputs:], self.epilogue(found), strict=True):
                    out.begin(to, reads=False)
                    out.store(x, 0)
                rows.advance()

    def accumulate(
        self, into: Sequence[StackVariable], values: Sequence[Value], tail: TailMask | None
    ) -> None:
        found = emit_program(self.f, self.spec.prologue, values, lanes=self.lanes)
        for a, x in zip(into, found, strict=True):
            a.set(self.join(a.get(), self.join.mask_tail(x, tail)))

    # -- across -------------------------------------------------------------------------------

    def reduce_columns(self, worker: Value, workers: Value, vectors: int) -> None:
        """Blocks of so many vectors of results; a task is one block of one row of results."""
        f, sizes = self.f, self.sizes
        axes, inner = self.kept.axes[:-1], self.kept.axes[-1]
        n = sizes.value(inner)
        rows = RowCursor(
            f, sizes, axes, self.pointers, self.dtypes, [s[:-1] for s in self.kept.strides]
        )
        operands = self.spec.operands()
        lines = [
            Lane(f, sizes, o.dtype, s[-1], self.lanes)
            for o, s in zip(operands, self.kept.strides, strict=True)
        ]
        block = self.lanes * vectors
        blocks = f.ceil_div(n, block)
        lo, hi = share(f, f.mul(sizes.product(axes), blocks), worker, workers)
        with f.if_(f.icmp("slt", lo, hi)):
            first = f.udiv(lo, blocks)
            rows.seek(first)
            column = f.var("i64", f.sub(lo, f.mul(first, blocks)))
            with f.range(lo, hi, unroll=1):
                here = column.get()
                at = f.mul(here, block)
                left = f.sub(n, at)
                pointers = rows.pointers()
                whole = integer(1, I1) if n.is_multiple(block) else f.icmp("sge", left, block)
                with f.if_(whole) as branch:
                    self.columns(lines, pointers, at, [None] * vectors)
                    branch.else_()
                    tails = [
                        tail_mask(f, self.lanes, f.sub(left, u * self.lanes))
                        for u in range(vectors)
                    ]
                    self.columns(lines, pointers, at, tails)
                after = f.add(here, 1)
                column.set(after)
                with f.if_(f.icmp("sge", after, blocks)):
                    column.set(0)
                    rows.advance()

    def columns(
        self,
        lines: list[Lane],
        pointers: list[Value],
        at: Value,
        tails: Sequence[TailMask | None],
    ) -> None:
        """Results at `at`: an accumulator of each per vector over all reduced elements."""
        f, inputs = self.f, len(self.spec.inputs)
        accumulators = [self.start(self.lanes) for _ in tails]

        def visit() -> None:
            for u, tail in enumerate(tails):
                values = [x.load(f.add(at, u * self.lanes), tail) for x in lines[:inputs]]
                self.accumulate(accumulators[u], values, None)

        self.nest(self.reduced.axes, self.reduced.strides, lines[:inputs], pointers[:inputs], visit)
        for line, to in zip(lines[inputs:], pointers[inputs:], strict=True):
            line.begin(to, reads=False)
        for u, (each, tail) in enumerate(zip(accumulators, tails, strict=True)):
            found = self.epilogue([a.get() for a in each])
            for line, x in zip(lines[inputs:], found, strict=True):
                line.store(x, f.add(at, u * self.lanes), tail)
