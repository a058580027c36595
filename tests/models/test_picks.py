"""Indices in the middle of models: no step outside native code, numbers of onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import run_onnxruntime

Inputs = dict[str, np.ndarray[Any, Any]]


def mask_by_points(g: OnnxGraph, x: str, index: str) -> None:
    """A padding mask picked by (batch, key) for every query, as attention masks are traced."""
    rows = g.op("Unsqueeze", g.op("Abs", index), g.constant([-1], np.int64))
    columns = g.op("Mul", rows, g.constant(0, np.int64))
    points = g.op("Concat", rows, columns, axis=-1)
    g.op("GatherND", x, points, result="y")


def along_an_axis(g: OnnxGraph, x: str, index: str) -> None:
    turned = g.op("Transpose", x, perm=[1, 0])
    picked = g.op("GatherElements", turned, g.op("Transpose", index, perm=[1, 0]), axis=0)
    g.op("Relu", picked, result="y")


def batched(g: OnnxGraph, x: str, index: str) -> None:
    points = g.op("Unsqueeze", index, g.constant([-1], np.int64))
    g.op("GatherND", x, points, batch_dims=1, result="y")


def positions(g: OnnxGraph, x: str, index: str) -> None:
    """Position ids that skip padding."""
    mask = g.op("Cast", g.op("Greater", x, g.constant(0, np.float32)), to=7)
    total = g.op("CumSum", mask, g.constant(1, np.int64))
    g.op("Mul", total, mask, result="y")


def backwards(g: OnnxGraph, x: str, index: str) -> None:
    g.op("CumSum", x, g.constant(0, np.int64), exclusive=1, reverse=1, result="y")


def experts(g: OnnxGraph, x: str, index: str) -> None:
    """A router: the two best of each row, their softmax, and where they stand."""
    best, where = g.ops("TopK", x, g.constant([2], np.int64), results=2, axis=-1)
    shares = g.op("Softmax", best, axis=-1)
    g.op("Add", shares, g.op("Cast", where, to=1), result="y")


def last_word(g: OnnxGraph, x: str, index: str) -> None:
    """The state at the position of the largest id."""
    at = g.op("ArgMax", index, axis=-1, keepdims=1)
    points = g.op("Unsqueeze", at, g.constant([-1], np.int64))
    g.op("GatherND", x, points, batch_dims=1, result="y")


def put_elements(g: OnnxGraph, x: str, index: str) -> None:
    g.op("ScatterElements", g.op("Neg", x), index, g.op("Exp", x), axis=1, result="y")


def put_points(g: OnnxGraph, x: str, index: str) -> None:
    points = g.constant([[1]], np.int64)
    g.op("ScatterND", g.op("Neg", x), points, first_row(g, x), result="y")


def first_row(g: OnnxGraph, x: str) -> str:
    return g.op("Slice", x, *(g.constant([n], np.int64) for n in (0, 1, 0)))


def neighbours(g: OnnxGraph, x: str, index: str) -> None:
    """Messages along a graph's edges, added up where they end."""
    zeros = g.op("Mul", x, g.constant(0, np.float32))
    sums = g.op("ScatterElements", zeros, index, g.op("Exp", x), axis=1, reduction="add")
    g.op(
        "ScatterND", sums, g.constant([[1]], np.int64), first_row(g, x), reduction="max", result="y"
    )


def repeated(g: OnnxGraph, x: str, index: str) -> None:
    wide = g.op("Tile", g.op("Relu", x), g.constant([2, 3], np.int64))
    g.op(
        "Tile",
        g.op("Unsqueeze", wide, g.constant([0], np.int64)),
        g.constant([3, 1, 1], np.int64),
        result="y",
    )


CASES: dict[str, Callable[[OnnxGraph, str, str], None]] = {
    f.__name__: f
    for f in (
        *(mask_by_points, along_an_axis, batched, positions, backwards, experts, last_word),
        *(put_elements, put_points, neighbours, repeated),
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(None, None), (4, 6)], ids=["symbolic", "fixed"])
@pytest.mark.parametrize("case", CASES)
def test_indices_are_native(case: str, sizes: tuple[int | None, int | None]) -> None:
    g = OnnxGraph(opset=18)
    rows, columns = (size or name for size, name in zip(sizes, ("N", "S"), strict=True))
    x, index = g.input("x", (rows, columns)), g.input("index", (rows, columns), np.int64)
    CASES[case](g, x, index)
    g.output("y")
    model = g.model()
    net = irc.compile_model(model.SerializeToString(), num_threads=2)
    assert not net.plan.host_steps()
    rng = np.random.default_rng(5)
    for n, s in ((4, 6),) if sizes[0] else ((4, 6), (2, 2), (5, 70)):
        inputs: Inputs = {
            "x": rng.standard_normal((n, s)).astype(np.float32),
            # Unlike in every row, so that no place is put twice, and in range of both axes.
            "index": np.stack([rng.permutation(s) for _ in range(n)]).astype(np.int64),
        }
        if case == "mask_by_points":
            inputs["index"] %= n
        (want,) = run_onnxruntime(model, inputs).values()
        found = net(inputs)["y"]
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)
