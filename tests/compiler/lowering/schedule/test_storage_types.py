"""Tensors that lie in memory as bf16: only where nobody can tell, and then always."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, Literal

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.compiler.options import Options
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.base import Size
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.specs.pooling import PoolSpec
from irc_compiler.plan.target import Target, generic_target

LOWER = importlib.import_module("irc_compiler.compiler.lowering.lower")
SCHEDULER = importlib.import_module("irc_compiler.compiler.lowering.schedule.scheduler")
STORAGE = importlib.import_module("irc_compiler.compiler.lowering.schedule.storage_types")
RNG = np.random.default_rng(7)
W = [(RNG.standard_normal((48, 48)) / 7).astype(np.float32) for _ in range(3)]
X = RNG.standard_normal((5, 48)).astype(np.float32)


def chain() -> irc.Model:
    """Product, ReLU, product: the middle is read by the second product alone."""
    x = ops.parameter("x", ["N", 48])
    return ops.model({"y": ops.matmul(ops.relu(ops.matmul(x, W[0])), W[1])})


def residual() -> irc.Model:
    """The middle is also added to the end: rounding it in memory would be seen."""
    x = ops.parameter("x", ["N", 48])
    middle = ops.relu(ops.matmul(x, W[0]))
    return ops.model({"y": ops.matmul(middle, W[1]) + middle})


def delivered() -> irc.Model:
    """The middle is a result, too."""
    x = ops.parameter("x", ["N", 48])
    middle = ops.relu(ops.matmul(x, W[0]))
    return ops.model({"y": ops.matmul(middle, W[1]), "middle": middle})


def types(net: irc.CompiledModel) -> set[DType]:
    return {b.dtype for r in net.plan.regions for b in r.buffers if b.kind == "arena"}


def test_a_layer_passes_rounded_factors_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    net = irc.compile_model(chain(), precision="bf16")
    assert types(net) == {DType.bf16}
    found = net(X)[0]
    assert types(irc.compile_model(chain())) == {DType.f32}
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    wide = irc.compile_model(chain(), precision="bf16")
    assert types(wide) == {DType.f32} and wide(X)[0].tobytes() == found.tobytes()


@pytest.mark.parametrize("make", [residual, delivered])
def test_what_others_read_stays_f32(make, monkeypatch: pytest.MonkeyPatch) -> None:
    net = irc.compile_model(make(), precision="bf16")
    assert DType.bf16 not in types(net)
    found = [np.array(y) for y in net(X)]
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    wide = irc.compile_model(make(), precision="bf16")(X)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, wide, strict=True))


def test_convolutions_pass_bf16_to_convolutions(compile_graph: Callable[..., Any]) -> None:
    """From layer to layer, but not into an activation of its own or Winograd's transform."""
    text = """%0 = Parameter.1() {element_type=f32, shape=[1, 16, 20, 20]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[16, 16, 3, 3]}
%2 = Constant.1() {data=~2, dtype=f32, shape=[24, 16, 1, 1]}
%3 = Constant.1() {data=~3, dtype=f32, shape=[16, 24, 1, 1]}
%4 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%5 = Relu.1(%4)
%6 = Convolution.1(%5, %2)
%7 = Relu.1(%6)
%8 = Convolution.1(%7, %3)
%9 = Add.1(%8, %4)
%10 = Result.1(%9) "y"
"""
    net = compile_graph(parse_graph(f'graph "g"\n{text}'), True, 1, "bf16")
    types = [
        (str(s.spec.operands()[0].dtype), str(s.spec.out.dtype))
        for s in net.plan.kernel_steps()
        if s.spec.family in ("conv", "gemm")
    ]
    assert types[-1] == ("bf16", "f32") and ("bf16", "bf16") in types
    x = np.random.default_rng(0).standard_normal((1, 16, 20, 20)).astype(np.float32)
    (wanted,) = interpret(parse_graph(f'graph "g"\n{text}'), [x])
    assert np.linalg.norm(net([x])[0] - wanted) <= 1e-2 * np.linalg.norm(wanted)


# A residual stream between convolutions: two sums, and what reads the second one.
STREAM = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 32, 12, 12]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[32, 32, 1, 1]}
%2 = Constant.1() {data=~2, dtype=f32, shape=[32, 32, 1, 1]}
%3 = Constant.1() {data=~3, dtype=f32, shape=[32, 32, 1, 1]}
%4 = Constant.1() {data=~4, dtype=f32, shape=[32, 32, 1, 1]}
%5 = Convolution.1(%0, %1)
%6 = Relu.1(%5)
%7 = Convolution.1(%6, %2)
%8 = Add.1(%7, %6)
%9 = Relu.1(%8)
%10 = Convolution.1(%9, %3)
%11 = Add.1(%9, %10)
%12 = Relu.1(%11)
"""
ENDS = {
    "convolution": '%13 = Convolution.1(%12, %4)\n%14 = Result.1(%13) "y"\n',
    "tanh": '%13 = Tanh.1(%12)\n%14 = Result.1(%13) "y"\n',
    "both": "%13 = Convolution.1(%12, %4)\n%14 = Tanh.1(%12)\n%15 = Add.1(%13, %14)\n"
    '%16 = Result.1(%15) "y"\n',
}


def products(net: irc.CompiledModel) -> list[DType]:
    return [s.spec.operands()[-1].dtype for s in net.plan.kernel_steps() if s.spec.family == "gemm"]


def pools(net: irc.CompiledModel) -> list[tuple[DType, DType]]:
    specs = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, PoolSpec)]
    return [(s.data.dtype, s.out.dtype) for s in specs]


def test_a_residual_stream_between_convolutions_is_bf16(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sums are rounded as they are stored, so the answer is another one, but its error grows
    by less than half."""
    graph = parse_graph(STREAM + ENDS["convolution"])
    x = np.random.default_rng(1).standard_normal((2, 32, 12, 12)).astype(np.float32)
    (exact,) = interpret(graph, [x])
    net = compile_graph(graph, True, 1, "bf16")
    assert products(net) == [DType.bf16, DType.bf16, DType.bf16, DType.f32]
    found = np.linalg.norm(net([x])[0] - exact)
    monkeypatch.setattr(STORAGE, "_SUM", frozenset())
    wide = compile_graph(graph, True, 1, "bf16")
    assert products(wide) == [DType.f32, DType.f32, DType.bf16, DType.f32]
    assert 0 < found <= 1.5 * np.linalg.norm(wide([x])[0] - exact)


@pytest.mark.parametrize(
    "end, second",
    [
        pytest.param("tanh", DType.f32, id="computed with it"),
        pytest.param("both", DType.bf16, id="besides"),
    ],
)
def test_a_sum_for_another_function_reads_and_stays_f32(
    compile_graph: Callable[..., Any], end: str, second: DType
) -> None:
    net = compile_graph(parse_graph(STREAM + ENDS[end]), True, 1, "bf16")
    assert products(net)[:3] == [DType.bf16, second, DType.f32]


@pytest.mark.parametrize(
    "joined, stored",
    [
        pytest.param("Add.1(%8, %6)", DType.bf16, id="sum"),
        pytest.param("Maximum.1(%6, %8)", DType.bf16, id="larger one"),
        pytest.param("Multiply.1(%8, %6)", DType.f32, id="product"),
    ],
)
def test_a_function_of_the_convolution_alone_comes_before_the_sum(
    compile_graph: Callable[..., Any], joined: str, stored: DType
) -> None:
    """As in YOLO's bottlenecks: x + silu(conv(silu(conv(x))))."""
    text = STREAM.replace("%8 = Add.1(%7, %6)", "%8 = Swish.4(%7)")
    text = text.replace("%9 = Relu.1(%8)", f"%9 = {joined}")
    graph = parse_graph(text + ENDS["convolution"])
    x = np.random.default_rng(1).standard_normal((2, 32, 12, 12)).astype(np.float32)
    net = compile_graph(graph, True, 1, "bf16")
    assert products(net)[0] is stored
    (exact,) = interpret(graph, [x])
    assert np.linalg.norm(net([x])[0] - exact) <= 1e-2 * np.linalg.norm(exact)


def test_the_largest_of_a_window_is_rounded_before_it_is_found(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between products: the largest of rounded values is the largest one, rounded."""
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 24, 11, 11]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[24, 24, 1, 1]}
%2 = Constant.1() {data=~2, dtype=f32, shape=[24, 24, 1, 1]}
%3 = Convolution.1(%0, %1)
%4 = MaxPool.1(%3) {kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]}
%5 = Convolution.1(%4, %2)
%6 = Result.1(%5) "y"
""")
    x = np.random.default_rng(1).standard_normal((2, 24, 11, 11)).astype(np.float32)
    x[0, :, 2, 2], x[0, :, 9, 9], x[1, :, 5] = np.inf, np.nan, 1e-39
    net = compile_graph(graph, True, 1, "bf16")
    assert pools(net) == [(DType.bf16, DType.bf16)]
    found = np.array(net([x])[0])
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    wide = compile_graph(graph, True, 1, "bf16")
    assert pools(wide) == [(DType.f32, DType.f32)]
    np.testing.assert_array_equal(wide([x])[0], found)


def on_tiles(*features: str) -> Target:
    plain = generic_target("avx512")
    names = {*plain.cpu_features, "avx512bf16", "avx512vnni", "amx-tile", *features}
    return dataclasses.replace(plain, cpu_features=tuple(sorted(names)))


def layers(k: int, tail: str = "%5 = Result.1(%4)") -> Graph:
    """Two products, the second of which reads K values a row of the first, and what `tail` says."""
    return parse_graph(
        f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=["N", 64]}}
%1 = Constant.1() {{data=~1, dtype=f32, shape=[64, {k}]}}
%2 = Constant.1() {{data=~2, dtype=f32, shape=[{k}, 80]}}
%3 = MatMul.1(%0, %1)
%4 = MatMul.1(%3, %2)
{tail}
"""
    )


def rows_of_the_second(graph: Graph, target: Target, precision: str = "bf16") -> Size:
    infer_graph(graph)
    specs = LOWER.lower(graph, target, Options(precision=precision))[0].specs()
    return next(s for s in specs if isinstance(s, GemmSpec) and s.n == 80).a.strides[-2]


@pytest.mark.parametrize(("k", "apart"), [(256, 288), (128, 160), (64, 64), (96, 96), (130, 130)])
def test_left_factors_of_tiles_lie_an_odd_number_of_lines_apart(k: int, apart: int) -> None:
    """Of four lines and more, where they are whole lines."""
    assert rows_of_the_second(layers(k), on_tiles("amx-bf16")) == apart
    assert rows_of_the_second(layers(k), on_tiles("amx-int8")) == k
    assert rows_of_the_second(layers(k), on_tiles("amx-bf16"), "f32") == k


@pytest.mark.parametrize(
    "tail",
    [
        "%5 = Result.1(%4)\n%6 = Result.1(%3)",
        "%6 = Softmax.8(%3) {axis=1}\n%7 = Result.1(%6)\n%5 = Result.1(%4)",
    ],
)
def test_what_others_read_has_no_gaps(tail: str) -> None:
    assert rows_of_the_second(layers(256, tail), on_tiles("amx-bf16")) == 256


@pytest.mark.parametrize("isa", ["avx512", "avx2", "neon"])
@pytest.mark.parametrize(("k", "apart"), [(256, 272), (512, 528), (768, 784), (128, 128), (64, 64)])
def test_rows_of_f32_that_share_sets_of_a_cache_have_gaps(
    isa: Literal["avx512", "avx2", "neon"], k: int, apart: int
) -> None:
    """Rows of whole KiB, where vector units read them as they are."""
    target = generic_target(isa)
    assert rows_of_the_second(layers(k), target, "f32") == apart
    assert rows_of_the_second(layers(k), target, "bf16") == k
    for other in ("Result.1(%3)", "Softmax.8(%3) {axis=1}\n%7 = Result.1(%6)"):
        read_twice = layers(k, f"%5 = Result.1(%4)\n%6 = {other}")
        assert rows_of_the_second(read_twice, target, "f32") == k


def pixels_of_images(graph: Graph, target: Target, precision: str = "f32") -> list[Size]:
    """How far apart pixels are which convolutions read, but for the first one."""
    infer_graph(graph)
    specs = LOWER.lower(graph, target, Options(precision=precision))[0].specs()
    return [s.data.strides[-1] for s in specs if isinstance(s, ConvSpec)][1:]


def image_layers(channels: int) -> Graph:
    """A convolution, whose result two nodes read, a depthwise one, a sum, and a convolution."""
    return parse_graph(
        f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[1, 16, "H", 12]}}
%1 = Constant.1() {{data=~1, dtype=f32, shape=[{channels}, 16, 3, 3]}}
%2 = Constant.1() {{data=~2, dtype=f32, shape=[{channels}, 1, 1, 3, 3]}}
%3 = Constant.1() {{data=~3, dtype=f32, shape=[24, {channels}, 3, 3]}}
%4 = Convolution.1(%0, %1) {{pads_begin=[1, 1], pads_end=[1, 1], strides=[1, 2]}}
%5 = GroupConvolution.1(%4, %2) {{pads_begin=[1, 1], pads_end=[1, 1]}}
%6 = Sigmoid.1(%5)
%7 = Add.1(%6, %4)
%8 = Convolution.1(%7, %3) {{strides=[2, 2]}}
%9 = Result.1(%8) "y"
"""
    )


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize(("channels", "apart"), [(256, 272), (768, 784), (128, 128), (288, 288)])
def test_pixels_of_f32_that_share_sets_of_a_cache_have_gaps(
    isa: Literal["avx512", "avx2"], channels: int, apart: int
) -> None:
    """With vector units, whatever reads them."""
    graph = image_layers(channels)
    assert pixels_of_images(graph, generic_target(isa)) == [apart, apart]
    assert pixels_of_images(graph, generic_target(isa), "bf16") == [channels, channels]
    assert pixels_of_images(graph, on_tiles("amx-bf16")) == [channels, channels]


@pytest.mark.parametrize("channels", [256, 288])
def test_gaps_between_pixels_change_no_bit(
    compile_graph: Callable[..., Any], channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x = image_layers(channels), RNG.standard_normal((1, 16, 9, 12)).astype(np.float32)
    found = [np.array(y) for y in compile_graph(graph, True, 2, "f32")([x])]
    monkeypatch.setattr(SCHEDULER, "spaced_values", lambda *_: frozenset())
    plain = compile_graph(graph, True, 2, "f32")([x])
    assert [y.tobytes() for y in found] == [np.array(y).tobytes() for y in plain]
    for mine, exact in zip(found, interpret(graph, [x]), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=0, atol=4e-6 * np.abs(exact).max())


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_gaps_change_no_bit(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever machine this is."""
    x = ops.parameter("x", ["N", 64])
    wide = [RNG.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 256), (256, 96))]
    hidden = ops.relu(ops.matmul(x, wide[0]))
    model = ops.model({"y": ops.matmul(hidden, wide[1])})
    given = RNG.standard_normal((37, 64)).astype(np.float32)
    found = irc.compile_model(model, precision=precision)(given)[0]
    monkeypatch.setattr(SCHEDULER, "spaced_values", lambda *_: frozenset())
    plain = irc.compile_model(model, precision=precision)(given)[0]
    assert found.tobytes() == plain.tobytes()
