"""Elementwise kernels: a scalar program over any strides, in vectors along the innermost axis.

Work is split over the flattened elements at multiples of 64, or over whole rows where they are
short and of known length (then a row's vectors and tail are known too). An output may be the very
memory of an input that walks it with the same strides: all of a vector's inputs are read before
any output is written, and nothing is promised to LLVM about aliasing.
"""

from __future__ import annotations

import math

from ....ir.dtype import DType
from ....ir.scalar.program import Program
from ....plan.specs.base import Size
from ....plan.specs.elementwise import ElementwiseSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.values import Value, integer
from ..emit.contract import Kernel
from ..emit.scalar_program import Guard, emit_program
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import (
    Lane,
    RowCursor,
    RuntimeSizes,
    Space,
    base_pointer,
    coalesce,
    has_masks,
    share_axes,
)
from ..emit.tail_mask import TailMask, tail_mask
from .transpose import emit_transpose, fits_tile, transposed_axis

# Rows up to this many bytes are split whole among workers.
_MAX_WHOLE_ROW_BYTES = 16384
# No two workers write to one cache line where rows are aligned to it: 64 elements are 64 bytes.
_SPLIT_ELEMENTS = 64
_CHEAP_OPS = frozenset("input const cast neg abs add sub mul max min fma select".split())


def generate(spec: ElementwiseSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of an elementwise spec. UnsupportedOperationError for types without one."""
    operands = spec.operands()
    module = Module(target)
    buffers = [BufferAssumptions(noalias=False)] * len(spec.inputs)
    buffers += [BufferAssumptions(writes=True, noalias=False)] * len(spec.outs)
    space = coalesce(spec.axes, [o.strides for o in operands])
    turned = None if space.is_empty else transposed_axis(spec, space, target)
    shared = SharedSizes(spec.runtime_dims)
    grain = _rows_per_share(space, widest_bytes(spec))
    fits = None if turned is None else fits_tile(spec, space, turned, target)
    operands = tuple(shared.share_offset(o) for o in operands)
    if turned is None:
        space = _share_sizes(shared, spec, space, target)
    else:
        space = share_axes(shared, space, 0)
    k = open_kernel(module, symbol, buffers, shared.runtime_dims, numbers=shared.numbers)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    if space.is_empty:
        f.ret(0)
        return Kernel(symbol, module.text())
    pointers = [base_pointer(f, sizes, p, o) for p, o in zip(k.buffers, operands, strict=True)]
    if turned is not None:
        emit_transpose(f, spec, sizes, space, turned, pointers, k.worker, k.workers, fits)
        f.ret(0)
        return Kernel(symbol, module.text())
    axes = space.axes or (1,)
    strides = [s or (1,) for s in space.strides]
    rows = RowCursor(
        f, sizes, axes[:-1], pointers, [o.dtype for o in operands], [s[:-1] for s in strides]
    )
    inner = axes[-1]
    lanes = lane_count(target, spec, inner)
    line = [Lane(f, sizes, o.dtype, s[-1], lanes) for o, s in zip(operands, strides, strict=True)]
    row = _RowEmitter(f, spec.program, line, len(spec.inputs), inner, lanes, k.scratch)
    _split_work(f, sizes, axes, rows, row, k.worker, k.workers, grain)
    f.ret(0)
    return Kernel(symbol, module.text())


def _share_sizes(shared: SharedSizes, spec: ElementwiseSpec, space: Space, target: Target) -> Space:
    """The space with its sizes as parameters, but for strides of lanes and lengths of short rows.
    The length of one row is a bound of the loop alone."""
    if not space.axes or space.is_empty:
        return space
    inner = space.axes[-1]
    lanes = lane_count(target, spec, inner)
    if len(space.axes) > 1:
        inner = shared.share_row(inner, lanes, unroll_of(spec.program))
    elif not isinstance(inner, int) or inner > target.lanes(widest_bytes(spec) * 8):
        inner = shared.share(inner)
    found = share_axes(shared, space, 1)
    return Space((*found.axes[:-1], inner), found.strides)


def widest_bytes(spec: ElementwiseSpec) -> int:
    """Bytes of the widest type that the program or an operand has."""
    types = [i.dtype for i in spec.program.instrs] + [o.dtype for o in spec.operands()]
    return max(_bits(t) for t in types) // 8


def _bits(dtype: DType) -> int:
    return max(8, dtype.bits)


def _rows_per_share(space: Space, width: int) -> int | None:
    """How many rows a worker's share is a multiple of; None where rows are split."""
    inner = space.axes[-1] if space.axes else 1
    if not isinstance(inner, int) or inner * width > _MAX_WHOLE_ROW_BYTES:
        return None
    return _SPLIT_ELEMENTS // math.gcd(_SPLIT_ELEMENTS, inner)


def lane_count(target: Target, spec: ElementwiseSpec, inner: Size) -> int:
    """Lanes by the widest type; no more than a short row of known length fills."""
    lanes = target.lanes(widest_bytes(spec) * 8)
    if isinstance(inner, int):
        lanes = min(lanes, 1 << max(0, inner - 1).bit_length())
    return lanes


def unroll_of(program: Program) -> int:
    """Vectors per iteration: four of light programs, one of long ones (code size, registers)."""
    cost = sum(
        0 if i.op in ("input", "const") else 1 if i.op in _CHEAP_OPS else 8 for i in program.instrs
    )
    return 4 if cost <= 12 else 2 if cost <= 40 else 1


def _split_work(
    f: Function,
    sizes: RuntimeSizes,
    axes: tuple[Size, ...],
    rows: RowCursor,
    row: _RowEmitter,
    worker: Value,
    workers: Value,
    grain: int | None,
) -> None:
    """This worker's share: whole rows, in groups of `grain`, or a run of elements."""
    inner, outer = axes[-1], axes[:-1]
    n = sizes.value(inner)
    if not outer:
        lo, hi = share(f, n, worker, workers, _SPLIT_ELEMENTS)
        with f.if_(f.icmp("slt", lo, hi)):
            rows.seek(integer(0))
            row.run(rows.pointers(), lo, hi, integer(0))
        return
    count = sizes.product(outer)
    if grain is not None:
        lo, hi = share(f, count, worker, workers, grain)
        with f.if_(f.icmp("slt", lo, hi)):
            rows.seek(lo)
            with f.range(lo, hi, unroll=1) as r:
                row.run(rows.pointers(), integer(0), n, f.mul(r, n))
                rows.advance()
        return
    lo, hi = share(f, f.mul(count, n), worker, workers, _SPLIT_ELEMENTS)
    with f.if_(f.icmp("slt", lo, hi)):
        first = f.udiv(lo, n)
        rows.seek(first)
        at = f.var("i64", lo)
        column = f.var("i64", f.sub(lo, f.mul(first, n)))
        with f.while_(lambda: f.icmp("slt", at.get(), hi)):
            begin, here = column.get(), at.get()
            end = f.smin(n, f.add(begin, f.sub(hi, here)))
            row.run(rows.pointers(), begin, end, f.sub(here, begin))
            at.set(f.add(here, f.sub(end, begin)))
            column.set(0)
            rows.advance()


class _RowEmitter:
    """Applies the program to columns [begin, end) of one row."""

    def __init__(
        self,
        f: Function,
        program: Program,
        line: list[Lane],
        inputs: int,
        inner: Size,
        lanes: int,
        scratch: Value,
    ) -> None:
        self.f, self.program, self.lanes, self.scratch = f, program, lanes, scratch
        self.ins, self.outs = line[:inputs], line[inputs:]
        self.masked = all(
            x.kind != "vector" or has_masks(f.target, f"<{lanes} x {x.element}>") for x in line
        )
        self.base: Value = integer(0)

    def run(self, pointers: list[Value], begin: Value, end: Value, base: Value) -> None:
        """`base` is the iteration number of column 0."""
        f, lanes = self.f, self.lanes
        self.base = base
        for x, p in zip([*self.ins, *self.outs], pointers, strict=True):
            x.begin(p, reads=any(x is i for i in self.ins))
        n = f.sub(end, begin)
        unroll = unroll_of(self.program)
        block = lanes * unroll
        full = f.round_down(n, block)
        with f.range(0, full, block, unroll=1) as i:
            self.block(f.add(begin, i), unroll, None)
        if n.known is not None or n.is_multiple(lanes) or not self.masked:
            vector_end = f.round_down(n, lanes)
            if unroll > 1:
                with f.range(full, vector_end, lanes, unroll=1) as i:
                    self.block(f.add(begin, i), 1, None)
            if lanes > 1:
                with f.if_(f.icmp("slt", vector_end, n)):
                    self.block(
                        f.add(begin, vector_end), 1, tail_mask(f, lanes, f.sub(n, vector_end))
                    )
            return
        with f.range(full, n, lanes, unroll=1) as i:
            self.block(f.add(begin, i), 1, tail_mask(f, lanes, f.sub(n, i)))

    def block(self, i: Value, count: int, tail: TailMask | None) -> None:
        """`count` vectors from column i: all read, then computed, then written."""
        f = self.f
        at = [f.add(i, u * self.lanes) for u in range(count)]
        loaded = [[x.load(a, tail) for x in self.ins] for a in at]
        results = [
            emit_program(
                f,
                self.program,
                values,
                lanes=self.lanes,
                guard=Guard(self.scratch, f.add(self.base, a), None if tail is None else tail.mask),
            )
            for values, a in zip(loaded, at, strict=True)
        ]
        for values, a in zip(results, at, strict=True):
            for x, value in zip(self.outs, values, strict=True):
                x.store(value, a, tail)
