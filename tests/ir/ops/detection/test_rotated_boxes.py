"""NMSRotated and ROIAlignRotated against OpenVINO."""

from __future__ import annotations

import math

import numpy as np
import openvino.opset13 as o13
import openvino.opset15 as o15
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import ROIAlignRotated
from irc_compiler.ir.ops.detection.rotated_boxes import rotated_overlap
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, k

F = np.float32
_R = np.random.default_rng(9)


def boxes(images: int, count: int, size: float = 10.0) -> np.ndarray:
    centre = _R.random((images, count, 2)) * size
    sides = 1 + _R.random((images, count, 2)) * size / 2
    angle = _R.random((images, count, 1)) * 3 - 1.5
    return np.concatenate([centre, sides, angle], axis=-1).astype(F)


@pytest.mark.slow
@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("descending", [True, False])
def test_nms_rotated(clockwise: bool, descending: bool) -> None:
    inputs = [boxes(2, 12), _R.random((2, 3, 12)).astype(F), k(5), k(0.3, F), k(0.2, F)]
    check(lambda *x: o13.nms_rotated(*x, descending, "i32", clockwise), inputs)


def test_overlap_of_rotated_boxes() -> None:
    square = np.array([1.0, 2.0, 2.0, 2.0, 0.3])
    turned = square + [0, 0, 0, 0, math.pi / 4]
    half = np.array([1.0 + math.cos(0.3), 2.0 + math.sin(0.3), 2.0, 2.0, 0.3])
    found = rotated_overlap(square, np.array([square, turned, half, square + [9, 0, 0, 0, 0]]))
    octagon = 8 * (math.sqrt(2) - 1)
    expected = [1, octagon / (8 - octagon), 1 / 3, 0]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align_rotated(clockwise: bool, ratio: int) -> None:
    data = _R.standard_normal((2, 3, 7, 8)).astype(F)
    rois = np.concatenate([boxes(1, 4)[0], [[30, 30, 2, 2, 0]]]).astype(F)
    inputs = [data, rois, np.array([0, 1, 1, 0, 1], np.int32)]
    check(lambda *x: o15.roi_align_rotated(*x, 2, 3, ratio, 0.8, clockwise), inputs)


def test_bad_inputs() -> None:
    data, rois, two = (Fact(parse_type(t)) for t in ("f32[1, 3, 5, 5]", "f32[2, 5]", "i32[2]"))
    ROIAlignRotated(2, 2, 0, 1.0).infer(data, rois, two)
    with pytest.raises(ShapeError, match="five numbers"):
        ROIAlignRotated(2, 2, 0, 1.0).infer(data, Fact(parse_type("f32[2, 4]")), two)
    with pytest.raises(ShapeError, match="out of range"):
        ROIAlignRotated(2, 2, -1, 1.0).infer(data, rois, two)
    with pytest.raises(ShapeError, match="differ"):
        ROIAlignRotated(2, 2, 0, 1.0).infer(data, rois, Fact(parse_type("i32[3]")))
