"""Plans as texts for a Target that is the same everywhere, and what fusion leaves of a graph."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import irc
import pytest
from irc.compiler.lowering import lower
from irc.compiler.options import Options
from irc.compiler.pipeline import optimise
from irc.ir.graph import Graph
from irc.ir.plan import ARENA, Plan
from irc.ir.plan_text import print_plan
from irc.ir.specs import GemmSpec, NormSpec, SoftmaxSpec
from irc.ir.target import generic
from irc.ir.text import parse_graph
from irc.ir.verify_plan import verify_plan
from models.encoders import bert

from lowering.cases import CASES

ROOT = Path(__file__).resolve().parent.parent.parent


def plan_of(graph: Graph) -> Plan:
    optimise(graph, Options(verify=True))
    plan, _ = lower(graph, generic("avx512"), Options())
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


def test_a_plan_does_not_depend_on_history() -> None:
    model = bert(layers=2, hidden=32, heads=2, intermediate=64, vocab=20)
    first, second = (plan_of(irc.read_model(model).graph) for _ in range(2))
    assert print_plan(first) == print_plan(second)


def test_an_encoder_layer_is_eleven_steps() -> None:
    """Per layer: q, k, v, scores, softmax, mixture (written in the order in which the heads are
    joined), output, norm, two products, norm. Scale, masks, biases, gelu and
    residual sums live in epilogues and prologues."""
    two, three = (
        Counter(
            s.spec.family
            for s in plan_of(
                irc.read_model(bert(layers=n, hidden=32, heads=2, intermediate=64, vocab=20)).graph
            ).kernel_steps()
        )
        for n in (2, 3)
    )
    assert three - two == Counter(gemm=8, norm=2, softmax=1)


def test_mask_and_scale_are_in_the_products_epilogue() -> None:
    specs = [s.spec for s in case("attention_by_strides").kernel_steps()]
    scores, softmax = specs[0], specs[1]
    assert isinstance(scores, GemmSpec) and isinstance(softmax, SoftmaxSpec)
    assert [i.op for i in scores.epilogue.instrs if i.op not in ("input", "const")] == [
        "mul",
        "add",
    ]
    assert len(scores.extras) == 1


def test_residual_is_in_the_norms_prologue() -> None:
    (step,) = case("layer_norm_of_a_residual").kernel_steps()
    assert isinstance(step.spec, NormSpec)
    assert len(step.spec.inputs) == 2 and len(step.spec.extras) == 2


def test_in_place_results_share_memory() -> None:
    plan = case("in_place_chain")
    (region,) = plan.regions
    for buffer in region.buffers:
        if buffer.inside is not None:
            assert region.buffers[buffer.inside].kind == ARENA


def test_weights_are_stored_once() -> None:
    """Two products with one weight read one packed constant."""
    plan = case("in_place_chain")
    assert len(plan.constants) == 1 and plan.constants[0].layout is not None


def test_pieces_of_a_concatenation_are_written_in_place() -> None:
    families = [s.spec.family for s in case("slices_and_concat").kernel_steps()]
    # Two computed pieces go where they belong; the third, a view of the input, is copied.
    assert families == ["elementwise"] * 3
