"""Proposal and GenerateProposals against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import openvino.opset4 as o4
import openvino.opset9 as o9
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import GenerateProposals, Proposal
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

F, U = np.float32, np.uint32
BASE: dict[str, Any] = {
    "base_size": U(16), "pre_nms_topn": U(40), "post_nms_topn": U(9), "nms_thresh": F(0.6),
    "feat_stride": U(8), "min_size": U(4), "ratio": np.array([0.5, 1.0, 2.0], F),
    "scale": np.array([1.0, 2.0], F),
}  # fmt: skip
CASES: list[dict[str, Any]] = [
    {},
    {"framework": "tensorflow", "box_size_scale": F(5), "box_coordinate_scale": F(10)},
    {"clip_before_nms": False, "clip_after_nms": True},
    {"normalize": True, "min_size": U(1), "post_nms_topn": U(30)},
]


def inputs_of(images: int, rows: int, columns: int, image: list[float]) -> list[Any]:
    rng = np.random.default_rng(8)
    anchors = 6
    return [
        rng.random((images, 2 * anchors, rows, columns)).astype(F),
        rng.normal(0, 0.3, (images, 4 * anchors, rows, columns)).astype(F),
        np.array(image, F),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attributes", first_fast(CASES, 2), ids=str)
@pytest.mark.parametrize("image", [[40.0, 48.0, 1.0], [40.0, 48.0, 1.5, 2.0]], ids=str)
def test_proposal(attributes: dict[str, Any], image: list[float]) -> None:
    given = BASE | attributes
    inputs = inputs_of(1, 4, 5, image)
    check(lambda *x: o1.proposal(*x, given), inputs)
    check(lambda *x: o4.proposal(*x, given), inputs)
    check(lambda *x: o4.proposal(*x, given), inputs_of(2, 3, 4, image))


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("info", [[40.0, 48.0, 1.0], [40.0, 48.0, 1.5, 2.0]], ids=str)
def test_generate_proposals(normalized: bool, info: list[float]) -> None:
    rng = np.random.default_rng(4)
    low = rng.random((3, 4, 2, 2)) * 30
    anchors = np.concatenate([low, low + 4 + rng.random(low.shape) * 12], axis=-1).astype(F)
    inputs = [
        np.array([info, info], F),
        anchors,
        rng.normal(0, 0.3, (2, 8, 3, 4)).astype(F),
        rng.random((2, 2, 3, 4)).astype(F),
    ]
    check(lambda *x: o9.generate_proposals(*x, 3.0, 0.5, 20, 6, normalized), inputs)
    check(lambda *x: o9.generate_proposals(*x, 3.0, 0.5, 5, 50, normalized, 1.0, "i32"), inputs)


def test_bad_inputs() -> None:
    op = Proposal(16, 40, 9, 0.6, 8, 4, (1.0,), (1.0, 2.0))
    facts = [Fact(parse_type(t)) for t in ("f32[1, 4, 3, 3]", "f32[1, 8, 3, 3]", "f32[3]")]
    op.infer(*facts)
    with pytest.raises(ShapeError, match="channels per anchor"):
        op.infer(Fact(parse_type("f32[1, 6, 3, 3]")), *facts[1:])
    with pytest.raises(ShapeError, match="3 or 4 numbers"):
        op.infer(*facts[:2], Fact(parse_type("f32[2]")))
    with pytest.raises(ShapeError, match="post_nms_topn is not positive"):
        Proposal(16, 40, 0, 0.6, 8, 4, (1.0,), (1.0, 2.0)).infer(*facts)
    made = [Fact(parse_type(t)) for t in ("f32[1, 3]", "f32[3, 3, 2, 4]", *["f32[1, 2, 3, 3]"] * 2)]
    with pytest.raises(ShapeError, match="nms_eta"):
        GenerateProposals(1.0, 0.5, 5, 5, nms_eta=0.5).infer(*made)
