"""Evaluation of many size expressions at once, each atom and each polynomial computed once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..errors import ShapeError
from ..lazy_dataclass import dataclass
from .expr import Dim, Expr, args_of
from .polynomial import Atom, Call, Symbol

# A step computes one register: (operation, operands). Registers 0.. hold constants first.
_Poly: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, eq=False)
class DimsFunction:
    """A function env (symbol name -> size) -> sizes, in order; it can be pickled.

    registers: the constants, zeros for the rest. symbols, steps: what fills the others. outputs:
    the registers that are the sizes.
    """

    registers: list[int]
    symbols: list[tuple[int, Symbol]]
    steps: list[tuple[int, Call | None, tuple[int, ...], _Poly]]
    outputs: list[int]

    def __call__(self, env: Mapping[str, int]) -> list[int]:
        """The sizes. ShapeError as `evaluate` raises it."""
        values = self.registers.copy()
        for slot, sym in self.symbols:
            values[slot] = _lookup(sym, env)
        for slot, call, operands, poly in self.steps:
            if call is not None:
                values[slot] = _CALLS[call.kind](call, [values[i] for i in operands])
                continue
            total = 0
            for coefficient, factors in poly:
                for i in factors:
                    coefficient *= values[i]
                total += coefficient
            values[slot] = total
        return [values[i] for i in self.outputs]


def compile_dims(dims: Sequence[Dim]) -> DimsFunction:
    """The function that computes `dims`, in order; common parts are computed once per call."""
    program = _Program()
    outputs = [program.register(d) for d in dims]
    return DimsFunction(program.registers, program.symbols, program.steps, outputs)


def _lookup(sym: Symbol, env: Mapping[str, int]) -> int:
    if sym.name not in env:
        known = ", ".join(sorted(env)[:20])
        raise ShapeError(f"size {sym} has no value", got=f"values for: {known or 'nothing'}")
    value = int(operator.index(env[sym.name]))
    if value < sym.lo or (sym.hi is not None and value > sym.hi):
        limit = "" if sym.hi is None else sym.hi
        raise ShapeError(f"size {sym} is out of bounds", got=value, expected=f"{sym.lo}..{limit}")
    return value


def _floordiv(call: Call, args: list[int]) -> int:
    if args[1] == 0:
        raise ShapeError(f"size expression divides by zero: {call}")
    return args[0] // args[1]


def _broadcast(call: Call, args: list[int]) -> int:
    found = {arg for arg in args if arg != 1}
    if len(found) > 1:
        raise ShapeError(f"sizes do not broadcast: {call}", got=args, expected="equal or 1")
    return found.pop() if found else 1


_CALLS: Mapping[str, Callable[[Call, list[int]], int]] = {
    "floordiv": _floordiv,
    "max": lambda _, args: max(args),
    "min": lambda _, args: min(args),
    "broadcast": _broadcast,
}


class _Program:
    """Registers in the order they are computed; built by an explicit stack, not recursion."""

    def __init__(self) -> None:
        self.registers: list[int] = []
        self.symbols: list[tuple[int, Symbol]] = []
        self.steps: list[tuple[int, Call | None, tuple[int, ...], _Poly]] = []
        self._slots: dict[int | Expr | Atom, int] = {}

    def register(self, dim: Dim) -> int:
        stack: list[int | Expr | Atom] = [dim]
        while stack:
            node = stack[-1]
            if node in self._slots:
                stack.pop()
                continue
            missing = [part for part in _operands_of(node) if part not in self._slots]
            if missing:
                stack.extend(missing)
                continue
            self._define(stack.pop())
        return self._slots[dim]

    def _define(self, node: int | Expr | Atom) -> None:
        slots = self._slots
        if isinstance(node, Expr) and len(node.terms) == 1:
            monomial, coefficient = node.terms[0]
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                slots[node] = slots[monomial[0][0]]  # an expression that is one atom
                return
        slot = slots[node] = len(self.registers)
        self.registers.append(node if isinstance(node, int) else 0)
        if isinstance(node, Symbol):
            self.symbols.append((slot, node))
        elif isinstance(node, Call):
            self.steps.append((slot, node, tuple(slots[arg] for arg in args_of(node)), ()))
        elif isinstance(node, Expr):
            poly = tuple(
                (c, tuple(slots[atom] for atom, power in m for _ in range(power)))
                for m, c in node.terms
            )
            self.steps.append((slot, None, (), poly))


def _operands_of(node: int | Expr | Atom) -> Sequence[int | Expr | Atom]:
    if isinstance(node, Call):
        return args_of(node)
    if isinstance(node, Expr):
        return [atom for monomial, _ in node.terms for atom, _ in monomial]
    return ()
