"""DetectionOutput against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import openvino.opset8 as o8
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import DetectionOutput, DetectionOutput1
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

F = np.float32
IMAGES, PRIORS, CLASSES = 2, 12, 3
BASE: dict[str, Any] = {"keep_top_k": [7], "nms_threshold": 0.4, "normalized": True}
CASES: list[dict[str, Any]] = [
    {},
    {"keep_top_k": [30], "confidence_threshold": 0.3},
    {"code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "top_k": 6},
    {"share_location": False, "clip_before_nms": True},
    {"clip_after_nms": True, "background_label_id": -1},
    {"variance_encoded_in_target": True},
    {"decrease_label_id": True, "confidence_threshold": 0.2},
    {"decrease_label_id": True, "keep_top_k": [3], "top_k": 8},
    {"normalized": False, "input_height": 20, "input_width": 30},
    {"keep_top_k": [-1], "top_k": 4},
    {"keep_top_k": [-1]},
]


def inputs_of(attributes: dict[str, Any], *, aux: bool = False, batched: bool = True) -> list[Any]:
    rng = np.random.default_rng(3)
    locations = 1 if attributes.get("share_location", True) else CLASSES
    logits = rng.normal(0, 0.5, (IMAGES, PRIORS * locations * 4)).astype(F)
    scores = rng.random((IMAGES, PRIORS * CLASSES)).astype(F)
    images = IMAGES if batched else 1
    low = rng.random((images, PRIORS, 2)) * 0.6
    corners = np.concatenate([low, low + 0.1 + rng.random(low.shape) * 0.3], axis=-1)
    normalized = attributes.get("normalized", True)
    if not normalized:
        ids = np.zeros((images, PRIORS, 1))
        corners = np.concatenate([ids, corners * [30, 20, 30, 20]], axis=-1)
    rows = [corners.reshape(images, 1, -1)]
    if not attributes.get("variance_encoded_in_target"):
        variances = np.full((images, 1, rows[0].shape[2]), 0.1)
        variances[..., 1::2] = 0.2
        rows.append(variances)
    proposals = np.concatenate(rows, axis=1).astype(F)
    found = [logits, scores, proposals]
    if aux:
        found.append(rng.random((IMAGES, PRIORS * 2)).astype(F))
        found.append(rng.normal(0, 0.3, logits.shape).astype(F))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("attributes", first_fast(CASES, 2), ids=str)
@pytest.mark.parametrize("batched", first_fast([True, False]))
def test_detection_output(attributes: dict[str, Any], batched: bool) -> None:
    given = BASE | attributes
    inputs = inputs_of(given, batched=batched)
    check(lambda *x: o8.detection_output(*x, given), inputs)
    own = given | {
        "num_classes": CLASSES,
        "background_label_id": given.get("background_label_id", 0),
    }
    check(lambda *x: o1.detection_output(*x, own), inputs)


@pytest.mark.parametrize("attributes", [{}, {"objectness_score": 0.6}], ids=str)
def test_auxiliary_inputs(attributes: dict[str, Any]) -> None:
    given = BASE | attributes
    check(lambda *x: o8.detection_output(*x[:3], given, *x[3:]), inputs_of(given, aux=True))


def test_bad_inputs() -> None:
    facts = [Fact(parse_type(t)) for t in ("f32[2, 48]", "f32[2, 36]", "f32[1, 2, 48]")]
    op = DetectionOutput((5,), 0.5, normalized=True)
    op.infer(*facts)
    with pytest.raises(ShapeError, match="auxiliary inputs come together"):
        op.infer(*facts, facts[0])
    with pytest.raises(ShapeError, match="four numbers per prior"):
        op.infer(Fact(parse_type("f32[2, 49]")), *facts[1:])
    with pytest.raises(ShapeError, match="keep_top_k is empty"):
        DetectionOutput((), 0.5).infer(*facts)
    with pytest.raises(ShapeError, match="num_classes is missing"):
        DetectionOutput1((5,), 0.5, normalized=True).infer(*facts)
    with pytest.raises(ShapeError, match="not a multiple"):
        op.infer(facts[0], Fact(parse_type("f32[2, 37]")), facts[2])
