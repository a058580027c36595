"""Atoms of size expressions and integer polynomials over them, as plain dictionaries.

A polynomial is a mapping monomial -> coefficient; a monomial is a sorted tuple of (atom, power),
and the empty monomial is the constant. Everything is ordered by printed text, graded and then
lexicographic, which is a monomial order: division by a leading term terminates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from math import inf
from typing import Protocol, TypeAlias

from ..errors import ShapeError
from ..lazy_dataclass import dataclass

# A model file is untrusted: these keep the work on one size small. Anchors of RetinaNet for images
# of any size take 9500 characters; other sizes stay far below.
MAX_DEGREE = 64
MAX_TERMS = 500
MAX_DEPTH = 64
MAX_ARGS = 64
MAX_TEXT = 16_000
MAX_COEFFICIENT = 1 << 256
_MAX_DIVIDED = 64  # terms: long division is quadratic, and real quotients are short
KINDS = ("floordiv", "max", "min", "broadcast")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_RESERVED = frozenset(KINDS)


@dataclass(frozen=True, eq=False)
class Symbol:
    """A size known only at run time, `lo <= value <= hi` (hi None: no upper bound).

    A name that is not an identifier prints in backquotes. Name and bounds together are the
    identity. Raises ShapeError for an unprintable name or empty bounds.
    """

    name: str
    lo: int = 0
    hi: int | None = None
    text: str = field(init=False, repr=False)
    key: str = field(init=False, repr=False)
    depth: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        name = self.name
        if not name or len(name) > 256 or "`" in name or not name.isprintable():
            raise ShapeError("a symbolic size has an unusable name", got=repr(name[:80]))
        if self.hi is not None and self.hi < self.lo:
            raise ShapeError(f"size {name} has empty bounds", got=f"{self.lo}..{self.hi}")
        plain = _IDENTIFIER.match(name) is not None and name not in _RESERVED
        text = name if plain else f"`{name}`"
        bounds = "" if self.lo == 0 and self.hi is None else f"[{self.lo}:{self.hi}]"
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "key", text + bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text

    @property
    def range(self) -> tuple[float, float]:
        return self.lo, inf if self.hi is None else self.hi


class Polynomial(Protocol):
    """What an atom needs of an argument that is an expression: expr.py's Expr has it."""

    @property
    def terms(self) -> tuple[tuple[Monomial, int], ...]: ...

    @property
    def key(self) -> str: ...

    @property
    def depth(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Call:
    """`kind(args)` that no polynomial can express; built only by the functions of expr.py.

    floordiv has two arguments (rounds towards minus infinity); max, min and broadcast have two or
    more, flat and sorted. `range` holds every value it can take when it is defined at all.
    """

    kind: str
    args: tuple[int | Polynomial, ...]
    range: tuple[float, float] = field(default=(-inf, inf), repr=False)
    text: str = field(init=False, repr=False)
    key: str = field(init=False, repr=False)
    depth: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        texts, keys, depth = list[str](), list[str](), 0
        for arg in self.args:
            texts.append(str(arg))
            keys.append(str(arg) if isinstance(arg, int) else arg.key)
            depth = max(depth, 0 if isinstance(arg, int) else arg.depth)
        length = sum(map(len, keys))
        if depth >= MAX_DEPTH or length > MAX_TEXT or len(keys) > MAX_ARGS:
            raise ShapeError(
                "a size expression is too large",
                got=f"{self.kind}({', '.join(texts)[:120]}...)",
                expected=f"<= {MAX_DEPTH} levels, {MAX_ARGS} arguments, {MAX_TEXT} characters",
                fix="give this size a static value (shapes=)",
            )
        if self.kind == "floordiv":
            text = f"{_operand(self.args[0])}//{_operand(self.args[1])}"
        else:
            text = f"{self.kind}({', '.join(texts)})"
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "key", f"{self.kind}({', '.join(keys)})")
        object.__setattr__(self, "depth", depth + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text


def _operand(dim: int | Polynomial) -> str:
    text = str(dim)
    if isinstance(dim, int):
        return text if dim >= 0 else f"({text})"
    (monomial, coefficient), *rest = dim.terms
    bare = not rest and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1
    return text if bare and not is_floordiv(monomial[0][0]) else f"({text})"


Atom: TypeAlias = Symbol | Call
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Terms: TypeAlias = Mapping[Monomial, int]


def is_floordiv(atom: Atom) -> bool:
    return isinstance(atom, Call) and atom.kind == "floordiv"


def terms_of(dim: int | Polynomial) -> dict[Monomial, int]:
    if isinstance(dim, int):
        return {(): dim} if dim else {}
    return dict(dim.terms)


def add(a: Terms, b: Terms, factor: int = 1) -> dict[Monomial, int]:
    """a + factor*b."""
    out = dict(a)
    for monomial, coefficient in b.items():
        total = out.get(monomial, 0) + factor * coefficient
        if total:
            out[monomial] = total
        else:
            out.pop(monomial, None)
    return out


def multiply(a: Terms, b: Terms) -> dict[Monomial, int]:
    out: dict[Monomial, int] = {}
    for ma, ca in a.items():
        for mb, cb in b.items():
            monomial = multiply_monomials(ma, mb)
            out[monomial] = out.get(monomial, 0) + ca * cb
        if len(out) > MAX_TERMS:
            raise ShapeError("a size expression has too many terms", expected=f"<= {MAX_TERMS}")
    return {m: c for m, c in out.items() if c}


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    if sum(powers.values()) > MAX_DEGREE:
        raise ShapeError("a size expression has too high a degree", expected=f"<= {MAX_DEGREE}")
    return monomial_of(powers.items())


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """a / b, or None where b does not divide a."""
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return monomial_of((atom, power) for atom, power in powers.items() if power)


def monomial_of(powers: Iterable[tuple[Atom, int]]) -> Monomial:
    return tuple(sorted(powers, key=lambda item: (item[0].text, item[0].key)))


def order(monomial: Monomial) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Sort key: highest degree first, then lexicographic; the constant comes last."""
    keys = tuple((atom.text, atom.key) for atom, power in monomial for _ in range(power))
    return -len(keys), keys


def quotient(a: Terms, b: Terms) -> dict[Monomial, int] | None:
    """The polynomial q with q*b = a, or None where there is none with integer coefficients.

    Gives up on polynomials of more than _MAX_DIVIDED terms.
    """
    if len(a) > _MAX_DIVIDED or len(b) > _MAX_DIVIDED:
        return None
    lead = min(b, key=order)
    rest, out = dict(a), dict[Monomial, int]()
    while rest:
        top = min(rest, key=order)
        monomial = divide_monomials(top, lead)
        factor, remainder = divmod(rest[top], b[lead])
        if monomial is None or remainder or len(out) > _MAX_DIVIDED:
            return None
        out[monomial] = factor
        rest = add(rest, multiply({monomial: factor}, b), -1)
    return out


def render(terms: Iterable[tuple[Monomial, int]]) -> str:
    """The printed normal form of sorted terms: `2*N*T - N//8 + 3`."""
    out = ""
    for monomial, coefficient in terms:
        size, alone = abs(coefficient), len(monomial) == 1 and monomial[0][1] == 1
        # -N//8 would read as (-N)//8, so a floor division is bare only with factor +1, first
        # or after a plus.
        bare = alone and coefficient == 1
        factors = [] if size == 1 and monomial else [str(size)]
        for atom, power in monomial:
            text = f"({atom.text})" if is_floordiv(atom) and not bare else atom.text
            factors.append(text if power == 1 else f"{text}**{power}")
        sign = ("-" if coefficient < 0 else "") if not out else " - " if coefficient < 0 else " + "
        out += sign + "*".join(factors)
    return out or "0"
