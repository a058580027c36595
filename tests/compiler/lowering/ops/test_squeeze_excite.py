"""Squeeze-and-excite as one step: the forms that are found, and why others are not."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.lowering.ops.squeeze_excite import Site, find_excite
from irc_compiler.compiler.lowering.schedule.fusion import decide_fusion
from irc_compiler.compiler.lowering.schedule.partition import decide_roles
from irc_compiler.compiler.lowering.schedule.tensor_layout import channels_last_values
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.plan import Plan
from irc_compiler.plan.specs.squeeze_excite import SqueezeExciteSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.text import print_plan
from support.plan_steps import step_families

IMAGE = """%0 = Parameter.1() {element_type=f32, shape=["N", 16, "S", 14]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[40, 16, 3, 3]}
%2 = Convolution.1(%0, %1) {pads_begin=[1, 1], pads_end=[1, 1]}
%3 = HSwish.4(%2)
"""
MEAN = """%4 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}
%5 = ReduceMean.1(%3, %4) {keep_dims=true}
"""
ADAPTIVE = """%4 = Constant.1() {data=[1, 1], dtype=i64, shape=[2]}
%5 = AdaptiveAvgPool.8(%3, %4)
"""
# Convolutions of one place with biases, as PyTorch's modules have them.
POINTS = """%6 = Constant.1() {data=~2, dtype=f32, shape=[10, 40, 1, 1]}
%7 = Convolution.1(%5, %6)
%8 = Constant.1() {data=~3, dtype=f32, shape=[1, 10, 1, 1]}
%9 = Add.1(%7, %8)
%10 = Swish.4(%9)
%11 = Constant.1() {data=~4, dtype=f32, shape=[40, 10, 1, 1]}
%12 = Convolution.1(%10, %11)
%13 = Constant.1() {data=~5, dtype=f32, shape=[1, 40, 1, 1]}
%14 = Add.1(%12, %13)
%15 = Sigmoid.1(%14)
"""
# Linear layers, between a view as rows and one as an image.
LINEAR = """%6 = Constant.1() {data=[0, -1], dtype=i64, shape=[2]}
%7 = Reshape.1(%5, %6) {special_zero=true}
%8 = Constant.1() {data=~2, dtype=f32, shape=[10, 40]}
%9 = MatMul.1(%7, %8) {transpose_b=true}
%10 = Relu.1(%9)
%11 = Constant.1() {data=~4, dtype=f32, shape=[10, 40]}
%12 = MatMul.1(%10, %11)
%13 = HSigmoid.5(%12)
%14 = Constant.1() {data=[0, 40, 1, 1], dtype=i64, shape=[4]}
%15 = Reshape.1(%13, %14) {special_zero=true}
"""
UP = "%11 = Constant.1() {data=~4, dtype=f32, shape=[40, 10, 1, 1]}"
UP_GIVEN = '%11 = Parameter.1() {element_type=f32, shape=[40, 10, 1, 1]} "w"'
SCALED = """%16 = Multiply.1(%3, %15)
"""
PROJECTED = """%17 = Constant.1() {data=~6, dtype=f32, shape=[12, 40, 1, 1]}
%18 = Convolution.1(%16, %17)
%19 = Result.1(%18) "y"
"""
# A residual network's: scaled, added to what came in, cut off at 0.
RESIDUAL = """%17 = Constant.1() {data=~6, dtype=f32, shape=[40, 16, 1, 1]}
%18 = Convolution.1(%0, %17)
%19 = Relu.1(%18)
%20 = Add.1(%19, %16)
%21 = Relu.1(%20)
%22 = MaxPool.1(%21) {kernel=[2, 2], strides=[2, 2]}
%23 = MaxPool.1(%19) {kernel=[2, 2], strides=[2, 2]}
%24 = Add.1(%22, %23)
%25 = Result.1(%24) "y"
"""


def optimised(text: str, precision: str = "f32") -> tuple[Graph, Options]:
    graph, options = parse_graph(f'graph "g"\n{text}'), Options(precision)
    optimize(graph, options)
    return graph, options


def plan_of(text: str, precision: str = "f32") -> Plan:
    graph, options = optimised(text, precision)
    return lower(graph, generic_target("avx512"), options)[0]


def blocks(plan: Plan) -> list[SqueezeExciteSpec]:
    return [s for s in plan.specs() if isinstance(s, SqueezeExciteSpec)]


@pytest.mark.parametrize("products", [POINTS, LINEAR], ids=["points", "linear"])
@pytest.mark.parametrize("means", [MEAN, ADAPTIVE], ids=["mean", "adaptive"])
def test_means_products_and_scaling_are_one_step(means: str, products: str) -> None:
    plan = plan_of(IMAGE + means + products + SCALED + PROJECTED)
    found = step_families(plan)
    assert [f for f in found if f in ("conv", "squeeze_excite", "gemm")] == [
        "conv",
        "squeeze_excite",
        "gemm",
    ]
    assert found.count("reduce") == found.count("pool") == 0, print_plan(plan)


def test_squeeze_excite_scales_the_image_in_place() -> None:
    plan = plan_of(IMAGE + MEAN + POINTS + SCALED + PROJECTED)
    (region,) = plan.regions
    (step,) = (s for s in plan.kernel_steps() if isinstance(s.spec, SqueezeExciteSpec))
    assert region.buffers[step.buffers[-1]].alias_of == step.buffers[0]


def test_what_stands_behind_the_scaling_is_its_epilogue() -> None:
    plan = plan_of(IMAGE + MEAN + POINTS + SCALED + RESIDUAL)
    (spec,) = blocks(plan)
    assert [i.op for i in spec.scale.instrs if i.op in ("mul", "add", "max")] == [
        *("mul", "add", "max")
    ]
    assert len(spec.epilogue_operands) == 1


def test_products_round_their_factors_where_the_precision_says_so() -> None:
    (spec,) = blocks(plan_of(IMAGE + MEAN + POINTS + SCALED + PROJECTED, "bf16"))
    assert spec.compute_dtype is spec.down.dtype is spec.up.dtype is DType.bf16
    assert spec.out.dtype is DType.bf16  # only a product reads it
    for program, rounded in ((spec.mean, True), (spec.squeeze, True), (spec.gate, False)):
        assert any(i.op == "flush" for i in program.instrs) is rounded


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            IMAGE + MEAN + POINTS + SCALED + PROJECTED
            + '%30 = Result.1(%10) "state"\n',
            "something else reads means, states or gates",
        ),
        (
            IMAGE + MEAN.replace("[2, 3], dtype=i64, shape=[2]", "[3], dtype=i64, shape=[1]")
            + POINTS + SCALED + PROJECTED,
            "the gate is not one number per channel",
        ),
        (
            IMAGE + "%40 = Relu.1(%3)\n%41 = Tanh.1(%40)\n" + MEAN.replace("(%3", "(%41") + POINTS
            + SCALED + PROJECTED + '%31 = Result.1(%41) "other"\n',
            "the means are not of the image that is scaled, or it does not lie channels-last",
        ),
        (
            '%3 = Parameter.1() {element_type=f32, shape=["N", 40, 5, 14]} "x"\n' + MEAN + POINTS
            + SCALED + PROJECTED,
            "the means are not of the image that is scaled, or it does not lie channels-last",
        ),
        (
            IMAGE.replace("f32", "f16") + MEAN + POINTS.replace("f32", "f16") + SCALED
            + PROJECTED.replace("f32", "f16"),
            "the scaled image has another type or shape",
        ),
        (
            IMAGE + MEAN + POINTS.replace(UP, UP_GIVEN) + SCALED + PROJECTED,
            "the weights are known at run time only",
        ),
    ],
    ids=["state", "rows", "another", "planes", "halves", "weights"],
)  # fmt: skip
def test_a_block_that_is_none_says_why(text: str, reason: str) -> None:
    graph, options = optimised(text)
    assert not blocks(lower(graph, generic_target("avx512"), options)[0])
    native = {n: role.native for n, role in decide_roles(graph).items()}
    home = dict.fromkeys(native, 0)
    site = Site(graph, native, home, decide_fusion(graph, native, home))
    last = channels_last_values(graph, native)
    scaled = [n for n in graph.order() if graph.op(n).kind in ("Multiply", "Group")]
    found = {find_excite(site, n, last) for n in scaled if graph.uses(Value(n))}
    assert reason in found, found
