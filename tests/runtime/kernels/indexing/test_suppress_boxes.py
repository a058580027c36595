"""Non-maximum suppression against the operation's own meaning, on every instruction set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import InputError, ShapeError, VerificationError
from irc_compiler.ir.op import Array
from irc_compiler.ir.ops import SuppressBoxes
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.suppress_boxes import SuppressBoxesSpec
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.kernel_table import generate
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, Sizes, run

F32, F64, I64 = DType.f32, DType.f64, DType.i64


def make_boxes(images: int, count: int, seed: int = 0, side: float = 30.0) -> Array:
    """Boxes [images, count, 4] of two corners in any order, in a square of 100 x 100."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(0, 100, (images, count, 2))
    second = first + rng.uniform(-side, side, (images, count, 2))
    return np.concatenate([first, second], axis=2).astype(np.float32)


def make_case(
    shape: tuple[int, int, int], kept: int, dynamic: bool = False, **options: Any
) -> tuple[SuppressBoxesSpec, list[int]]:
    """Boxes and scores that follow one another, and the values of the run's sizes."""
    images, classes, count = shape
    sizes = Sizes(dynamic)
    row, place = (sizes(classes * count), sizes(count), 1), (sizes(classes * kept), sizes(kept), 1)
    corners = (sizes(4 * classes * kept), sizes(4 * kept), sizes(kept), 1)
    chosen = {"is_centered": False, "iou_threshold": 0.5, "score_threshold": 0.1, **options}
    spec = SuppressBoxesSpec(
        *(sizes(n) for n in shape), sizes(kept), **chosen,
        boxes=Operand(F32, (sizes(4 * count), 4, 1)), scores=Operand(F32, row),
        indices=Operand(I64, place), counts=Operand(I64, (sizes(classes), 1)),
        keys=Operand(I64, row),
        corners=Operand(F64, corners), bounds=Operand(F32, corners),
    )  # fmt: skip
    verify_specs([spec], host_target())
    return spec, sizes.dims


def check(
    isa: str, boxes: Array, scores: Array, kept: int, workers: int = 1, dynamic: bool = False,
    **options: Any,
) -> Array:  # fmt: skip
    """The kernel's indices, which are those of the operation."""
    images, classes, count = shape = scores.shape
    spec, dims = make_case(shape, kept, dynamic, **options)
    corners = (images, classes, 4, kept)
    outs = [(images, classes, kept), (images, classes), shape, corners, corners]
    result = run(spec, [boxes, scores], outs, isa=isa, dims=dims, workers=workers)
    encoding = "center" if spec.is_centered else "corner"
    op = SuppressBoxes(encoding, kept, spec.iou_threshold, spec.score_threshold)
    wanted = op.evaluate(boxes, scores)
    assert result.status == 0
    np.testing.assert_array_equal(result.outs[0], wanted[0])
    np.testing.assert_array_equal(result.outs[1], wanted[1])
    return result.outs[0]


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 16, 33, 200])
def test_suppressed_boxes_equal_evaluate(isa: str, count: int, dynamic: bool) -> None:
    """Counts around vectors and heaps, few and all kept, any number of workers."""
    boxes, rng = make_boxes(2, count), np.random.default_rng(1)
    scores = rng.random((2, 3, count), np.float32)
    for kept, workers in ((1, 1), (count, 2), (max(1, count // 3), 5)):
        check(isa, boxes, scores, kept, workers, dynamic)
        check(isa, boxes, scores, kept, workers, dynamic, is_centered=True, iou_threshold=0.0)


@pytest.mark.parametrize("isa", ISAS)
def test_equal_scores_are_taken_in_the_order_of_boxes(isa: str) -> None:
    """Zeros of both signs are equal; scores below 0 have an order as well."""
    boxes = make_boxes(1, 64, side=3.0)
    scores = np.random.default_rng(2).choice(np.float32([-2, -1, -0.0, 0.0, 1]), (1, 4, 64))
    check(isa, boxes, scores, 64, score_threshold=-1.5)


@pytest.mark.parametrize("isa", ISAS)
def test_numbers_that_are_not_finite(isa: str) -> None:
    """Such scores do not count; such boxes overlap by what f64 makes of them."""
    boxes, scores = make_boxes(1, 40), np.random.default_rng(3).random((1, 2, 40), np.float32)
    scores[0, 0, ::5] = np.float32([np.nan, np.inf, -np.inf, 0, 1, np.inf, np.nan, 1])
    boxes[0, ::7, 1] = np.float32([np.nan, np.inf, -np.inf, 0, 1e30, 1e-42])
    with np.errstate(all="ignore"):
        check(isa, boxes, scores, 40, score_threshold=-1e300)


@pytest.mark.parametrize("isa", ISAS)
def test_thresholds_between_numbers_of_f32(isa: str) -> None:
    """A score that is just above, at and below one; an overlap that is the threshold exactly."""
    scores = np.float32([[[0.1, np.nextafter(np.float32(0.1), 1), 0.3, 0.2]]])
    boxes = np.float32([[[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 11, 10], [9, 9, 10, 10]]])
    assert check(isa, boxes, scores, 4, score_threshold=0.1).tolist() == [[[2, 3, 1, 0]]]
    above = float(np.float32(0.1))
    assert check(isa, boxes, scores, 4, score_threshold=above).tolist() == [[[2, 3, 1, -1]]]
    assert check(isa, boxes, scores, 4, iou_threshold=0.49).tolist() == [[[2, 1, 0, -1]]]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_no_images_classes_or_boxes(isa: str, shape: tuple[int, int, int]) -> None:
    boxes = np.zeros((shape[0], shape[2], 4), np.float32)
    check(isa, boxes, np.zeros(shape, np.float32), min(3, shape[2]), dynamic=True)


@pytest.mark.parametrize(
    "change",
    [
        {"iou_threshold": -0.5}, {"iou_threshold": float("nan")},
        {"score_threshold": float("inf")}, {"boxes": Operand(F64, (12, 4, 1))},
        {"indices": Operand(DType.i32, (6, 3, 1))}, {"keys": Operand(I64, (6, 1, 2))},
        {"corners": Operand(F32, (24, 12, 3, 1))}, {"corners": Operand(F64, (24, 12, 1, 4))},
        {"bounds": Operand(F64, (24, 12, 3, 1))}, {"bounds": Operand(F32, (24, 12, 1, 4))},
    ],
    ids=str,
)  # fmt: skip
def test_forged_specs_are_refused(change: dict[str, Any]) -> None:
    spec, _ = make_case((2, 2, 3), 3)
    with pytest.raises(VerificationError):
        verify_specs([replace(spec, **change)], host_target())


MODEL = """<ir_version: 9, opset_import: ["" : 17]>
g (float[N, B, 4] boxes, float[N, C, B] scores) => (int64[K, 3] chosen)
<int64[1] limit = {{{limit}}}, float[1] overlap = {{{overlap}}}, float[1] least = {{0.25}}>
{{ chosen = NonMaxSuppression <center_point_box = {center}>
   (boxes, scores, limit, overlap, least) }}
"""


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(("limit", "overlap"), [(9, 0.3), (9223372036854775807, 0.5), (100, 0.0)])
def test_models_of_onnx_run_natively(limit: int, overlap: float, center: int) -> None:
    """As onnxruntime answers, for sizes that are the run's; the list alone is made by NumPy."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="not run: onnxruntime is not installed")
    text = MODEL.format(limit=limit, overlap=overlap, center=center)
    model = onnx.parser.parse_model(text).SerializeToString()
    net, session = irc.compile_model(model), onnxruntime.InferenceSession(model)
    assert [step.op.kind for step in net.plan.host_steps()] == ["ListBoxes"]
    for images, classes, count in ((1, 3, 50), (2, 1, 300)):
        boxes = make_boxes(images, count)
        if center:
            boxes[..., 2:] = np.abs(boxes[..., 2:] - boxes[..., :2])
        rng = np.random.default_rng(count)
        feed = {"boxes": boxes, "scores": rng.random((images, classes, count), np.float32)}
        (wanted,) = session.run(None, feed)
        np.testing.assert_array_equal(net(feed)[0], wanted)


@pytest.mark.parametrize(
    ("overlap", "least", "listed", "host"),
    [(0.5, -np.inf, 9, "ListBoxes"), (np.inf, 0.25, 9, "NonMaxSuppression"),
     (0.5, np.inf, 0, "NonMaxSuppression"), (0.5, np.nan, 0, "NonMaxSuppression")],
)  # fmt: skip
def test_limits_that_are_not_finite(overlap: float, least: float, listed: int, host: str) -> None:
    model = onnx.parser.parse_model(MODEL.format(limit=99, overlap=0.5, center=0))
    given = {"overlap": overlap, "least": least}
    for tensor in model.graph.initializer:
        if tensor.name in given:
            array = np.float32([given[tensor.name]])
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    net = irc.compile_model(model.SerializeToString())
    assert [step.op.kind for step in net.plan.host_steps()] == [host]
    apart = np.arange(9, dtype=np.float32)[:, None] * 3 + np.float32([0, 0, 1, 1])
    feed = {"boxes": apart[None], "scores": np.full((1, 1, 9), 0.5, np.float32)}
    assert len(net(feed)[0]) == listed


def test_a_model_without_a_score_threshold_compiles_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Each finite score counts, the lowest as well."""
    text = MODEL.format(limit=9, overlap=0.5, center=0).replace(", overlap, least)", ", overlap)")
    net = irc.compile_model(onnx.parser.parse_model(text).SerializeToString())
    scores = np.float32([[[-np.inf, np.finfo(np.float32).min, -0.5, np.nan]]])
    found = net({"boxes": make_boxes(1, 4, side=0.5), "scores": scores})[0]
    assert found[:, 2].tolist() == [2, 1] and not recwarn.list
    assert generate(make_case((1, 1, 4), 4, score_threshold=-1e308)[0], host_target(), "k").text
    assert not recwarn.list  # nor where the code comes from no cache


@pytest.mark.parametrize("limit", [0, -3])
def test_limits_without_boxes_give_an_empty_list(limit: int) -> None:
    model = onnx.parser.parse_model(MODEL.format(limit=limit, overlap=0.5, center=0))
    net = irc.compile_model(model.SerializeToString())
    feed = {"boxes": make_boxes(1, 9), "scores": np.ones((1, 2, 9), np.float32)}
    assert net(feed)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ((1, 5, 3), (1, 2, 5), "a box has 4 numbers"),
        ((2, 5, 4), (1, 2, 5), "boxes and scores differ in images"),
        ((1, 5, 4), (1, 2, 9), "boxes and scores differ in boxes"),
    ],
)
def test_boxes_and_scores_that_do_not_belong_together(
    boxes: tuple[int, ...], scores: tuple[int, ...], message: str
) -> None:
    """Of symbolic sizes, whose values a run gives, and of known ones."""
    text = MODEL.format(limit=9, overlap=0.5, center=0)
    symbolic = text.replace("[N, B, 4]", "[N, B, D]").replace("[N, C, B]", "[M, C, K2]")
    net = irc.compile_model(onnx.parser.parse_model(symbolic).SerializeToString())
    feed = {"boxes": np.ones(boxes, np.float32), "scores": np.ones(scores, np.float32)}
    with pytest.raises(InputError, match="has another shape"):
        net(feed)
    known = text.replace("[N, B, 4]", str(list(boxes))).replace("[N, C, B]", str(list(scores)))
    with pytest.raises(ShapeError, match=message):
        irc.compile_model(onnx.parser.parse_model(known).SerializeToString())
