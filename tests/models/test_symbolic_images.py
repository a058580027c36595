"""Images of any size: the arithmetic that exporters write for sizes is known at compile time, so
that everything runs in native code; numbers of onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.text.graph_text import parse_graph
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import run_onnxruntime

RNG = np.random.default_rng(3)


def size(g: OnnxGraph, of: str, axis: int) -> str:
    return g.op("Gather", g.op("Shape", of), g.constant(axis, np.int64), axis=0)


def shrunk(g: OnnxGraph, number: str, by: int) -> str:
    """(number - 1) / by + 1: a strided axis as PyTorch's newer exporter spells it."""
    less = g.op("Add", g.constant(-1, np.int64), number)
    return g.op("Add", g.constant(1, np.int64), g.op("Div", less, g.constant(by, np.int64)))


def listed(g: OnnxGraph, *numbers: str | int) -> str:
    one = [
        g.constant([n], np.int64)
        if isinstance(n, int)
        else g.op("Reshape", n, g.constant([-1], np.int64))
        for n in numbers
    ]
    return g.op("Concat", *one, axis=0)


def convolved(g: OnnxGraph, x: str, name: str, kernel: int, stride: int, pad: int) -> str:
    weight = g.weight(name, RNG.standard_normal((4, 4, kernel, kernel)).astype(np.float32))
    return g.op("Conv", x, weight, strides=[stride] * 2, pads=[pad] * 4)


def tokens(g: OnnxGraph, x: str) -> None:
    """Two stages of patches; the second is not a size for images of less than 13 places."""
    n, h, w = size(g, x, 0), *(shrunk(g, size(g, x, axis), 4) for axis in (2, 3))
    y = convolved(g, x, "first", 7, 4, 3)
    places = g.op("Reshape", y, listed(g, n, 4, g.op("Mul", w, h)))
    y = g.op("Reshape", g.op("Relu", places), listed(g, n, 4, h, w))
    y = convolved(g, y, "second", 4, 4, 0)
    four = g.constant(4, np.int64)
    minus, one = g.constant(-4, np.int64), g.constant(1, np.int64)
    h, w = (g.op("Add", one, g.op("Div", g.op("Add", minus, d), four)) for d in (h, w))
    g.op("Reshape", y, listed(g, n, 4, g.op("Mul", w, h)), result="y")


def merged(g: OnnxGraph, x: str) -> None:
    """A coarse level resized to a fine one, whose size is computed; then a 1 x 1 convolution."""
    fine, coarse = convolved(g, x, "fine", 3, 2, 1), convolved(g, x, "coarse", 3, 4, 1)
    h, w = (shrunk(g, size(g, x, axis), 2) for axis in (2, 3))
    up = g.op("Resize", coarse, "", "", listed(g, 1, 4, h, w), mode="linear")
    convolved(g, g.op("Add", fine, up), "after", 1, 1, 0)
    g.op("Relu", g.nodes[-1].output[0], result="y")


CASES: dict[str, Callable[[OnnxGraph, str], None]] = {f.__name__: f for f in (tokens, merged)}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_sizes_of_images_are_known(case: str) -> None:
    g = OnnxGraph(opset=18)
    x = g.input("x", (1 if case == "merged" else "N", 4, "H", "W"))
    CASES[case](g, x)
    g.output("y")
    model = g.model()
    net = irc.compile_model(model.SerializeToString(), num_threads=1)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    for n, h, w in ((1, 16, 24), (1 if case == "merged" else 3, 37, 29)):
        data = np.random.default_rng(h).standard_normal((n, 4, h, w)).astype(np.float32)
        (want,) = run_onnxruntime(model, {"x": data}).values()
        found = net({"x": data})["y"]
        assert found.shape == want.shape
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_images_too_small_for_a_later_window_are_refused() -> None:
    g = OnnxGraph(opset=18)
    tokens(g, g.input("x", ("N", 4, "H", "W")))
    g.output("y")
    net = irc.compile_model(g.model().SerializeToString(), num_threads=1)
    with pytest.raises(irc.Error):
        net([np.zeros((1, 4, 12, 24), np.float32)])


# A converter calls an input by a number, and its axes after it; sizes may be floors of integers.
NUMBERED = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["x.0", 4]} "x"
%1 = Parameter.1() {element_type=f32, shape=["`32.0`", 4]} "32"
%2 = ShapeOf.3(%1) {output_type=i32}
%3 = Constant.1() {data=[0], dtype=i64, shape=[]}
%4 = Gather.8(%2, %3, %3)
%5 = Constant.1() {data=[1], dtype=i64, shape=[]}
%6 = Gather.8(%2, %5, %3)
%7 = Constant.1() {data=[2], dtype=i32, shape=[]}
%8 = Divide.1(%6, %7) {m_pythondiv=true}
%9 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%10 = Floor.1(%4)
%11 = Unsqueeze.1(%10, %9)
%12 = Unsqueeze.1(%8, %9)
%13 = Concat.1(%11, %12, %12) {axis=0}
%14 = Reshape.1(%1, %13)
%15 = Constant.1() {data=[2, 4], dtype=i32, shape=[2]}
%16 = Reshape.1(%0, %15)
%17 = Result.1(%14) "a"
%18 = Result.1(%16) "b"
"""


def test_names_that_are_numbers_and_sizes_in_i32() -> None:
    graph = parse_graph(NUMBERED)
    net = irc.compile_model(irc.compiler.model.Model(graph), num_threads=1)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4), np.arange(12, dtype=np.float32)
    a, b = net([x, y.reshape(3, 4)])
    assert a.tolist() == y.reshape(3, 2, 2).tolist() and b.tolist() == x.tolist()
