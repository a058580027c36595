"""Softmax kernels: out = exp(x - max x) / sum exp(x - max x) along rows, or its logarithm.

Three sweeps over a row: the largest, the exponentials and their sum, the scaling. Short rows of
known length stay in registers between sweeps. A NaN or an infinite maximum makes the sum NaN, and
with it the whole row, as the formula says: so the maximum itself need not propagate NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....plan.specs.rows import SoftmaxSpec
from ....plan.target import Target
from ...llvmir.values import F32, F64, Value, number, vec
from ...vecmath.exp import exp_falling
from ...vecmath.log import log
from ..emit.casts import cast
from ..emit.contract import Kernel
from ..emit.strided_loops import masked_load, masked_store
from ..emit.tail_mask import TailMask
from .row_sweeps import (
    Accumulators,
    RowKernel,
    Sweep,
    compute_type,
    float_element,
    is_cheap,
    open_rows,
    prologue,
)

# Rows of known length up to this many bytes may use scratch memory between sweeps.
_MAX_SCRATCH_BYTES = 65536
# Weights below it are zero: what multiplies them would run on denormals.
_SMALLEST_NORMAL = {F32: 2.0**-126, F64: 2.0**-1022}


def generate(spec: SoftmaxSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a softmax spec. UnsupportedOperationError for types without one."""
    compute = compute_type(spec.prologue)
    k = open_rows(spec, spec.axes, target, symbol, compute)
    if 0 in spec.axes:
        return k.close()
    in_registers = k.n.known is not None and -(-k.n.known // k.lanes) <= target.registers // 2
    made = _Softmax(spec, k, in_registers)
    with k.each_row(len(spec.inputs)):
        made.row()
    return k.close(made.scratch)


class _Softmax:
    def __init__(self, spec: SoftmaxSpec, k: RowKernel, in_registers: bool) -> None:
        self.spec, self.k, self.f = spec, k, k.f
        self.compute = compute_type(spec.prologue)
        self.element = float_element(self.compute)
        self.type = vec(self.element, k.lanes)
        self.ins, self.out = k.line[:-1], k.line[-1]
        self.kept: dict[int, list[Value]] | None = {} if in_registers else None
        self.largest = Accumulators(k.f, self.element, k.lanes, -float("inf"), "max_or")
        self.sum = Accumulators(k.f, self.element, k.lanes, 0.0, "fadd")
        self.scratch = 64
        self.memory = self._memory()
        self.again = self.memory is None or is_cheap(spec.prologue, self.ins)

    def _memory(self) -> str | None:
        """Where values wait between sweeps: registers, the output, scratch, or nowhere."""
        if self.kept is not None:
            return "registers"
        if self.out.dtype is self.compute and self.out.kind == "vector":
            return "out"
        n = self.k.n.known
        size = 0 if n is None else n * self.compute.bits // 8
        if n is not None and size <= _MAX_SCRATCH_BYTES:
            self.scratch = 64 + size
            return "scratch"
        return None

    def row(self) -> None:
        f, k = self.f, self.k
        if self.kept is not None:
            self.kept.clear()
        self.largest.clear()
        self.sweep(self.find_largest)
        largest = f.splat(self.largest.total(), k.lanes)
        self.sum.clear()
        self.sweep(lambda i, tails: self.exponentials(i, tails, largest))
        total = self.sum.total()
        if self.spec.log:
            shift = f.splat(log(f, total), k.lanes)
            self.sweep(lambda i, tails: self.finish_log(i, tails, largest, shift))
        else:
            scale = f.splat(f.fdiv(1.0, total), k.lanes)
            self.sweep(lambda i, tails: self.finish(i, tails, largest, scale))

    def sweep(self, body: Sweep) -> None:
        self.k.sweep(body, unrolled=self.kept is not None)

    # -- sweeps -------------------------------------------------------------------------------

    def find_largest(self, i: Value, tails: Sequence[TailMask | None]) -> None:
        values = [self.compute_x(i, u, tail) for u, tail in enumerate(tails)]
        self.keep(i, values, tails, always=not self.again)
        for u, (x, tail) in enumerate(zip(values, tails, strict=True)):
            self.largest.add(u, x, tail)

    def exponentials(self, i: Value, tails: Sequence[TailMask | None], largest: Value) -> None:
        f = self.f
        values = [self.x(i, u, tail) for u, tail in enumerate(tails)]
        values = [exp_falling(f, f.fsub(x, largest)) for x in values]
        if not self.spec.log:
            self.keep(i, values, tails, always=True)
        for u, (e, tail) in enumerate(zip(values, tails, strict=True)):
            self.sum.add(u, e, tail)

    def finish(
        self, i: Value, tails: Sequence[TailMask | None], largest: Value, scale: Value
    ) -> None:
        f = self.f
        if self.memory is None:
            values = [self.compute_x(i, u, tail) for u, tail in enumerate(tails)]
            values = [exp_falling(f, f.fsub(x, largest)) for x in values]
        else:
            values = [self.kept_value(i, u, tail) for u, tail in enumerate(tails)]
        weights = [f.fmul(e, scale) for e in values]
        zero, smallest = number(0.0, self.type), _SMALLEST_NORMAL[self.element]
        weights = [f.select(f.fcmp("olt", w, smallest), zero, w) for w in weights]
        self.write(i, weights, tails)

    def finish_log(
        self, i: Value, tails: Sequence[TailMask | None], largest: Value, shift: Value
    ) -> None:
        f = self.f
        values = [self.x(i, u, tail) for u, tail in enumerate(tails)]
        self.write(i, [f.fsub(f.fsub(x, largest), shift) for x in values], tails)

    # -- values -------------------------------------------------------------------------------

    def compute_x(self, i: Value, u: int, tail: TailMask | None) -> Value:
        at = self.f.add(i, u * self.k.lanes)
        inputs = [x.load(at, tail) for x in self.ins]
        return prologue(self.f, self.spec.prologue, inputs, self.k.lanes, self.compute)

    def x(self, i: Value, u: int, tail: TailMask | None) -> Value:
        """x, computed again or from where it was kept."""
        if self.again and self.kept is None:
            return self.compute_x(i, u, tail)
        return self.kept_value(i, u, tail)

    def keep(
        self, i: Value, values: list[Value], tails: Sequence[TailMask | None], always: bool
    ) -> None:
        if self.kept is not None:
            self.kept[i.known or 0] = values
        elif always and self.memory is not None:
            for u, (value, tail) in enumerate(zip(values, tails, strict=True)):
                masked_store(self.f, value, self.address(i, u), tail)

    def kept_value(self, i: Value, u: int, tail: TailMask | None) -> Value:
        if self.kept is not None:
            return self.kept[i.known or 0][u]
        return masked_load(self.f, self.type, self.address(i, u), tail)

    def address(self, i: Value, u: int) -> Value:
        f, k = self.f, self.k
        base = self.out.pointer if self.memory == "out" else f.offset(k.scratch, 64)
        return f.at(base, f.add(i, u * k.lanes), self.element)

    def write(self, i: Value, values: list[Value], tails: Sequence[TailMask | None]) -> None:
        for u, (value, tail) in enumerate(zip(values, tails, strict=True)):
            y = cast(self.f, value, self.compute, self.out.dtype)
            self.out.store(y, self.f.add(i, u * self.k.lanes), tail)
