"""Convolutions and pools in graphs: every step native, results as `evaluate` gives them."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.options import Options
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import generic_target
from support.plan_steps import step_families

IMAGE = '%0 = Parameter.1() {element_type=f32, shape=["N", 3, 14, 18]} "x"\n'
MANY = '%0 = Parameter.1() {element_type=f32, shape=["N", 20, 9, 11]} "x"\n'
FILTERS = "%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 3, 3, 3]}\n"
CASES: dict[str, str] = {
    "residual_block": IMAGE
    + FILTERS
    + """%2 = Constant.1() {data=~2, dtype=f32, shape=[20, 20, 3, 3]}
%3 = Constant.1() {data=~3, dtype=f32, shape=[1, 20, 1, 1]}
%4 = Convolution.1(%0, %1) {strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]}
%5 = Add.1(%4, %3)
%6 = Relu.1(%5)
%7 = Convolution.1(%6, %2) {pads_begin=[1, 1], pads_end=[1, 1]}
%8 = Add.1(%6, %7)
%9 = Relu.1(%8)
%10 = Result.1(%9) "y"
%11 = Result.1(%6) "inner"
""",
    "points_and_depthwise": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[33, 20, 1, 1]}
%2 = Convolution.1(%0, %1)
%3 = Constant.1() {data=~2, dtype=f32, shape=[33, 1, 1, 3, 3]}
%4 = GroupConvolution.1(%2, %3) {strides=[2, 1], pads_begin=[1, 1], pads_end=[1, 1]}
%5 = Swish.4(%4)
%6 = Constant.1() {data=~3, dtype=f32, shape=[5, 33, 1, 1]}
%7 = Convolution.1(%5, %6)
%8 = Result.1(%7) "y"
""",
    "squeeze_and_excite": MANY
    + """%1 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}
%2 = ReduceMean.1(%0, %1) {keep_dims=true}
%3 = Constant.1() {data=~1, dtype=f32, shape=[20, 20, 1, 1]}
%4 = Convolution.1(%2, %3)
%5 = Sigmoid.1(%4)
%6 = Constant.1() {data=~4, dtype=f32, shape=[20, 20, 3, 3]}
%7 = Convolution.1(%0, %6) {auto_pad="same_upper"}
%8 = Multiply.1(%7, %5)
%9 = Result.1(%8) "y"
""",
    "concatenation_of_branches": IMAGE
    + FILTERS
    + """%2 = Constant.1() {data=~2, dtype=f32, shape=[7, 3, 1, 1]}
%3 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%4 = Convolution.1(%0, %2)
%5 = AvgPool.1(%0) {kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1], exclude_pad=true}
%6 = Concat.1(%3, %4, %5) {axis=1}
%7 = Constant.1() {data=~3, dtype=f32, shape=[6, 30, 3, 3]}
%8 = Convolution.1(%6, %7)
%9 = MaxPool.1(%8) {kernel=[2, 2], strides=[2, 2], rounding_type="ceil"}
%10 = Constant.1() {data=[0, -1], dtype=i64, shape=[2]}
%11 = Reshape.1(%9, %10) {special_zero=true}
%12 = Result.1(%11) "y"
""",
    "detector_head": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[12, 20, 3, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%3 = Constant.1() {data=[0, 2, 3, 1], dtype=i64, shape=[4]}
%4 = Transpose.1(%2, %3)
%5 = Constant.1() {data=[0, -1, 4], dtype=i64, shape=[3]}
%6 = Reshape.1(%4, %5) {special_zero=true}
%7 = Softmax.8(%6) {axis=2}
%8 = Result.1(%7) "y"
""",
    "symbolic_image": """%0 = Parameter.1() {element_type=f32, shape=["N", 3, "S", "D"]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 3, 3, 3]}
%2 = Convolution.1(%0, %1) {strides=[2, 2], auto_pad="same_lower"}
%3 = Relu.1(%2)
%4 = Constant.1() {data=~2, dtype=f32, shape=[9, 20, 1, 1]}
%5 = Convolution.1(%3, %4)
%6 = MaxPool.1(%5) {kernel=[3, 3], strides=[1, 1], auto_pad="same_upper"}
%7 = Result.1(%6) "y"
""",
    "line": """%0 = Parameter.1() {element_type=f32, shape=["N", 6, "S"]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[8, 6, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[2], pads_end=[0]}
%3 = Tanh.1(%2)
%4 = Constant.1() {data=~2, dtype=f32, shape=[8, 1, 1, 5]}
%5 = GroupConvolution.1(%3, %4) {pads_begin=[2], pads_end=[2]}
%6 = Result.1(%5) "y"
""",
    "volume": """%0 = Parameter.1() {element_type=f32, shape=["N", 9, 5, "S", 6]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[12, 9, 3, 3, 2]}
%2 = Convolution.1(%0, %1) {strides=[2, 1, 1], dilations=[1, 2, 1], pads_begin=[1, 2, 0]}
%3 = Relu.1(%2)
%4 = MaxPool.1(%3) {kernel=[1, 2, 2], strides=[1, 1, 2], pads_begin=[0, 1, 0]}
%5 = Constant.1() {data=~2, dtype=f32, shape=[12, 1, 1, 2, 3, 2]}
%6 = GroupConvolution.1(%4, %5) {pads_begin=[1, 1, 1], pads_end=[1, 1, 1]}
%7 = Constant.1() {data=~3, dtype=f32, shape=[12, 5, 2, 2, 3]}
%8 = ConvolutionBackpropData.1(%6, %7) {strides=[2, 1, 2]}
%9 = Result.1(%8) "y"
""",
    "normalised": IMAGE
    + FILTERS
    + """%2 = Constant.1() {data=["""
    + ", ".join(str(1 + i % 9) for i in range(20))
    + """], dtype=f32, shape=[20]}
%3 = Constant.1() {data=~5, dtype=f32, shape=[20]}
%4 = Convolution.1(%0, %1)
%5 = BatchNormInference.5(%4, %3, %3, %3, %2) {epsilon=1e-5}
%6 = Relu.1(%5)
%7 = BatchNormInference.5(%6, %3, %3, %3, %2) {epsilon=1e-5}
%8 = Result.1(%7) "y"
""",
    "half": """%0 = Parameter.1() {element_type=f16, shape=["N", 3, 9, 9]} "x"
%1 = Constant.1() {data=~1, dtype=f16, shape=[8, 3, 3, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%3 = Result.1(%2) "y"
""",
    "adaptive": MANY
    + """%1 = Constant.1() {data=[3, 1], dtype=i64, shape=[2]}
%2 = AdaptiveAvgPool.8(%0, %1)
%3 = Result.1(%2) "y"
""",
    "padded_points": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[7, 20, 1, 1]}
%2 = Convolution.1(%0, %1) {pads_end=[1, 2]}
%3 = Convolution.1(%0, %1) {strides=[2, 3]}
%4 = Result.1(%2) "padded"
%5 = Result.1(%3) "picked"
""",
    "transposed": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 9, 3, 4]}
%2 = ConvolutionBackpropData.1(%0, %1) {strides=[2, 2], pads_begin=[1, 1], output_padding=[1, 0]}
%3 = Constant.1() {data=~2, dtype=f32, shape=[1, 9, 1, 1]}
%4 = Add.1(%2, %3)
%5 = Relu.1(%4)
%6 = Constant.1() {data=~3, dtype=f32, shape=[3, 3, 2, 5, 2]}
%7 = GroupConvolutionBackpropData.1(%5, %6) {dilations=[2, 1], pads_begin=[0, 1], pads_end=[3, 0]}
%8 = Result.1(%7) "y"
""",
    "transposed_line": """%0 = Parameter.1() {element_type=f32, shape=["N", 6, "S"]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[6, 4, 7]}
%2 = ConvolutionBackpropData.1(%0, %1) {strides=[3], pads_begin=[4], pads_end=[1]}
%3 = Result.1(%2) "y"
""",
    # Remainders of the last axis that are channels of one step: with a bias of one channel, with
    # paddings, of many channels, and in planes.
    "transposed_joined": """%0 = Parameter.1() {element_type=f32, shape=["N", 6, "S"]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[6, 1, 8]}
%2 = ConvolutionBackpropData.1(%0, %1) {strides=[4]}
%3 = Constant.1() {data=~2, dtype=f32, shape=[1, 1, 1]}
%4 = Add.1(%2, %3)
%5 = Constant.1() {data=~3, dtype=f32, shape=[6, 5, 6]}
%6 = ConvolutionBackpropData.1(%0, %5) {strides=[2], pads_begin=[2], pads_end=[0]}
%7 = Relu.1(%6)
%8 = Result.1(%4) "one"
%9 = Result.1(%7) "many"
""",
    "transposed_planes": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 3, 3, 4]}
%2 = ConvolutionBackpropData.1(%0, %1) {strides=[2, 4], pads_begin=[1, 0]}
%3 = Sigmoid.1(%2)
%4 = Result.1(%3) "y"
""",
    # As converters of TensorFlow write it: paddings follow from the output's sizes.
    "transposed_to_sizes": MANY
    + """%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 3, 5, 4]}
%2 = ShapeOf.3(%0)
%3 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}
%4 = Constant.1() {data=[0], dtype=i64, shape=[]}
%5 = Gather.8(%2, %3, %4)
%6 = Multiply.1(%5, %3)
%7 = ConvolutionBackpropData.1(%0, %1, %6) {strides=[2, 3], auto_pad="same_lower"}
%8 = ConvolutionBackpropData.1(%0, %1, %6) {strides=[2, 3], auto_pad="same_upper"}
%9 = Result.1(%7) "lower"
%10 = Result.1(%8) "upper"
""",
    "one_of_each": """%0 = Parameter.1() {element_type=f32, shape=[1, 1, 1, 1]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[1, 1, 3, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%3 = Constant.1() {data=~2, dtype=f32, shape=[1, 1, 1, 1, 1]}
%4 = GroupConvolution.1(%2, %3)
%5 = Constant.1() {data=~2, dtype=f32, shape=[1, 1, 1, 1]}
%6 = Convolution.1(%4, %5)
%7 = Result.1(%6) "y"
""",
}  # fmt: skip
SIZES = ({"N": 1, "S": 12, "D": 16}, {"N": 2, "S": 7, "D": 33}, {"N": 3, "S": 31, "D": 5})


def inputs_of(net: irc.CompiledModel, sizes: dict[str, int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for port in net.inputs:
        assert port.shape is not None
        shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
        made.append(rng.standard_normal(shape).astype(DType(port.dtype).numpy))
    return made


def graph_of(name: str) -> Graph:
    return parse_graph(f'graph "{name}"\n{CASES[name]}')


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [False, True], ids=["as-is", "optimised"])
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, optimised: bool, compile_graph) -> None:
    graph = graph_of(name)
    first: list[list[np.ndarray]] = []
    for threads in (1, 2):
        net = compile_graph(graph.copy(), optimised, threads)
        if optimised:
            assert not net.plan.host_steps()
        for seed, sizes in enumerate(SIZES):
            inputs = inputs_of(net, sizes, seed)
            got = list(net(inputs))
            for g, w in zip(got, interpret(graph, inputs), strict=True):
                assert g.shape == w.shape and g.dtype == w.dtype
                limit = 2e-3 if w.dtype == np.float16 else 2e-5
                worst = max(1.0, float(np.abs(w).max(initial=0)))
                np.testing.assert_allclose(g / worst, w / worst, rtol=0, atol=limit)
            if threads == 1:
                first.append(got)
            else:
                assert [g.tobytes() for g in got] == [g.tobytes() for g in first[seed]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("half", "adaptive")])
def test_factors_of_bf16(name: str, compile_graph) -> None:
    """Every step stays native; the error is that of rounding factors to 8 bits, which products of
    fewer than 8 terms do not."""
    graph = graph_of(name)
    net = compile_graph(graph.copy(), True, 1, "bf16")
    assert not net.plan.host_steps()
    specs = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec | GemmSpec)]
    assert specs
    for spec in specs:
        if isinstance(spec, ConvSpec):
            exact = bool(spec.packed.winograd)
        else:
            exact = isinstance(spec.k, int) and spec.k < 8
        assert spec.compute_dtype is (None if exact else DType.bf16)
    for seed, sizes in enumerate(SIZES):
        inputs = inputs_of(net, sizes, seed)
        for g, w in zip(net(inputs), interpret(graph, inputs), strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            assert np.linalg.norm(g - w) <= 2e-2 * np.linalg.norm(w)


@pytest.mark.slow
def test_a_chain_is_one_step_per_convolution(compile_graph) -> None:
    """Bias, residual and activation are epilogues. Both results are copied for the caller, who
    wants channels first."""
    net = compile_graph(graph_of("residual_block"), True, 1)
    assert step_families(net.plan) == ["conv", "elementwise"] * 2
    specs = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec)]
    # Besides the data: a bias, and the image that is added.
    assert [[len(o.strides) - o.strides.count(0) for o in s.epilogue_operands] for s in specs] == [
        [1],
        [4],
    ]
    net = compile_graph(graph_of("points_and_depthwise"), True, 1)
    assert step_families(net.plan) == ["gemm", "conv", "gemm", "elementwise"]


def test_normalisation_goes_into_filters(compile_graph) -> None:
    net = compile_graph(graph_of("normalised"), True, 1)
    assert step_families(net.plan).count("conv") == 1
    assert net.trace.hits()["scale_filters"] == 1


def test_branches_write_into_their_concatenation(compile_graph) -> None:
    net = compile_graph(graph_of("concatenation_of_branches"), True, 1)
    specs = [s.spec for s in net.plan.kernel_steps()]
    branch = next(s for s in specs if isinstance(s, ConvSpec))
    point = next(s for s in specs if isinstance(s, GemmSpec))
    assert branch.out.strides[4 - 1] == 30 and point.out.strides[-2] == 30


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%1 = Parameter.1() {element_type=f32, shape=[4, 3, 3, 3]}\n"
         "%2 = Convolution.1(%0, %1)\n", "the filters are known at run time only"),
        ("%1 = Constant.1() {data=~1, dtype=f32, shape=[4, 3, 3, 3]}\n"
         "%2 = MaxPool.8(%0) {kernel=[2, 2], auto_pad=\"same_upper\"}\n%9 = Result.1(%2:1) \"i\"\n",
         "the indices of the largest elements are read"),
    ],
    ids=["filters", "indices"],
)  # fmt: skip
def test_refusals(text: str, reason: str, compile_graph) -> None:
    graph = parse_graph(f'graph "g"\n{IMAGE}{text}%3 = Result.1(%2) "y"\n')
    net = compile_graph(graph, True, 1)
    assert [s.reason for s in net.plan.host_steps()] == [reason]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "channels", "stride", "tile"),
    [(28, 16, 1, 4), (27, 16, 1, 2), (7, 16, 1, 0), (28, 15, 1, 0), (28, 16, 2, 0)],
)
def test_what_winograd_computes(
    size: int, channels: int, stride: int, tile: int, compile_graph
) -> None:
    graph = parse_graph(
        f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=["N", {channels}, {size * stride}, {size * stride}]}}
%1 = Constant.1() {{data=~1, dtype=f32, shape=[16, {channels}, 3, 3]}}
%2 = Convolution.1(%0, %1) {{pads_begin=[1, 1], pads_end=[1, 1], strides=[{stride}, {stride}]}}
%3 = Result.1(%2)
"""
    )
    net = compile_graph(graph, True, 1)
    (spec,) = (s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec))
    assert spec.packed.winograd == tile
    direct = compile_with_options(irc.Model(graph), Options(conv_algorithm="direct"), 1)
    assert all(
        s.spec.packed.winograd == 0
        for s in direct.plan.kernel_steps()
        if isinstance(s.spec, ConvSpec)
    )
    inputs = inputs_of(net, {"N": 2}, 3)
    (found,), (expected,) = net(inputs), direct(inputs)
    assert np.max(np.abs(found - expected)) <= 2e-5 * np.max(np.abs(expected))


@pytest.mark.parametrize(
    ("size", "channels", "features", "tile"),
    [
        (56, 64, "avx512bf16", 4),
        (28, 128, "avx512bf16", 4),
        (20, 128, "avx512bf16", 4),
        (14, 256, "avx512bf16", 0),  # so few tiles do not pay for their weights
        (56, 15, "avx512bf16", 0),
        (56, 64, "avx512bf16 amx-bf16 amx-tile", 0),
        (14, 256, "", 2),  # without a unit bf16 takes as long as f32
        ('"S"', 128, "avx512bf16", 0),
    ],
)
def test_where_winograd_in_f32_stands_in_for_bf16(
    size: int | str, channels: int, features: str, tile: int
) -> None:
    """Whatever the batch; and what the transform reads lies in f32, all other factors in bf16."""
    plain, options = generic_target("avx512"), Options(precision="bf16")
    names = tuple(sorted({*plain.cpu_features, *features.split()}))
    for batch in (1, 8, '"N"'):
        graph = parse_graph(
            f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[{batch}, {channels}, {size}, {size}]}}
%1 = Constant.1() {{data=~1, dtype=f32, shape=[{channels}, {channels}, 1, 1]}}
%2 = Constant.1() {{data=~2, dtype=f32, shape=[{channels}, {channels}, 3, 3]}}
%3 = Convolution.1(%0, %1)
%4 = Convolution.1(%3, %2) {{pads_begin=[1, 1], pads_end=[1, 1]}}
%5 = Result.1(%4)
"""
        )
        plan, _ = lower(graph, replace(plain, cpu_features=names), options)
        (spec,) = [s for s in plan.specs() if isinstance(s, ConvSpec)]
        assert spec.packed.winograd == tile
        assert spec.compute_dtype is (None if tile else DType.bf16)
        assert spec.data.dtype is (DType.f32 if tile else DType.bf16)


@pytest.mark.slow
def test_winograd_of_run_time_sizes(compile_graph) -> None:
    """Images of unknown size take F(2 x 2), whatever their size: the bits are those of a kernel for
    that size alone, where it takes F(2 x 2) as well."""
    text = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 16, "S", "D"]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 16, 3, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%3 = Relu.1(%2)
%4 = Result.1(%3) "y"
"""
    graph = parse_graph(text)
    nets = [compile_graph(graph, True, n) for n in (1, 2)]
    for net in nets:
        (spec,) = (s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec))
        assert spec.packed.winograd == 2
    direct = compile_with_options(irc.Model(graph), Options(conv_algorithm="direct"), 1)
    for size in ((1, 1), (3, 7), (27, 20), (64, 33)):
        inputs = inputs_of(nets[0], {"N": 2, "S": size[0], "D": size[1]}, 3)
        (expected,), *found = direct(inputs), *(net(inputs)[0] for net in nets)
        assert np.max(np.abs(found[0] - expected)) <= 2e-6 * np.max(np.abs(expected))
        assert found[0].tobytes() == found[1].tobytes()
        if size == (27, 20):
            sizes = text.replace('"N"', "2").replace('"S"', "27").replace('"D"', "20")
            fixed = compile_graph(parse_graph(sizes), True, 1)
            assert fixed(inputs)[0].tobytes() == found[0].tobytes()


@pytest.mark.parametrize("name", ["transposed_joined", "transposed_planes"])
def test_remainders_are_joined(name: str, compile_graph) -> None:
    net = compile_graph(graph_of(name), True, 1)
    steps = [s for s in net.plan.kernel_steps() if isinstance(s.spec, ConvSpec)]
    assert len(steps) == 2
