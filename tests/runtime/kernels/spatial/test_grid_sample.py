"""Samples of grids against GridSample's own meaning and onnxruntime, and where they are stored."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import GridSample
from irc_compiler.plan.plan import KernelStep
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.resample import GridSampleSpec
from irc_compiler.plan.text import print_plan
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from onnx import TensorProto, helper, numpy_helper
from support.kernels.harness import ISAS, Sizes, run

F32 = DType.f32
# Of an image and of its grid.
TYPES = (
    *((t, t) for t in (F32, DType.f64, DType.f16, DType.bf16)),
    *((F32, DType.f64), (DType.f64, F32), (DType.f16, F32)),
)
MODES = [(m, p) for m in ("bilinear", "nearest") for p in ("zeros", "border")]


def make_case(
    shape: tuple[int, ...],
    op: GridSample,
    types: tuple[DType, DType] = (F32, F32),
    dynamic: bool = False,
    points: tuple[int, int] = (6, 5),
) -> tuple[GridSampleSpec, list[np.ndarray], list[int]]:
    """A spec whose result lies channels last, or first where sizes are the run's; its data: points
    up to half the image's side outside of it."""
    rng = np.random.default_rng(sum(shape))
    images, height, width, channels = shape
    data = rng.standard_normal(shape)
    # Multiples of 1/32 are exact in each type, and none is halfway between two elements.
    grid = rng.integers(-48, 48, (images, *points, 2)) / 32 + 1 / 64
    sizes = Sizes(dynamic)
    area = points[0] * points[1]
    out = (area * channels, points[1] * channels, channels, 1)
    if dynamic:
        out = (area * channels, points[1], 1, area)
    spec = GridSampleSpec(
        *(sizes(n) for n in (images, height, width, channels, *points)),
        op.align_corners, op.mode == "bilinear", op.padding_mode == "border",
        Operand(types[0], (sizes(height * width * channels), sizes(width * channels), channels, 1)),
        Operand(types[1], (sizes(2 * area), sizes(2 * points[1]), 2, 1)),
        Operand(types[0], tuple(sizes(n) for n in out)),
    )  # fmt: skip
    arrays = [a.astype(t.numpy) for a, t in zip((data, grid), types, strict=True)]
    return spec, arrays, sizes.dims


def evaluate(op: GridSample, data: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The operation's own result, channels last."""
    (found,) = op.evaluate(data.transpose(0, 3, 1, 2), grid)
    return found.transpose(0, 2, 3, 1).copy()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode, padding", MODES)
@pytest.mark.parametrize("types", TYPES, ids=lambda t: f"{t[0]} {t[1]}")
def test_grid_sample_is_near_evaluate(
    isa: str, mode: str, padding: str, corners: bool, types: tuple[DType, DType]
) -> None:
    """For channels around vectors, any number of workers, and sizes known or not."""
    op = GridSample(corners, mode, padding)
    narrow = max(types, key=lambda t: -t.bits)
    atol = {64: 1e-12, 32: 1e-5, 16: 2e-2}[narrow.bits]
    for channels in (1, 8, 19, 32, 70):
        shape = (2, 7, 9, channels)
        for dynamic, workers in ((False, 1), (False, 3), (True, 2)):
            spec, data, dims = make_case(shape, op, types, dynamic)
            verify_specs([spec], host_target())
            wanted = evaluate(op, *data)
            order = (channels, 6, 5) if dynamic else (6, 5, channels)
            result = run(spec, data, [(2, *order)], isa=isa, dims=dims, workers=workers)
            assert result.status == 0
            found = result.outs[0].transpose(0, 2, 3, 1) if dynamic else result.outs[0]
            wide = (v.astype(np.float64) for v in (found, wanted))
            np.testing.assert_allclose(*wide, rtol=0, atol=atol)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode, padding", MODES)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (2, 1, 5, 8), (1, 0, 4, 8), (2, 3, 3, 0)])
def test_grid_sample_of_small_images(
    isa: str, mode: str, padding: str, dynamic: bool, shape: tuple[int, ...]
) -> None:
    """An image without elements gives zeros."""
    op = GridSample(True, mode, padding)
    for points in ((0, 3), (4, 3)):
        spec, data, dims = make_case(shape, op, dynamic=dynamic, points=points)
        order = (shape[3], *points) if dynamic else (*points, shape[3])
        result = run(spec, data, [(shape[0], *order)], isa=isa, dims=dims)
        assert result.status == 0
        found = result.outs[0].transpose(0, 2, 3, 1) if dynamic else result.outs[0]
        wanted = evaluate(op, *data) if 0 not in shape else np.zeros(found.shape)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode, padding", MODES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_grid_sample_at_points_that_are_not_finite_stays_inside(
    isa: str, mode: str, padding: str, dynamic: bool
) -> None:
    op = GridSample(False, mode, padding)
    spec, data, dims = make_case((1, 4, 4, 8), op, dynamic=dynamic, points=(3, 8))
    bad = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, 0.3], np.float32)
    data[1][0, 0, :, 0], data[1][0, 1, :, 1], data[1][0, 2] = bad, bad, bad[:, None]
    order = (8, 3, 8) if dynamic else (3, 8, 8)
    result = run(spec, data, [(1, *order)], isa=isa, dims=dims)
    assert result.status == 0
    found = result.outs[0].transpose(0, 2, 3, 1) if dynamic else result.outs[0]
    if mode == "nearest" or padding == "border":
        np.testing.assert_allclose(found, evaluate(op, *data), rtol=1e-5, atol=1e-6)
    # A point that is not a number has no weights.
    assert np.isnan(found[0, 0, 0]).all() == (mode == "bilinear")


@pytest.mark.parametrize("isa", ISAS)
def test_grid_sample_reads_nothing_outside_the_image(isa: str) -> None:
    """Infinity at the border is no factor of a point outside."""
    op = GridSample(True, "bilinear", "zeros")
    spec, data, dims = make_case((1, 5, 5, 9), op)
    data[0][:, [0, -1]], data[0][:, :, [0, -1]] = np.inf, np.nan
    found = run(spec, data, [(1, 6, 5, 9)], isa=isa, dims=dims).outs[0]
    np.testing.assert_allclose(found, evaluate(op, *data), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_grid_sample_of_a_width_that_f32_rounds_up(isa: str, dynamic: bool) -> None:
    width = (1 << 24) + 3
    op = GridSample(True, "nearest", "border")
    spec, data, dims = make_case((1, 1, width, 1), op, dynamic=dynamic, points=(1, 2))
    data[1][:] = [[[2, 0], [-2, 0]]]
    found = run(spec, data, [(1, 1, 2) if dynamic else (1, 2, 1)], isa=isa, dims=dims).outs[0]
    assert found.reshape(-1).tolist() == data[0][0, 0, [-1, 0], 0].tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"channels": -1},
        {"out_width": -1},
        {"grid": Operand(F32, (60, 10, 2))},
        {"grid": Operand(DType.i32, (60, 10, 2, 1))},
        {"out": Operand(DType.f64, (240, 40, 8, 1))},
        dict.fromkeys(("data", "out"), Operand(DType.i32, (1, 1, 1, 1))),
    ],
    ids=lambda change: " ".join(change),
)
def test_verify_rejects_a_forged_grid_sample(change: dict[str, object]) -> None:
    spec, _, _ = make_case((2, 4, 4, 8), GridSample())
    with pytest.raises(VerificationError, match=r"grid_sample|GridSampleSpec"):
        verify_specs([replace(spec, **change)], host_target())


def network(levels: int, heads: int = 4, width: int = 16) -> bytes:
    """Deformable attention as exporters write it: tokens to an image per head and level, samples,
    stacked, and their sums by weights as tokens again."""
    nodes, stored = [], {"order": [0, 2, 1], "axis": [-2], "last": [-1]}
    for level in range(levels):
        height = 6 - level
        stored |= {f"s{level}": [heads, width, height, height], "t": [1, heads * width, 20]}
        nodes += [
            helper.make_node("Transpose", [f"v{level}"], [f"a{level}"], perm=[0, 2, 1]),
            helper.make_node("Reshape", [f"a{level}", f"s{level}"], [f"x{level}"]),
            helper.make_node("GridSample", [f"x{level}", f"g{level}"], [f"b{level}"]),
            helper.make_node("Unsqueeze", [f"b{level}", "axis"], [f"u{level}"]),
        ]
    stored["joined"] = [heads, width, 20, levels * 3]
    nodes += [
        helper.make_node("Concat", [f"u{n}" for n in range(levels)], ["c"], axis=-2),
        helper.make_node("Reshape", ["c", "joined"], ["j"]),
        helper.make_node("Mul", ["j", "w"], ["m"]),
        helper.make_node("ReduceSum", ["m", "last"], ["r"], keepdims=0),
        helper.make_node("Reshape", ["r", "t"], ["o"]),
        helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1]),
    ]
    ports = [helper.make_tensor_value_info("w", TensorProto.FLOAT, [heads, 1, 20, levels * 3])]
    for level in range(levels):
        area = (6 - level) ** 2
        shapes = {f"v{level}": [1, area, heads * width], f"g{level}": [heads, 20, 3, 2]}
        ports += [helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in shapes.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "g", ports, [out], constants)
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_samples_of_deformable_attention_are_written_where_they_are_joined() -> None:
    """The image is read where the tokens are, and no step copies what is sampled."""
    source = network(3)
    net = irc.compile_model(source)
    steps = [s for r in net.plan.regions for s in r.steps if isinstance(s, KernelStep)]
    families = [s.spec.family for s in steps]
    turned = ["elementwise"] * 2  # the sums, to tokens
    assert families == ["grid_sample"] * 3 + ["reduce", *turned], print_plan(net.plan)
    session = onnxruntime.InferenceSession(source)
    rng = np.random.default_rng(0)
    feeds = {
        p.name: rng.standard_normal(p.shape).astype(np.float32) / 2 for p in session.get_inputs()
    }
    (wanted,) = session.run(None, feeds)
    np.testing.assert_allclose(net(feeds)[0], wanted, rtol=1e-4, atol=1e-5)


def test_an_image_of_few_channels_is_sampled_along_the_points() -> None:
    for channels, is_kernel in ((3, False), (8, True)):
        node = helper.make_node("GridSample", ["x", "g"], ["y"])
        ports = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", channels, "H", "W"]),
            helper.make_tensor_value_info("g", TensorProto.FLOAT, ["N", 4, 5, 2]),
        ]
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "g", ports, [out])
        opset = [helper.make_opsetid("", 18)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        net = irc.compile_model(model.SerializeToString())
        assert not net.plan.host_steps()
        assert ("grid_sample" in print_plan(net.plan)) == is_kernel
