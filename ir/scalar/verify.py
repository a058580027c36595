"""Verifies scalar programs: every instruction is known, typed, and reads what is before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dtype import DType
from ..errors import VerificationError
from .builder import Builder
from .program import SCALAR_OPS, Instr, Program

# Beyond these lowering makes no spec, and compiling it would take minutes.
MAX_INSTRUCTIONS: Final = 4096
MAX_RESULTS: Final = 256


def verify_program(program: Program, inputs: Sequence[DType], where: str) -> list[DType]:
    """The types of a program's results, its instructions checked one by one."""
    count = len(program.instrs)
    if count > MAX_INSTRUCTIONS or len(program.results) > MAX_RESULTS:
        raise _error("a scalar program is too long", where, count, MAX_INSTRUCTIONS)
    found: list[DType] = []
    for instr in program.instrs:
        made = _instruction(instr, found, inputs, where)
        if made is not instr.dtype:
            got = f"{instr.op}: {instr.dtype}"
            raise _error("an instruction has another type", where, got, made)
        found.append(made)
    for r in program.results:
        if not 0 <= r < count:
            raise _error("a program's result is not an instruction", where, r, f"0..{count - 1}")
    return [found[r] for r in program.results]


def _instruction(
    instr: Instr, found: Sequence[DType], inputs: Sequence[DType], where: str
) -> DType:
    """The type an instruction's value has."""
    wanted = 1 if instr.op == "input" else SCALAR_OPS.get(instr.op)
    if wanted is None or len(instr.args) != wanted:
        raise _error("no such scalar operation", where, f"{instr.op} of {len(instr.args)}", None)
    known = inputs if instr.op == "input" else found
    for a in instr.args:
        if not 0 <= a < len(known):
            got = f"{instr.op} of number {a}"
            raise _error("an instruction reads what there is not", where, got, len(known))
    if instr.op == "input":
        return inputs[instr.args[0]]
    if instr.dtype in (DType.dynamic, DType.string) or instr.dtype.is_complex:
        raise _error("a scalar program cannot hold this type", where, instr.dtype, None)
    if instr.op == "const":
        if not isinstance(instr.value, bool | int | float):
            raise _error("a constant without a value", where, instr.value, instr.dtype)
        if not instr.dtype.is_float and isinstance(instr.value, float):
            raise _error("a constant of another type", where, instr.value, instr.dtype)
        return instr.dtype
    if instr.op == "cast":
        return instr.dtype
    builder = Builder()
    args = [builder.input(n, found[a]) for n, a in enumerate(instr.args)]
    return builder.op(instr.op, *args).dtype


def _error(what: str, where: str, got: object, expected: object) -> VerificationError:
    return VerificationError(what, where=where, got=str(got)[:200], expected=expected)
