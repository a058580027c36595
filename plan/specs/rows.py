"""Specs of row kernels: reductions, softmax and normalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.scalar.program import Program
from .base import Operand, Size, Spec


@dataclass(frozen=True)
class ReduceSpec(Spec):
    """out[kept] = epilogue(kind over reduced axes of prologue(inputs[kept + reduced])).

    `kind`: sum, max, min, prod, any, all (max and min propagate NaN; the accumulator's type is the
    prologue's result type). An empty reduction gives the kind's neutral element; `epilogue` sees
    the reduced value as input 0 and the number of reduced elements, as a value of the same type,
    as input 1 (a mean divides by it). Input operands walk (kept..., reduced...), `out` (kept...).
    """

    family: ClassVar[str] = "reduce"

    kind: str
    kept: tuple[Size, ...]
    reduced: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    out: Operand
    prologue: Program
    epilogue: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, self.out)


@dataclass(frozen=True)
class SoftmaxSpec(Spec):
    """Softmax (or its logarithm) along the last axis of `axes` of prologue(inputs).

    x = prologue(inputs); out = exp(x - max x) / sum exp(x - max x), or x - max - log sum. The
    prologue carries what precedes a softmax: a scale, an added mask.
    """

    family: ClassVar[str] = "softmax"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    out: Operand
    prologue: Program
    log: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, self.out)


@dataclass(frozen=True)
class NormSpec(Spec):
    """Normalisation along the last axis of `axes` of x = prologue(inputs).

    With centre: y = (x - mean x) / sqrt(var x + eps), the variance taken about the mean (two
    passes); without: y = x / sqrt(mean x^2 + eps) (RMS). eps_outside: 1 / (sqrt(var) + eps).
    `scale_variance` false leaves y = x - mean. out = epilogue(y, epilogue_operands...), where input
    0 is y. If `outs` has two operands, the second receives x itself (a residual sum that others
    read). Buffers: inputs..., epilogue_operands..., outs....
    """

    family: ClassVar[str] = "norm"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    epilogue_operands: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    prologue: Program
    epilogue: Program
    eps: float
    centre: bool = True
    scale_variance: bool = True
    eps_outside: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.epilogue_operands, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)
