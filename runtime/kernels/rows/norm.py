"""Normalisation kernels: rows centred and scaled by their own mean and variance.

The variance is taken about the mean, so the row is swept three times (twice without centring). It
is in L1 after the first: the value before normalisation is computed again where that is cheap,
else read back from the second output or from scratch. Outputs may be written over an input that
walks memory alike; the second one only where it has the computing type (f32, f64).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.dtype import DType
from ....plan.specs.rows import NormSpec
from ....plan.target import Target
from ...llvmir.values import Value, number, vec
from ..emit.casts import cast
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program, program_types
from ..emit.strided_loops import masked_load, masked_store
from ..emit.tail_mask import TailMask
from .row_sweeps import (
    Accumulators,
    RowKernel,
    compute_type,
    float_element,
    is_cheap,
    open_rows,
    prologue,
)

_MAX_SCRATCH_BYTES = 65536
# The largest f32 times this has a square whose sums are finite; what rounds to 0 next to a sum that
# overflowed without it does not count.
_UNIT = 2.0**-96


def generate(spec: NormSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a norm spec. UnsupportedOperationError for types without one."""
    compute = compute_type(spec.prologue)
    k = open_rows(spec, spec.axes, target, symbol, compute)
    if 0 in spec.axes:
        return k.close()
    made = _Norm(spec, k)
    with k.each_row(len(spec.inputs) + len(spec.epilogue_operands)):
        # A row of no elements has no mean; there is nothing to divide by or to write.
        with k.f.if_(k.f.icmp("sgt", k.n, 0)):
            made.row()
    return k.close(made.scratch)


class _Norm:
    def __init__(self, spec: NormSpec, k: RowKernel) -> None:
        self.spec, self.k, self.f = spec, k, k.f
        self.compute = compute_type(spec.prologue)
        self.element = float_element(self.compute)
        self.type = vec(self.element, k.lanes)
        first, second = len(spec.inputs), len(spec.inputs) + len(spec.epilogue_operands)
        self.ins, self.extras, self.outs = k.line[:first], k.line[first:second], k.line[second:]
        self.sum = Accumulators(k.f, self.element, k.lanes, 0.0, "fadd")
        self.squares = Accumulators(k.f, self.element, k.lanes, 0.0, "fadd")
        self.scratch = 64
        self.memory = self._memory()

    def _memory(self) -> str | None:
        """Where x is read back from; None: it is computed again."""
        if len(self.outs) == 2 and self.outs[1].dtype is self.compute:
            # Also where x is cheap: the second output may be written over an input.
            if self.outs[1].kind == "vector":
                return "second"
        elif is_cheap(self.spec.prologue, self.ins) and len(self.ins) == 1:
            return None
        n = self.k.n.known
        size = 0 if n is None else n * self.compute.bits // 8
        if n is not None and size <= _MAX_SCRATCH_BYTES:
            self.scratch = 64 + size
            return "scratch"
        return None

    def row(self) -> None:
        f, k, spec = self.f, self.k, self.spec
        count = f.cast(k.n, self.element)
        mean: Value | None = None
        self.sum.clear()
        self.squares.clear()
        k.sweep(self.sum_pass)
        if spec.centre:
            mean = f.splat(f.fdiv(self.sum.total(), count), k.lanes)
            if spec.scale_variance:
                k.sweep(lambda i, tails: self.second(i, tails, mean))
        scale: Value | None = None
        if spec.scale_variance:
            unit, eps = self.rescale_overflow(mean)
            variance = f.fdiv(self.squares.total(), count)
            if spec.eps_outside:
                root = f.fadd(f.sqrt(variance), eps)
            else:
                root = f.sqrt(f.fadd(variance, eps))
            scale = f.splat(f.fdiv(unit, root), k.lanes)
        k.sweep(lambda i, tails: self.third(i, tails, mean, scale))

    def rescale_overflow(self, mean: Value | None) -> tuple[Value, Value]:
        """Where the sum of squares is infinite in f32, sum the squares of x * _UNIT instead.

        Returns the factor of x in the sum, and epsilon in its unit. f64 overflows as evaluation
        does.
        """
        f, k, eps = self.f, self.k, self.spec.eps
        one, plain = number(1.0, self.element), number(eps, self.element)
        if self.compute is not DType.f32:
            return one, plain
        small = eps * (_UNIT if self.spec.eps_outside else _UNIT * _UNIT)
        overflows = f.fcmp("oeq", self.squares.total(), math.inf)
        with f.if_(overflows):
            self.squares.clear()
            k.sweep(lambda i, tails: self.second(i, tails, mean, _UNIT))
        return (
            f.select(overflows, number(_UNIT, self.element), one),
            f.select(overflows, number(small, self.element), plain),
        )

    # -- sweeps -------------------------------------------------------------------------------

    def sum_pass(self, i: Value, tails: Sequence[TailMask | None]) -> None:
        """Sum of x, or of its squares; x goes to the second output and to where it is kept."""
        values = [self.compute_x(i, u, tail) for u, tail in enumerate(tails)]
        for u, (x, tail) in enumerate(zip(values, tails, strict=True)):
            at = self.f.add(i, u * self.k.lanes)
            if len(self.outs) == 2:
                second = self.outs[1]
                second.store(cast(self.f, x, self.compute, second.dtype), at, tail)
            if self.memory == "scratch":
                masked_store(self.f, x, self.address(at), tail)
            if self.spec.centre:
                self.sum.add(u, x, tail)
            else:
                self.squares.fold(u, x, x, tail)

    def second(
        self,
        i: Value,
        tails: Sequence[TailMask | None],
        mean: Value | None,
        unit: float = 1.0,
    ) -> None:
        """Sum of squares about the mean, times unit * unit."""
        for u, tail in enumerate(tails):
            d = self.f.fsub(self.x(i, u, tail), mean if mean is not None else 0.0)
            d = d if unit == 1 else self.f.fmul(d, unit)
            self.squares.fold(u, d, d, tail)

    def third(
        self,
        i: Value,
        tails: Sequence[TailMask | None],
        mean: Value | None,
        scale: Value | None,
    ) -> None:
        f = self.f
        given = self.spec.epilogue
        wanted = {i.args[0]: i.dtype for i in given.instrs if i.op == "input"}
        out = self.outs[0]
        for u, tail in enumerate(tails):
            at = f.add(i, u * self.k.lanes)
            y = self.x(i, u, tail)
            if mean is not None:
                y = f.fsub(y, mean)
            if scale is not None:
                y = f.fmul(y, scale)
            y = cast(f, y, self.compute, wanted.get(0, self.compute))
            extras = [x.load(at, tail) for x in self.extras]
            (result,) = emit_program(f, given, [y, *extras], lanes=self.k.lanes)
            out.store(cast(f, result, program_types(given)[0], out.dtype), at, tail)

    # -- values -------------------------------------------------------------------------------

    def compute_x(self, i: Value, u: int, tail: TailMask | None) -> Value:
        at = self.f.add(i, u * self.k.lanes)
        inputs = [x.load(at, tail) for x in self.ins]
        return prologue(self.f, self.spec.prologue, inputs, self.k.lanes, self.compute)

    def x(self, i: Value, u: int, tail: TailMask | None) -> Value:
        if self.memory is None:
            return self.compute_x(i, u, tail)
        return masked_load(self.f, self.type, self.address(self.f.add(i, u * self.k.lanes)), tail)

    def address(self, at: Value) -> Value:
        f = self.f
        base = self.outs[1].pointer if self.memory == "second" else f.offset(self.k.scratch, 64)
        return f.at(base, at, self.element)
