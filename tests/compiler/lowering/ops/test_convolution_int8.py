"""Convolutions of bytes in graphs: native, and bit for bit what onnxruntime gives."""

from __future__ import annotations

import dataclasses

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.target import generic_target
from onnx import TensorProto, helper, numpy_helper

CASES: dict[str, dict[str, object]] = {
    "plain": {"w": "i1"},
    "zeros": {"x_zero": 131, "w_zero": 128},
    "narrow": {"w": "i1", "stride": 2, "channels": 3, "x_zero": 7},
    "wide": {"w_zero": 3},
    "point": {"w": "i1", "kernel": 1, "pad": 0, "x_zero": 90},
    "depthwise": {"groups": 12, "w_zero": 128, "channels": 12},
    "groups": {"groups": 2, "w": "i1", "dilation": 2},
    "at run time": {"w": "i1", "x_zero": 77, "given": True},
}


def model(case: dict[str, object]) -> bytes:
    rng = np.random.default_rng(4)
    kind = np.dtype(str(case.get("w", "u1")))
    kernel, groups, channels = (
        int(str(case.get(n, d))) for n, d in (("kernel", 3), ("groups", 1), ("channels", 10))
    )
    info = np.iinfo(kind)
    shape = (12, channels // groups, kernel, kernel)
    filters = rng.integers(info.min, info.max + 1, shape).astype(kind)
    x_zero = np.array(case.get("x_zero", 0), np.uint8)
    kept = [
        numpy_helper.from_array(filters, "w"),
        numpy_helper.from_array(np.array(case.get("w_zero", 0), kind), "wz"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, channels, 9, 11])]
    if case.get("given"):
        inputs.append(helper.make_tensor_value_info("xz", TensorProto.UINT8, []))
    else:
        kept.append(numpy_helper.from_array(x_zero, "xz"))
    slides = {
        "strides": [case.get("stride", 1)] * 2,
        "pads": [case.get("pad", 1)] * 4,
        "dilations": [case.get("dilation", 1)] * 2,
    }
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], group=groups, **slides)
    out = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([node], "bytes", inputs, [out], kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return made.SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_onnxruntime(name: str) -> None:
    case, given = CASES[name], model(CASES[name])
    shape = (2, int(str(case.get("channels", 10))), 9, 11)
    feed = {"x": np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)}
    if case.get("given"):
        feed["xz"] = np.array(case["x_zero"], np.uint8)
    session = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    for threads in (1, 2):
        net = irc.compile_model(given, num_threads=threads)
        assert not net.plan.host_steps()
        assert any(isinstance(s.spec, ConvSpec) for s in net.plan.kernel_steps())
        np.testing.assert_array_equal(net(feed)[0], session.run(None, feed)[0])


def test_requantisation_is_the_convolution_s_epilogue() -> None:
    """Scale, bias, ReLU and the next layer's bytes: one kernel from bytes to bytes."""
    rng = np.random.default_rng(0)
    kept = {
        "one": np.float32(0.02), "zero": np.uint8(3), "ws": np.float32(0.01), "wz": np.int8(0),
        "w": rng.integers(-127, 128, (20, 16, 3, 3)).astype(np.int8),
        "w2": rng.integers(-127, 128, (8, 20, 3, 3)).astype(np.int8),
        "b": rng.standard_normal(20).astype(np.float32), "ys": np.float32(0.1),
    }  # fmt: skip
    text = [
        ("QuantizeLinear", "x one zero", "xq"), ("DequantizeLinear", "xq one zero", "xd"),
        ("DequantizeLinear", "w ws wz", "wd"), ("Conv", "xd wd b", "c"), ("Relu", "c", "r"),
        ("QuantizeLinear", "r ys zero", "rq"), ("DequantizeLinear", "rq ys zero", "rd"),
        ("DequantizeLinear", "w2 ws wz", "w2d"), ("Conv", "rd w2d", "y"),
    ]  # fmt: skip
    nodes = [
        helper.make_node(kind, i.split(), [o], **({"pads": [1] * 4} if kind == "Conv" else {}))
        for kind, i, o in text
    ]
    graph = helper.make_graph(
        nodes,
        "qdq",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 14, 14])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(v), n) for n, v in kept.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    net = irc.compile_model(made, num_threads=1)
    first, second = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec)]
    assert str(first.data.dtype) == str(first.out.dtype) == str(second.data.dtype) == "u8"
    assert first.out.strides[1] == second.data.strides[1] == 1
    x = rng.standard_normal((1, 16, 14, 14)).astype(np.float32)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    # A tie in between may fall to either side: a step of 0.1 times a weight of at most 1.27.
    found, wanted = net([x])[0], session.run(None, {"x": x})[0]
    assert np.abs(found - wanted).max() < 0.3 and np.abs(found - wanted).mean() < 0.03
    assert np.abs(wanted).max() > 50


@pytest.mark.parametrize("swapped", [False, True])
def test_one_of_two_added_convolutions_passes_int8_values(swapped: bool) -> None:
    """Not sums of 32 bits; the other one ends with the residual sum, whichever comes first."""
    rng = np.random.default_rng(0)
    kept = {
        "one": np.float32(0.02), "zero": np.uint8(3), "ws": np.float32(0.01), "wz": np.int8(0),
        "v": rng.integers(-127, 128, (20, 16, 3, 3)).astype(np.int8), "ys": np.float32(0.1),
        "w": rng.integers(-127, 128, (20, 16, 1, 1)).astype(np.int8), "mid": np.uint8(120),
    }  # fmt: skip
    branches = [
        [("DequantizeLinear", f"{w} ws wz", f"{w}d"), ("Conv", f"xd {w}d", f"{w}c"),
         ("QuantizeLinear", f"{w}c ys mid", f"{w}q"), ("DequantizeLinear", f"{w}q ys mid", f"{w}e")]
        for w in "vw"
    ]  # fmt: skip
    text = [
        ("QuantizeLinear", "x one zero", "xq"), ("DequantizeLinear", "xq one zero", "xd"),
        *branches[swapped], *branches[not swapped], ("Add", "ve we", "sum"), ("Relu", "sum", "r"),
        ("QuantizeLinear", "r ys zero", "y"),
    ]  # fmt: skip
    pads = {"vc": [1] * 4, "wc": [0] * 4}
    nodes = [
        helper.make_node(kind, i.split(), [o], **({"pads": pads[o]} if kind == "Conv" else {}))
        for kind, i, o in text
    ]
    graph = helper.make_graph(
        nodes,
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 9, 11])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 20, 9, 11])],
        [numpy_helper.from_array(np.array(v), n) for n, v in kept.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    net = irc.compile_model(made, num_threads=1)
    specs = [s.spec for s in net.plan.kernel_steps()]
    first, second = [s for s in specs if isinstance(s, ConvSpec)]
    assert str(first.out.dtype) == str(second.out.dtype) == "u8"
    assert "u8" in {str(e.dtype) for e in second.epilogue_operands}
    x = rng.standard_normal((1, 16, 9, 11)).astype(np.float32)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found, wanted = net([x])[0].astype(int), session.run(None, {"x": x})[0].astype(int)
    assert np.abs(found - wanted).max() <= 1 and (found != wanted).mean() < 0.01
    assert wanted.std() > 20


def three_by_three(
    size: int | str, channels: int, largest: int, kind: int = TensorProto.UINT8
) -> bytes:
    """A ConvInteger of 3 x 3 whose filters lie within `largest` of zero, some of them there."""
    rng = np.random.default_rng(3)
    filters = rng.integers(-largest, largest + 1, (64, channels, 3, 3)).astype(np.int8)
    filters[0] = largest
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], pads=[1] * 4)
    graph = helper.make_graph(
        [node],
        "bytes",
        [helper.make_tensor_value_info("x", kind, [1, channels, size, 24])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(filters, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("size", "channels", "largest", "features", "tile"),
    [
        (24, 64, 127, "avx512vnni", 4),
        (24, 64, 127, "", 4),
        (24, 64, 127, "avx512vnni amx-int8 amx-tile", 0),
        (8, 64, 127, "avx512vnni", 0),  # so few tiles do not pay for their weights
        (12, 64, 127, "", 4),  # unless the direct convolution multiplies pairs as well
        (24, 63, 127, "avx512vnni", 0),
        ("S", 64, 127, "avx512vnni", 0),
        (24, 128, 114, "avx512vnni", 4),
        (24, 128, 115, "avx512vnni", 0),  # 9 * 128 * 115 * 255 is above 2^25
    ],
)
def test_what_winograd_computes(
    size: int | str, channels: int, largest: int, features: str, tile: int
) -> None:
    plain = generic_target("avx512")
    names = tuple(sorted({*plain.cpu_features, *features.split()}))
    target = dataclasses.replace(plain, cpu_features=names)
    for algorithm, wanted in (("auto", tile), ("direct", 0)):
        graph, options = irc.read_model(three_by_three(size, channels, largest)).graph, Options()
        options = dataclasses.replace(options, conv_algorithm=algorithm)
        optimize(graph, options)
        (spec,) = [s for s in lower(graph, target, options)[0].specs() if isinstance(s, ConvSpec)]
        assert spec.packed.winograd == wanted
        assert str(spec.weights.dtype) == ("i16" if wanted else "i8")


def test_int8_without_a_zero_point_allows_sums_twice_as_large() -> None:
    for kind, tile in ((TensorProto.INT8, 4), (TensorProto.UINT8, 0)):
        graph = irc.read_model(three_by_three(24, 192, 127, kind)).graph
        optimize(graph, Options())
        specs = lower(graph, generic_target("avx512"), Options())[0].specs()
        assert [s.packed.winograd for s in specs if isinstance(s, ConvSpec)] == [tile]


def test_filters_beyond_int8_are_convolved_directly() -> None:
    """Less their zero point they are numbers of 9 bits: transformed, more than 16 bits hold."""
    given = onnx.load_from_string(three_by_three(24, 64, 100))
    given.graph.node[0].input.extend(["", "z"])
    given.graph.initializer.append(numpy_helper.from_array(np.array(-100, np.int8), "z"))
    graph = irc.read_model(given.SerializeToString()).graph
    optimize(graph, Options())
    specs = lower(graph, generic_target("avx512"), Options())[0].specs()
    found = [(s.packed.winograd, str(s.weights.dtype)) for s in specs if isinstance(s, ConvSpec)]
    assert found == [(0, "i16")]


def test_winograd_gives_the_direct_convolution_s_bits() -> None:
    given = three_by_three(24, 64, 127)
    x = np.random.default_rng(5).integers(0, 256, (1, 64, 24, 24)).astype(np.uint8)
    direct = irc.compile_model(given, num_threads=1, conv_algorithm="direct")
    for threads in (1, 2):
        net = irc.compile_model(given, num_threads=threads)
        assert net([x])[0].tobytes() == direct([x])[0].tobytes()
