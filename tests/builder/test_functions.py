"""`irc.ops`: graphs built in Python against NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir import ops as vocabulary

X = np.random.default_rng(2).standard_normal((2, 3, 4)).astype(np.float32)


def run(y: ops.Tensor, x: np.ndarray = X) -> np.ndarray:
    return irc.compile_model(ops.model({"y": y}))(x=x)["y"]


def test_arithmetic_takes_numbers_and_arrays() -> None:
    x = ops.parameter("x", X.shape)
    row = np.arange(4, dtype=np.float32)
    y = 2 - (x * row + 1) / 4
    assert (y.shape, y.dtype) == ((2, 3, 4), "f32")
    np.testing.assert_allclose(run(row - -y), row + 2 - (X * row + 1) / 4, rtol=1e-6)


def test_common_functions() -> None:
    x = ops.parameter("x", X.shape)
    pairs = [
        (ops.exp(x), np.exp(X)),
        (ops.maximum(x, 0.5), np.maximum(X, np.float32(0.5))),
        (ops.clip(x, -1, 0.5), np.clip(X, -1, 0.5)),
        (ops.where(ops.greater(x, 0), x, -1), np.where(X > 0, X, -1)),
        (ops.reduce_sum(x, -1), X.sum(-1)),
        (ops.reduce_mean(x, [0, 2], True), X.mean((0, 2), keepdims=True)),
        (ops.transpose(x, [2, 0, 1]), X.transpose(2, 0, 1)),
        (ops.transpose(x), X.T),
        (ops.reshape(x, [4, -1]), X.reshape(4, -1)),
        (ops.squeeze(ops.unsqueeze(x, [0, -1]), 0), X[..., None]),
        (ops.concat([x, np.zeros((2, 1, 4), np.float32)], 1), np.pad(X, ((0, 0), (0, 1), (0, 0)))),
        (ops.split(x, 2, 2)[1], X[..., 2:]),
        (ops.gather(x, [2, 0], 1), X[:, [2, 0]]),
        (ops.broadcast_to(ops.reduce_max(x, 0), [5, 3, 4]), np.broadcast_to(X.max(0), (5, 3, 4))),
        (ops.convert(x, "i32"), X.astype(np.int32)),
        (ops.shape_of(x), np.array([2, 3, 4])),
        (ops.softmax(x), np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
        (ops.rms_norm(x), X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5)),
        (x @ np.ones((4, 2), np.float32), X @ np.ones((4, 2), np.float32)),
        (ops.activation(x, "scaled_tanh", 2), 2 * np.tanh(0.5 * X)),
    ]
    net = irc.compile_model(ops.model([y for y, _ in pairs]))
    for got, (_, want) in zip(net(X), pairs, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_symbolic_sizes() -> None:
    x = ops.parameter("x", ["N", None, 4])
    y = ops.reshape(x, [-1, 2])
    assert x.shape is not None and x.shape[0] == "N" and isinstance(x.shape[1], str)
    np.testing.assert_array_equal(run(y), X.reshape(-1, 2))


def test_any_operation_of_the_vocabulary() -> None:
    x = ops.parameter("x", X.shape)
    values, places = ops.apply(vocabulary.TopK(-1, "max", "value"), x, np.int64(1))
    net = irc.compile_model(ops.model({"v": values, "i": places}))
    found = net(X)
    np.testing.assert_array_equal(found["v"][..., 0], X.max(-1))
    np.testing.assert_array_equal(found["i"][..., 0], X.argmax(-1))


def test_the_order_of_inputs() -> None:
    a, b = ops.parameter("a", [2]), ops.parameter("b", [2])
    assert [p.name for p in ops.model(b - a).inputs] == ["a", "b"]
    model = ops.model(b - a, inputs=[b, a])
    assert [p.name for p in model.inputs] == ["b", "a"]
    unused = ops.parameter("c", [1])
    assert [p.name for p in ops.model(a, inputs=[unused, a]).inputs] == ["c", "a"]
    with pytest.raises(irc.UsageError, match="inputs"):
        ops.model(b - a, inputs=[a])
    with pytest.raises(irc.UsageError, match="one name"):
        ops.model(a - ops.parameter("a", [2]))


def test_one_value_used_twice_is_one_node() -> None:
    x = ops.parameter("x", [2])
    y = ops.exp(x)
    graph = ops.model([y + y, y]).graph
    assert sorted(graph.op(n).kind for n in graph.ids()) == [
        "Add", "Exp", "Parameter", "Result", "Result",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_long_chain() -> None:
    y = ops.parameter("x", [1])
    for _ in range(3000):
        y = y + 1
    assert len(ops.model(y).graph) > 3000


def test_errors_come_at_once() -> None:
    x = ops.parameter("x", [2, 3])
    with pytest.raises(irc.ShapeError):
        ops.add(x, np.zeros((4,), np.float32))
    with pytest.raises(irc.InputError, match="element type"):
        ops.parameter("y", [1], "float")


@pytest.mark.slow
def test_it_is_loaded_when_asked_for() -> None:
    code = (
        "import sys, irc_compiler as irc; "
        "assert 'irc_compiler.builder' not in sys.modules; irc.ops.gemm"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SURROGATE = "a\ud800"


@pytest.mark.parametrize(
    "build",
    [
        lambda: ops.parameter(SURROGATE, [1]),
        lambda: ops.parameter("x", [SURROGATE]),
        lambda: ops.constant(1.0, name=SURROGATE),
        lambda: ops.model({SURROGATE: ops.parameter("x", [1])}),
        lambda: ops.model({"y": ops.parameter("x", [1])}, name=SURROGATE),
    ],
    ids=["parameter", "size", "constant", "output", "model"],
)
def test_names_that_no_file_can_hold_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(irc.UsageError, match="lone surrogates"):
        build()
