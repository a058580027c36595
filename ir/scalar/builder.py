"""Scalar programs: what they compute (`evaluate_program`) and how they are built (`Builder`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtype import DType
from ..errors import ExecutionError, VerificationError
from ..lazy_dataclass import dataclass
from .evaluate import (
    COMPARISONS,
    LOGIC,
    PREDICATES,
    cast_array,
    constant_array,
    evaluate_instr,
    evaluate_program,
)
from .program import SCALAR_OPS, Instr, Program

__all__ = ["Builder", "Ref", "cast_array", "evaluate_instr", "evaluate_program", "identity"]

_INTEGER_ONLY = frozenset("shl shr bitand bitor bitxor bitnot".split())
_BOTH = frozenset("neg abs sign add sub mul div max min pow mod floormod clip fma".split())


@dataclass(frozen=True)
class Ref:
    """A value of a program under construction."""

    index: int
    dtype: DType


class Builder:
    """Writes a Program: equal instructions are one, constants are folded, and only what leaves
    every bit alone is simplified (x * 1, x / 1, x - 0, x + -0.0, casts to the same type)."""

    def __init__(self) -> None:
        self._instrs: list[Instr] = []
        self._known: dict[Instr, int] = {}

    def input(self, operand: int, dtype: DType) -> Ref:
        """The element of operand number `operand`."""
        return self._add(Instr("input", (operand,), dtype))

    def const(self, value: float | int | bool, dtype: DType) -> Ref:
        """A constant, rounded (float) or wrapped (integer) to its type."""
        exact = constant_array(Instr("const", (), dtype, value)).item()
        return self._add(Instr("const", (), dtype, exact))

    def cast(self, x: Ref, dtype: DType) -> Ref:
        return x if x.dtype is dtype else self._fold(Instr("cast", (x.index,), dtype))

    def cast_stored(self, x: Ref, dtype: DType) -> Ref:
        """x as a tensor of `dtype` holds it. A result in f32 is stored as bf16 without
        denormals, as the products that read it would."""
        flushed = x.dtype is DType.f32 and dtype is DType.bf16
        return self.cast(self.op("flush", x) if flushed else x, dtype)

    def op(self, name: str, *args: Ref) -> Ref:
        """One operation of SCALAR_OPS. VerificationError where name, count or types are wrong."""
        if name in ("input", "const", "cast") or SCALAR_OPS.get(name) != len(args):
            raise VerificationError(
                f"no scalar operation {name!r} of {len(args)} arguments",
                expected=SCALAR_OPS.get(name),
            )
        dtype = _result_type(name, [a.dtype for a in args])
        same = self._drop_neutral(name, args)
        if same is not None:
            return same
        return self._fold(Instr(name, tuple(a.index for a in args), dtype))

    def inline(self, program: Program, *args: Ref) -> tuple[Ref, ...]:
        """Another program's results with its inputs replaced by `args`."""
        made: list[Ref] = []
        for instr in program.instrs:
            if instr.op == "input":
                arg = args[instr.args[0]]
                if arg.dtype is not instr.dtype:
                    raise VerificationError(
                        "an inlined program's input has another type",
                        got=arg.dtype,
                        expected=instr.dtype,
                    )
                made.append(arg)
            elif instr.op == "const":
                made.append(self._add(instr))
            elif instr.op == "cast":
                made.append(self.cast(made[instr.args[0]], instr.dtype))
            else:
                made.append(self.op(instr.op, *(made[i] for i in instr.args)))
        return tuple(made[r] for r in program.results)

    def value(self, x: Ref) -> float | int | None:
        """The constant that x is, or None."""
        instr = self._instrs[x.index]
        return instr.value if instr.op == "const" else None

    def finish(self, *results: Ref) -> Program:
        """The program without instructions that no result needs."""
        needed: set[int] = set()
        for i in range(len(self._instrs) - 1, -1, -1):
            if i in needed or any(r.index == i for r in results):
                needed.add(i)
                if self._instrs[i].op != "input":
                    needed.update(self._instrs[i].args)
        numbers = {old: new for new, old in enumerate(sorted(needed))}
        instrs = [
            i
            if i.op == "input"
            else Instr(i.op, tuple(numbers[a] for a in i.args), i.dtype, i.value)
            for i in (self._instrs[old] for old in sorted(needed))
        ]
        return Program(tuple(instrs), tuple(numbers[r.index] for r in results))

    def _add(self, instr: Instr) -> Ref:
        found = self._known.get(instr)
        if found is None:
            found = self._known[instr] = len(self._instrs)
            self._instrs.append(instr)
        return Ref(found, instr.dtype)

    def _fold(self, instr: Instr) -> Ref:
        args = [self._instrs[i] for i in instr.args]
        if all(a.op == "const" for a in args):
            try:
                value = evaluate_instr(instr, [constant_array(a) for a in args])
            except ExecutionError:  # a division by zero happens when it runs, if it runs
                return self._add(instr)
            return self.const(value.item(), instr.dtype)
        return self._add(instr)

    def _drop_neutral(self, name: str, args: Sequence[Ref]) -> Ref | None:
        known = [self.value(a) for a in args]
        if name in ("mul", "div") and known[1] == 1:
            return args[0]
        if name == "mul" and known[0] == 1:
            return args[1]
        if name in ("add", "sub"):
            for at, other in ((1, 0), (0, 1)) if name == "add" else ((1, 0),):
                zero = known[at]
                if zero == 0 and self._adds_nothing(name, args[at].dtype, zero):
                    return args[other]
        return None

    @staticmethod
    def _adds_nothing(name: str, dtype: DType, zero: float | int) -> bool:
        """x + 0.0 turns -0.0 into 0.0; x + -0.0 and x - 0.0 leave it."""
        if not dtype.is_float:
            return True
        return (math.copysign(1, float(zero)) < 0) == (name == "add")


def _result_type(name: str, types: Sequence[DType]) -> DType:
    """The result's type. VerificationError where the operation does not take these types."""
    first = types[-1] if name == "select" else types[0]
    rest = types[1:] if name == "select" else types
    right = all(t is first for t in rest)
    if name == "select":
        right = right and types[0] is DType.boolean
    elif name in LOGIC:
        right = right and first is DType.boolean
    elif name == "flush":
        right = first is DType.f32
    elif name in _INTEGER_ONLY:
        right = right and first.is_int
    elif name in COMPARISONS:
        right = right and (first.is_float or first.is_int or name in ("eq", "ne"))
    elif name in _BOTH:
        right = right and (first.is_float or first.is_int)
    else:
        right = right and first.is_float
    if not right:
        raise VerificationError(
            f"scalar operation {name!r} does not take these types", got=", ".join(map(str, types))
        )
    return DType.boolean if name in PREDICATES else first


def identity(dtype: DType) -> Program:
    """The program that returns its one input."""
    return Program((Instr("input", (0,), dtype),), (0,))
