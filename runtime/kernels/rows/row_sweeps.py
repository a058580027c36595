"""What softmax and normalisation share: rows split over workers, sweeps along a row.

A sweep visits a row in blocks of UNROLL vectors, one accumulator each, so that the order of a
row's sums depends on its length and the instruction set alone: a length known at compile time
drops work on lanes that are off and changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Program
from ....plan.specs.base import Operand, Size, Spec
from ....plan.target import Target
from ...llvmir.builder import Function, Module, StackVariable
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.values import F32, F64, Value, integer, number, vec
from ..emit.casts import cast
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program, program_types
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import Lane, RowCursor, RuntimeSizes, base_pointer, coalesce, share_axes
from ..emit.tail_mask import TailMask, tail_mask

UNROLL = 4
# Rows are split over workers in groups of this many (a row of 4 f32 is a quarter of a line).
_ROWS_PER_SPLIT = 4

Sweep = Callable[[Value, Sequence[TailMask | None]], None]


@dataclass(frozen=True)
class RowKernel:
    """An open kernel over rows: `line[k]` walks operand k along the row of length `n`."""

    symbol: str
    module: Module
    f: Function
    rows: RowCursor
    line: list[Lane]
    n: Value
    count: Value
    worker: Value
    workers: Value
    scratch: Value
    lanes: int

    @contextmanager
    def each_row(self, reads: int) -> Iterator[None]:
        """The body once per row of this worker; the first `reads` operands are inputs."""
        f = self.f
        lo, hi = share(f, self.count, self.worker, self.workers, _ROWS_PER_SPLIT)
        with f.if_(f.icmp("slt", lo, hi)):
            self.rows.seek(lo)
            with f.range(lo, hi, unroll=1):
                for k, (x, pointer) in enumerate(zip(self.line, self.rows.pointers(), strict=True)):
                    x.begin(pointer, reads=k < reads)
                yield
                self.rows.advance()

    def sweep(self, body: Sweep, *, unrolled: bool = False) -> None:
        """body(i, parts) for vectors at i, i + lanes, ..., one per entry of parts."""
        sweep(self.f, self.n, self.lanes, body, unrolled=unrolled)

    def close(self, scratch: int = 64) -> Kernel:
        self.f.ret(0)
        return Kernel(self.symbol, self.module.text(), scratch)


def open_rows(
    spec: Spec, axes: Sequence[Size], target: Target, symbol: str, compute: DType
) -> RowKernel:
    """Open a kernel whose operands all walk `axes`, the last of which is the row."""
    operands = spec.operands()
    module = Module(target)
    reads = len(operands) - spec.output_count()
    buffers = [BufferAssumptions(writes=k >= reads, noalias=False) for k in range(len(operands))]
    shared = SharedSizes(spec.runtime_dims)
    operands = tuple(shared.share_offset(o) for o in operands)
    space = share_axes(shared, coalesce(axes[:-1], [o.strides[:-1] for o in operands]), 0)
    k = open_kernel(module, symbol, buffers, shared.runtime_dims, numbers=shared.numbers)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    pointers = [base_pointer(f, sizes, p, o) for p, o in zip(k.buffers, operands, strict=True)]
    rows = RowCursor(f, sizes, space.axes, pointers, [o.dtype for o in operands], space.strides)
    # One register of the computing type whatever the row's length: sums keep their order.
    lanes = target.lanes(compute.bits)
    line = [_lane(f, sizes, o, lanes) for o in operands]
    return RowKernel(
        symbol,
        module,
        f,
        rows,
        line,
        sizes.value(axes[-1]),
        sizes.product(space.axes),
        k.worker,
        k.workers,
        k.scratch,
        lanes,
    )


def _lane(f: Function, sizes: RuntimeSizes, operand: Operand, lanes: int) -> Lane:
    return Lane(f, sizes, operand.dtype, operand.strides[-1], lanes)


def compute_type(program: Program) -> DType:
    """The type in which a row kernel computes: f32, or f64 where the program gives f64."""
    return DType.f64 if program_types(program)[0] is DType.f64 else DType.f32


def float_element(dtype: DType) -> str:
    return F64 if dtype is DType.f64 else F32


def prologue(
    f: Function, program: Program, inputs: Sequence[Value], lanes: int, compute: DType
) -> Value:
    """The row value in the computing type."""
    (value,) = emit_program(f, program, inputs, lanes=lanes)
    return cast(f, value, program_types(program)[0], compute)


def is_cheap(program: Program, line: Sequence[Lane]) -> bool:
    """Is computing a value again as fast as storing and loading it?"""
    light = ("input", "const", "cast", "add", "sub", "mul", "neg")
    return (
        all(i.op in light for i in program.instrs)
        and all(x.kind in ("vector", "splat") for x in line)
        and len(program.instrs) <= 5
    )


def sweep(f: Function, n: Value, lanes: int, body: Sweep, *, unrolled: bool = False) -> None:
    """body(i, parts): blocks of UNROLL whole vectors, then the rest with parts.

    unrolled: no loop over a known length, every i is known.
    """
    block = lanes * UNROLL
    full = f.round_down(n, block)
    if unrolled and full.known is not None:
        for at in range(0, full.known, block):
            body(integer(at), [None] * UNROLL)
    elif full.known != 0:
        with f.range(0, full, block, unroll=1) as i:
            body(i, [None] * UNROLL)
    if full.known is not None and n.known is not None:
        left = n.known - full.known
        full_vectors, rest = divmod(left, lanes)
        tails: list[TailMask | None] = [None] * full_vectors
        tails += [tail_mask(f, lanes, integer(rest))] if rest else []
        if tails:
            body(full, tails)
        return
    with f.if_(f.icmp("slt", full, n)):
        left = f.sub(n, full)
        body(full, [tail_mask(f, lanes, f.sub(left, u * lanes)) for u in range(UNROLL)])


class Accumulators:
    """One vector accumulator per vector of a block, joined in a fixed order."""

    def __init__(self, f: Function, element: str, lanes: int, start: float, word: str) -> None:
        self.f, self.word = f, word
        self.type, self.start = vec(element, lanes), start
        self.variables: list[StackVariable] = [f.var(self.type) for _ in range(UNROLL)]

    def clear(self) -> None:
        for v in self.variables:
            v.set(self.start)

    def add(self, u: int, value: Value, tail: TailMask | None) -> None:
        """Join `value` to accumulator u; lanes outside the part do not count."""
        f = self.f
        if tail is not None:
            value = f.select(tail.mask, value, number(self.start, self.type))
        join = getattr(f, self.word)
        self.variables[u].set(join(self.variables[u].get(), value))

    def fold(self, u: int, a: Value, b: Value, tail: TailMask | None) -> None:
        """accumulator u += a * b, in one rounding where the Target has it."""
        f = self.f
        if tail is not None:
            a = f.select(tail.mask, a, number(0.0, self.type))
            b = f.select(tail.mask, b, number(0.0, self.type))
        self.variables[u].set(f.fma(a, b, self.variables[u].get()))

    def total(self) -> Value:
        """The scalar over all accumulators and lanes."""
        f = self.f
        join = getattr(f, self.word)
        values = [v.get() for v in self.variables]
        while len(values) > 1:
            values = [join(values[i], values[i + 1]) for i in range(0, len(values), 2)]
        return f.reduce(self.word, values[0])
