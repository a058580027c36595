"""Expr: the normal form of a size that is not a plain int, and the constructors that keep it."""

from __future__ import annotations

import operator
from dataclasses import field
from functools import cached_property, lru_cache
from math import gcd
from typing import TypeAlias, cast

from ..errors import ShapeError
from ..lazy_dataclass import dataclass
from . import intervals as dim_bounds
from .polynomial import (
    MAX_COEFFICIENT,
    MAX_TERMS,
    MAX_TEXT,
    Call,
    Monomial,
    Symbol,
    Terms,
    add,
    divide_monomials,
    is_floordiv,
    monomial_of,
    multiply,
    order,
    quotient,
    render,
    terms_of,
)

# Results that are kept: inference compares and combines the same few sizes in every operation.
_MAX_CACHED = 1 << 12


@dataclass(frozen=True, eq=False)
class Expr:
    """A polynomial with integer coefficients over symbols and calls; never a constant.

    Immutable; `==` and hash are structural (is it the same normal form?), and a truth value or an
    order is refused: call `eq`, `lt`, `le` of ir.dims, which return None where it is unknown.
    Arithmetic with ints and Exprs gives a plain int where the result is constant.
    """

    terms: tuple[tuple[Monomial, int], ...]
    key: str = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        if len(self.terms) > MAX_TERMS:
            raise ShapeError("a size expression has too many terms", expected=f"<= {MAX_TERMS}")
        keys = list[str]()
        for monomial, coefficient in self.terms:
            if abs(coefficient) >= MAX_COEFFICIENT:
                raise ShapeError("a size expression has too large a coefficient")
            keys.append("*".join([str(coefficient), *(f"{a.key}**{p}" for a, p in monomial)]))
        key = "+".join(keys)
        # A text is hardly ever longer than a key, and takes time to write.
        if len(key) > MAX_TEXT // 2 and len(render(self.terms)) > MAX_TEXT:
            raise ShapeError("a size expression is too large", expected=f"<= {MAX_TEXT} characters")
        depth = max(atom.depth for monomial, _ in self.terms for atom, _ in monomial)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "depth", depth)

    @cached_property
    def text(self) -> str:
        """As it prints."""
        return render(self.terms)

    @cached_property
    def interval(self) -> dim_bounds.Interval:
        """Every value it can take: see intervals.py."""
        return _interval(self)

    @cached_property
    def _symbols(self) -> frozenset[Symbol]:
        out = set[Symbol]()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                if isinstance(atom, Symbol):
                    out.add(atom)
                else:
                    out.update(*(arg.symbols() for arg in atom.args if isinstance(arg, Expr)))
        return frozenset(out)

    def symbols(self) -> frozenset[Symbol]:
        """Every symbol the value depends on, inside calls too."""
        return self._symbols

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and (self is other or self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise TypeError(
            f"size {self} has no truth value: use eq(), lt(), le() of irc_compiler.ir.dims"
        )

    def raise_unordered(self, other: object) -> bool:
        raise TypeError(
            f"size {self} has no order with {other}: use lt(), le() of irc_compiler.ir.dims"
        )

    __lt__ = __le__ = __gt__ = __ge__ = raise_unordered

    def __neg__(self) -> Dim:
        return make(add({}, dict(self.terms), -1))

    def __pos__(self) -> Dim:
        return self

    def __add__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else _add(self, value, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else _add(self, value, -1)

    def __rsub__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else _add(value, self, -1)

    def __mul__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else _multiply(self, value)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Dim:
        if exponent < 0:
            return NotImplemented
        out: Dim = 1
        for _ in range(exponent):
            out = out * self
        return out

    def __floordiv__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else floordiv(self, value)

    def __rfloordiv__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else floordiv(value, self)

    def __mod__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else self - value * floordiv(self, value)

    def __rmod__(self, other: Dim) -> Dim:
        value = _operand(other)
        return NotImplemented if value is None else value - self * floordiv(value, self)


Dim: TypeAlias = "int | Expr"


def _operand(value: object) -> Dim | None:
    """An int (NumPy's integers too) or Expr, or None for what sizes cannot be combined with."""
    if isinstance(value, Expr):
        return value
    try:
        return int(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return None


@lru_cache(_MAX_CACHED)
def _add(a: Dim, b: Dim, factor: int) -> Dim:
    return make(add(terms_of(a), terms_of(b), factor))


@lru_cache(_MAX_CACHED)
def _multiply(a: Dim, b: Dim) -> Dim:
    return make(multiply(terms_of(a), terms_of(b)))


@lru_cache(maxsize=1 << 14)
def _interval(expr: Expr) -> dim_bounds.Interval:
    # Keyed by value: differences are made anew for every comparison, and are mostly the same ones.
    return dim_bounds.interval(dict(expr.terms))


def make(terms: Terms) -> Dim:
    """The Dim of a polynomial without zero coefficients."""
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Expr(tuple(sorted(terms.items(), key=lambda item: order(item[0]))))


def atom_expr(atom: Symbol | Call) -> Expr:
    return Expr(((((atom, 1),), 1),))


def args_of(call: Call) -> tuple[Dim, ...]:
    """A call's arguments: each polynomial among them is an Expr."""
    return cast("tuple[Dim, ...]", call.args)


def interval_of(dim: Dim) -> dim_bounds.Interval:
    return (dim, dim) if isinstance(dim, int) else dim.interval


def nonzero(dim: Dim) -> bool:
    lo, hi = interval_of(dim)
    return lo > 0 or hi < 0


def _call(kind: str, args: tuple[Dim, ...]) -> Dim:
    values = dim_bounds.interval_of_call(kind, tuple(interval_of(arg) for arg in args))
    lo = values[0]
    # A quotient keeps its divisor while that may be 0: folding would hide the error.
    if isinstance(lo, int) and lo == values[1] and (kind != "floordiv" or nonzero(args[1])):
        return lo
    return atom_expr(Call(kind, args, values))


# --- floor division ---------------------------------------------------------------------------


def floordiv(a: Dim, b: Dim) -> Dim:
    """a // b rounded towards minus infinity; ShapeError for a divisor that is 0.

    Multiples of b leave the quotient, common factors known not to be 0 cancel, and nested
    quotients by constants become one. A divisor that may be 0 never cancels.
    """
    if isinstance(b, int):
        if b == 0:
            raise ShapeError(f"size expression divides by zero: ({a})//0")
        return a // b if isinstance(a, int) else _divide_by_int(dict(a.terms), b)
    num, den = terms_of(a), dict(b.terms)
    if b.terms[0][1] < 0:
        num, den = add({}, num, -1), add({}, den, -1)
    num, den = _cancel(num, den)
    divisor = make(den)
    if isinstance(divisor, int):
        return floordiv(make(num), divisor)
    if nonzero(divisor):
        if not num:
            return 0
        exact = quotient(num, den)
        if exact is not None:
            return make(exact)
        if len(den) == 1:
            multiples, num = _split_multiples(num, next(iter(den.items())))
            if multiples:
                return make(multiples) + floordiv(make(num), divisor)
        rest = interval_of(make(add(den, num, -1)))
        if dim_bounds.interval(num)[0] >= 0 and rest[0] > 0:
            return 0
    return _call("floordiv", (make(num), divisor))


def _cancel(num: Terms, den: Terms) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """Both without their common integer factor and their common atoms known not to be 0."""
    factor = gcd(*num.values(), *den.values())
    shared: dict[Symbol | Call, int] = {}
    first, *others = [dict(monomial) for monomial in (*den, *num)]
    for atom, power in first.items():
        lo, hi = atom.range
        common = min([power, *(other.get(atom, 0) for other in others)])
        if common and (lo > 0 or hi < 0):
            shared[atom] = common
    monomial = monomial_of(shared.items())

    def divide_terms(terms: Terms) -> dict[Monomial, int]:
        out: dict[Monomial, int] = {}
        for m, c in terms.items():
            left = divide_monomials(m, monomial)
            assert left is not None
            out[left] = c // factor
        return out

    return divide_terms(num), divide_terms(den)


def _split_multiples(
    num: Terms, by: tuple[Monomial, int]
) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """(q, r) with num = q*by + r, q taking all it can; a constant by leaves r's in [0, by)."""
    multiples: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in num.items():
        left = divide_monomials(monomial, by[0])
        if left is None:
            rest[monomial] = coefficient
            continue
        part = coefficient // by[1]
        if monomial and coefficient < 0:  # towards zero: -N//8 stays -((N + 7)//8)
            part = -(-coefficient // by[1])
        if part:
            multiples[left] = part
        if coefficient != part * by[1]:
            rest[monomial] = coefficient - part * by[1]
    return multiples, rest


def _divide_by_int(num: Terms, divisor: int) -> Dim:
    if divisor < 0:
        num, divisor = add({}, num, -1), -divisor
    terms, rest = _split_multiples(num, ((), divisor))
    multiples, constant = make(terms), rest.pop((), 0)
    if not rest:
        return multiples  # the constant is in [0, divisor)
    factor = gcd(*rest.values(), divisor)
    rest = {monomial: coefficient // factor for monomial, coefficient in rest.items()}
    constant, divisor = constant // factor, divisor // factor
    if divisor == 1:
        return multiples + make(rest) + constant
    sign = 1
    if rest[min(rest, key=order)] < 0:  # floor(-x/c) = -floor((x + c-1)/c)
        rest, constant, sign = add({}, rest, -1), divisor - 1 - constant, -1
    inner = [m for m, c in rest.items() if c == 1 and len(m) == 1 and _by_int(m)]
    if len(inner) == 1:  # (x//b + y)//c = (x + b*y)//(b*c)
        call = inner[0][0][0]
        assert isinstance(call, Call)
        top, b = args_of(call)
        rest = {m: c for m, c in rest.items() if m != inner[0]}
        return multiples + sign * floordiv(top + b * (make(rest) + constant), b * divisor)
    top = make(add(rest, {(): constant} if constant else {}))
    return multiples + sign * _call("floordiv", (top, divisor))


def _by_int(monomial: Monomial) -> bool:
    (atom, power) = monomial[0]
    if not is_floordiv(atom) or power != 1:
        return False
    return isinstance(atom, Call) and isinstance(atom.args[1], int)


# --- maximum, minimum, broadcast ----------------------------------------------------------------


def _list_call_args(kind: str, arg: Dim) -> tuple[Dim, ...]:
    """The arguments of a call of this kind (they are flat and irreducible), else `arg` itself."""
    if isinstance(arg, Expr) and len(arg.terms) == 1:
        monomial, coefficient = arg.terms[0]
        atom, power = monomial[0]
        if coefficient == power == len(monomial) == 1 and isinstance(atom, Call):
            return args_of(atom) if atom.kind == kind else (arg,)
    return (arg,)


def _sort_key(dim: Dim) -> tuple[int, str, str]:
    return (1, f"{dim:030d}", "") if isinstance(dim, int) else (0, dim.text, dim.key)


@lru_cache(_MAX_CACHED)
def difference(a: Dim, b: Dim) -> dim_bounds.Interval:
    """Interval of a - b."""
    return interval_of(a - b)


def _build_extreme(kind: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if kind == "max" else min(a, b)
    # Within one side nothing is superfluous already.
    right = _list_call_args(kind, b)
    left = [x for x in _list_call_args(kind, a) if not any(_is_beyond(kind, y, x) for y in right)]
    operands = left + [y for y in right if not any(_is_beyond(kind, x, y) for x in left)]
    return (
        operands[0] if len(operands) == 1 else _call(kind, tuple(sorted(operands, key=_sort_key)))
    )


def _is_beyond(kind: str, a: Dim, b: Dim) -> bool:
    """Is a always at least (for min: at most) b?"""
    lo, hi = difference(a, b)
    return lo >= 0 if kind == "max" else hi <= 0


def maximum(a: Dim, b: Dim) -> Dim:
    return _build_extreme("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    return _build_extreme("min", a, b)


@lru_cache(_MAX_CACHED)
def differ(a: Dim, b: Dim) -> bool:
    """Are a and b never equal? False means not known."""
    lo, hi = difference(a, b)
    if lo > 0 or hi < 0:
        return True
    terms = terms_of(a - b)
    constant = terms.pop((), 0)
    return bool(terms) and constant % gcd(*terms.values()) != 0


def broadcast(a: Dim, b: Dim) -> Dim:
    """NumPy's rule for two sizes: the other one where one is 1, else both must be equal.

    A size known not to be 1 is the result (the other is then 1 or the same). ShapeError where
    both are known not to be 1 and to differ.
    """
    if isinstance(a, int) and (a == 1 or a == b):
        return b  # most calls, and the work below is for the others
    if isinstance(a, int) and isinstance(b, int) and b == 1:
        return a
    return _broadcast_sizes(a, b)


@lru_cache(_MAX_CACHED)
def _broadcast_sizes(a: Dim, b: Dim) -> Dim:
    left = [x for x in _list_call_args("broadcast", a) if x != 1]
    right = [y for y in _list_call_args("broadcast", b) if y != 1 and y not in left]
    operands = sorted(left + right, key=_sort_key)
    # min(n, 64) besides n is n wherever the two broadcast.
    operands = [
        x
        for x in operands
        if [type(g) for g in _list_call_args("min", x) if g not in operands] != [int]
    ]
    # A size known not to be 1 is the whole result. Of several, which must be equal, an int says
    # most; ints sort last.
    for x in reversed(operands):
        if not differ(x, 1):
            continue
        if any(differ(y, 1) and differ(x, y) for y in operands):
            raise ShapeError("sizes do not broadcast", got=f"{a} and {b}", expected="equal or 1")
        return x
    if not operands:
        return 1
    return operands[0] if len(operands) == 1 else _call("broadcast", tuple(operands))
