"""Interval arithmetic over polynomials of sizes: what values an expression can take.

An interval is (lo, hi) with -inf and inf for no bound. It covers every value the expression has
where it is defined (no division by zero, no incompatible broadcast) and symbols keep their bounds.
Intervals are sound, not always tight: a caller may act on what they exclude and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TypeAlias

from .polynomial import Atom, Call, Monomial, Terms, add, multiply, terms_of

Interval: TypeAlias = tuple[float, float]

_MAX_RELAXED = 4  # nested case splits; each multiplies the work by the number of a call's arguments
_MAX_TERMS = 40  # rewriting a larger polynomial costs more than its bounds are worth
_MAX_SPLIT = 4  # arguments of a max, min or broadcast that is looked into


def times(a: Interval, b: Interval) -> Interval:
    ends = [_multiply_bounds(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _multiply_bounds(x: float, y: float) -> float:
    if x == 0 or y == 0:  # the limit that matters: 0 times an unbounded size is 0
        return 0
    if x in (inf, -inf) or y in (inf, -inf):  # large ints do not convert to float
        return inf if (x > 0) == (y > 0) else -inf
    return x * y


def floor_divide(a: Interval, b: Interval) -> Interval:
    """Interval of x//y for x in a, y in b without 0."""
    lo, hi = b
    lo, hi = (1 if lo == 0 else lo), (-1 if hi == 0 else hi)
    if lo > hi:
        return -inf, inf
    if hi < 0:
        return floor_divide((-a[1], -a[0]), (-hi, -lo))
    if lo < 0:
        largest = max(abs(a[0]), abs(a[1]))
        return -largest, largest
    ends = [_floor(x, y) for x in a for y in (lo, hi)]
    return min(ends), max(ends)


def _floor(x: float, y: float) -> float:
    if x in (inf, -inf):
        return x if y != inf else 0 if x > 0 else -1
    if y == inf:
        return 0 if x >= 0 else -1
    return x // y


def interval_of_call(kind: str, args: tuple[Interval, ...]) -> Interval:
    los, his = [lo for lo, _ in args], [hi for _, hi in args]
    if kind == "floordiv":
        return floor_divide(args[0], args[1])
    if kind == "max":
        return max(los), max(his)
    if kind == "min":
        return min(los), min(his)
    return min(los), max(his)


def interval(terms: Terms, level: int = 0) -> Interval:
    """The values of a polynomial: plain interval arithmetic, then shifted to zero, then relaxed."""
    found = _sum_bounds(terms, {})
    if len(terms) < 2 or -inf < found[0] == found[1]:
        return found
    if len(terms) > _MAX_TERMS:
        return found
    atoms = [atom for monomial in terms for atom, _ in monomial]
    # Plain arithmetic is exact unless an atom occurs twice or denotes a relation.
    if len(set(atoms)) != len(atoms):
        found = _intersect(found, _bound_shifted(terms))
    if level < _MAX_RELAXED and any(isinstance(atom, Call) for atom in atoms):
        found = _intersect(found, _bound_relaxed(terms, level))
    return found


def _intersect(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _sum_bounds(terms: Terms, ranges: Mapping[Atom, Interval]) -> Interval:
    lo: float = 0
    hi: float = 0
    for monomial, coefficient in terms.items():
        part: Interval = (coefficient, coefficient)
        for atom, power in monomial:
            for _ in range(power):
                part = times(part, ranges.get(atom, atom.range))
        lo, hi = lo + part[0], hi + part[1]
    return lo, hi


def _bound_shifted(terms: Terms) -> Interval:
    """Bounds with every atom written as its lower bound plus a rest: sees (N-1)*(T-1) >= 0."""
    ranges: dict[Atom, Interval] = {}
    for atom in {atom for monomial in terms for atom, _ in monomial}:
        lo, hi = atom.range
        if isinstance(lo, int):
            ranges[atom] = (0, hi - lo)
    out: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        part: dict[Monomial, int] = {(): coefficient}
        for atom, power in monomial:
            lo = atom.range[0] if atom in ranges else 0
            base: dict[Monomial, int] = {((atom, 1),): 1}
            base = add(base, {(): int(lo)} if lo else {})
            for _ in range(power):
                part = multiply(part, base)
                if len(part) > _MAX_TERMS * 4:
                    return -inf, inf
        out = add(out, part)
    return _sum_bounds(out, ranges)


def _bound_relaxed(terms: Terms, level: int) -> Interval:
    """Bounds through what one call means: x//c is within (c-1)/c of x/c, max(a, b) is a or b."""
    factors = [item for monomial in terms for item in monomial]
    curved = {atom for atom, power in factors if power > 1}
    calls = {atom for atom, _ in factors if isinstance(atom, Call) and len(atom.args) <= _MAX_SPLIT}
    calls -= curved
    if not calls:
        return -inf, inf
    call = max(calls, key=lambda atom: (atom.depth, atom.key))
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        cofactors = tuple(item for item in monomial if item[0] != call)
        (rest if len(cofactors) == len(monomial) else slope)[cofactors] = coefficient
    sign = interval(slope, level + 1)
    args = [terms_of(arg) for arg in call.args]

    def at(value: Terms, scale: int = 1) -> Interval:
        return interval(add(multiply(slope, value), rest, scale), level + 1)

    if call.kind != "floordiv":
        return _bound_by_cases(call.kind, sign, [at(arg) for arg in args])
    if sign[0] < 0 < sign[1]:
        return -inf, inf
    divisor = call.args[1]
    if isinstance(divisor, int):
        down = at(add(args[0], {(): 1 - divisor}), divisor)
        up = at(args[0], divisor)
        lo, hi = (down[0], up[1]) if sign[0] >= 0 else (up[0], down[1])
        return (lo if lo == -inf else -((-lo) // divisor)), (hi if hi == inf else hi // divisor)
    if interval(args[0], level + 1)[0] >= 0 and interval(args[1], level + 1)[0] >= 0:
        without, with_arg = at({}), at(args[0])
        return (without[0], with_arg[1]) if sign[0] >= 0 else (with_arg[0], without[1])
    return -inf, inf


def _bound_by_cases(kind: str, sign: Interval, cases: list[Interval]) -> Interval:
    """The value is one of the arguments; for max and min it is also beyond each of them."""
    los, his = [lo for lo, _ in cases], [hi for _, hi in cases]
    lo, hi = min(los), max(his)
    if kind == "broadcast":
        return lo, hi
    if sign[0] >= 0:
        return (max(los), hi) if kind == "max" else (lo, min(his))
    if sign[1] <= 0:
        return (lo, min(his)) if kind == "max" else (max(los), hi)
    return lo, hi
