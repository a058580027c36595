"""Sizes of tensors: a Dim is an int, or an Expr, a normal-form polynomial over named symbols.

`isinstance(d, int)` means static. Comparisons answer True, False or None (not known), and a rule
acts on True only. Expressions are simplified under their symbols' bounds and under the assumption
that broadcasts are legal, so a value outside its bounds is refused, not computed with.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from math import inf

from ..errors import ShapeError
from .evaluator import compile_dims
from .expr import (
    Dim,
    Expr,
    args_of,
    atom_expr,
    broadcast,
    differ,
    difference,
    floordiv,
    interval_of,
    maximum,
    minimum,
)
from .polynomial import Call, Symbol, quotient, terms_of
from .serialization import from_json, parse, to_json

__all__ = [
    "Call",
    "Dim",
    "Expr",
    "Symbol",
    "bounds",
    "broadcast",
    "ceil_div",
    "compile_dims",
    "eq",
    "evaluate",
    "exact_quotient",
    "from_json",
    "is_static",
    "le",
    "lt",
    "maximum",
    "minimum",
    "parse",
    "plain_symbol",
    "product",
    "substitute",
    "symbol",
    "to_json",
]


def symbol(name: str, lo: int = 0, hi: int | None = None) -> Expr:
    """A size known at run time only, with lo <= size <= hi; the same name is the same size."""
    return atom_expr(Symbol(name, lo, hi))


def plain_symbol(d: Dim) -> Symbol | None:
    """The symbol that `d` is, if it is just one."""
    if not isinstance(d, Expr) or len(d.terms) != 1:
        return None
    monomial, coefficient = d.terms[0]
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    return monomial[0][0] if isinstance(monomial[0][0], Symbol) else None


def is_static(d: Dim) -> bool:
    return isinstance(d, int)


def bounds(d: Dim) -> tuple[int | None, int | None]:
    """Sound (not always tight) smallest and largest value; None where there is no known bound."""
    lo, hi = interval_of(d)
    return (None if lo == -inf else int(lo)), (None if hi == inf else int(hi))


def eq(a: Dim, b: Dim) -> bool | None:
    """Are two sizes always equal (True), never equal (False), or is it not known (None)?"""
    if isinstance(a, int) and isinstance(b, int):
        return a == b  # most calls, and the work below is for the others
    if a == b or difference(a, b) == (0, 0):
        return True
    return False if differ(a, b) else None


def lt(a: Dim, b: Dim) -> bool | None:
    """Is a always (True) or never (False) less than b?"""
    lo, hi = difference(a, b)
    return True if hi < 0 else False if lo >= 0 else None


def le(a: Dim, b: Dim) -> bool | None:
    """Is a always (True) or never (False) at most b?"""
    lo, hi = difference(a, b)
    return True if hi <= 0 else False if lo > 0 else None


def ceil_div(a: Dim, b: Dim) -> Dim:
    """a / b rounded up."""
    return -floordiv(-a, b)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """The q with q*b = a whatever the symbols are, even where b may be 0; None where none is known.

    Reshape's -1 wants this: (N*32) / (N*8) is 4 although N may be 0.
    """
    if b == 0:
        return None
    from_terms = quotient(terms_of(a), terms_of(b))
    if from_terms is None:
        return None
    return sum((_term(monomial, c) for monomial, c in from_terms.items()), start=0)


def _term(monomial: tuple[tuple[Symbol | Call, int], ...], coefficient: int) -> Dim:
    return product([coefficient, *(atom_expr(atom) ** power for atom, power in monomial)])


def product(dims: Iterable[Dim]) -> Dim:
    """The product; 1 for none."""
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


def evaluate(d: Dim, env: Mapping[str, int]) -> int:
    """The value under `env` (symbol name -> size).

    ShapeError for a missing symbol, a value outside its symbol's bounds, a division by zero and
    sizes that do not broadcast.
    """
    return d if isinstance(d, int) else compile_dims((d,))(env)[0]


def substitute(d: Dim, env: Mapping[str, Dim]) -> Dim:
    """`d` with symbols replaced, all at once; symbols not in `env` stay.

    ShapeError for a value known to lie outside its symbol's bounds, a division by zero and sizes
    that do not broadcast.
    """
    if isinstance(d, int) or not any(s.name in env for s in d.symbols()):
        return d
    return _substitute(d, env, {})


def _substitute(d: Dim, env: Mapping[str, Dim], done: dict[Symbol | Call, Dim]) -> Dim:
    if isinstance(d, int):
        return d
    out: Dim = 0
    for monomial, coefficient in d.terms:
        part: Dim = coefficient
        for atom, power in monomial:
            if atom not in done:
                done[atom] = _substitute_atom(atom, env, done)
            for _ in range(power):
                part = part * done[atom]
        out = out + part
    return out


_BUILD: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "max": maximum,
    "min": minimum,
    "broadcast": broadcast,
}


def _substitute_atom(
    atom: Symbol | Call, env: Mapping[str, Dim], done: dict[Symbol | Call, Dim]
) -> Dim:
    if isinstance(atom, Symbol):
        if atom.name not in env:
            return atom_expr(atom)
        value = env[atom.name]
        value = value if isinstance(value, Expr) else operator.index(value)
        lo, hi = interval_of(value)
        if hi < atom.lo or (atom.hi is not None and lo > atom.hi):
            limit = "" if atom.hi is None else atom.hi
            raise ShapeError(
                f"size {atom} is out of bounds", got=value, expected=f"{atom.lo}..{limit}"
            )
        return value
    first, *others = [_substitute(arg, env, done) for arg in args_of(atom)]
    for other in others:
        first = _BUILD[atom.kind](first, other)
    return first
