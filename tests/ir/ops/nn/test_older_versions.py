"""Operations of earlier sets against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import openvino.opset3 as o3
import openvino.opset4 as o4
import openvino.opset5 as o5
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import LSTMCell1
from irc_compiler.ir.types import parse_type
from openvino.utils.node_factory import NodeFactory
from support.openvino_operations import check, first_fast, k, model_of, run_openvino

F = np.float32
_R = np.random.default_rng(1)


def nms_inputs() -> list[Any]:
    low = _R.random((2, 6, 2))
    boxes = np.concatenate([low, low + 0.3], axis=-1).astype(F)
    scores = _R.random((2, 2, 6)).astype(F)
    return [boxes, scores, k(3), k(0.3, F), k(0.4, F)]


@pytest.mark.parametrize("opset", [o1, o3, o5], ids=lambda o: o.__name__)
def test_non_max_suppression(opset: Any) -> None:
    check(lambda *x: opset.non_max_suppression(*x), nms_inputs())


def test_non_max_suppression_4_fills_up_with_minus_one() -> None:
    """As specified; OpenVINO's CPU plugin returns the boxes only."""
    inputs = [*nms_inputs()[:4], k(0.7, F)]
    build = lambda *x: o4.non_max_suppression(*x)  # noqa: E731
    (found,) = run_openvino(model_of(build, inputs), inputs[:2])
    assert len(found) < 3 * 2 * 2
    filled = np.full((3 * 2 * 2, 3), -1, found.dtype)
    filled[: len(found)] = found
    check(build, inputs, expected=[filled])


def test_roi_align() -> None:
    rois = np.array([[0, 1, 4, 5], [1, 1, 4, 3]], F)
    inputs = [_R.random((2, 3, 6, 7)).astype(F), rois, k([1, 0])]
    check(lambda *x: o3.roi_align(*x, 2, 3, 2, 0.5, "avg"), inputs, native=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("corners", first_fast([True, False]))
def test_interpolate(mode: str, corners: bool) -> None:
    attributes = {"axes": [2, 3], "mode": mode, "align_corners": corners}
    image = _R.random((1, 2, 5, 6)).astype(F)
    check(lambda *x: o1.interpolate(*x, attributes), [image, k([9, 4])], native=mode != "cubic")


def test_lstm_cell() -> None:
    sizes = [(2, 3), (2, 4), (2, 4)]
    states = [_R.random(s).astype(F) for s in sizes]
    weights = [k(_R.random(s).astype(F)) for s in ((16, 3), (16, 4), (16,))]
    check(lambda *x: o1.lstm_cell(*x, 4), [*states, *weights], native=True)


def test_the_order_of_gates() -> None:
    """OpenVINO's CPU plugin runs fico only."""
    given = [_R.random(s).astype(F) for s in ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,))]
    ordered = LSTMCell1(4).evaluate(*given)
    other = [np.concatenate([np.split(a, 4)[n] for n in (1, 0, 2, 3)]) for a in given[3:]]
    moved = LSTMCell1(4, weights_format="ifco").evaluate(*given[:3], *other)
    for a, b in zip(ordered, moved, strict=True):
        np.testing.assert_array_equal(a, b)

    def build(*x: Any) -> Any:
        attributes = {"hidden_size": 4, "weights_format": "ifco", "activations_alpha": [0.0],
                      "activations_beta": [0.0]}  # fmt: skip
        return NodeFactory("opset1").create("LSTMCell", list(x), attributes)

    weights = [k(a) for a in other]
    check(build, [*given[:3], *weights], expected=ordered, native=True)
    with pytest.raises(ShapeError, match="does not name the gates"):
        LSTMCell1(4, weights_format="fic").infer(*(Fact(parse_type("f32[2, 3]")),) * 6)
