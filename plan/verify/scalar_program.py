"""Checks of scalar programs, and the words in which checks of specs fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.scalar.builder import Builder
from ...ir.scalar.program import SCALAR_OPS, Instr, Program
from ..specs.base import Operand

# Beyond these lowering makes no spec, and compiling it would take minutes.
MAX_INSTRUCTIONS: Final = 4096
MAX_OPERANDS: Final = 256


def verify_program(program: Program, inputs: Sequence[DType], where: str) -> list[DType]:
    """The types of a program's results, its instructions checked one by one."""
    count = len(program.instrs)
    if count > MAX_INSTRUCTIONS or len(program.results) > MAX_OPERANDS:
        raise broken("a scalar program is too long", where, count, MAX_INSTRUCTIONS)
    found: list[DType] = []
    for instr in program.instrs:
        made = _instruction(instr, found, inputs, where)
        if made is not instr.dtype:
            got = f"{instr.op}: {instr.dtype}"
            raise broken("an instruction has another type", where, got, made)
        found.append(made)
    for r in program.results:
        if not 0 <= r < count:
            raise broken("a program's result is not an instruction", where, r, f"0..{count - 1}")
    return [found[r] for r in program.results]


def _instruction(
    instr: Instr, found: Sequence[DType], inputs: Sequence[DType], where: str
) -> DType:
    """The type an instruction's value has."""
    wanted = 1 if instr.op == "input" else SCALAR_OPS.get(instr.op)
    if wanted is None or len(instr.args) != wanted:
        raise broken("no such scalar operation", where, f"{instr.op} of {len(instr.args)}", None)
    known = inputs if instr.op == "input" else found
    for a in instr.args:
        if not 0 <= a < len(known):
            got = f"{instr.op} of number {a}"
            raise broken("an instruction reads what there is not", where, got, len(known))
    if instr.op == "input":
        return inputs[instr.args[0]]
    if instr.dtype in (DType.dynamic, DType.string) or instr.dtype.is_complex:
        raise broken("a scalar program cannot hold this type", where, instr.dtype, None)
    if instr.op == "const":
        if not isinstance(instr.value, bool | int | float):
            raise broken("a constant without a value", where, instr.value, instr.dtype)
        if not instr.dtype.is_float and isinstance(instr.value, float):
            raise broken("a constant of another type", where, instr.value, instr.dtype)
        return instr.dtype
    if instr.op == "cast":
        return instr.dtype
    builder = Builder()
    args = [builder.input(n, found[a]) for n, a in enumerate(instr.args)]
    return builder.op(instr.op, *args).dtype


def types_of(operands: Sequence[Operand]) -> list[DType]:
    return [o.dtype for o in operands]


def stored(results: Sequence[DType], outs: Sequence[DType], where: str) -> None:
    """What is stored has the type of where it is stored."""
    if list(results) != list(outs):
        got, expected = (", ".join(map(str, t)) for t in (results, outs))
        raise broken("a kernel stores other types than its outputs have", where, got, expected)


def broken(what: str, where: str, got: object, expected: object) -> VerificationError:
    return VerificationError(what, where=where, got=str(got)[:200], expected=expected)
