"""Which kernel a part of a graph becomes, and how many of them a block takes."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.plan import INPUT, Plan
from irc_compiler.plan.specs.attention import AttentionSpec
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.specs.rows import ReduceSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.text import print_plan
from support.plan_steps import step_families

# An inverted residual of MobileNetV3: expanded, depthwise, squeezed and excited, projected.
INVERTED = """%0 = Parameter.1() {element_type=f32, shape=["N", 24, 14, 14]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[72, 24, 1, 1]}
%2 = Convolution.1(%0, %1)
%3 = HSwish.4(%2)
%4 = Constant.1() {data=~2, dtype=f32, shape=[72, 1, 1, 3, 3]}
%5 = GroupConvolution.1(%3, %4) {pads_begin=[1, 1], pads_end=[1, 1]}
%6 = HSwish.4(%5)
%7 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}
%8 = ReduceMean.1(%6, %7) {keep_dims=true}
%9 = Constant.1() {data=~3, dtype=f32, shape=[18, 72, 1, 1]}
%10 = Convolution.1(%8, %9)
%11 = Relu.1(%10)
%12 = Constant.1() {data=~4, dtype=f32, shape=[72, 18, 1, 1]}
%13 = Convolution.1(%11, %12)
%14 = HSigmoid.5(%13)
%15 = Multiply.1(%6, %14)
%16 = Constant.1() {data=~5, dtype=f32, shape=[24, 72, 1, 1]}
%17 = Convolution.1(%15, %16)
%18 = Add.1(%17, %0)
%19 = Result.1(%18) "y"
"""
# x * clip(x + 3, 0, 6) / 6 + row, with all of it, or with the sum of its rows, as the result.
HARD_SWISH = """%0 = Parameter.1() {element_type=f32, shape=["N", 40]} "x"
%1 = Parameter.1() {element_type=f32, shape=[40]} "row"
%2 = Constant.1() {data=[3], dtype=f32, shape=[1]}
%3 = Add.1(%0, %2)
%4 = Clamp.1(%3) {min=0.0, max=6.0}
%5 = Multiply.1(%0, %4)
%6 = Constant.1() {data=[6], dtype=f32, shape=[1]}
%7 = Divide.1(%5, %6)
%8 = Add.1(%7, %1)
"""
ATTENTION = """%0 = Parameter.1() {element_type=f32, shape=[2, 3, "S", 16]} "q"
%1 = Parameter.1() {element_type=f32, shape=[2, 3, "T", 16]} "k"
%2 = Parameter.1() {element_type=f32, shape=[2, 3, "T", 16]} "v"
%3 = ScaledDotProductAttention.13(%0, %1, %2) {causal=true}
%4 = Result.1(%3) "y"
"""


def plan_of(text: str, precision: str = "f32") -> Plan:
    graph, options = parse_graph(f'graph "g"\n{text}'), Options(precision)
    optimize(graph, options)
    return lower(graph, generic_target("avx512"), options)[0]


def test_an_inverted_residual_needs_no_step_of_its_own_for_activations() -> None:
    """Activations and the residual sum are epilogues; what is squeezed scales its image in the
    memory of the image. The last step turns the result for the caller."""
    plan = plan_of(INVERTED)
    expected = "gemm conv reduce gemm gemm elementwise gemm elementwise".split()
    assert step_families(plan) == expected, print_plan(plan)
    (region,) = plan.regions
    scaled = region.buffers[region.steps[5].buffers[-1]]
    assert scaled.alias_of == region.steps[1].buffers[-1]


def test_depthwise_convolutions_have_a_kernel_of_their_own() -> None:
    (spec,) = [s for s in plan_of(INVERTED).specs() if isinstance(s, ConvSpec)]
    assert spec.packed.depthwise and (spec.groups, spec.channels, spec.outputs) == (72, 1, 1)


def test_few_channels_are_read_where_they_lie() -> None:
    """A first layer reads the caller's planes; with more channels they are turned once."""
    text = """%0 = Parameter.1() {{element_type=f32, shape=[1, {0}, 14, 18]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape=[20, {0}, 3, 3]}}
%2 = Convolution.1(%0, %1) {{strides=[2, 2]}}
%3 = Result.1(%2) "y"
"""
    few, many = (plan_of(text.format(n)).regions[0] for n in (3, 9))
    assert few.buffers[few.steps[0].buffers[0]].kind == INPUT
    assert [len(r.steps) for r in (few, many)] == [2, 3]


@pytest.mark.parametrize(
    ("end", "family"),
    [
        ('%9 = Result.1(%8) "y"\n', "elementwise"),
        (
            "%9 = Constant.1() {data=[1], dtype=i64, shape=[1]}\n"
            '%10 = ReduceSum.1(%8, %9)\n%11 = Result.1(%10) "y"\n',
            "reduce",
        ),
    ],
    ids=["all", "reduced"],
)
def test_a_chain_with_broadcasts_is_one_kernel(end: str, family: str) -> None:
    assert step_families(plan_of(HARD_SWISH + end)) == [family]


RMS = """%0 = Parameter.1() {element_type=f32, shape=["N", "S", 40]} "x"
%1 = Constant.1() {data=[2], dtype=i64, shape=[1]}
%2 = Constant.1() {data=[1e-5], dtype=f32, shape=[1]}
%3 = Constant.1() {data=~1, dtype=f32, shape=[40]}
%4 = Multiply.1(%0, %0)
%5 = ReduceMean.1(%4, %1) {keep_dims=true}
%6 = Add.1(%5, %2)
%7 = Sqrt.1(%6)
%8 = Divide.1(%0, %7)
%9 = Multiply.1(%8, %3)
%10 = Result.1(%9) "y"
"""


def test_rms_normalisation_is_one_kernel() -> None:
    assert step_families(plan_of(RMS)) == ["norm"]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_attention_rounds_its_factors_where_that_is_asked_for(precision: str) -> None:
    (spec,) = plan_of(ATTENTION, precision).specs()
    assert isinstance(spec, AttentionSpec)
    assert spec.compute_dtype is (DType.bf16 if precision == "bf16" else None)


def test_every_product_rounds_its_factors_where_that_is_asked_for() -> None:
    specs = plan_of(INVERTED, "bf16").specs()
    made = [s.compute_dtype for s in specs if isinstance(s, GemmSpec | ConvSpec)]
    assert len(made) == 5 and set(made) == {DType.bf16}


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (3, 5), (4, 4)])
@pytest.mark.parametrize("mode", ["first", "last"])
def test_causal_rows_begin_at_either_end(mode: str, queries: int, keys: int, compile_graph) -> None:
    """The first query sees the first key, or the last query sees all keys."""
    text = ATTENTION.replace("ScaledDotProductAttention.13", "Attention.0")
    text = text.replace("causal=true", f'scale=0.25, causal="{mode}"')
    graph = parse_graph(f'graph "g"\n{text}')
    rng = np.random.default_rng(0)
    sizes = ((2, 3, queries, 16), (2, 3, keys, 16), (2, 3, keys, 16))
    given = [rng.standard_normal(s).astype(np.float32) for s in sizes]
    (wanted,) = interpret(graph, given)
    (found,) = compile_graph(graph, True, 1)(given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_rows_that_are_put_are_native() -> None:
    text = """%0 = Parameter.1() {element_type=f32, shape=["N", 5]} "x"
%1 = Parameter.1() {element_type=i64, shape=["K"]} "rows"
%2 = Parameter.1() {element_type=f32, shape=["K", 5]} "put"
%3 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%4 = ScatterUpdate.3(%0, %1, %2, %3)
%5 = Result.1(%4) "y"
"""
    plan = plan_of(text)
    assert not plan.host_steps() and plan.kernel_steps(), print_plan(plan)


# The sum of an image's two groups of channels, each times a number per channel; the means of its
# rows, and of its columns.
GROUPS = """%3 = Constant.1() {data=[0, 2, 24, 10, 14], dtype=i64, shape=[5]}
%4 = Reshape.1(%2, %3) {special_zero=true}
%5 = Parameter.1() {element_type=f32, shape=["N", 2, 24, 1, 1]} "gates"
%6 = Multiply.1(%4, %5)
%7 = Constant.1() {data=[1], dtype=i64, shape=[1]}
%8 = ReduceSum.1(%6, %7)
"""
STRIPS = """%7 = Constant.1() {{data=[{axis}], dtype=i64, shape=[1]}}
%8 = ReduceMean.1(%2, %7) {{keep_dims=true}}
"""


@pytest.mark.parametrize(
    ("reduction", "channels", "gates"),
    [(GROUPS, 24, True), (STRIPS.format(axis=2), 48, False), (STRIPS.format(axis=3), 48, False)],
    ids=["groups", "rows", "columns"],
)
def test_reductions_between_convolutions_read_and_write_vectors_of_channels(
    reduction: str, channels: int, gates: bool, compile_graph
) -> None:
    """No step turns an image: the one in front and the one behind are the caller's."""
    text = f"""%0 = Parameter.1() {{element_type=f32, shape=["N", 24, 10, 14]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape=[48, 24, 1, 1]}}
%2 = Convolution.1(%0, %1)
{reduction}%9 = Constant.1() {{data=~2, dtype=f32, shape=[16, {channels}, 1, 1]}}
%10 = Convolution.1(%8, %9)
%11 = Result.1(%10) "y"
"""
    plan = plan_of(text)
    assert step_families(plan) == ["gemm", "reduce", "gemm", "elementwise"], print_plan(plan)
    (spec,) = (s for s in plan.specs() if isinstance(s, ReduceSpec))
    assert [o.strides[len(spec.kept) - 1] for o in spec.operands()] == [1] * len(spec.operands())
    rng = np.random.default_rng(0)
    sizes = [(3, 24, 10, 14)] + [(3, 2, 24, 1, 1)] * gates
    given = [rng.standard_normal(s).astype(np.float32) for s in sizes]
    graph = parse_graph(f'graph "g"\n{text}')
    (wanted,) = interpret(graph, given)
    (found,) = compile_graph(graph, True, 1)(given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_images_of_tokens_stay_as_they_are(compile_graph) -> None:
    """[batch, rows, columns, channels], turned to an image, rounded to bytes with a scale that is
    known at run time, convolved, and read as pixels: no step turns what it reads."""
    text = """%0 = Parameter.1() {element_type=f32, shape=["N", 10, 14, 24]} "x"
%1 = Constant.1() {data=[0, 3, 1, 2], dtype=i64, shape=[4]}
%2 = Transpose.1(%0, %1)
%3 = Constant.1() {data=[0, 1, 2, 3], dtype=i64, shape=[4]}
%4 = ReduceMax.1(%2, %3) {keep_dims=false}
%5 = Divide.1(%2, %4)
%6 = Constant.1() {data=~1, dtype=f32, shape=[24, 1, 1, 3, 3]}
%7 = GroupConvolution.1(%5, %6) {pads_begin=[1, 1], pads_end=[1, 1]}
%8 = Constant.1() {data=[0, 24, 140], dtype=i64, shape=[3]}
%9 = Reshape.1(%7, %8) {special_zero=true}
%10 = ReduceMax.1(%9, %11) {keep_dims=false}
%12 = Divide.1(%9, %10)
%13 = Constant.1() {data=[0, 2, 1], dtype=i64, shape=[3]}
%14 = Transpose.1(%12, %13)
%15 = Constant.1() {data=~2, dtype=f32, shape=[24, 40]}
%16 = MatMul.1(%14, %15)
%17 = Result.1(%16) "y"
"""
    text = text.replace("%10 =", "%11 = Constant.1() {data=[0, 1, 2], dtype=i64, shape=[3]}\n%10 =")
    plan = plan_of(text)
    families = ["reduce", "elementwise", "conv", "reduce", "elementwise", "gemm"]
    assert step_families(plan) == families, print_plan(plan)
    (both,) = {s for s in plan.specs() if isinstance(s, ElementwiseSpec)}
    assert both.operands()[0].strides == both.operands()[-1].strides == (1,)
    x = np.random.default_rng(0).standard_normal((2, 10, 14, 24)).astype(np.float32)
    graph = parse_graph(f'graph "g"\n{text}')
    (wanted,) = interpret(graph, [x])
    (found,) = compile_graph(graph, True, 1)([x])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
