"""Size expressions as text (what str prints) and as JSON; both rebuild the normal form.

JSON: an int, or ["+", term, ...]; a term is [coefficient, [atom, power], ...]; an atom is
["sym", name, lo] or ["sym", name, lo, hi], or [kind, dim, dim, ...] for a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

from ..errors import ShapeError, VerificationError
from .expr import Dim, args_of, atom_expr, broadcast, floordiv, maximum, minimum
from .polynomial import MAX_DEGREE, MAX_TEXT, Call, Symbol

Json: TypeAlias = "int | str | list[Json]"
Bounds: TypeAlias = Mapping[str, tuple[int, int | None]]

MAX_NODES = 8000
MAX_NESTING = 80
_MAX_INT = 2**63

_BUILD: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "max": maximum,
    "min": minimum,
    "broadcast": broadcast,
}
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_.]*)|`([^`]*)`|(//|\*\*|[-+*%(),]))")


def parse(text: str, bounds: Bounds | None = None) -> Dim:
    """The Dim that `str` printed: + - * // % **, parentheses, max, min, broadcast, names, ints.

    A name gets its bounds from `bounds` (name -> (lo, hi)), else (0, None). ShapeError otherwise.
    """
    if len(text) > 2 * MAX_TEXT:
        raise ShapeError("a size expression is too long", expected=f"<= {2 * MAX_TEXT} characters")
    reader = _DimReader(text, bounds or {})
    out = reader.total()
    if reader.kind != "end":
        reader.fail()
    return out


class _DimReader:
    """One token of look-ahead over a size expression; nesting is bounded."""

    def __init__(self, text: str, bounds: Bounds) -> None:
        self._text, self._bounds = text, bounds
        self._at, self._depth = 0, 0
        self.kind, self.token = "", ""
        self._advance()

    def fail(self) -> NoReturn:
        got = self._text if len(self._text) < 120 else self._text[:120] + "..."
        raise ShapeError("not a size expression", got=repr(got), expected="such as 2*N + 1")

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                self.fail()
            self.kind, self.token = "end", ""
            return
        self._at = match.end()
        self.kind = ("int", "name", "quoted", "mark")[(match.lastindex or 1) - 1]
        self.token = match.group(match.lastindex or 1)

    def _take(self, *tokens: str) -> str:
        if self.kind != "mark" or self.token not in tokens:
            return ""
        token = self.token
        self._advance()
        return token

    def total(self) -> Dim:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.fail()
        out = self._product()
        while mark := self._take("+", "-"):
            right = self._product()
            out = out + right if mark == "+" else out - right
        self._depth -= 1
        return out

    def _product(self) -> Dim:
        out = self._read_signed()
        while mark := self._take("*", "//", "%"):
            right = self._read_signed()
            if mark == "*":
                out = self._check_bounded(out * right)
            elif mark == "//":
                out = floordiv(out, right)
            else:
                out = out - right * floordiv(out, right)
        return out

    def _read_signed(self) -> Dim:
        sign = 1
        while self._take("-"):
            sign = -sign
        out = self._primary()
        if self._take("**"):
            exponent = self._integer() if self.kind == "int" else self.fail()
            if exponent > MAX_DEGREE:
                self.fail()
            out = self._check_bounded(out**exponent)
        return sign * out

    def _check_bounded(self, value: Dim) -> Dim:
        return self.fail() if isinstance(value, int) and abs(value) >= _MAX_INT else value

    def _integer(self) -> int:
        if len(self.token) > 19 or int(self.token) >= _MAX_INT:
            self.fail()
        value = int(self.token)
        self._advance()
        return value

    def _primary(self) -> Dim:
        if self.kind == "int":
            return self._integer()
        if self.kind in ("name", "quoted"):
            quoted, name = self.kind == "quoted", self.token
            self._advance()
            if not quoted and name in _BUILD:
                return self._call(name)
            return atom_expr(Symbol(name, *self._bounds.get(name, (0, None))))
        if not self._take("("):
            self.fail()
        out = self.total()
        if not self._take(")"):
            self.fail()
        return out

    def _call(self, kind: str) -> Dim:
        if not self._take("("):
            self.fail()
        out, count = self.total(), 1
        while self._take(","):
            out, count = _BUILD[kind](out, self.total()), count + 1
        if count < 2 or not self._take(")"):
            self.fail()
        return out


def to_json(d: Dim) -> Json:
    """Plain lists, ints and strings, bounds included; from_json gives the same Dim back."""
    if isinstance(d, int):
        return d
    out: list[Json] = ["+"]
    for monomial, coefficient in d.terms:
        term: list[Json] = [coefficient]
        for atom, power in monomial:
            term.append([_atom_to_json(atom), power])
        out.append(term)
    return out


def _atom_to_json(atom: Symbol | Call) -> Json:
    if isinstance(atom, Symbol):
        limit: list[Json] = [] if atom.hi is None else [atom.hi]
        return ["sym", atom.name, atom.lo, *limit]
    return [atom.kind, *(to_json(arg) for arg in args_of(atom))]


def from_json(x: object) -> Dim:
    """Reads `to_json`, at most MAX_NODES values; VerificationError for anything else."""
    budget = [MAX_NODES]
    try:
        return _dim(x, budget, 0)
    except ShapeError as error:
        raise VerificationError("a stored size is not valid", got=str(error)) from error


def _refuse(x: object) -> NoReturn:
    raise VerificationError("a stored size is not valid", got=f"{x!r:.80}")


def _expect_list(x: object, budget: list[int]) -> Sequence[Any]:
    if not isinstance(x, list) or not x:
        _refuse("no list" if not isinstance(x, list) else "an empty list")
    items = cast("list[Any]", x)
    budget[0] -= len(items)
    if budget[0] < 0:
        raise VerificationError("a stored size is too large", expected=f"<= {MAX_NODES} values")
    return items


def _int(x: object) -> int:
    if type(x) is not int or not -_MAX_INT <= x < _MAX_INT:
        _refuse(x if isinstance(x, bool) else type(x).__name__)
    return x


def _dim(x: object, budget: list[int], depth: int) -> Dim:
    if type(x) is int:
        return _int(x)
    if depth > MAX_NESTING:
        raise VerificationError("a stored size is nested too deeply", expected=f"<= {MAX_NESTING}")
    mark, *terms = _expect_list(x, budget)
    if mark != "+":
        _refuse(mark if isinstance(mark, str) else type(mark).__name__)
    out: Dim = 0
    for term in terms:
        coefficient, *factors = _expect_list(term, budget)
        part: Dim = _int(coefficient)
        for factor in factors:
            pair = _expect_list(factor, budget)
            if len(pair) != 2 or not 1 <= _int(pair[1]) <= MAX_DEGREE:
                _refuse("a factor")
            atom = _atom(pair[0], budget, depth)
            for _ in range(_int(pair[1])):
                part = part * atom
        out = out + part
    return out


def _atom(x: object, budget: list[int], depth: int) -> Dim:
    kind, *args = _expect_list(x, budget)
    if kind == "sym":
        if len(args) not in (2, 3) or not isinstance(args[0], str):
            _refuse("a symbol")
        return atom_expr(Symbol(args[0], *(_int(arg) for arg in args[1:])))
    if not isinstance(kind, str) or kind not in _BUILD or len(args) < 2:
        _refuse(kind if isinstance(kind, str) else type(kind).__name__)
    if kind == "floordiv" and len(args) != 2:
        _refuse("a floordiv")
    out, *others = [_dim(arg, budget, depth + 1) for arg in args]
    for other in others:
        out = _BUILD[kind](out, other)
    return out
