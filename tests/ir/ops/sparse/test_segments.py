"""SegmentMax and SparseFillEmptyRows against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset16 as o16
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import SegmentMax, SparseFillEmptyRows
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, k

F = np.float32
DATA = np.random.default_rng(2).standard_normal((6, 2, 3)).astype(F)
SEGMENTS = np.array([0, 0, 2, 3, 3, 3], np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("fill", ["ZERO", "LOWEST"])
def test_segment_max(fill: str) -> None:
    check(lambda *x: o16.segment_max(*x, fill_mode=fill), [DATA, SEGMENTS, k(6)])
    check(lambda *x: o16.segment_max(*x, fill_mode=fill), [DATA, SEGMENTS, k(3)])
    integers = (DATA * 9).astype(np.int32)
    check(lambda *x: o16.segment_max(*x, fill_mode=fill), [integers, k(SEGMENTS)])


@pytest.mark.parametrize("dtype", [F, np.int64])
def test_sparse_fill_empty_rows(dtype: Any) -> None:
    inputs = [
        np.array([5, 6, 7], dtype),
        k([5, 4]),
        np.array([[3, 1], [0, 2], [3, 0]], np.int64),
        k(-1, dtype),
    ]
    check(lambda *x: o16.sparse_fill_empty_rows(*x), inputs)


def test_sparse_strings() -> None:
    values = np.array(["a", "bc"], object)
    found = SparseFillEmptyRows().evaluate(
        values, np.array([3, 2]), np.array([[0, 1], [2, 0]]), np.array("-", object)
    )
    assert found[1].tolist() == ["a", "-", "bc"]
    assert found[2].tolist() == [False, True, False]


def test_bad_inputs() -> None:
    with pytest.raises(ShapeError, match="segment_ids fall"):
        SegmentMax("zero").evaluate(DATA, SEGMENTS[::-1])
    with pytest.raises(ShapeError, match="one number per row"):
        SegmentMax("zero").infer(Fact(parse_type("f32[5]")), Fact(parse_type("i64[6]")))
    with pytest.raises(ShapeError, match="not in the dense shape"):
        SparseFillEmptyRows().evaluate(
            np.ones(1, F), np.array([2, 2]), np.array([[2, 0]]), np.array(0, F)
        )
