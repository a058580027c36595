"""Pooled regions against ROIPooling's own meaning, bit for bit, and against onnxruntime."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import MemoryLimitError, VerificationError
from irc_compiler.ir.ops import ROIPooling
from irc_compiler.plan.plan import INPUT, OUTPUT, Buffer, KernelStep
from irc_compiler.plan.specs.base import GATHER_OUT_OF_RANGE, Operand
from irc_compiler.plan.specs.roi_pool import ROIPoolSpec
from irc_compiler.plan.text import print_plan
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from onnx import TensorProto, helper
from support.kernels.harness import ISAS, Sizes, run, same_bits

from fuzz.forged_steps import Seed, accept

F32 = DType.f32
TYPES = (F32, DType.f64, DType.f16, DType.bf16)
# Corners of the image at half size: inside, over each edge, outside, one pixel, the wrong way
# round, halves of both signs, far away.
BOXES = [
    [2.6, 4.2, 19.4, 15.8], [-8.4, -6.6, 10.2, 8.8], [16.4, 12.2, 81.4, 60.6], [-60, -60, -40, -40],
    [4.4, 4.4, 4.4, 4.4], [18.2, 16.4, 2.6, 4.8], [-1, -3, 5, 7], [-1e9, -1e9, 1e9, 1e9],
]  # fmt: skip
# Corners relative to the sides: the image, less than a pixel outside, over the edges, outside, a
# point, reversed, inside.
PARTS = [
    [0, 0, 1, 1], [-0.05, -0.04, 0.6, 1.03], [0.5, 0.5, 1.2, 0.6], [-0.3, 0.1, 0.5, 1.1],
    [1.5, 1.5, 2, 2], [0.3, 0.4, 0.3, 0.4], [0.9, 0.8, 0.1, 0.2], [0, 0.125, 0.999, 1],
]  # fmt: skip


def make_case(
    shape: tuple[int, ...],
    op: ROIPooling,
    dtype: DType = F32,
    dynamic: bool = False,
    count: int = 8,
) -> tuple[ROIPoolSpec, list[np.ndarray], list[int]]:
    """A spec whose result lies channels last, or first where sizes are the run's; its data."""
    rng = np.random.default_rng(sum(shape))
    images, height, width, channels = shape
    samples = op.method == "bilinear"
    corners = np.array(PARTS if samples else BOXES)[:count].reshape(count, 4)
    rois = np.concatenate([rng.integers(0, max(images, 1), (count, 1)), corners], 1)
    data = rng.standard_normal(shape)
    rows, columns = op.pooled_h, op.pooled_w
    sizes = Sizes(dynamic)
    out = (rows * columns * channels, columns * channels, channels, 1)
    if dynamic:
        out = (rows * columns * channels, columns, 1, rows * columns)
    spec = ROIPoolSpec(
        *(sizes(n) for n in (images, height, width, channels, count)),
        rows, columns, op.spatial_scale, samples,
        Operand(dtype, (sizes(height * width * channels), sizes(width * channels), channels, 1)),
        Operand(dtype, (5, 1)),
        Operand(dtype, tuple(sizes(n) for n in out)),
    )  # fmt: skip
    with np.errstate(over="ignore"):  # the box that is far away is infinite in f16
        return spec, [a.astype(dtype.numpy) for a in (data, rois)], sizes.dims


def evaluate(op: ROIPooling, data: np.ndarray, rois: np.ndarray) -> np.ndarray:
    """The operation's own result, channels last."""
    (found,) = op.evaluate(data.transpose(0, 3, 1, 2), rois)
    return found.transpose(0, 2, 3, 1).copy()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_roi_pool_has_the_bits_of_evaluate(isa: str, method: str, dtype: DType) -> None:
    """For channels around vectors, any number of workers, and sizes known or not."""
    for channels, bins in ((1, (2, 3)), (19, (3, 2)), (70, (1, 1))):
        op = ROIPooling(*bins, 0.5, method)
        shape = (2, 11, 13, channels)
        for dynamic, workers in ((False, 1), (False, 3), (True, 2)):
            spec, data, dims = make_case(shape, op, dtype, dynamic, 7 if dtype.bits == 16 else 8)
            verify_specs([spec], host_target())
            wanted = evaluate(op, *data)
            order = (channels, *bins) if dynamic else (*bins, channels)
            result = run(spec, data, [(len(wanted), *order)], isa=isa, dims=dims, workers=workers)
            assert result.status == 0
            found = result.outs[0].transpose(0, 2, 3, 1).copy() if dynamic else result.outs[0]
            assert same_bits(found, wanted)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 5), (2, 1, 9, 3), (1, 0, 4, 3), (1, 6, 5, 0)])
def test_roi_pool_of_small_images(isa: str, method: str, shape: tuple[int, ...]) -> None:
    op = ROIPooling(2, 2, 0.5, method)
    for count in (0, 8):
        spec, data, dims = make_case(shape, op, count=count)
        result = run(spec, data, [(count, 2, 2, shape[3])], isa=isa, dims=dims)
        assert result.status == 0
        assert same_bits(result.outs[0], evaluate(op, *data))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("method", ["max", "bilinear"])
def test_roi_pool_of_corners_that_are_not_finite_stays_inside(isa: str, method: str) -> None:
    spec, data, dims = make_case((1, 4, 4, 8), ROIPooling(2, 2, 0.5, method), count=6)
    bad = [np.nan, np.inf, -np.inf, 3e38, -3e38]
    rows = [[0, *[b] * 4] for b in bad] + [[0, 1, np.nan, 2, 3]]
    data[1] = np.array(rows, np.float32)
    assert run(spec, data, [(6, 2, 2, 8)], isa=isa, dims=dims).status == 0


@pytest.mark.parametrize("isa", ISAS)
def test_roi_pool_passes_nan_on(isa: str) -> None:
    op = ROIPooling(2, 2, 1.0)
    spec, data, dims = make_case((1, 8, 8, 9), op, count=1)
    data[1][:] = [0, 0, 0, 7, 7]
    data[0][0, 2, 1, ::2] = np.nan
    data[0][0, 6, 6] = -np.inf
    found = run(spec, data, [(1, 2, 2, 9)], isa=isa, dims=dims).outs[0]
    assert np.isnan(found[0, 0, 0, ::2]).all() and np.isnan(found).sum() == 5
    np.testing.assert_array_equal(found, evaluate(op, *data))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("image", [2, -1, 1e30, -np.inf, np.nan])
def test_roi_pool_of_an_image_that_is_not_there(isa: str, image: float) -> None:
    spec, data, dims = make_case((2, 4, 4, 8), ROIPooling(2, 2, 1.0), count=6)
    data[1][3, 0] = image
    result = run(spec, data, [(6, 2, 2, 8)], isa=isa, dims=dims)
    assert (result.status, result.element) == (GATHER_OUT_OF_RANGE, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"out_height": 0},
        {"channels": -1},
        {"scale": float("nan")},
        {"rois": Operand(DType.f64, (5, 1))},
        {"rois": Operand(F32, (5,))},
        dict.fromkeys(("data", "out"), Operand(DType.i32, (1, 1, 1, 1)))
        | {"rois": Operand(DType.i32, (5, 1))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_verify_rejects_a_forged_roi_pool(change: dict[str, object]) -> None:
    spec, _, _ = make_case((2, 4, 4, 8), ROIPooling(2, 2, 1.0))
    with pytest.raises(VerificationError, match=r"roi_pool|ROIPoolSpec"):
        verify_specs([replace(spec, **change)], host_target())


def test_verify_limits_the_pixels_of_a_forged_roi_pool() -> None:
    """A bin of an image whose rows all lie in one place, as many as a spec can count."""
    spec = ROIPoolSpec(
        *(1, 4, 4, 8, 2), 1, 1, 1.0, False,
        Operand(F32, (0, 0, 8, 1)), Operand(F32, (5, 1)), Operand(F32, (8, 8, 8, 1)),
    )  # fmt: skip
    buffers = (
        Buffer(INPUT, F32, (32,), 0), Buffer(INPUT, F32, (10,), 1), Buffer(OUTPUT, F32, (16,), 0),
    )  # fmt: skip
    step = KernelStep(spec, (0, 1, 2), (), 1, "pool", ("pool",))
    accept(Seed("pool", step, buffers, (), (), host_target()))
    endless = replace(step, spec=replace(spec, height=1 << 40))
    with pytest.raises(MemoryLimitError, match="reduces more elements"):
        accept(Seed("pool", endless, buffers, (), (), host_target()))


def network() -> bytes:
    """A convolution, the largest elements of regions of its result, and a product of those."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((24, 3, 3, 3)) / 3, "u": rng.standard_normal((216, 5)) / 9}
    pooled = {"pooled_shape": [3, 3], "spatial_scale": 0.5}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("MaxRoiPool", ["c", "r"], ["a"], **pooled),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("MatMul", ["f", "u"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"]),
        helper.make_tensor_value_info("r", TensorProto.FLOAT, ["R", 5]),
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [
        helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.astype("f4").tobytes(), raw=True)
        for k, v in weights.items()
    ]
    graph = helper.make_graph(nodes, "g", ports, [out], stored)
    opset = [helper.make_opsetid("", 16)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_roi_pool_in_a_detector() -> None:
    """All of it native, of any sizes; an image that is not there is an error."""
    source = network()
    net = irc.compile_model(source)
    assert not net.plan.host_steps(), print_plan(net.plan)
    session = onnxruntime.InferenceSession(source)
    rng = np.random.default_rng(1)
    feeds: dict[str, np.ndarray] = {}
    for images, height, width, count in ((1, 22, 26, 7), (2, 9, 31, 3), (1, 16, 16, 1)):
        x = rng.standard_normal((images, 3, height, width)).astype(np.float32)
        boxes = np.array(BOXES[:count], np.float32).reshape(count, 4)
        numbers = rng.integers(0, images, (count, 1)).astype(np.float32)
        feeds = {"x": x, "r": np.concatenate([numbers, boxes], 1)}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_allclose(net(feeds)[0], wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(irc.Error, match="index"):
        net({**feeds, "r": np.ones((1, 5), np.float32)})
