"""Products of 8-bit integers and Dequantize against plain sums, and as standard operations."""

from __future__ import annotations

import itertools
from typing import Any

import irc_compiler.ir.ops as o
import ml_dtypes
import numpy as np
import pytest
from irc_compiler.compiler.export.decompose import decompose
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array, Op
from irc_compiler.ir.verify import verify


def run(op: Op, *arrays: Array | None) -> Array:
    """The op in a graph, inferred; its standard form has to give the same bits."""
    graph = Graph("g")
    inputs: list[Value | None] = []
    for i, array in enumerate(arrays):
        if array is None:
            inputs.append(None)
            continue
        parameter = o.Parameter(DType.from_numpy(array.dtype), array.shape)
        inputs.append(Value(graph.add(parameter, name=f"x{i}")))
    node = graph.add(op, inputs, name="n")
    graph.add(o.Result(), [Value(node)], name="y")
    infer_graph(graph)
    standard = decompose(graph)
    verify(standard)
    assert all(standard.op(n).version for n in standard.ids())
    given = [a for a in arrays if a is not None]
    (found,), (plain,) = interpret(graph, given), interpret(standard, given)
    assert (found.shape, found.dtype) == (plain.shape, plain.dtype)
    np.testing.assert_array_equal(found, plain)
    type_ = graph.type(Value(node))
    assert (type_.shape, type_.dtype) == (found.shape, DType.from_numpy(found.dtype))
    return found


def integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize(("a", "b"), list(itertools.product([np.uint8, np.int8], repeat=2)))
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("zeros", ["none", "one", "each"])
def test_integer_product(a: Any, b: Any, transposes: tuple[bool, bool], zeros: str) -> None:
    ta, tb = transposes
    left = integers((2, 7, 5) if ta else (2, 5, 7), a)
    right = integers((4, 7) if tb else (7, 4), b, 1)
    a_zero = b_zero = None
    if zeros == "one":
        a_zero, b_zero = integers((), a, 2), integers((1,), b, 3)
    elif zeros == "each":
        a_zero = integers((2, 1, 5) if ta else (5, 1), a, 2)
        b_zero = integers((4, 1) if tb else (4,), b, 3)
    found = run(o.MatMulInteger(ta, tb), left, right, a_zero, b_zero)
    x = left.astype(np.int64) - (0 if a_zero is None else a_zero.astype(np.int64))
    y = right.astype(np.int64) - (0 if b_zero is None else b_zero.astype(np.int64))
    x, y = x.swapaxes(-1, -2) if ta else x, y.swapaxes(-1, -2) if tb else y
    np.testing.assert_array_equal(found, (x @ y).astype(np.int32))


def test_integer_product_wraps() -> None:
    depth = 34_000
    a, b = np.full((1, depth), 255, np.uint8), np.full((depth, 1), 255, np.uint8)
    found = run(o.MatMulInteger(), a, b)
    assert int(found[0, 0]) == 255 * 255 * depth - 2**32
    assert (run(o.MatMulInteger(), a[:, :0], b[:0]) == 0).all()


@pytest.mark.parametrize("zeros", ["none", "one", "each"])
@pytest.mark.parametrize("grouped", [False, True])
def test_integer_convolution(zeros: str, grouped: bool) -> None:
    x = integers((2, 4, 6, 5), np.uint8)
    w = integers((2, 3, 2, 3, 3) if grouped else (3, 4, 3, 3), np.int8, 1)
    x_zero = None if zeros == "none" else np.array(77, np.uint8)
    lead = w.shape[: 2 if grouped else 1]
    shape = {"none": None, "one": (), "each": (*lead, *(1,) * (w.ndim - len(lead)))}[zeros]
    w_zero = None if shape is None else integers(shape, np.int8, 2)
    cls = o.GroupConvInteger if grouped else o.ConvInteger
    found = run(cls((2, 1), (1, 2), (1, 0), (1, 2)), x, w, x_zero, w_zero)
    wide = x.astype(np.int64) - (0 if x_zero is None else 77)
    filters = w.astype(np.int64) - (0 if w_zero is None else w_zero.astype(np.int64))
    padded = np.pad(wide, [(0, 0), (0, 0), (1, 1), (2, 0)])
    groups = filters if grouped else filters[None]
    expected = np.zeros(found.shape, np.int64)
    for g, out, i, j, p, q in np.ndindex(*groups.shape[:2], *groups.shape[3:], *found.shape[2:]):
        inner = padded[:, g * groups.shape[2] : (g + 1) * groups.shape[2]]
        patch = inner[:, :, 2 * p + i, q + 2 * j]
        expected[:, g * groups.shape[1] + out, p, q] += patch @ groups[g, out, :, i, j]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("source", ["u8", "i8", "u4", "i4", "i32"])
def test_dequantize_rounds_once(source: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    low, high = (0, 16) if source == "u4" else (-8, 8)
    x = rng.integers(low, high, (3, 10)).astype(DType(source).numpy)
    zero = rng.integers(low, high, (3, 1)).astype(x.dtype)
    scale = rng.uniform(0.5, 2, 10).astype(dtype)
    wide = np.float64 if dtype == np.float64 else np.float32
    steps = x.astype(np.int32) - zero.astype(np.int32)
    expected = (steps.astype(wide) * scale.astype(wide)).astype(dtype)
    np.testing.assert_array_equal(run(o.Dequantize(), x, scale, zero), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("group", [1, 3, 4, 16])
def test_dequantize_in_groups(axis: int, group: int) -> None:
    x = integers((6, 10), np.int8)
    size = -(-x.shape[axis] // group)
    shape = [1, 10] if axis == 0 else [6, 1]
    shape[axis] = size
    scale = np.random.default_rng(1).uniform(1, 2, shape).astype(np.float32)
    zero = integers(tuple(1 if i != axis % 2 else size for i in range(2)), np.int8, 2)
    found = run(o.Dequantize(axis, group), x, scale, zero)
    for i, j in np.ndindex(*x.shape):
        at = [i, j]
        at[axis] //= group
        i2, j2 = (min(p, n - 1) for p, n in zip(at, shape, strict=True))
        k, m = (min(p, n - 1) for p, n in zip(at, zero.shape, strict=True))
        step = np.float32(int(x[i, j]) - int(zero[k, m]))
        assert found[i, j] == step * scale[i2, j2]


@pytest.mark.parametrize(("axis", "group"), [(1, 4), (0, 3), (-1, 0)])
def test_affine_dequantize(axis: int, group: int) -> None:
    """x * scale + offset, and its standard operations."""
    x = integers((6, 8), np.int8)
    shape = {(1, 4): (6, 2), (0, 3): (2, 8), (-1, 0): (8,)}[axis, group]
    rng = np.random.default_rng(1)
    scale, offset = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    found = run(o.AffineDequantize(axis, group), x, scale, offset)
    wide = [np.repeat(v, group, axis) if group else v for v in (scale, offset)]
    np.testing.assert_array_equal(found, x.astype(np.float32) * wide[0] + wide[1])


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (o.MatMulInteger(), [(5, 7), (7, 4), (7,)]),
        (o.MatMulInteger(), [(5, 7), (7, 4), None, (7, 1)]),
        (o.MatMulInteger(), [(5, 7), (6, 4)]),
        (o.MatMulInteger(), [(7,), (7, 4)]),
        (o.ConvInteger(), [(1, 2, 5, 5), (3, 2, 3, 3), (1, 2, 1, 1)]),
        (o.ConvInteger(), [(1, 2, 5, 5), (3, 2, 3, 3), None, (3, 2, 1, 1)]),
        (o.Dequantize(), [(3, 4), (5,)]),
        (o.Dequantize(1, 4), [(3, 9), (3, 2)]),
        (o.AffineDequantize(1, 4), [(3, 8), (3, 2), (3, 3)]),
        (o.AffineDequantize(1, 4), [(3, 8), (3, 3), (3, 2)]),
    ],
)
def test_what_does_not_fit_is_refused(op: Op, shapes: list[tuple[int, ...] | None]) -> None:
    scaled = {o.Dequantize: (1,), o.AffineDequantize: (1, 2)}.get(type(op), ())
    arrays = [
        None if s is None else np.ones(s, np.float32 if i in scaled else np.uint8)
        for i, s in enumerate(shapes)
    ]
    with pytest.raises(ShapeError):
        run(op, *arrays)


def test_types_that_no_integer_product_takes() -> None:
    with pytest.raises(ShapeError, match="element type"):
        run(o.MatMulInteger(), np.ones((2, 2), np.int16), np.ones((2, 2), np.int8))
    with pytest.raises(ShapeError, match="element type"):
        one = np.ones((2, 2), np.uint8)
        run(o.MatMulInteger(), one, one, np.ones((), np.int8))


@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("zeroed", [False, True])
def test_quantize_rounds_to_even_then_shifts_then_saturates(dtype: str, zeroed: bool) -> None:
    values = [2.5, 3.5, -2.5, -0.5, 0, 1e9, -1e9, np.inf, -np.inf, np.nan, 126.5, -129]
    x = np.array(values, np.float32)
    info = np.iinfo(DType(dtype).numpy)
    zero = np.array(1, info.dtype) if zeroed else None
    for factor in (None, np.full(1, 2, np.float32)):
        given = x if factor is None else x * factor
        found = run(o.Quantize(DType(dtype)), given, factor, zero)
        steps = np.where(np.isnan(x), 0, np.rint(x)) + (1 if zeroed else 0)
        np.testing.assert_array_equal(found, np.clip(steps, info.min, info.max))
