"""Sizes, as properties: whatever the expression, simplification never changes a defined value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.ir import dims as d
from irc_compiler.ir.errors import ShapeError

N = d.symbol("N")
T = d.symbol("T")
K = d.symbol("K", 1)
W = d.symbol("W", 1, 7)
M = d.symbol("M", -3, 5)
BOUNDS = {"N": (0, None), "T": (0, None), "K": (1, None), "W": (1, 7), "M": (-3, 5)}

_SYMBOLS = [N, T, K, W, M]
_LEAVES = st.sampled_from(_SYMBOLS) | st.integers(-4, 9)
_KINDS = ["+", "-", "*", "//", "%", "max", "min", "broadcast", "ceil"]
_TREES = st.recursive(
    _LEAVES, lambda sub: st.tuples(st.sampled_from(_KINDS), sub, sub), max_leaves=9
)
_ENVS = st.fixed_dictionaries(
    {
        "N": st.integers(0, 20) | st.integers(0, 10**6),
        "T": st.integers(0, 6),
        "K": st.integers(1, 9),
        "W": st.integers(1, 7),
        "M": st.integers(-3, 5),
    }
)


def _build(tree: object) -> d.Dim:
    if not isinstance(tree, tuple):
        return tree  # type: ignore[return-value]
    kind, a, b = tree[0], _build(tree[1]), _build(tree[2])
    if kind == "//" and isinstance(a, int) and isinstance(b, int):
        return d.parse(f"({a})//({b})")
    if kind == "%":
        return d.parse(f"({a})%({b})") if isinstance(a, int) and isinstance(b, int) else a % b
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // b,
        "max": lambda: d.maximum(a, b),
        "min": lambda: d.minimum(a, b),
        "broadcast": lambda: d.broadcast(a, b),
        "ceil": lambda: d.ceil_div(a, b),
    }[kind]()


class _Undefined(Exception):
    pass


def _value(tree: object, env: dict[str, int]) -> int:
    """What the tree means, computed with ints only and by nothing of irc."""
    if isinstance(tree, int):
        return tree
    if not isinstance(tree, tuple):
        return env[str(tree)]
    kind, a, b = tree[0], _value(tree[1], env), _value(tree[2], env)
    if kind in ("//", "%", "ceil") and b == 0:
        raise _Undefined
    if kind == "broadcast" and a != b and 1 not in (a, b):
        raise _Undefined
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // b,
        "%": lambda: a % b,
        "max": lambda: max(a, b),
        "min": lambda: min(a, b),
        "broadcast": lambda: b if a == 1 else a,
        "ceil": lambda: -((-a) // b),
    }[kind]()


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_TREES, st.lists(_ENVS, min_size=1, max_size=6))
def test_simplification_keeps_every_defined_value(tree: object, envs: list[dict[str, int]]):
    try:
        built = _build(tree)
    except ShapeError:
        for env in envs:  # refused outright: then no environment may give it a value
            with pytest.raises(_Undefined):
                _value(tree, env)
        return
    run = d.compile_dims([built])
    lo, hi = d.bounds(built)
    for env in envs:
        try:
            expected = _value(tree, env)
        except _Undefined:
            continue
        assert d.evaluate(built, env) == expected == run(env)[0]
        assert (lo is None or lo <= expected) and (hi is None or expected <= hi)
        assert d.substitute(built, env) == expected


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(_TREES, _TREES, st.lists(_ENVS, min_size=1, max_size=6))
def test_comparisons_never_claim_what_is_false(a: object, b: object, envs: list[dict[str, int]]):
    try:
        x, y = _build(a), _build(b)
        claims = d.eq(x, y), d.lt(x, y), d.le(x, y)
    except ShapeError:
        return
    for env in envs:
        try:
            p, q = _value(a, env), _value(b, env)
        except _Undefined:
            continue
        for claim, truth in zip(claims, (p == q, p < q, p <= q), strict=True):
            assert claim in (None, truth)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(_TREES)
def test_text_and_json_round_trip(tree: object):
    try:
        built = _build(tree)
    except ShapeError:
        return
    assert d.parse(str(built), BOUNDS) == built
    assert d.from_json(json.loads(json.dumps(d.to_json(built)))) == built
    try:
        unbound = d.parse(str(built))
    except ShapeError:
        return  # min(M, 0) is 0 for an M that is not told to go below: no divisor
    assert str(unbound) == str(d.parse(str(unbound)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_TREES, _TREES, _ENVS)
def test_substitution_composes_with_evaluation(tree: object, inner: object, env: dict[str, int]):
    try:
        outer, value = _build(tree), _build(inner)
        replaced = d.substitute(outer, {"N": value})
    except ShapeError:
        return
    try:
        n = _value(inner, env)
        expected = _value(tree, env | {"N": n})
    except _Undefined:
        return
    if n >= 0:  # N's own bound
        assert d.evaluate(replaced, env) == expected
