"""Convolutions of many channels, slice by slice: which, and that they compute the same."""

from __future__ import annotations

from typing import Literal

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.lowering.ops.spatial import channel_slices
from irc_compiler.compiler.lowering.ops.spatial.channel_slices import slice_channels
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.layouts import PackedConv
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.specs.convolution import ConvSpec
from onnx import TensorProto, helper, numpy_helper
from support.kernels.harness import ISAS

SAPPHIRE_RAPIDS = processor_target("sapphirerapids")
PAIRS, BYTES = PackedConv(32, kr=2, runs=True), PackedConv(32, kr=4, runs=True, column_sums=True)


@pytest.mark.parametrize(
    ("channels", "slices"),
    [
        (512, [512]),
        (513, [320, 193]),
        (576, [320, 256]),
        (768, [384, 384]),
        (1280, [320] * 4),
        (2048, [384, 384, 320, 320, 320, 320]),
        (3457, [384] * 5 + [320] * 4 + [257]),
    ],
)
def test_slices_are_even_and_have_whole_steps(channels: int, slices: list[int]) -> None:
    assert sum(slices) == channels
    assert slice_channels(SAPPHIRE_RAPIDS, PAIRS, channels, DType.bf16) == slices
    twice = [2 * n for n in slices]
    assert slice_channels(SAPPHIRE_RAPIDS, BYTES, 2 * channels, DType.i8) == twice


def test_slices_are_for_tiles_alone() -> None:
    vectors = processor_target("znver4")
    assert slice_channels(vectors, PAIRS, 2048, DType.bf16) == [2048]
    assert slice_channels(SAPPHIRE_RAPIDS, PackedConv(32), 2048, None) == [2048]
    grouped = PackedConv(32, grouped=True, kr=2, runs=True)
    assert slice_channels(SAPPHIRE_RAPIDS, grouped, 2048, DType.bf16) == [2048]


def make_model(
    kind: Literal["Conv", "ConvInteger"], channels: int, height: int | str, dilation: int
) -> bytes:
    """y = relu(convolution of x + r) of f32, or a convolution of x - z, of bytes."""
    filters = np.random.default_rng(0).integers(-2, 3, (40, channels, 3, 3))
    data, integers = [1, channels, height, 7], kind == "ConvInteger"
    slides = {"pads": [dilation] * 4, "dilations": [dilation] * 2}
    if integers:
        nodes = [helper.make_node(kind, ["x", "w", "z"], ["y"], **slides)]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.UINT8, data),
            helper.make_tensor_value_info("z", TensorProto.UINT8, []),
        ]
    else:
        nodes = [
            helper.make_node(kind, ["x", "w"], ["c"], **slides),
            helper.make_node("Add", ["c", "r"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
        ]
        shapes = {"x": data, "r": [1, 40, height, 7]}
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    result = TensorProto.INT32 if integers else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "slices",
        inputs,
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(filters.astype(np.int8 if integers else np.float32), "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.fixture(params=ISAS)
def sliced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction set, on which convolutions are sliced whatever multiplies them."""
    monkeypatch.setenv("IRC_ISA", request.param)
    monkeypatch.setattr(channel_slices, "has_tiles", lambda *_: True)


# The height of an image, of the one that runs, and the dilation: 9 rows of it take two steps.
IMAGES: list[tuple[int | str, int, int]] = [(6, 6, 1), ("H", 5, 1), (9, 9, 2)]


def check_slices(model: bytes, feed: dict[str, np.ndarray]) -> None:
    """The numbers are onnxruntime's, and the steps are several."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = session.run(None, feed)[0]
    for threads in (1, 2):
        net = irc.compile_model(model, num_threads=threads, precision="bf16")
        specs = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec)]
        whole = next(v.shape[1] for v in feed.values() if v.ndim == 4)
        assert len(specs) > 1 and all(s.channels < whole for s in specs)
        np.testing.assert_array_equal(net(feed)[0], wanted)


@pytest.mark.usefixtures("sliced")
@pytest.mark.parametrize("channels", [600, 1100])
@pytest.mark.parametrize("image", IMAGES)
def test_slices_of_bf16_against_onnxruntime(
    image: tuple[int | str, int, int], channels: int
) -> None:
    """Small integers, whose sums are exact."""
    height, run, dilation = image
    rng = np.random.default_rng(2)
    shapes = {"x": (1, channels, run, 7), "r": (1, 40, run, 7)}
    feed = {n: rng.integers(-4, 5, s).astype(np.float32) for n, s in shapes.items()}
    check_slices(make_model("Conv", channels, height, dilation), feed)


@pytest.mark.usefixtures("sliced")
@pytest.mark.parametrize("channels", [1100, 2200])
@pytest.mark.parametrize("image", IMAGES)
def test_slices_of_bytes_against_onnxruntime(
    image: tuple[int | str, int, int], channels: int
) -> None:
    """With a zero point that each slice takes out."""
    height, run, dilation = image
    rng = np.random.default_rng(3)
    feed = {
        "x": rng.integers(0, 256, (1, channels, run, 7)).astype(np.uint8),
        "z": np.array(131, np.uint8),
    }
    check_slices(make_model("ConvInteger", channels, height, dilation), feed)


def test_filters_of_slices_are_stored_once() -> None:
    """Where two numbers of rows take two steps for each slice."""
    graph = irc.read_model(make_model("Conv", 600, 9, 2)).graph
    options = Options(precision="bf16")
    optimize(graph, options)
    plan, _ = lower(graph, SAPPHIRE_RAPIDS, options)
    specs = [s for s in plan.specs() if isinstance(s, ConvSpec)]
    assert [s.channels for s in specs] == [320, 280] * 2
    filters = [c for c in plan.constants if isinstance(c.layout, PackedConv)]
    assert [c.shape for c in filters] == [(40, 320, 3, 3), (40, 280, 3, 3)]
