"""PriorBox and PriorBoxClustered against OpenVINO."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import openvino.opset1 as o1
import openvino.opset8 as o8
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import PriorBox, PriorBoxClustered
from irc_compiler.ir.types import parse_type
from openvino.utils.node_factory import NodeFactory
from support.openvino_operations import check, first_fast, k, model_of, run_openvino

SIZES = [np.array([3, 4], np.int64), k([60, 90])]
PRIORS: list[dict[str, Any]] = [
    {"min_size": [16.0], "max_size": [38.0], "aspect_ratio": [2.0], "offset": 0.5, "flip": True},
    {"min_size": [16.0, 20.0], "aspect_ratio": [2.0, 3.0], "offset": 0.5, "step": 8.0},
    {"min_size": [16.0], "max_size": [38.0], "aspect_ratio": [2.0], "offset": 0.25, "step": 16.0,
     "flip": True, "clip": True, "variance": [0.1, 0.1, 0.2, 0.2]},
    {"min_size": [0.2, 0.3], "aspect_ratio": [2.0], "offset": 0.5, "scale_all_sizes": False,
     "step": 0.5, "variance": [0.3]},
    {"min_size": [0.2], "aspect_ratio": [2.0, 0.5], "offset": 0.5, "scale_all_sizes": False,
     "step": 0.5, "flip": True},
    {"fixed_size": [8.0, 16.0], "density": [2.0, 1.0], "offset": 0.5},
    {"fixed_size": [9.0], "density": [3.0], "fixed_ratio": [2.0], "offset": 0.5},
    {"fixed_size": [9.0], "density": [2.0], "aspect_ratio": [2.0], "offset": 0.5, "flip": True},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("attributes", first_fast(PRIORS, 2), ids=str)
def test_prior_box(attributes: dict[str, Any]) -> None:
    check(lambda *x: o1.prior_box(*x, attributes), SIZES)
    check(lambda *x: o8.prior_box(*x, attributes), SIZES)


def test_a_step_of_minus_one_divides_the_image_evenly() -> None:
    """openvino's factory refuses it; files of MXNet's models have it."""
    attributes = {**PRIORS[3], "step": -1.0}
    check(lambda *x: NodeFactory("opset8").create("PriorBox", list(x), attributes), SIZES)


def test_the_maximum_size_may_come_after_the_aspect_ratios() -> None:
    """OpenVINO's CPU plugin runs this order with known sizes only."""
    attributes = {**PRIORS[0], "min_max_aspect_ratios_order": False}
    known = [k([3, 4]), k([60, 90])]
    build = lambda *x: o8.prior_box(*x, attributes)  # noqa: E731
    check(build, SIZES, expected=run_openvino(model_of(build, known), []))


@pytest.mark.parametrize(
    "attributes",
    [
        {"width": [4.0, 6.0], "height": [3.0, 9.0], "offset": 0.5, "variance": [0.1]},
        {"width": [4.0], "height": [3.0], "offset": 0.25, "clip": False, "step": 8.0},
        {"width": [4.0], "height": [3.0], "offset": 0.5, "step_w": 4.0, "step_h": 8.0,
         "variance": [0.1, 0.2, 0.3, 0.4]},
    ],
    ids=str,
)  # fmt: skip
def test_prior_box_clustered(attributes: dict[str, Any]) -> None:
    check(lambda *x: o1.prior_box_clustered(*x, attributes), SIZES)


def test_priors_of_known_sizes_are_constants_of_the_compiled_model() -> None:
    """Sizes that ShapeOf takes from static images are known while compiling."""
    image = ov.opset8.parameter([1, 3, 8, 12], np.float32)
    ends = [ov.opset8.constant(np.array([v])) for v in (2, 4, 1)]
    cells = ov.opset8.slice(ov.opset8.shape_of(image), *ends)
    priors = o8.prior_box(cells, cells, {"min_size": [16.0], "offset": 0.5})
    with tempfile.TemporaryDirectory() as folder:
        ov.serialize(ov.Model([priors], [image], "priors"), Path(folder) / "m.xml")
        net = irc.compile_model(Path(folder) / "m.xml")
        assert not [n for n in net.graph.ids() if net.graph.op(n).kind == "PriorBox"]


def test_bad_attributes() -> None:
    two = Fact(parse_type("i64[2]"))
    with pytest.raises(ShapeError, match="density has one number per fixed size"):
        PriorBox(0.5, fixed_size=(8.0,)).infer(two, two)
    with pytest.raises(ShapeError, match="do not fit together"):
        PriorBox(0.5, (8.0,), (9.0,), scale_all_sizes=False).infer(two, two)
    with pytest.raises(ShapeError, match="aspect ratio is not positive"):
        PriorBox(0.5, (8.0,), aspect_ratio=(0.0,)).infer(two, two)
    with pytest.raises(ShapeError, match="too many boxes per cell"):
        PriorBox(0.5, fixed_size=(8.0,), density=(1e6,)).infer(two, two)
    with pytest.raises(ShapeError, match="too many boxes per cell"):
        PriorBox(0.5, (8.0,) * 3000, aspect_ratio=(2.0,) * 3000).infer(two, two)
    with pytest.raises(ShapeError, match="height and width"):
        PriorBox(0.5, (8.0,)).infer(Fact(parse_type("i64[3]")), two)
    with pytest.raises(ShapeError, match="one number per box"):
        PriorBoxClustered(0.5, (8.0,), (8.0, 9.0)).infer(two, two)
    with pytest.raises(ShapeError, match="variance has 0, 1 or 4 numbers"):
        PriorBox(0.5, (8.0,), variance=(1.0, 2.0)).evaluate(np.array([1, 1]), np.array([8, 8]))
