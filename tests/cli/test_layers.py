"""compare --layers: tensors inside the model, against every other side."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler import ops
from irc_compiler.api.compiled_model import CompiledModel
from irc_compiler.cli.commands import compare
from irc_compiler.cli.main import main
from irc_compiler.cli.reference_engines import ReferenceEngine, Task, make_engine
from irc_compiler.compiler import pipeline
from irc_compiler.compiler.rewrite.engine import Pass, Rule
from irc_compiler.compiler.rewrite.patch import Patch
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Abs, Softmax
from onnx import helper

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
RESNET = str(ROOT / "tests" / "data" / "ir" / "resnet.onnx")
Captured = pytest.CaptureFixture[str]


def break_it(graph: Graph, node: int) -> Patch | None:
    if graph.node(node).name != "Relu_hidden2":
        return None
    patch = Patch()
    new = patch.add(Abs(), graph.input(node, 0), name="Relu_hidden2")
    return patch.replace(Value(node), new)


WRONG = Pass("break_relu", lambda options: (Rule("break_it", ("Relu",), break_it),))


def compared(capsys: Captured, *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["compare", *words, "--layers", "--json"])
    told = capsys.readouterr()
    assert told.out, told.err
    return code, json.loads(told.out)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("model", [DIGITS, RESNET], ids=["digits", "resnet"])
def test_engines_deliver_what_the_file_names(model: str, engine: str, capsys: Captured) -> None:
    _, ours = compared(capsys, model)
    code, found = compared(capsys, model, "--against", engine)
    assert code == 0 and found["equal"]
    names = [t["name"] for t in ours["tensors"]]
    left_out = found.get("left_out", [])
    assert [t["name"] for t in found["tensors"]] == [n for n in names if n not in left_out]
    # What the importer adds inside an operation of the file has no name there.
    added = {"Conv_12/Convolution", "Conv_16/Convolution"}
    assert set(left_out) == (added if model == RESNET else set())


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_a_reference_engine_finds_the_layer(
    engine: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(pipeline, "PASSES", (WRONG, *pipeline.PASSES))
    code, found = compared(capsys, DIGITS, "--against", engine)
    assert code == 1 and found["first_different"] == "Relu_hidden2"
    assert found["passes_that_touched_it"] == ["break_relu"]


@pytest.mark.slow
def test_an_ir_file_names_its_layers(tmp_path: Path, capsys: Captured) -> None:
    """Where a tensor has no name its layer has one; what OpenVINO has not is left out, and said."""
    x = ops.parameter("x", [2, 3])
    path = tmp_path / "m.xml"
    irc.save_model(ops.model({"y": ops.softmax(ops.reduce_sum(ops.exp(x), [1]), 0)}), path)
    code, found = compared(capsys, str(path), "--against", "openvino")
    assert code == 0 and "left_out" not in found
    assert [t["name"].split("_")[0] for t in found["tensors"]] == ["Exp", "ReduceSum", "Softmax"]
    assert main(["compare", RESNET, "--layers", "--against", "openvino"]) == 0
    assert "not in openvino: Conv_12/Convolution, Conv_16/Conv" in capsys.readouterr().out


class Watched:
    """Follows the arrays of one side while they live."""

    def __init__(self) -> None:
        self.alive, self.most, self.seen = 0, 0, 0

    def watch(self, array: Any) -> None:
        base = array if array.base is None else array.base
        self.alive, self.seen = self.alive + array.nbytes, self.seen + array.nbytes
        self.most = max(self.most, self.alive)
        weakref.finalize(base, self._gone, array.nbytes)

    def _gone(self, size: int) -> None:
        self.alive -= size


@pytest.mark.slow
@pytest.mark.parametrize("against", ["reference", "onnxruntime"])
def test_few_tensors_are_held_at_once(
    against: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    """30 tensors of 4 KiB with room for 8: ours and the other side's come and go in rounds, each
    is compared once, in execution order, as in one round."""
    x = "x"
    nodes = []
    for n in range(30):
        kind = "Softmax" if n % 2 else "Neg"  # neither takes the other in
        nodes.append(helper.make_node(kind, [x], [x := f"t{n}"], name=f"n{n}"))
    ports = [helper.make_tensor_value_info(n, 1, [32, 32]) for n in ("x", x)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    path = tmp_path / "m.onnx"
    sets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=10), path)
    code, whole = compared(capsys, str(path), "--against", against)
    assert code == 0 and len(whole["tensors"]) == 30
    ours, theirs = Watched(), Watched()
    real, called = CompiledModel.__call__, [0]

    def call(self: CompiledModel, *args: Any, **options: Any) -> Any:
        made = real(self, *args, **options)
        called[0] += 1
        for array in made:
            ours.watch(array)
        return made

    def interpreted(graph: Graph, inputs: Any, deliver: Any) -> Any:
        def see(at: int, array: Any) -> None:
            theirs.watch(array)
            deliver(at, array)

        return interpret(graph, inputs, see)

    def of_engine(name: str, task: Task) -> ReferenceEngine:
        made = make_engine(name, task)

        def named() -> dict[str, Any]:
            arrays = {n: a.copy() for n, a in made.named().items() if n in task.inner}
            for array in arrays.values():
                theirs.watch(array)
            return arrays

        return replace(made, named=named)

    monkeypatch.setattr(CompiledModel, "__call__", call)
    monkeypatch.setattr(compare, "interpret", interpreted)
    monkeypatch.setattr(compare, "make_engine", of_engine)
    monkeypatch.setattr(compare, "MAX_HELD_BYTES", 8 * 4096)
    code, found = compared(capsys, str(path), "--against", against)
    assert code == 0 and found == whole
    # One more: the last of the round before, and what the interpreter goes on from.
    assert called == [4] and ours.seen == 30 * 4096 and ours.most <= 9 * 4096
    assert theirs.seen == 30 * 4096 and theirs.most <= 9 * 4096


def test_a_scalar_stays_one(tmp_path: Path, capsys: Captured) -> None:
    x = ops.parameter("x", [])
    path = tmp_path / "m.xml"
    irc.save_model(ops.model({"y": x + np.float32(1)}), path)
    assert main(["compare", str(path), "--against", "openvino"]) == 0
    assert "equal to openvino" in capsys.readouterr().out


def test_bisect_needs_the_reference(capsys: Captured) -> None:
    assert main(["compare", DIGITS, "--bisect", "--against", "onnxruntime"]) == 2
    assert "--bisect needs the reference" in capsys.readouterr().err


def test_the_text_names_layer_passes_and_rewrite(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(pipeline, "PASSES", (WRONG, *pipeline.PASSES))
    assert main(["compare", DIGITS, "--layers", "--bisect"]) == 1
    told = capsys.readouterr().out.splitlines()
    marked = [line.split()[0] for line in told if line.endswith("<-- different")]
    assert marked[0] == "Relu_hidden2" and told[2].startswith("Relu_hidden1 ")
    assert "first different: Relu_hidden2 (passes: break_relu)" in told
    assert any(line.startswith("bisect: rewrite 1 of ") for line in told)


def test_bisect_finds_a_rewrite_among_others(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Behind two right ones, in front of two more."""
    at = [p.name for p in pipeline.PASSES].index("fuse_activations")
    passes = (*pipeline.PASSES[:at], WRONG, *pipeline.PASSES[at:])
    monkeypatch.setattr(pipeline, "PASSES", passes)
    assert main(["compare", DIGITS, "--bisect", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["bisect"]
    assert found.startswith("rewrite 3 of 5: break_it of pass break_relu")


def test_bisect_says_where_no_rewrite_is_at_fault(broken_softmax: None, capsys: Captured) -> None:
    assert main(["compare", DIGITS, "--bisect", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["bisect"]
    assert found.startswith("the answer is wrong before any rewrite")


def test_the_tolerance_is_the_users(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert main(["compare", DIGITS, "--rtol", "0"]) == 1
    monkeypatch.setattr(pipeline, "PASSES", (WRONG, *pipeline.PASSES))
    assert main(["compare", DIGITS]) == 1
    assert main(["compare", DIGITS, "--rtol", "1e9"]) == 0


@pytest.fixture
def broken_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Softmax.evaluate
    monkeypatch.setattr(
        Softmax, "evaluate", lambda self, inputs: (real(self, inputs)[0] + np.float32(1),)
    )


def test_the_reference_evaluates_every_operation(broken_softmax: None, capsys: Captured) -> None:
    """So an operation that evaluates to something else differs from its kernel."""
    code, found = compared(capsys, DIGITS)
    assert code == 1 and found["first_different"] == "Softmax_probabilities"
