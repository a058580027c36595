"""Models with control flow, as ONNX text, and inputs for them. Numbers are small integers, so that
every implementation gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import parser

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

TEXTS = {
    # A fixed number of iterations, a state updated with weights from outside, every state kept.
    "rnn_loop": """
    net (float[N, 4] x, float[N, 4] h) => (float[N, 4] last, float[T, N, 4] all)
    <float[4, 4] w = {1, 0, 0, 1, 0, 1, 0, 0, 1, 0, -1, 0, 0, 0, 1, 1}, int64 count = {5}> {
        yes = Constant <value = bool {1}> ()
        last, all = Loop (count, yes, h) <body = step (int64 i, bool go, float[N, 4] s)
            => (bool more, float[N, 4] next, float[N, 4] kept) {
            p = MatMul (s, w)
            q = Add (p, x)
            next = Relu (q)
            kept = Identity (next)
            more = Identity (go)
        }>
    }""",
    # Iterates while the sum is small; the trip count is an input; the index takes part.
    "while_sum": """
    net (int64 count, float limit, float[4] start) => (float[4] total, int64 steps) {
        yes = Constant <value = bool {1}> ()
        zero = Constant <value_int = 0> ()
        total, steps = Loop (count, yes, start, zero) <body = step (int64 i, bool go, float[4] s,
            int64 n) => (bool more, float[4] t, int64 m) {
            f = Cast <to = 1> (i)
            t = Add (s, f)
            one = Constant <value_int = 1> ()
            m = Add (n, one)
            largest = ReduceMax <keepdims = 0> (t)
            more = Less (largest, limit)
        }>
    }""",
    # Two states that swap places: neither may be written before both were read.
    "fibonacci": """
    net (int64 count, int64[3] a, int64[3] b) => (int64[3] c, int64[3] d) {
        yes = Constant <value = bool {1}> ()
        c, d = Loop (count, yes, a, b) <body = step (int64 i, bool go, int64[3] s, int64[3] t)
            => (bool more, int64[3] u, int64[3] v) {
            more = Identity (go)
            u = Identity (t)
            v = Add (s, t)
        }>
    }""",
    # Scans forwards and backwards along different axes, outputs along different axes.
    "scan": """
    net (float[2] s, float[T, 2] x, float[2, T] y)
        => (float[2] last, float[T, 2] a, float[2, T] b) {
        last, a, b = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
            scan_input_directions = [0, 1], scan_output_axes = [0, 1],
            scan_output_directions = [1, 0], body = step (float[2] u, float[2] v, float[2] w)
            => (float[2] next, float[2] p, float[2] q) {
            d = Sub (v, w)
            next = Add (u, d)
            p = Add (next, v)
            q = Sub (next, w)
        }> (s, x, y)
    }""",
    # An If in a loop: one branch reads a state, the other a value from outside.
    "choose": """
    net (int64 count, float[N, 3] x) => (float[N, 3] y) {
        yes = Constant <value = bool {1}> ()
        two = Constant <value_int = 2> ()
        zero = Constant <value_int = 0> ()
        y = Loop (count, yes, x) <body = step (int64 i, bool go, float[N, 3] s)
            => (bool more, float[N, 3] t) {
            more = Identity (go)
            odd = Mod (i, two)
            even = Equal (odd, zero)
            t = If (even) <then_branch = a () => (float[N, 3] r) { r = Add (s, x) },
                else_branch = b () => (float[N, 3] q) { q = Neg (s) }>
        }>
    }""",
    # A loop in a loop; the inner one counts to the outer one's index.
    "nested": """
    net (int64 count, int64[2] x) => (int64[2] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (count, yes, x) <body = outer (int64 i, bool go, int64[2] s)
            => (bool more, int64[2] t) {
            more = Identity (go)
            t = Loop (i, go, s) <body = inner (int64 j, bool on, int64[2] u)
                => (bool again, int64[2] v) {
                again = Identity (on)
                k = Add (i, j)
                v = Add (u, k)
            }>
        }>
    }""",
    # A branch by data, both of one shape, then something behind it.
    "branch": """
    net (bool c, float[N, 3] x) => (float[N, 3] y) {
        z = If (c) <then_branch = a () => (float[N, 3] r) { p = Relu (x) r = Add (p, x) },
            else_branch = b () => (float[N, 3] q) { q = Neg (x) }>
        two = Constant <value_float = 2.0> ()
        y = Mul (z, two)
    }""",
    # The carried value grows: every iteration has another shape.
    "growing": """
    net (int64 count, float[2, N] x) => (float[2, M] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (count, yes, x) <body = step (int64 i, bool go, float[2, K] s)
            => (bool more, float[2, L] t) {
            more = Identity (go)
            f = Cast <to = 1> (i)
            shape = Constant <value_ints = [2, 1]> ()
            e = Expand (f, shape)
            t = Concat <axis = 1> (s, e)
        }>
    }""",
    # Stops by its condition and keeps what it made until then.
    "collect": """
    net (int64 count, float limit, float[2] x) => (float[2] last, float[M, 2] all) {
        yes = Constant <value = bool {1}> ()
        last, all = Loop (count, yes, x) <body = step (int64 i, bool go, float[2] s)
            => (bool more, float[2] t, float[2] kept) {
            t = Add (s, s)
            kept = Identity (t)
            largest = ReduceMax <keepdims = 0> (t)
            more = Less (largest, limit)
        }>
    }""",
}


def control_flow(name: str) -> onnx.ModelProto:
    """A model of TEXTS, checked."""
    made = parser.parse_model(_HEAD + TEXTS[name])
    onnx.checker.check_model(made)
    return made


def _ints(*shape: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def _count(n: int) -> np.ndarray[Any, Any]:
    return np.array(n, np.int64)


# Several sets of inputs per model: other sizes, other ways through it, no iteration at all.
INPUTS: dict[str, list[Callable[[], dict[str, Any]]]] = {
    "rnn_loop": [
        lambda: {"x": _ints(2, 4), "h": _ints(2, 4, seed=4)},
        lambda: {"x": _ints(5, 4), "h": _ints(5, 4, seed=4)},
    ],
    "while_sum": [
        lambda n=n, limit=limit: {
            "count": _count(n),
            "limit": np.array(limit, np.float32),
            "start": _ints(4),
        }
        for n, limit in ((10, 9.0), (3, 100.0), (0, 5.0), (1, -99.0))
    ],
    "fibonacci": [
        lambda n=n: {"count": _count(n), "a": np.arange(3), "b": np.ones(3, np.int64)}
        for n in (0, 1, 2, 7)
    ],
    "scan": [
        lambda t=t: {"s": _ints(2), "x": _ints(t, 2, seed=5), "y": _ints(2, t, seed=6)}
        for t in (1, 4, 9)
    ],
    "choose": [lambda n=n: {"count": _count(n), "x": _ints(n + 1, 3)} for n in (0, 1, 4)],
    "nested": [lambda n=n: {"count": _count(n), "x": np.arange(2)} for n in (0, 1, 5)],
    "branch": [lambda c=c: {"c": np.array(c), "x": _ints(4, 3)} for c in (True, False)],
    "growing": [lambda n=n: {"count": _count(n), "x": _ints(2, n)} for n in (1, 2, 6)],
    "collect": [
        lambda n=n, s=s: {
            "count": _count(n),
            "limit": np.array(30, np.float32),
            "x": _ints(2) + np.float32(s),
        }
        for n, s in ((9, 5), (2, 5), (6, -9))
    ],
}
