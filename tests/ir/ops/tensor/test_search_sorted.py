"""SearchSorted, SliceScatter and the string tensor operations against OpenVINO."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import openvino.opset15 as o15
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ModelFormatError, ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import SearchSorted, SliceScatter, StringTensorPack
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, k

F = np.float32


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("dtype", [F, np.int64, np.int32])
def test_search_sorted(right: bool, dtype: Any) -> None:
    rows = np.sort(np.random.default_rng(1).integers(0, 9, (2, 3, 7)), axis=-1).astype(dtype)
    values = np.random.default_rng(2).integers(-1, 10, (2, 3, 5)).astype(dtype)
    check(lambda *x: o15.search_sorted(*x, right), [rows, values], native=True)
    check(lambda *x: o15.search_sorted(*x, right), [rows[0, 0], values])


def test_nan_is_behind_all_numbers_in_native_code_too() -> None:
    rows = np.array([[-1, 0, np.nan, np.nan], [0, 1, 1, np.inf]], F)
    values = np.array([[np.nan, 0, 5], [np.nan, 1, np.inf]], F)
    for right in (True, False):
        (expected,) = SearchSorted(right).evaluate(rows, values)
        build = lambda *x, r=right: o15.search_sorted(*x, r)  # noqa: E731
        check(build, [rows, values], expected=[expected], native=True)


DATA = np.arange(60).reshape(3, 4, 5).astype(F)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [
        ([0], [2], [1], [0]),
        ([3, -1], [0, -6], [-1, -2], [1, 2]),
        ([1, 0], [4, 2**31], [2, 1], [1, 0]),
        ([1, 1], [3, 3], [1, 1]),
    ],
    ids=str,
)
def test_slice_scatter(bounds: tuple[list[int], ...]) -> None:
    index = [slice(None)] * 3
    listed = bounds[3] if len(bounds) > 3 else [0, 1]
    for axis, start, stop, step in zip(listed, *bounds[:3], strict=True):
        index[axis] = slice(start, None if stop < -5 else stop, step)
    updates = -1 - DATA[tuple(index)]
    check(lambda *x: o15.slice_scatter(*x), [DATA, updates, *map(k, bounds)], native=True)


def test_strings_and_bytes() -> None:
    texts = np.array([["irc", ""], ["über", "x y"]], object)
    begins, ends, symbols = check(lambda x: o15.string_tensor_unpack(x), [texts])
    check(lambda *x: o15.string_tensor_pack(*x), [begins, ends, symbols])


def test_bad_inputs() -> None:
    with pytest.raises(ShapeError, match="differ in rank"):
        SearchSorted().infer(Fact(parse_type("f32[2, 3]")), Fact(parse_type("f32[3]")))
    one = Fact(parse_type("i64[1]"), np.array([1]))
    with pytest.raises(ShapeError, match="updates do not fit"):
        SliceScatter().infer(
            Fact(parse_type("f32[4, 5]")), Fact(parse_type("f32[3, 5]")), one, one, one, one
        )
    with pytest.raises(ShapeError, match="bounds of a string"):
        StringTensorPack().evaluate(np.array([0]), np.array([9]), np.zeros(3, np.uint8))


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(
    ("data", "bounds", "native"),
    [("f32", "f32", True), ("i32", "f32", True), ("i64", "i64", True), ("i64", "f32", False)],
)
def test_buckets_of_few_boundaries_are_native(
    data: str, bounds: str, native: bool, right: bool
) -> None:
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type={data}, shape=["N", 7]}} "x"
%1 = Constant.1() {{data=[-3, -1, 0, 2, 2, 5], dtype={bounds}, shape=[6]}}
%2 = Bucketize.3(%0, %1) {{output_type=i32, with_right_bound={str(right).lower()}}}
%3 = Result.1(%2) "y"
""")
    net = irc.compile_model(irc.Model(graph))
    assert bool(net.plan.host_steps()) is not native
    x = np.arange(-7, 7).reshape(2, 7).astype(DType(data).numpy)
    if data == "f32":
        x[0, 0], x[0, 1], x[1, 0] = np.nan, np.inf, -0.0
    side = "left" if right else "right"
    want = np.searchsorted(np.array([-3, -1, 0, 2, 2, 5], np.float64), x.astype(np.float64), side)
    np.testing.assert_array_equal(net([x])[0], want)


@pytest.mark.parametrize("op", ["Bucketize.3(%0, %1)", "SearchSorted.15(%1, %0)"])
def test_indices_are_of_32_or_64_bits(op: str) -> None:
    text = f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[4]}} "x"
%1 = Parameter.1() {{element_type=f32, shape=[3]}} "edges"
%2 = {op} {{output_type=f32}}
%3 = Result.1(%2) "y"
"""
    with pytest.raises(ModelFormatError, match="output_type is not i32 or i64"):
        parse_graph(text)
