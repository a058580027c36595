"""No step of a whole model runs outside native code, and one call of the driver runs them all: the
families of the benchmarks' models, small, for every instruction set and both precisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import irc_compiler as irc
import onnx
import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.compiler.shape_analysis.override_inputs import fix_shapes
from irc_compiler.ir.graph import Graph
from irc_compiler.plan.target import ISAS, generic_target
from irc_compiler.plan.text import print_plan
from support.models import convnets, quantized, recurrent_models, small
from support.models.encoders import bert, bert_inputs
from support.models.stateful import decoder

FIXTURES = sorted(
    (Path(__file__).resolve().parents[2] / "tests" / "support" / "models").glob(
        "encoder_torch_*.onnx"
    )
)


def encoder() -> onnx.ModelProto:
    return bert(layers=2, hidden=32, heads=2, intermediate=48, vocab=40)


def fixed_encoder() -> Graph:
    return fix_shapes(irc.read_model(encoder()).graph, dict.fromkeys(bert_inputs(1, 7, 40), [1, 7]))


MODELS: dict[str, Callable[[], Any]] = {
    "mlp": small.mlp,
    "encoder": encoder,
    **{p.stem: (lambda p=p: p) for p in FIXTURES},
    "resnet": convnets.resnet,
    "resnet_batches": lambda: convnets.resnet(33, batch="N"),
    "mobilenet": convnets.mobilenet,
    "inception": convnets.inception,
    "lstm": lambda: recurrent_models.model("LSTM", "bidirectional", sizes=(9, 1)),
    "gru_lengths": lambda: recurrent_models.model("GRU", "reverse", lengths=True),
    "network_int8": lambda: quantized.static(quantized.network()),
    "encoder_int8": lambda: quantized.static(encoder(), inputs=bert_inputs(2, 5, 40)),
}


@cache
def built(name: str) -> irc.Model:
    return irc.read_model(MODELS[name]())


def check(graph: Graph, precision: str) -> None:
    options = Options(precision)
    optimize(graph, options)
    for isa in ISAS:
        plan, _ = lower(graph, generic_target(isa), options)
        assert not plan.host_steps(), [s.reason for s in plan.host_steps()]
        assert len(plan.regions) == 1 and plan.kernel_steps(), print_plan(plan)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_every_step_is_native(name: str, precision: str) -> None:
    check(built(name).graph.copy(), precision)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_with_fixed_sizes(precision: str) -> None:
    check(fixed_encoder(), precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_decoder_and_its_cache(precision: str, tmp_path: Path) -> None:
    """The variables' first values are regions of their own, which later runs leave out."""
    graph = irc.read_model(decoder(tmp_path / "m.xml")).graph.copy()
    optimize(graph, Options(precision))
    plan, _ = lower(graph, generic_target("avx512"), Options(precision))
    assert not plan.host_steps(), [s.reason for s in plan.host_steps()]
