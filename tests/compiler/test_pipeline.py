"""The whole pipeline: models keep their numbers, and what the passes did can be seen."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes import attention, quantize
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.compiler.pipeline import PASSES, optimize
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Constant, Gemm
from irc_compiler.ir.text.graph_text import print_graph
from support.models import small
from support.models.encoders import bert, bert_inputs
from support.rewriting import graph, same_values

MODELS = Path(__file__).resolve().parents[1] / "support" / "models"
VERIFIED = Options(verify=True)
TINY: dict[str, Any] = {"layers": 1, "hidden": 16, "heads": 2, "intermediate": 24, "vocab": 40}


def optimised(model: onnx.ModelProto | Path) -> tuple[Graph, Graph, Trace]:
    source = read_onnx(model)
    found = source.copy()
    trace = optimize(found, VERIFIED)
    return source, found, trace


def kinds(found: Graph) -> Counter[str]:
    counts = Counter(found.op(n).kind for n in found.ids())
    del counts["Constant"], counts["Parameter"], counts["Result"]
    return counts


def interface(found: Graph) -> list[Any]:
    """Names and types of inputs and outputs."""
    records = [found.node(n) for n in (*found.parameters, *found.results)]
    return [(r.op.kind, r.name, r.names, [str(t) for t in r.types]) for r in records]


def same_encoder(source: Graph, found: Graph) -> None:
    assert interface(source) == interface(found)
    inputs = bert_inputs(2, 5, 40)
    named = {min(source.node(p).names[0]): p for p in source.parameters}
    given = {name: inputs[name] for name in named}
    for a, b in zip(interpret(source, given), interpret(found, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"opset": 18, "norm": "primitive", "gelu": "tanh"},
        {"opset": 20},
        {"opset": 12, "mask": "where", "batch": 2, "sequence": 5},
    ],
    ids=["exported", "tanh", "ops", "static"],
)
def test_encoders_keep_their_numbers(variant: dict[str, Any]) -> None:
    source, found, trace = optimised(bert(**TINY, positions=8, **variant))
    same_encoder(source, found)
    left = kinds(found)
    assert left["LayerNorm"] == 3 and left["Erf"] == left["Gelu"] == left["ReduceMean"] == 0
    gemms = [op for n in found.ids() if isinstance(op := found.op(n), Gemm)]
    assert Counter(g.activation for g in gemms) == {
        "identity": 3,
        "gelu_tanh" if variant.get("gelu") == "tanh" else "gelu": 1,
        "tanh": 1,
    }
    assert trace.hits()["take_addend"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["legacy", "dynamo", "legacy_sdpa", "dynamo_sdpa"])
def test_what_pytorch_exports(name: str) -> None:
    source, found, trace = optimised(MODELS / f"encoder_torch_{name}.onnx")
    assert interface(source) == interface(found)
    inputs = bert_inputs(2, 5, 20)
    given = {
        n: inputs[n] for p in source.parameters for n in source.node(p).names[0] if n in inputs
    }
    for a, b in zip(interpret(source, given), interpret(found, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    left = kinds(found)
    assert left["Erf"] == left["ReduceMean"] == left["Gelu"] == left["Sqrt"] == 0


SMALL: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp": small.mlp,
    "mlp_mixed": lambda: small.mlp(
        (8, 6, 5, 4), final="Softmax", dense=("MatMul", "Gemm", "GemmT"), activation="Tanh"
    ),
    "attention": small.attention,
    "attention_scaled": lambda: small.attention(2, "S", 32, 2),
    "layer_norm": lambda: small.layer_norm(("B", "S", 16), form="mul"),
    "gelu": lambda: small.gelu(form="tanh"),
    "chain": lambda: small.chain(["Relu", ("Mul", 0.5), ("Add", "x"), "Tanh"], outputs=[1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_small_models(name: str, golden: Callable[[str, str], None]) -> None:
    source, found, _ = optimised(SMALL[name]())
    assert interface(source) == interface(found)
    same_values(source, found)
    golden(name, print_graph(found))


@pytest.mark.slow
def test_an_encoder_layer(golden: Callable[[str, str], None]) -> None:
    """One layer of the encoder as lowering sees it."""
    _, found, _ = optimised(bert(1, 16, 2, 24, 40, positions=8))
    golden("encoder_layer", print_graph(found))


@pytest.mark.slow
def test_work_is_linear_in_the_model() -> None:
    """No timing: each node is rewritten about once, and the shape arithmetic is gone."""
    source = read_onnx(bert(12, 8, 2, 8, 40, positions=8))
    assert len(source) > 1400
    trace = optimize(source, Options())
    assert len(source) < 600
    assert sum(trace.hits().values()) < 1400
    assert set(trace.seconds) == {p.name for p in PASSES}


MLP = """
%0 = Input(f32[N, 4]) "x" names=x
%1 = Const(f32[4, 3] = ~1) "w"
%2 = MatMul.1(%0, %1) "mm"
%3 = Const(f32[3] = 1, 2, 3) "b"
%4 = Add.1(%2, %3) "add"
%5 = Relu.1(%4) "relu" names=y
%6 = Result.1(%5) "out"
"""


def test_stop_after() -> None:
    for limit, operations in ((0, "MatMul Add Relu"), (1, "Gemm Relu"), (2, "Gemm")):
        found = graph(MLP)
        trace = optimize(found, Options(verify=True, stop_after=limit))
        assert set(kinds(found)) == set(operations.split())
        assert sum(trace.hits().values()) == limit


def test_names_go_to_what_replaces_them() -> None:
    found = graph(MLP)
    optimize(found, VERIFIED)
    (gemm,) = [n for n in found.ids() if found.op(n).kind == "Gemm"]
    assert found.node(gemm).name == "relu" and found.node(gemm).names == [frozenset({"y"})]


def test_the_trace_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IRC_TRACE", "1")
    optimize(graph(MLP.replace("Const(f32[3] = 1, 2, 3)", "Input(f32[2, 1, 3])")), Options())
    lines = capsys.readouterr().err.splitlines()
    refused = "refused: the addend would broadcast the product up"
    assert lines == [
        f"[fuse_matmul_add] take_addend at add: {refused}",
        "[fuse_elementwise] group_chain at relu: applied",
    ]


def test_graphs_are_dumped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IRC_DUMP_GRAPH", str(tmp_path))
    found = graph(MLP)
    optimize(found, Options())
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == [f"{i:02d}_{p.name}.txt" for i, p in enumerate(PASSES, 1)]
    assert (tmp_path / files[-1]).read_text() == print_graph(found)


def test_constants_are_not_written_to() -> None:
    source = read_onnx(small.mlp((8, 6), dense="GemmT"))
    before = {n: op.data.copy() for n in source.ids() if isinstance(op := source.op(n), Constant)}
    kept = {n: source.op(n) for n in before}
    optimize(source, VERIFIED)
    for n, op in kept.items():
        assert isinstance(op, Constant)
        np.testing.assert_array_equal(op.data, before[n])


def test_a_graph_and_its_copy_are_independent() -> None:
    source = graph(MLP)
    text = print_graph(source)
    optimize(source.copy(), VERIFIED)
    assert print_graph(source) == text


def test_a_deep_model_is_no_matter() -> None:
    """Nothing recurses over nodes, and the work is linear: 1500 layers in seconds."""
    count = 1500
    lines = "".join(
        f"%{i + 1} = {'Exp' if i % 2 else 'Softmax'}.{1 if i % 2 else 8}(%{i})\n"
        for i in range(count)
    )
    found = graph(f"%0 = Input(f32[2, 3])\n{lines}%{count + 1} = Result.1(%{count})")
    started = time.perf_counter()
    optimize(found, Options())
    assert time.perf_counter() - started < 60
    assert len(found) == count + 2


def test_quantization_states_its_passes_in_order() -> None:
    """The table of the package lists each pass of its modules, and the pipeline runs them so."""
    rows = re.findall(r"^\| \w+ \| \w+ \| `(\w+)`", quantize.__doc__ or "", re.M)
    defined = [str(path.stem) for path in Path(quantize.__file__).parent.glob("*.py")]
    modules = [f"irc_compiler.compiler.passes.quantize.{name}" for name in defined]
    order = iter(p.name for p in PASSES)
    assert all(name in order for name in rows), rows
    made = {p.name for p in PASSES for r in p.rules(Options()) if r.match.__module__ in modules}
    assert made == set(rows) - {"fold_constants", "fold_constants_but_quantized"}


def test_attention_states_its_rules() -> None:
    stated = set(re.findall(r"`(?:\w+)\.(\w+)`", attention.__doc__ or "")) - {"Mask"}
    rules = {rule.name for rule in fuse_attention.rules(Options())}
    assert stated == rules - {"take_operation"}
