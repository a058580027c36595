"""Values as polynomials in other values: arithmetic seen through, however it is associated."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.graph import Graph, Value
from ...rewrite.patch import has_one_use
from .values import constant_scalar

# A monomial is a sorted tuple of values, each as often as its power says.
Monomial = tuple[Value, ...]
Poly = dict[Monomial, float]

MAX_TERMS = 8
MAX_DEGREE = 4
# Activations are small; this ends the walk in a long chain of arithmetic.
MAX_NODES = 24
_ARITHMETIC = frozenset({"Multiply", "Divide", "Add", "Subtract", "Negative", "Power"})


def expand(graph: Graph, root: Value, gate: Value, *, through: bool = False) -> Poly | None:
    """The polynomial that `root` is. None where it has too many terms.

    Arithmetic that has other readers than its parent, `gate`, and any other operation's value are
    the polynomial's unknowns. `through`: a value scaled by a number is looked through even where it
    has other readers.
    """
    # Post-order without recursion: a model's chains may be longer than Python's stack.
    done: dict[Value, Poly] = {}
    stack = [root]
    steps = 0
    while stack:
        value = stack[-1]
        if value in done:
            stack.pop()
            continue
        steps += 1
        if steps > 4 * MAX_NODES:
            return None
        operands = _operands(graph, value, root, gate, through)
        if operands is None:
            constant = constant_scalar(graph, value)
            done[value] = {(value,): 1.0} if constant is None else _constant(float(constant))
            continue
        waiting = [v for v in operands if v not in done]
        if waiting:
            stack.extend(waiting)
            continue
        found = _TABLE[graph.op(value.node).kind]([done[v] for v in operands])
        if found is not None and len(found) > MAX_TERMS:
            return None
        done[value] = {(value,): 1.0} if found is None else found
    return done[root]


def _operands(
    graph: Graph, value: Value, root: Value, gate: Value, through: bool
) -> list[Value] | None:
    """The operands of arithmetic to be seen through; None for an unknown or a number."""
    kind = graph.op(value.node).kind
    if value == gate or kind not in _ARITHMETIC:
        return None
    operands = [v for v in graph.inputs(value.node) if v is not None]
    if value == root or has_one_use(graph, value):
        return operands
    scales = kind in ("Multiply", "Divide") and constant_scalar(graph, operands[-1]) is not None
    return operands if through and scales else None


def _constant(value: float) -> Poly:
    return {(): value} if value else {}


def _add(a: Poly, b: Poly, sign: float = 1.0) -> Poly:
    out = dict(a)
    for monomial, c in b.items():
        out[monomial] = out.get(monomial, 0.0) + sign * c
    return {m: c for m, c in out.items() if c}


def _multiply(a: Poly, b: Poly) -> Poly | None:
    out: Poly = {}
    for left, c in a.items():
        for right, d in b.items():
            monomial = tuple(sorted((*left, *right)))
            if len(monomial) > MAX_DEGREE:
                return None
            out[monomial] = out.get(monomial, 0.0) + c * d
    return {m: c for m, c in out.items() if c}


def _divide(a: Poly, b: Poly) -> Poly | None:
    divisor = b.get((), 0.0)
    return {m: c / divisor for m, c in a.items()} if set(b) == {()} and divisor else None


def _power(a: Poly, b: Poly) -> Poly | None:
    exponent = b.get((), 0.0) if set(b) == {()} else 0.0
    if exponent not in (1.0, 2.0, 3.0):
        return None
    out: Poly | None = {(): 1.0}
    for _ in range(int(exponent)):
        out = None if out is None else _multiply(out, a)
    return out


# None where the result is not a polynomial of a low degree.
_TABLE: dict[str, Callable[[list[Poly]], Poly | None]] = {
    "Add": lambda p: _add(p[0], p[1]),
    "Subtract": lambda p: _add(p[0], p[1], -1.0),
    "Multiply": lambda p: _multiply(p[0], p[1]),
    "Divide": lambda p: _divide(p[0], p[1]),
    "Power": lambda p: _power(p[0], p[1]),
    "Negative": lambda p: _add({}, p[0], -1.0),
}
