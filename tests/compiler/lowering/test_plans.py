"""Plans as texts for a Target that is the same everywhere, and what fusion leaves of a graph."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.plan import ARENA, Plan
from irc_compiler.plan.specs.attention import AttentionSpec
from irc_compiler.plan.specs.rows import NormSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.text import print_plan
from irc_compiler.plan.verify.plan import verify_plan
from support.models.encoders import bert
from support.models.lowering_cases import CASES

ROOT = Path(__file__).resolve().parents[3]


def plan_of(graph: Graph) -> Plan:
    optimize(graph, Options(verify=True))
    plan, _ = lower(graph, generic_target("avx512"), Options())
    verify_plan(plan)
    return plan


def case(name: str) -> Plan:
    return plan_of(parse_graph(f'graph "{name}"\n{CASES[name]}'))


@pytest.mark.parametrize("name", ["attention_by_strides", "slices_and_concat", "data_dependent"])
def test_plan_goldens(name: str, golden) -> None:
    golden(name, print_plan(case(name)))


def test_digits_plan(golden) -> None:
    model = irc.read_model(ROOT / "samples" / "digits" / "digits.onnx")
    golden("digits", print_plan(plan_of(model.graph)))


@pytest.mark.slow
def test_a_plan_does_not_depend_on_history() -> None:
    model = bert(layers=2, hidden=32, heads=2, intermediate=64, vocab=20)
    first, second = (plan_of(irc.read_model(model).graph) for _ in range(2))
    assert print_plan(first) == print_plan(second)


@pytest.mark.slow
def test_an_encoder_layer_is_seven_steps() -> None:
    """Per layer: q, k and v in one product, attention (written in the order in which the heads are
    joined), output, norm, two products, norm. Scale and mask belong to attention; biases, gelu and
    residual sums live in epilogues."""
    two, three = (
        Counter(
            s.spec.family
            for s in plan_of(
                irc.read_model(bert(layers=n, hidden=32, heads=2, intermediate=64, vocab=20)).graph
            ).kernel_steps()
        )
        for n in (2, 3)
    )
    assert three - two == Counter(gemm=4, norm=2, attention=1)


def test_heads_and_their_mask_are_read_and_written_by_strides() -> None:
    (step,) = case("attention_by_strides").kernel_steps()
    assert isinstance(step.spec, AttentionSpec) and step.spec.mask is not None
    assert step.spec.mask.strides[-2] == 0 and step.spec.query == step.spec.key


def test_single_queries_that_share_keys_are_rows_of_one_matrix() -> None:
    """Three query heads for one of keys: a step of decoding reads the keys once."""
    specs = [s.spec for s in case("causal_attention_with_shared_heads").kernel_steps()]
    single = [s for s in specs if isinstance(s, AttentionSpec) and s.queries == 3]
    assert len(single) == 1 and single[0].causal is None
    assert {s.family for s in specs} == {"attention", "elementwise"}


def test_residual_is_in_the_norms_prologue() -> None:
    (step,) = case("layer_norm_of_a_residual").kernel_steps()
    assert isinstance(step.spec, NormSpec)
    assert len(step.spec.inputs) == 2 and len(step.spec.epilogue_operands) == 2


def test_in_place_results_share_memory() -> None:
    """A softmax writes over the scores that nobody else reads, which then live as long as it."""
    (region,) = case("in_place_softmax").regions
    scores, softmax = region.steps[0].buffers[-1], region.steps[1].buffers[-1]
    inside = region.buffers[softmax]
    assert inside.alias_of == scores and inside.alias_offset == 0
    assert region.buffers[scores].kind == ARENA and region.buffers[scores].last == 2


def test_what_is_read_again_is_not_written_over() -> None:
    text = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 8]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[8, 8]}
%2 = MatMul.1(%0, %1)
%3 = Softmax.8(%2) {axis=1}
%4 = MatMul.1(%3, %1)
%5 = MatMul.1(%2, %1)
%6 = Result.1(%4) "p"
%7 = Result.1(%5) "q"
"""
    (region,) = plan_of(parse_graph(text)).regions
    (softmax,) = [s for s in region.steps if s.spec.family == "softmax"]
    assert region.buffers[softmax.buffers[-1]].alias_of is None


def test_weights_are_stored_once() -> None:
    """Two products with one weight read one packed constant."""
    plan = case("in_place_chain")
    assert len(plan.constants) == 1 and plan.constants[0].layout is not None


def test_pieces_of_a_concatenation_are_written_in_place() -> None:
    families = [s.spec.family for s in case("slices_and_concat").kernel_steps()]
    # Two computed pieces go where they belong; the third, a view of the input, is copied.
    assert families == ["elementwise"] * 3
