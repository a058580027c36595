"""Specs of row kernels: reductions, softmax and normalization."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, count_instructions, describe_sizes, resolver
from .checks import require_floats, require_results, require_types, spec_error, types_of

_REDUCTIONS: Final = ("sum", "max", "min", "prod", "any", "all")


@dataclass(frozen=True)
class ReduceSpec(Spec):
    """outs[kept] = epilogue(kind over reduced axes of prologue(inputs[kept + reduced])).

    `kind`: sum, max, min, prod, any, all (max and min propagate NaN). Each result of the prologue,
    all of one type, is reduced in that type. An empty reduction gives the kind's neutral element;
    `epilogue` sees the reduced values and, as its last input, the number of reduced elements as a
    value of the same type (a mean divides by it). Input operands walk (kept..., reduced...), `outs`
    (kept...).
    """

    family: ClassVar[str] = "reduce"
    ranges: ClassVar[Mapping[str, Range]] = {"kept": COUNT, "reduced": COUNT}

    kind: str
    kept: tuple[Size, ...]
    reduced: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    prologue: Program
    epilogue: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        whole = (*self.kept, *self.reduced)
        return [*[whole] * len(self.inputs), *[self.kept] * len(self.outs)]

    def reduced_axes(self) -> tuple[Size, ...]:
        return self.reduced

    def verify(self, target: Target) -> None:
        where = self.where
        if self.kind not in _REDUCTIONS:
            expected = ", ".join(_REDUCTIONS)
            raise spec_error("a reduction of an unknown kind", where, self.kind, expected)
        prologue_types = verify_program(self.prologue, types_of(self.inputs), where)
        if len(set(prologue_types)) != 1:
            what = "a reduction's programs do not have one type"
            raise spec_error(what, where, ", ".join(map(str, prologue_types)), None)
        if self.kind in ("any", "all") and prologue_types[0] is not DType.boolean:
            what = "a reduction's type does not fit its kind"
            raise spec_error(what, where, prologue_types[0], DType.boolean)
        reduced = [*prologue_types, prologue_types[0]]
        results = verify_program(self.epilogue, reduced, where)
        require_types(results, types_of(self.outs), where)

    def flops(self, dims: Sequence[int]) -> int:
        elements = math.prod(map(resolver(dims), (*self.kept, *self.reduced)))
        return elements * (1 + count_instructions(self.prologue))

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes((*self.kept, *self.reduced), size)


@dataclass(frozen=True)
class SoftmaxSpec(Spec):
    """Softmax (or its logarithm) along the last axis of `axes` of prologue(inputs).

    x = prologue(inputs); out = exp(x - max x) / sum exp(x - max x), or x - max - log sum. The
    prologue carries what precedes a softmax: a scale, an added mask.
    """

    family: ClassVar[str] = "softmax"
    ranges: ClassVar[Mapping[str, Range]] = {"axes": COUNT}

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    out: Operand
    prologue: Program
    log: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [self.axes] * len(self.operands())

    def may_alias_output(self, operand: int) -> bool:
        return True

    def computes_in_place(self) -> bool:
        return True

    def verify(self, target: Target) -> None:
        prologue_types = verify_program(self.prologue, types_of(self.inputs), self.where)
        require_results(prologue_types, 1, self.where)
        require_floats([*prologue_types, self.out.dtype], self.where)

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)


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
    ranges: ClassVar[Mapping[str, Range]] = {"axes": COUNT}

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

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [self.axes] * len(self.operands())

    def may_alias_output(self, operand: int) -> bool:
        return True

    def computes_in_place(self) -> bool:
        return len(self.outs) == 1

    def verify(self, target: Target) -> None:
        where = self.where
        prologue_types = verify_program(self.prologue, types_of(self.inputs), where)
        require_results(prologue_types, 1, where)
        made = verify_program(
            self.epilogue, [prologue_types[0], *types_of(self.epilogue_operands)], where
        )
        require_results(made, 1, where)
        if len(self.outs) not in (1, 2):
            got = len(self.outs)
            raise spec_error("a normalisation has too many outputs", where, got, "1 or 2")
        first, *second = types_of(self.outs)
        require_floats([*prologue_types, *second], where)
        if made != [first]:
            require_floats([*made, first], where)

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)
