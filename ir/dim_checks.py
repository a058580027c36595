"""Sizes that have to fit together, as expressions that can be evaluated only where they do."""

from __future__ import annotations

from .dim_expr import Dim, atom_expr, difference, interval_of
from .dim_terms import Call


def same(a: Dim, b: Dim) -> Dim:
    """b where a equals it: evaluating it with sizes that differ is a ShapeError. It never
    simplifies to more than b, and only where both are known to be equal."""
    return b if a == b or difference(a, b) == (0, 0) else _kept("same", a, b)


def fits(a: Dim, b: Dim) -> Dim:
    """b where a is 1 or equals it, as `same`."""
    return b if a in (1, b) or difference(a, b) == (0, 0) else _kept("fits", a, b)


def _kept(kind: str, a: Dim, b: Dim) -> Dim:
    """A call that is there to be evaluated: never folded to its value."""
    return atom_expr(Call(kind, (a, b), interval_of(b)))
