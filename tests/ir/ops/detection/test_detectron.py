"""Detectron's operations against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import (
    ExperimentalDetectronDetectionOutput,
    ExperimentalDetectronROIFeatureExtractor,
    ExperimentalDetectronTopKROIs,
)
from irc_compiler.ir.types import parse_type
from openvino.utils.node_factory import NodeFactory
from support.openvino_operations import check

F = np.float32
_R = np.random.default_rng(5)


def node(kind: str, **attributes: Any) -> Any:
    factory = NodeFactory("opset6")
    return lambda *x: factory.create(f"ExperimentalDetectron{kind}", list(x), attributes)


def boxes(count: int, size: float) -> np.ndarray:
    low = _R.random((count, 2)) * size
    return np.concatenate([low, low + 3 + _R.random((count, 2)) * size / 2], axis=1).astype(F)


@pytest.mark.parametrize("most", [4, 12])
def test_detection_output(most: int) -> None:
    build = node(
        "DetectionOutput", score_threshold=0.2, nms_threshold=0.4, num_classes=3, post_nms_count=5,
        max_detections_per_image=most, class_agnostic_box_regression=False,
        max_delta_log_wh=2.0, deltas_weights=[10.0, 10.0, 5.0, 5.0],
    )  # fmt: skip
    rois, deltas = boxes(12, 40.0), _R.standard_normal((12, 12)).astype(F)
    scores = _R.random((12, 3)).astype(F)
    # The CPU plugin does not clip boxes on the right and below: all are inside the image.
    check(build, [rois, deltas, scores, np.array([[500, 600, 1]], F)])


def test_boxes_of_detection_output_are_clipped() -> None:
    """To the first and the last pixel of the image, as specified."""
    op = ExperimentalDetectronDetectionOutput(
        score_threshold=0.0, nms_threshold=0.9, num_classes=2, post_nms_count=1,
        max_detections_per_image=1, class_agnostic_box_regression=False, max_delta_log_wh=2.0,
        deltas_weights=(1.0, 1.0, 1.0, 1.0),
    )  # fmt: skip
    rois, scores = np.array([[-5, 10, 75, 70]], F), np.array([[0.1, 0.9]], F)
    boxes, *_ = op.evaluate(rois, np.zeros((1, 8), F), scores, np.array([[50, 60, 1]], F))
    assert boxes.tolist() == [[0, 10, 59, 49]]


@pytest.mark.parametrize("counts", [(20, 6), (8, 20)], ids=str)
def test_proposals(counts: tuple[int, int]) -> None:
    build = node(
        "GenerateProposalsSingleImage", min_size=0.0, nms_threshold=0.5, pre_nms_count=counts[0],
        post_nms_count=counts[1],
    )  # fmt: skip
    inputs = [
        np.array([50, 60, 1], F),
        boxes(24, 40.0),
        (_R.standard_normal((8, 3, 4)) * 0.3).astype(F),
        _R.random((2, 3, 4)).astype(F),
    ]
    check(build, inputs)


@pytest.mark.parametrize("grid", [(0, 0, 0.0, 0.0), (4, 5, 4.0, 8.0)], ids=str)
def test_prior_grid(grid: tuple[Any, ...]) -> None:
    names = ("h", "w", "stride_x", "stride_y")
    build = node("PriorGridGenerator", flatten=True, **dict(zip(names, grid, strict=True)))
    inputs = [boxes(3, 8.0), np.zeros((1, 2, 4, 5), F), np.zeros((1, 3, 40, 60), F)]
    check(build, inputs)


def test_roi_features() -> None:
    build = node(
        "ROIFeatureExtractor", output_size=3, sampling_ratio=2, pyramid_scales=[4, 8], aligned=False
    )
    rois = np.concatenate([boxes(4, 20.0), boxes(3, 20.0) * F(9)])
    levels = [_R.standard_normal((1, 2, n, n)).astype(F) for n in (16, 8)]
    check(build, [rois, *levels])


def test_top_rois() -> None:
    check(node("TopKROIs", max_rois=4), [boxes(9, 20.0), _R.random(9).astype(F)])


def test_bad_inputs() -> None:
    rois, data = Fact(parse_type("f32[5, 4]")), Fact(parse_type("f32[1, 2, 8, 8]"))
    with pytest.raises(ShapeError, match="per feature map"):
        ExperimentalDetectronROIFeatureExtractor(3, 2, (4, 8)).infer(rois, (data,))
    with pytest.raises(ShapeError, match="rois and probs differ"):
        ExperimentalDetectronTopKROIs(3).infer(rois, Fact(parse_type("f32[4]")))
    (found,) = ExperimentalDetectronTopKROIs(3).evaluate(np.ones((1, 4), F), np.ones(1, F))
    assert found.tolist() == [[1] * 4, [0] * 4, [0] * 4]
