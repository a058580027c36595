"""Embedding bags against OpenVINO."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import openvino.opset3 as o3
import openvino.opset15 as o15
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import EmbeddingBagOffsets, EmbeddingBagPackedSum, EmbeddingSegmentsSum
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, k

F, I = np.float32, np.int32  # noqa: E741
TABLE = np.random.default_rng(1).standard_normal((6, 3)).astype(F)
DEEP = np.random.default_rng(1).standard_normal((6, 3, 2)).astype(F)
INDICES = np.array([0, 5, 2, 2, 4, 1], I)
OFFSETS = np.array([0, 2, 2, 5], I)
WEIGHTS = np.array([0.5, -1, 2, 3, 0.25, 1], F)


@pytest.mark.slow
@pytest.mark.parametrize("table", [TABLE, DEEP], ids=["matrix", "tensor"])
def test_offsets(table: Any) -> None:
    check(lambda *x: o3.embedding_bag_offsets_sum(*x), [table, INDICES, OFFSETS], native=True)
    check(lambda *x: o3.embedding_bag_offsets_sum(*x), [table, INDICES, OFFSETS, k(3, I), WEIGHTS])
    check(
        lambda *x: o15.embedding_bag_offsets(*x, reduction="mean"),
        [table, INDICES, OFFSETS, k(3, I)],
    )
    check(lambda *x: o15.embedding_bag_offsets(*x), [table, INDICES, OFFSETS, k(-1, I), WEIGHTS])


@pytest.mark.slow
@pytest.mark.parametrize("table", [TABLE, DEEP], ids=["matrix", "tensor"])
def test_packed(table: Any) -> None:
    packed = INDICES.reshape(3, 2)
    check(lambda *x: o3.embedding_bag_packed_sum(*x), [table, packed], native=True)
    check(lambda *x: o15.embedding_bag_packed(*x), [table, packed, WEIGHTS.reshape(3, 2)])
    check(lambda *x: o15.embedding_bag_packed(*x, reduction="mean"), [table, packed], native=True)


@pytest.mark.slow
@pytest.mark.parametrize("table", [TABLE, DEEP], ids=["matrix", "tensor"])
def test_segments(table: Any) -> None:
    segments = np.array([0, 0, 2, 2, 2, 3], I)
    check(
        lambda *x: o3.embedding_segments_sum(*x), [table, INDICES, segments, k(5, I)], native=True
    )
    check(
        lambda *x: o3.embedding_segments_sum(*x),
        [table, INDICES, segments, np.array(5, I), k(2, I), WEIGHTS],
    )


@pytest.mark.slow
def test_other_element_types() -> None:
    wide = INDICES.astype(np.int64)
    check(lambda *x: o3.embedding_bag_packed_sum(*x), [TABLE, wide.reshape(3, 2)])
    half = TABLE.astype(np.float16)
    check(lambda *x: o3.embedding_bag_packed_sum(*x), [half, INDICES.reshape(3, 2)], tolerance=2e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_means_of_integers_are_floors(dtype: Any) -> None:
    """Also of more rows than a type of 8 bits has numbers, whose sums wrap around."""
    table = np.array([[-7, 2], [4, 5], [-3, 100]]).astype(dtype)
    indices = np.array([0, 1, 2, 2, *[1] * 256], I)
    offsets = np.array([0, 1, 2, 4], I)
    sums = [table[:1], table[1:2], table[[2, 2]], table[[1] * 256]]
    wide = [s.sum(axis=0, dtype=dtype).astype(np.int64) for s in sums]
    want = np.stack([s // n for s, n in zip(wide, (1, 1, 2, 256), strict=True)]).astype(dtype)
    (got,) = EmbeddingBagOffsets("mean").evaluate(table, indices, offsets)
    np.testing.assert_array_equal(got, want)
    rows = o3.parameter(table.shape, dtype)
    numbers = [o3.constant(indices), o3.constant(offsets)]
    model = ov.Model([o15.embedding_bag_offsets(rows, *numbers, reduction="mean")], [rows])
    net = irc.compile_model(model)
    np.testing.assert_array_equal(net([table])[0], want)


def test_bad_inputs() -> None:
    table, six = Fact(parse_type("f32[6, 3]")), Fact(parse_type("i32[6]"))
    with pytest.raises(ShapeError, match="mean takes no weights"):
        EmbeddingBagOffsets("mean").infer(table, six, six, None, Fact(parse_type("f32[6]")))
    with pytest.raises(ShapeError, match="differ in shape"):
        EmbeddingBagOffsets().infer(table, six, six, None, Fact(parse_type("f32[5]")))
    with pytest.raises(ShapeError, match="wrong rank"):
        EmbeddingBagPackedSum().infer(table, six)
    with pytest.raises(ShapeError, match="not a row of the table"):
        EmbeddingBagPackedSum().evaluate(TABLE, np.array([[7]], I))
    with pytest.raises(ShapeError, match="offsets fall"):
        EmbeddingBagOffsets().evaluate(TABLE, INDICES, np.array([3, 1], I))
    with pytest.raises(ShapeError, match="segment number is out of range"):
        EmbeddingSegmentsSum().evaluate(TABLE, INDICES, INDICES, np.array(3, I))
    with pytest.raises(ShapeError, match="default index"):
        EmbeddingBagOffsets().evaluate(TABLE, INDICES, OFFSETS, np.array(9, I))
