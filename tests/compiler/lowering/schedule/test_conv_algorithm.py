"""Which filters Winograd's transform computes, and what models do with extreme data."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.lowering.schedule.conv_algorithm import (
    MAX_WEIGHT,
    MAX_WEIGHT_RATIO,
    byte_tile,
)
from irc_compiler.compiler.options import Options
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.ops import Constant, Convolution, Parameter, Result
from irc_compiler.ir.ops.nn.pooling_window import Windows
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.target import generic_target
from onnx import TensorProto as T
from onnx import helper, numpy_helper


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def tile(filters: np.ndarray, precision: str = "f32", size: int = 28) -> int:
    """The side of the tiles with which a convolution by these filters is lowered."""
    graph, depth = Graph("test"), [6] * (filters.ndim - 4)
    data = Parameter(DType.f32, (symbol("N"), filters.shape[1], *depth, size, size))
    x = Value(graph.add(data, name="x"))
    w = Value(graph.add(Constant.of(filters, DType.f32)))
    pads = (1,) * (filters.ndim - 2)
    y = graph.add(Convolution(pads_begin=pads, pads_end=pads), [x, w])
    graph.add(Result(), [Value(y)], name="y")
    infer_graph(graph)
    plan, _ = lower(graph, generic_target("avx512"), Options(precision=precision))
    (spec,) = (s for s in plan.specs() if isinstance(s, ConvSpec))
    return spec.packed.winograd


def scaled(factor: float) -> np.ndarray:
    """Filters of one output of which are larger by a factor at one tap, in a corner."""
    filters = np.ones((20, 16, 3, 3), np.float32)
    filters[7, 3, 0, 2] = factor
    return filters


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("size", [28, 14])
def test_ordinary_filters_are_transformed(size: int, precision: str) -> None:
    wanted = 4 if size == 28 else 2
    filters = numbers(20, 16, 3, 3)
    assert tile(filters, precision, size) == wanted
    assert tile(scaled(MAX_WEIGHT_RATIO), precision, size) == wanted
    filters[2] = 0
    assert tile(filters * np.float32(1e-30), precision, size) == wanted
    only_middle = np.zeros_like(filters)
    only_middle[:, :, 1, 1] = 1
    assert tile(only_middle * np.float32(MAX_WEIGHT), precision, size) == wanted


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, 2 * MAX_WEIGHT, -1e4])
def test_extreme_filters_are_not(value: float, precision: str) -> None:
    for size in (28, 14):
        filters = scaled(value)
        assert tile(filters, precision, size) == 0
    everywhere = np.full((20, 16, 3, 3), value, np.float32)
    assert tile(everywhere, precision) == (4 if abs(value) < MAX_WEIGHT else 0)
    one_tap = np.zeros((20, 16, 3, 3), np.float32)
    one_tap[:, :, 2, 1] = 1
    assert tile(one_tap, precision) == 0


def test_slices_of_three_axes_are_channels() -> None:
    """As many as windows read count, and each slice's filters are ordinary by themselves."""
    assert [tile(numbers(20, 16, 3, 3, 3), size=n) for n in (7, 14, 28)] == [0, 2, 4]
    assert [tile(numbers(20, n, 3, 3, 3)) for n in (5, 6)] == [0, 4]
    assert tile(numbers(20, 5, 1, 3, 3)) == tile(numbers(15, 16, 3, 3, 3)) == 0
    assert tile(numbers(20, 16, 3, 3, 5)) == tile(numbers(20, 16, 3, 1, 3)) == 0
    filters = numbers(20, 16, 3, 3, 3)
    filters[7, :, 1] = 1e4
    assert tile(filters) == 4
    filters[7, 3, 0, 0, 2] = 1e4
    assert tile(filters) == 0


def test_bytes_are_transformed_in_two_axes() -> None:
    """Also where the batch is not known, so that a volume has as many known sizes as images."""
    filters = np.ones((64, 64, 3, 3, 3), np.int8)
    volume = Windows((3, 3, 3), (1,) * 3, (1,) * 3, (1,) * 3, (1,) * 3)
    image = Windows((3, 3), (1,) * 2, (1,) * 2, (1,) * 2, (1,) * 2)
    given = Options(), processor_target("icelake-server")
    assert byte_tile(*given, image, filters[:, :, 0], 1, (1, 64, 56, 56)) == 4
    assert byte_tile(*given, volume, filters, 1, (symbol("N"), 64, 64, 56, 56)) == 0


def convolution(size: int, channels: int) -> bytes:
    """A convolution, a bias and a ReLU as an ONNX model."""
    filters = numbers(24, channels, 3, 3) / np.float32(3 * np.sqrt(channels))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, ["N", channels, size, size])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["N", 24, size, size])],
        [numpy_helper.from_array(filters, "w"), numpy_helper.from_array(numbers(24), "b")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("size", [16, 32])
def test_models_take_extreme_pixels_as_onnxruntime_does(size: int, precision: str) -> None:
    """The same outputs that are not finite; elsewhere errors as those of ordinary images."""
    model = convolution(size, 32)
    session = onnxruntime.InferenceSession(model)
    nets = [irc.compile_model(model, precision=precision, num_threads=n) for n in (1, 2)]
    ordinary = np.random.default_rng(5).standard_normal((2, 32, size, size)).astype(np.float32)
    (wanted,) = session.run(None, {"x": ordinary})
    # The transform's error of an ordinary image: without FMA it is larger.
    limit = 1.5 * np.abs(nets[0]({"x": ordinary})["y"] - wanted).max()
    assert limit <= (4e-5 if precision == "f32" else 5e-2)
    for value in (np.nan, np.inf, 1e38, -1e38, 1e6, 1e3):
        x = ordinary.copy()
        x[1, 5, size // 2, size // 2 - 1] = value
        (wanted,) = session.run(None, {"x": x})
        found = [net({"x": x})["y"] for net in nets]
        assert found[0].tobytes() == found[1].tobytes()
        for kind in (np.isnan, np.isinf):
            np.testing.assert_array_equal(kind(found[0]), kind(wanted))
        apart = np.ones_like(wanted, dtype=bool)  # windows that do not contain the value
        apart[1, :, size // 2 - 1 : size // 2 + 2, size // 2 - 2 : size // 2 + 1] = False
        assert np.abs(found[0][apart] - wanted[apart]).max() <= limit
