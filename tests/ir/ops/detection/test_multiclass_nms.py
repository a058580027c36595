"""MatrixNms and MulticlassNms against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset8 as o8
import openvino.opset9 as o9
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import MatrixNms, MulticlassNms
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

F = np.float32
_R = np.random.default_rng(7)


def boxes(*shape: int, size: float = 1.0) -> np.ndarray:
    low = _R.random((*shape, 2)) * 0.5
    return (np.concatenate([low, low + 0.2 + _R.random(low.shape) * 0.3], axis=-1) * size).astype(F)


SHARED = [boxes(2, 9), _R.random((2, 3, 9)).astype(F)]
PIXELS = [boxes(2, 9, size=20.0), SHARED[1]]
MATRIX: list[dict[str, Any]] = [
    {"sort_result_type": "score"},
    {"sort_result_type": "score", "decay_function": "gaussian", "post_threshold": 0.2},
    {"sort_result_type": "classid", "sort_result_across_batch": True, "score_threshold": 0.3},
    {"sort_result_type": "score", "sort_result_across_batch": True, "keep_top_k": 5,
     "nms_top_k": 4, "background_class": 0, "output_type": "i32"},
]  # fmt: skip
CLASSES: list[dict[str, Any]] = [
    {"sort_result_type": "score", "iou_threshold": 0.4},
    {"sort_result_type": "classid", "iou_threshold": 0.4, "score_threshold": 0.3},
    {"sort_result_type": "classid", "sort_result_across_batch": True, "iou_threshold": 0.3,
     "keep_top_k": 6, "nms_top_k": 5},
    {"sort_result_type": "score", "sort_result_across_batch": True, "iou_threshold": 0.9,
     "nms_eta": 0.8, "background_class": 1, "output_type": "i32"},
]  # fmt: skip


@pytest.mark.parametrize("attributes", first_fast(MATRIX), ids=str)
def test_matrix_nms(attributes: dict[str, Any]) -> None:
    check(lambda *x: o8.matrix_nms(*x, **attributes), SHARED)
    check(lambda *x: o8.matrix_nms(*x, normalized=False, **attributes), PIXELS)


@pytest.mark.parametrize("attributes", first_fast(CLASSES), ids=str)
def test_multiclass_nms(attributes: dict[str, Any]) -> None:
    check(lambda *x: o8.multiclass_nms(*x, **attributes), SHARED)
    check(lambda *x: o9.multiclass_nms(*x, normalized=False, **attributes), PIXELS)


@pytest.mark.parametrize("attributes", first_fast(CLASSES[:3]), ids=str)
def test_multiclass_nms_of_boxes_per_class(attributes: dict[str, Any]) -> None:
    inputs = [boxes(3, 9), _R.random((3, 9)).astype(F), np.array([4, 0, 5], np.int64)]
    check(lambda *x: o9.multiclass_nms(*x, **attributes), inputs)


def test_an_image_without_boxes_counts_none() -> None:
    scores = np.array([[[0.1, 0.2]], [[0.8, 0.1]]], F)
    found = check(lambda *x: o8.matrix_nms(*x, "score", score_threshold=0.5), [boxes(2, 2), scores])
    assert found[2].tolist() == [0, 1] and found[1].tolist() == [[2]]


def test_bad_inputs() -> None:
    three = Fact(parse_type("f32[1, 5, 4]"))
    with pytest.raises(ShapeError, match="differ in boxes"):
        MatrixNms().infer(three, Fact(parse_type("f32[1, 2, 6]")))
    with pytest.raises(ShapeError, match="four coordinates"):
        MatrixNms().infer(Fact(parse_type("f32[1, 5, 5]")), Fact(parse_type("f32[1, 2, 5]")))
    with pytest.raises(ShapeError, match="wrong rank"):
        MulticlassNms().infer(three, Fact(parse_type("f32[1, 5]")))
    with pytest.raises(ShapeError, match="counts more boxes"):
        MulticlassNms().evaluate(boxes(1, 2), np.ones((1, 2), F), np.array([3]))
