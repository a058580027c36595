"""Sizes: the normal form, what it may and may not simplify, and what comparisons may claim."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest
from irc_compiler.ir import dims as d
from irc_compiler.ir.errors import ShapeError, VerificationError

N = d.symbol("N")
T = d.symbol("T")
K = d.symbol("K", 1)
W = d.symbol("W", 1, 7)
M = d.symbol("M", -3, 5)
BOUNDS = {"N": (0, None), "T": (0, None), "K": (1, None), "W": (1, 7)}


def test_constant_results_are_plain_ints():
    for value in (N - N, (N + 3) - N, N * 0, (2 * K) // K, W // 8):
        assert type(value) is int
    assert (N + 3) - N == 3
    assert d.is_static(K // K) and not d.is_static(N)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2 * N * T + 3, "2*N*T + 3"),
        (3 - N, "-N + 3"),
        (N * N * N - 1, "N**3 - 1"),
        (d.ceil_div(N, 8), "(N + 7)//8"),
        (-N // 8, "-((N + 7)//8)"),
        (3 * (N // 8), "3*(N//8)"),
        (N // 8 + N, "N + N//8"),
        (N - N // 8, "N - (N//8)"),
        (N % 8, "N - 8*(N//8)"),
        (d.maximum(N, 1), "max(N, 1)"),
        (d.minimum(1, N), "min(N, 1)"),
        (d.broadcast(T, N), "broadcast(N, T)"),
        (N // (T + 1), "N//(T + 1)"),
        (N // (8 * T), "N//(8*T)"),
        (K // (T // 2), "K//(T//2)"),
        (d.symbol("a b") + 1, "`a b` + 1"),
        (d.symbol("max") + 1, "`max` + 1"),
    ],
)
def test_prints_its_normal_form(value: d.Expr, text: str):
    assert str(value) == text
    assert d.parse(text, BOUNDS) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((N * 4) // 4, N),
        ((2 * N * K) // K, 2 * N),
        ((N * K + K) // (3 * K), (N + 1) // 3),
        ((N * T + N) // (T + 1), N),
        ((8 * N + 4) // 4, 2 * N + 1),
        ((8 * N + 5) // 4, 2 * N + 1),
        ((2 * N + 4) // 4, N // 2 + 1),
        ((2 * N + 3) // 4, (N + 1) // 2),
        ((N // 4) // 2, N // 8),
        (((N + 1) // 2 + 1) // 2, (N + 3) // 4),
        (N // -8, -((N + 7) // 8)),
        (N // -T, -N // T),
        ((N - 1) // 8, (N + 7) // 8 - 1),
        ((N * K) % K, 0),
        (W // 8, 0),
        (W % 8, W),
        (K // (K + 1), 0),
        (0 // K, 0),
        (d.maximum(N, 0), N),
        (d.maximum(N, N + 1), N + 1),
        (d.maximum(N // 2, N), N),
        (d.maximum(d.maximum(N, 3), d.maximum(T, 5)), d.maximum(d.maximum(T, N), 5)),
        (d.minimum(W, 7), W),
        (d.minimum(W, 0), 0),
        (d.broadcast(N, 1), N),
        (d.broadcast(N, N), N),
        (d.broadcast(N, 4), 4),
        (d.broadcast(0, N), 0),
        (d.broadcast(N + 2, T), N + 2),
        (d.broadcast(2 * N, T), 2 * N),
        (d.broadcast(d.broadcast(N, T), N), d.broadcast(T, N)),
        (d.broadcast(d.broadcast(N, T), 3), 3),
    ],
)
def test_simplifies(value: d.Dim, expected: d.Dim):
    assert value == expected
    assert isinstance(value, int) == isinstance(expected, int)


def test_a_divisor_that_may_be_zero_never_cancels():
    for value in ((N * T) // T, T // T, 0 // T, (2 * N * T) // (2 * T)):
        assert not isinstance(value, int) and "//" in str(value)
        with pytest.raises(ShapeError, match="divides by zero"):
            d.evaluate(value, {"N": 3, "T": 0})
    assert d.evaluate((N * T) // T, {"N": 3, "T": 2}) == 3


def test_exact_quotient_holds_even_for_zero():
    assert d.exact_quotient(32 * N * T, 8 * N) == 4 * T
    assert d.exact_quotient(N * N - 1, N + 1) == N - 1
    assert d.exact_quotient(N * (T // 2), N) == T // 2
    assert d.exact_quotient(12, 4) == 3
    assert d.exact_quotient(0, N) == 0
    for a, b in ((N, T), (N, 2), (7, 2), (N, 0), (N + 1, N)):
        assert d.exact_quotient(a, b) is None


def test_comparisons_are_three_valued():
    assert d.eq(N, N) is True and d.eq(N, T) is None and d.eq(N, N + 1) is False
    assert d.eq(2 * N, 3) is False  # by parity
    assert d.eq(K, 0) is False and d.eq(W, 8) is False and d.eq(N, -1) is False
    assert d.eq(3, 3) is True and d.eq(3, 4) is False
    assert d.lt(N, N + 1) is True and d.lt(N, N) is False and d.lt(N, T) is None
    assert d.le(N, N * K) is True and d.le(N, N * T) is None
    assert d.lt(W, 8) is True and d.le(8, W) is False
    assert d.le(8 * (N // 8), N) is True and d.lt(N % 8, 8) is True and d.le(0, N % 8) is True
    assert d.le(N, d.maximum(N, T)) is True and d.le(d.minimum(N, T), T) is True
    assert d.lt(d.maximum(N, T), d.maximum(N, T) + 1) is True
    assert d.le(N, 8 * d.ceil_div(N, 8)) is True
    assert d.le(T * 8 * (N // 8), N * T) is True
    assert d.le(K - 1, K * K - 1) is True  # only visible with K = 1 + k
    assert d.le(d.maximum(N // 2, T) * 2, d.maximum(N, 2 * T)) is True
    assert d.le(0, d.broadcast(N, T)) is True
    assert d.le(d.broadcast(N, T), T) is None and d.le(N, d.broadcast(N, T)) is None
    half = N // 2
    assert d.le(half * half, N) is None  # no relation of a quotient holds for its square
    assert d.le(M * N, 8 * M * (N // 8)) is None  # nor times what may be negative


def test_bounds():
    assert d.bounds(5) == (5, 5)
    assert d.bounds(N) == (0, None) and d.bounds(-N) == (None, 0)
    assert d.bounds(W * W - 1) == (0, 48)
    assert d.bounds((N + 8) // 8) == (1, None)
    assert d.bounds(W - W // 2)[0] == 1
    assert d.bounds((-N - 1) // K) == (None, -1)
    assert d.bounds(W // M) == (-7, 7)
    assert d.bounds((W - 1) * (W - 7)) == (-36, 36)
    assert d.bounds(N - T) == (None, None)
    assert d.bounds(N // T) == (0, None)
    assert d.bounds(d.minimum(N, W)) == (0, 7)
    huge = d.symbol("huge", 0, 2**62) ** 20  # its bound is not a float
    assert d.bounds(huge * N) == (0, None) and d.bounds(-huge) == (-(2**1240), 0)


def test_truth_and_order_are_refused():
    for ask in (bool, lambda x: x < 3, lambda x: 3 < x, lambda x: x <= T, lambda x: x >= 1):
        with pytest.raises(TypeError, match="lt\\(\\), le\\(\\)"):
            ask(N)
    for bad in (1.5, "N", None):
        with pytest.raises(TypeError):
            N + bad  # type: ignore[operator]
    assert N != 3 and N != "N"


def test_is_a_value():
    other = d.symbol("N") * 2 + 1
    assert other == 2 * N + 1 and hash(other) == hash(1 + N + N)
    assert d.symbol("N", 1) != N
    assert pickle.loads(pickle.dumps(other)) == other == copy.deepcopy(other)
    with pytest.raises(AttributeError):
        other.terms = ()
    inner = d.maximum(N, T // 2) * K
    assert isinstance(inner, d.Expr)
    assert {s.name for s in inner.symbols()} == {"N", "T", "K"}
    assert d.Symbol("T") in inner.symbols()


def test_evaluate_names_what_is_wrong():
    assert d.evaluate(7, {}) == 7
    assert d.evaluate(N * T - 1, {"N": np.int64(3), "T": 2}) == 5
    with pytest.raises(ShapeError, match="size T has no value"):
        d.evaluate(N + T, {"N": 1})
    with pytest.raises(ShapeError, match="W is out of bounds"):
        d.evaluate(W + 1, {"W": 8})
    with pytest.raises(ShapeError, match="K is out of bounds"):
        d.evaluate(K + 1, {"K": 0})
    with pytest.raises(ShapeError, match="do not broadcast"):
        d.evaluate(d.broadcast(N, T), {"N": 2, "T": 3})
    with pytest.raises(ShapeError, match="divides by zero"):
        _ = N // 0
    with pytest.raises(ShapeError):
        d.broadcast(3, 4)
    with pytest.raises(ShapeError):
        d.broadcast(d.symbol("V", 2, 7), 8)
    assert d.broadcast(W, 8) == 8  # W may be 1


def test_substitute():
    value = (2 * N * T) // 3 + d.maximum(N, T)
    assert d.substitute(value, {"N": 3}) == 2 * T + d.maximum(3, T)
    assert d.substitute(value, {"N": T, "T": N}) == value  # at once, not one after the other
    assert d.substitute(value, {"N": 3, "T": 4}) == 12
    assert d.substitute(d.broadcast(N, T), {"N": 1}) == T
    assert d.substitute(value, {"Z": 3}) is value
    for bad in (0, 8, W + 7):
        with pytest.raises(ShapeError, match="out of bounds"):
            d.substitute(W, {"W": bad})
    with pytest.raises(ShapeError):
        d.substitute(d.broadcast(N, T), {"N": 3, "T": 4})
    with pytest.raises(ShapeError):
        d.substitute(N // T, {"T": 0})


def test_compile_dims_computes_a_table():
    shared = d.ceil_div(N, 8)
    table = [shared * T, 4, shared, N, shared * T, d.broadcast(N, K), 4]
    run = d.compile_dims(table)
    assert run({"N": 20, "T": 2, "K": 1}) == [6, 4, 3, 20, 6, 20, 4]
    assert run({"N": 8, "T": 5, "K": 8}) == [5, 4, 1, 8, 5, 8, 4]
    with pytest.raises(ShapeError, match="size K"):
        run({"N": 8, "T": 5})
    assert d.compile_dims([])({}) == []


def _symbols(count: int) -> list[d.Expr]:
    return [d.symbol(f"s{i}") for i in range(count)]


def test_deep_expressions_are_refused_not_overflowed():
    value: d.Dim = N
    with pytest.raises(ShapeError, match="too large"):
        for i in range(2000):
            value = d.maximum(value, T) * 3 // 2 + (i + 1) * T
    scaled: d.Dim = N
    with pytest.raises(ShapeError, match="levels"):
        for _ in range(70):
            scaled = scaled * 3 // 2
    with pytest.raises(ShapeError, match="degree"):
        d.product([N + 1] * 200)
    with pytest.raises(ShapeError, match="too large"):
        functools.reduce(d.maximum, _symbols(100))
    with pytest.raises(ShapeError, match="coefficient"):
        _ = N * 2**300
    wide = sum(_symbols(60), start=0)
    with pytest.raises(ShapeError, match="terms|too large"):
        _ = wide * wide * wide


def test_anchors_of_images_of_any_size_are_not_too_large():
    """RetinaNet's: five levels of nine each, cut and padded to a count that is a quotient."""
    levels = (d.ceil_div(N, size) * d.ceil_div(T, size) for size in (8, 16, 32, 64, 128))
    cells = sum(levels, start=0)
    kept = d.minimum(d.floordiv(9 * cells, cells) * cells, 9 * cells)
    vectors = 91 * d.maximum(kept, 9 * cells - kept) // 16
    assert isinstance(vectors, d.Expr) and len(vectors.text) > 8000
    assert (
        d.evaluate(vectors, {"N": 320, "T": 300}) == 91 * 9 * (40 * 38 + 380 + 100 + 25 + 9) // 16
    )


def test_lives_in_numpy_object_arrays():
    a = np.array([N, 3, T], dtype=object)
    assert list(np.take(a, [2, 0])) == [T, N]
    assert list(np.concatenate([a[:1], a[1:]])) == [N, 3, T]
    assert list(a * 2) == [2 * N, 6, 2 * T] and list(2 * a) == list(a + a)
    assert list(a // 2) == [N // 2, 1, T // 2] and list(a - a) == [0, 0, 0]
    assert list(a % 2) == [N % 2, 1, T % 2]
    assert np.prod(a) == 3 * N * T and np.sum(a) == N + T + 3
    assert np.prod(np.array([], dtype=object)) == 1
    assert np.int64(3) * N == 3 * N == N * np.int64(3)
    assert type(d.product([np.int64(2)]) * 1) is not d.Expr
    assert N + True == N + 1


@pytest.mark.parametrize(
    "text",
    ["", "N +", "2 N", "max(N)", "max(N", "(N", "N)", "N//", "N & T", "N**T", "N**99", "9" * 30,
     "`N", "floordiv(N)", "foo(N)", "(" * 500 + "N" + ")" * 500, "N" * 50_000, "N.. ,",
     "((((2**64)**64)**64)**64)**64", "(((7**22)**22)**22)", "9999999*99999999*99999999"],
)  # fmt: skip
def test_parse_refuses(text: str):
    with pytest.raises(ShapeError):
        d.parse(text)


def test_parse_reads_more_than_it_prints():
    assert d.parse(" ( N+ 7 )//8 ") == d.ceil_div(N, 8)
    assert d.parse("N % 8") == N % 8 and d.parse("--N") == N and d.parse("2*-N") == -2 * N
    assert d.parse(" + ".join(["(N)"] * 200)) == 200 * N
    assert d.parse("-N//8") == -N // 8 and d.parse("-3") == -3
    assert d.parse("max(N, T, 5)") == d.maximum(d.maximum(N, T), 5)
    assert d.parse("W", BOUNDS) == W and d.parse("W") != W


def _deep(levels: int) -> object:
    out: object = 3
    for _ in range(levels):
        out = ["+", [1, [["max", out, 1], 1]]]
    return out


SYM = ["sym", "N", 0]


@pytest.mark.parametrize(
    "x",
    [None, "N", 1.0, True, {}, [], ["+", 3], ["-"], ["+", [1, SYM]], ["+", [1, [SYM]]],
     ["+", [1, [SYM, 0]]], ["+", [1, [SYM, -1]]], ["+", [1, [SYM, 65]]], ["+", [1.5, [SYM, 1]]],
     ["+", [1, [["sym", "N"], 1]]], ["+", [1, [["sym", 3, 0], 1]]], ["+", [1, [["sym", "", 0], 1]]],
     ["+", [1, [["sym", "N", 2, 1], 1]]], ["+", [1, [["sym", "N", 0, 1, 2], 1]]], 2**70,
     ["+", [1, [["foo", 1, 2], 1]]], ["+", [1, [["max", 1], 1]]],
     ["+", [1, [["floordiv", 1, 0], 1]]],
     ["+", [1, [["floordiv", 9, 2, 2], 1]]], ["+", [1, [["broadcast", 3, 4], 1]]], [["+"], 3],
     ["+"] + [[1, [SYM, 60]]] * 30_000, _deep(100_000), ["+", [True]]],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_from_json_refuses(x: object):
    with pytest.raises(VerificationError):
        d.from_json(x)


def test_a_table_cut_to_a_length_broadcasts_to_it() -> None:
    """min(n, 64) besides n is n wherever that is legal; besides another size it stays open."""
    n, m = d.symbol("n"), d.symbol("m")
    cut = d.minimum(n, 64)
    assert d.broadcast(cut, n) == d.broadcast(n, cut) == n
    assert d.broadcast(cut, m) != m and d.broadcast(d.minimum(n, m), n) != n
