"""Pooled regions against ROIAlign's own meaning and onnxruntime: modes, sizes, places outside."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import InputError, VerificationError
from irc_compiler.ir.ops import ROIAlign
from irc_compiler.plan.specs.base import GATHER_OUT_OF_RANGE, Operand
from irc_compiler.plan.specs.roi_align import ROIAlignSpec
from irc_compiler.plan.text import print_plan
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from onnx import TensorProto, helper
from support.kernels.harness import ISAS, Sizes, run, same_bits

F32 = DType.f32
MODES = {
    "asymmetric": (0.0, 0.0, 1.0),
    "half_pixel_for_nn": (0.0, 0.5, 0.0),
    "half_pixel": (0.5, 0.5, 0.0),
}
# Inside, over each edge, outside altogether, thin, empty, the wrong way round, a whole image.
BOXES = [
    [1.3, 2.1, 9.7, 7.9], [-4.2, -3.3, 5.1, 4.4], [8.2, 6.1, 40.7, 30.3], [-30, -30, -20, -20],
    [3.1, 1.2, 3.3, 9.9], [2.2, 2.2, 2.2, 2.2], [9.1, 8.2, 1.3, 2.4], [0, 0, 13, 11],
]  # fmt: skip


def made(shape: tuple[int, ...], op: ROIAlign, dynamic: bool, count: int = len(BOXES)):
    """A spec whose result lies channels last, or first where sizes are the run's; its data."""
    rng = np.random.default_rng(sum(shape))
    images, height, width, channels = shape
    data = rng.standard_normal(shape).astype(np.float32)
    rois = np.array(BOXES[:count], np.float32).reshape(count, 4)
    numbers = rng.integers(0, images, count)
    sizes = Sizes(dynamic)
    rows, columns = op.pooled_h, op.pooled_w
    out = (rows * columns * channels, columns * channels, channels, 1)
    if dynamic:
        out = (rows * columns * channels, columns, 1, rows * columns)
    spec = ROIAlignSpec(
        *(sizes(n) for n in (images, height, width, channels, count)),
        rows, columns, op.sampling_ratio, op.spatial_scale, *MODES[op.aligned_mode],
        op.mode == "max",
        Operand(F32, (sizes(height * width * channels), sizes(width * channels), channels, 1)),
        Operand(F32, (4, 1)), Operand(DType.i64, (1,)),
        Operand(F32, tuple(sizes(n) for n in out)),
    )  # fmt: skip
    return spec, [data, rois, numbers], sizes.dims


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("places", MODES)
@pytest.mark.parametrize("ratio", [0, 1, 3])
def test_modes(isa: str, mode: str, places: str, ratio: int) -> None:
    """For channels around vectors; the same bits for any workers and for dynamic sizes."""
    for channels, bins in ((1, (2, 3)), (19, (3, 2)), (70, (1, 1))):
        op = ROIAlign(*bins, ratio, 0.75, mode, places)
        shape = (2, 11, 13, channels)
        found = []
        for dynamic, workers in ((False, 1), (False, 3), (True, 2)):
            spec, data, dims = made(shape, op, dynamic)
            verify_specs([spec], host_target())
            order = (channels, *bins) if dynamic else (*bins, channels)
            result = run(spec, data, [(len(BOXES), *order)], isa=isa, dims=dims, workers=workers)
            assert result.status == 0
            out = result.outs[0]
            found.append(out if dynamic else out.transpose(0, 3, 1, 2))
        wanted = op.evaluate(data[0].transpose(0, 3, 1, 2), *data[1:])[0]
        np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-5)
        assert same_bits(found[0].copy(), found[1].copy())
        assert same_bits(found[0].copy(), found[2].copy())


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(1, 1, 1, 5), (2, 1, 9, 3), (1, 0, 4, 3), (1, 6, 5, 0)])
def test_small_images(isa: str, shape: tuple[int, ...]) -> None:
    op = ROIAlign(2, 2, 2, 0.5, "avg", "half_pixel_for_nn")
    for count in (0, len(BOXES)):
        spec, data, dims = made(shape, op, False, count)
        result = run(spec, data, [(count, 2, 2, shape[3])], isa=isa, dims=dims)
        assert result.status == 0
        wanted = op.evaluate(data[0].transpose(0, 3, 1, 2), *data[1:])[0]
        assert shape[1] or (wanted == np.zeros((count, shape[3], 2, 2))).all()
        found = result.outs[0].transpose(0, 3, 1, 2)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_corners_that_are_no_numbers(isa: str) -> None:
    """Nothing outside the image is read, whatever the corners are."""
    op = ROIAlign(2, 2, 2, 1.0, "avg", "asymmetric")
    spec, data, dims = made((1, 4, 4, 8), op, False, 6)
    bad = [np.nan, np.inf, -np.inf, 3e38, -3e38]
    data[1] = np.array([[b] * 4 for b in bad] + [[1, np.nan, 2, 3]], np.float32)
    assert run(spec, data, [(6, 2, 2, 8)], isa=isa, dims=dims).status == 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_infinities_in_the_image(isa: str, mode: str) -> None:
    """A weight of 0 times infinity is NaN, in the largest of corners, too; a sample outside is 0,
    whatever lies nearest to it."""
    op = ROIAlign(1, 3, 2, 1.0, mode, "asymmetric")
    spec, data, dims = made((1, 8, 5, 37), op, False, 2)
    data[0].reshape(-1)[::2] = -np.inf
    data[1] = np.array([[-1, 1, 3, 2], [-9, 1, -4, 2]], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = op.evaluate(data[0].transpose(0, 3, 1, 2), *data[1:])[0].transpose(0, 2, 3, 1)
    result = run(spec, data, [wanted.shape], isa=isa, dims=dims)
    assert result.status == 0 and np.isnan(wanted[0]).any() and not wanted[1].any()
    np.testing.assert_allclose(result.outs[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("places", MODES)
def test_coordinates_are_those_of_f32(places: str) -> None:
    """Whether a sample falls on an element decides whether infinities make numbers of none."""
    whole = np.arange(5, dtype=np.float32)
    boxes = np.array([[x, 0, x + w, 3] for x in whole for w in whole[1:]], np.float32)
    none = 0
    for bins, ratio in ((3, 1), (5, 1), (7, 3)):
        op = ROIAlign(1, bins, ratio, 0.5, "avg", places)
        spec, data, dims = made((1, 7, 9, 16), op, False, len(BOXES))
        spec = replace(spec, regions=len(boxes))
        data[0].reshape(-1)[::3] = -np.inf
        data[1:] = [boxes, np.zeros(len(boxes), np.int64)]
        with np.errstate(invalid="ignore"):
            wanted = op.evaluate(data[0].transpose(0, 3, 1, 2), *data[1:])[0]
        result = run(spec, data, [(len(boxes), 1, bins, 16)], isa=ISAS[0], dims=dims)
        assert (np.isnan(result.outs[0].transpose(0, 3, 1, 2)) == np.isnan(wanted)).all()
        none += int(np.isnan(wanted).sum())
    assert none


@pytest.mark.parametrize("number", [2, -1, 1 << 40])
def test_images_that_are_not_there(number: int) -> None:
    op = ROIAlign(2, 2, 2, 1.0, "avg", "asymmetric")
    spec, data, dims = made((2, 4, 4, 8), op, False, 6)
    data[2][3] = number
    result = run(spec, data, [(6, 2, 2, 8)], isa=ISAS[0], dims=dims)
    assert result.status == GATHER_OUT_OF_RANGE


def test_what_no_generator_takes() -> None:
    spec, _, _ = made((2, 4, 4, 8), ROIAlign(2, 2, 2, 1.0, "avg", "asymmetric"), False)
    wrong = (
        {"out_height": 0},
        {"sampling_ratio": -1},
        {"scale": float("nan")},
        {"rois": Operand(DType.f64, (4, 1))},
    )
    for change in wrong:
        with pytest.raises(VerificationError, match="region|roi_align"):
            verify_specs([replace(spec, **change)], host_target())


def network(mode: str, half: bool) -> bytes:
    """Two convolutions, regions of what they give, and a product of those."""
    places = "half_pixel" if half else "output_half_pixel"
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((24, 3, 3, 3)) / 3,
        "u": rng.standard_normal((24 * 9, 5)) / 9,
    }
    how = {"output_height": 3, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node(
            "RoiAlign", ["c", "r", "n"], ["a"], mode=mode,
            coordinate_transformation_mode=places, **how,
        ),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("MatMul", ["f", "u"], ["y"]),
    ]  # fmt: skip
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"]),
        helper.make_tensor_value_info("r", TensorProto.FLOAT, ["R", 4]),
        helper.make_tensor_value_info("n", TensorProto.INT64, ["R"]),
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = [
        helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.astype("f4").tobytes(), raw=True)
        for k, v in weights.items()
    ]
    graph = helper.make_graph(nodes, "g", ports, [out], made)
    opset = [helper.make_opsetid("", 16)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.mark.parametrize("mode, half", [("avg", True), ("avg", False), ("max", True)])
def test_a_detector(mode: str, half: bool) -> None:
    """All of it native, of any sizes; an image that is not there is an error."""
    source = network(mode, half)
    net = irc.compile_model(source)
    assert not net.plan.host_steps(), print_plan(net.plan)
    session = onnxruntime.InferenceSession(source)
    rng = np.random.default_rng(1)
    for images, height, width, count in ((1, 22, 26, 8), (2, 9, 31, 3), (1, 16, 16, 1)):
        x = rng.standard_normal((images, 3, height, width)).astype(np.float32)
        numbers = rng.integers(0, images, count)
        feeds = {"x": x, "r": np.array(BOXES[:count], np.float32) * 2, "n": numbers}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_allclose(net(feeds)[0], wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises((InputError, irc.Error), match="index"):
        net({**feeds, "n": np.array([1])})
