"""Artefacts: what is exported loads again, alike, on this machine and on others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.artifact import container_format as container
from irc_compiler.runtime.artifact import weights as stored_weights
from irc_compiler.runtime.artifact.container_reader import Container
from support.artifacts import ENCODER, Parts, X, alike, load, refused, uses_stored_plan
from support.models.encoders import bert, bert_inputs
from support.models.onnx_graph import OnnxGraph
from support.models.small import mlp

DATA = Path(__file__).resolve().parents[2] / "data" / "ir"
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def encoder() -> irc.CompiledModel:
    return irc.compile_model(bert(**ENCODER))


# What is written is read ------------------------------------------------------------------------


def encoder_inputs() -> dict[str, Any]:
    return dict(bert_inputs(2, 5, 20))


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any], Any]]] = {
    "symbolic": lambda: (mlp((3, 5, 2)), {}, X),
    "static": lambda: (mlp((3, 5, 2), batch=2), {}, X),
    "fixed shapes": lambda: (mlp((3, 5, 2)), {"shapes": {"x": [2, 3]}}, X),
    "encoder": lambda: (bert(**ENCODER), {}, encoder_inputs()),
    "static encoder": lambda: (bert(**ENCODER, batch=2, sequence=5), {}, encoder_inputs()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    model, options, inputs = MODELS[name]()
    net = irc.compile_model(model, **options)
    net.export(tmp_path / "m.irc")
    again = irc.compile_model(tmp_path / "m.irc")
    assert uses_stored_plan(again)
    assert again.plan == net.plan
    assert (again.inputs, again.outputs) == (net.inputs, net.outputs)
    assert alike(again(inputs), net(inputs))
    assert again.report().splitlines()[:5] == net.report().splitlines()[:5]
    # The portable model is there too, and gives the same plan.
    assert again.model.inputs == net.model.inputs
    fresh = irc.compile_model(again.model, **options)
    assert fresh.plan == net.plan and alike(fresh(inputs), net(inputs))


def test_attachments_stay_with_the_model(tmp_path: Path) -> None:
    net = irc.compile_model(mlp((3, 5, 2)))
    net.export(tmp_path / "a.irc", attachments={"labels": b"cat dog", "empty": b""})
    loaded = irc.CompiledModel.load(tmp_path / "a.irc")
    assert loaded.read_attachments() == {"labels": b"cat dog", "empty": b""}
    loaded.export(tmp_path / "b.irc", attachments={"empty": b"no more"})
    again = irc.CompiledModel.load(tmp_path / "b.irc")
    assert again.read_attachments() == {"labels": b"cat dog", "empty": b"no more"}
    assert uses_stored_plan(again) and net.read_attachments() == {}
    with pytest.raises(irc.Error, match="attachments are out of range"):
        net.export(tmp_path / "c.irc", attachments={"a" * 201: b""})
    assert not (tmp_path / "c.irc").exists()


KINDS = ["if.onnx", "loop.onnx", "scan.xml", "lstm2.onnx", "qdq.onnx", "resnet.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_plans_of_all_kinds(name: str, tmp_path: Path) -> None:
    """Control flow, whose bodies hold constants, and networks of many kinds of steps."""
    net = irc.compile_model(DATA / name)
    if name.startswith(("if", "loop", "scan")):
        assert net.plan.control_steps() or any(s.op.bodies() for s in net.plan.host_steps())
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert uses_stored_plan(again)
    rng = np.random.default_rng(3)
    for _ in range(3):  # an If takes both ways
        inputs = [some_input(rng, p) for p in net.inputs]
        assert alike(again(inputs), net(inputs))
    again.export(tmp_path / "copy.irc")
    assert alike(irc.CompiledModel.load(tmp_path / "copy.irc")(inputs), net(inputs))


def some_input(rng: np.random.Generator, port: irc.PortInfo) -> np.ndarray:
    shape = [d if isinstance(d, int) else 3 for d in port.shape or ()]
    dtype = DType(port.dtype).numpy
    return rng.integers(0, 3, shape).astype(dtype)


def test_from_memory(tiny_artifact: bytes, tiny_net: irc.CompiledModel) -> None:
    for net in (irc.CompiledModel.load(tiny_artifact), irc.compile_model(tiny_artifact)):
        assert uses_stored_plan(net) and alike(net(X), tiny_net(X))


def test_symbolic_plan_takes_any_size(tiny_artifact: bytes, tiny_net: irc.CompiledModel) -> None:
    again = load(tiny_artifact)
    for n in (0, 1, 7, 33):
        x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
        assert alike(again(x), tiny_net(x))


def test_export_of_a_loaded_net(tiny_artifact: bytes, tmp_path: Path) -> None:
    load(tiny_artifact).export(tmp_path / "copy.irc")
    assert (tmp_path / "copy.irc").read_bytes() == tiny_artifact


def test_export_is_the_same_every_time(tiny_artifact: bytes, tmp_path: Path) -> None:
    irc.compile_model(mlp((3, 5, 2), integers=True)).export(tmp_path / "again.irc")
    assert (tmp_path / "again.irc").read_bytes() == tiny_artifact


def test_several_plans_share_the_weights(tiny_net: irc.CompiledModel, tmp_path: Path) -> None:
    fixed = irc.compile_model(tiny_net.model, shapes={"x": [2, 3]})
    path = tmp_path / "both.irc"
    tiny_net.export(path, also=[fixed])
    parts = Parts(path.read_bytes())
    assert [s[0] for s in parts.manifest["sections"]] == ["weights", "graph", "plan", "plan"]
    both = irc.CompiledModel.load(path, shapes={"x": [2, 3]})
    assert uses_stored_plan(both) and both.plan == fixed.plan
    default = irc.CompiledModel.load(path)
    assert uses_stored_plan(default) and default.plan == tiny_net.plan
    assert alike(both(X), tiny_net(X))
    other = irc.CompiledModel.load(path, shapes={"x": [4, 3]})
    assert not uses_stored_plan(other) and other.inputs[0].shape == (4, 3)
    # A tiny_net that was made from the artefact keeps its plans when it is exported.
    other.export(tmp_path / "three.irc")
    three = Parts((tmp_path / "three.irc").read_bytes())
    assert len(three.manifest["plans"]) == 3
    for shapes in (None, {"x": [2, 3]}, {"x": [4, 3]}):
        assert uses_stored_plan(irc.CompiledModel.load(tmp_path / "three.irc", shapes=shapes))


def test_nets_of_different_files_share_nothing(tmp_path: Path) -> None:
    """Same plans, same places, other numbers, both loaded at once."""
    nets = [irc.compile_model(mlp((3, 5, 2), seed=seed)) for seed in (1, 2)]
    assert nets[0].plan == nets[1].plan
    for n, net in enumerate(nets):
        net.export(tmp_path / f"{n}.irc")
    loaded = [irc.CompiledModel.load(tmp_path / f"{n}.irc") for n in range(2)]
    for net, again in zip(nets, loaded, strict=True):
        assert alike(again(X), net(X))


def test_weights_are_stored_once(tmp_path: Path) -> None:
    same = mlp((8, 8, 8, 8), integers=True, bias=False)
    first = same.graph.initializer[0].raw_data
    for tensor in same.graph.initializer:
        tensor.raw_data = first
    irc.compile_model(same).export(tmp_path / "m.irc")
    parts = Parts((tmp_path / "m.irc").read_bytes())
    assert {s[0]: s[2] for s in parts.manifest["sections"]}["weights"] == len(first)
    net = irc.CompiledModel.load(tmp_path / "m.irc")
    x = np.eye(8, dtype=np.float32)
    assert alike(net(x), irc.compile_model(same)(x))


def test_arrays_that_passes_made_are_stored_beside(tmp_path: Path) -> None:
    """0.5 * a weight is folded: an array that is nowhere in the model."""
    model = mlp((4, 4), integers=True)
    from onnx import helper, numpy_helper

    half = numpy_helper.from_array(np.full((4, 4), 0.5, np.float32), "half")
    model.graph.initializer.append(half)
    weight = next(n for n in model.graph.node if n.op_type == "MatMul").input[1]
    scaled = helper.make_node("Mul", [weight, "half"], ["scaled"], "scale")
    model.graph.node.insert(0, scaled)
    next(n for n in model.graph.node if n.op_type == "MatMul").input[1] = "scaled"
    net = irc.compile_model(model)
    net.export(tmp_path / "m.irc")
    parts = Parts((tmp_path / "m.irc").read_bytes())
    assert "derived" in [s[0] for s in parts.manifest["sections"]]
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    x = np.eye(4, dtype=np.float32)
    assert uses_stored_plan(again) and alike(again(x), net(x))


def test_a_net_without_weights(tmp_path: Path) -> None:
    from support.models.small import chain

    net = irc.compile_model(chain(["Abs", "Relu"], [2, 3]))
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert uses_stored_plan(again) and alike(again(X), net(X))
    assert len(again.model.graph) == len(net.model.graph)


def test_replacing_the_file_leaves_a_loaded_net_alone(tiny_artifact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(tiny_artifact)
    net = irc.CompiledModel.load(path)
    (tmp_path / "new").write_bytes(b"something else")
    os.replace(tmp_path / "new", path)
    assert net(X)[0].shape == (2, 2)
    assert [p.name for p in net.model.inputs] == ["x"]  # read now, from the file as it was


def test_truncating_the_file_in_place_is_an_error_not_a_signal(
    tiny_artifact: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(tiny_artifact)
    net = irc.CompiledModel.load(path)
    wanted = net(X)
    os.truncate(path, 200)
    assert alike(net(X), wanted)
    with pytest.raises(irc.ArtifactError, match="shorter"):
        _ = net.model


@pytest.mark.slow
def test_large_weights_are_read_chunk_by_chunk(
    encoder: irc.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small chunks, all the ways of reading: own chunks, shared ones, lent and kept arrays."""
    monkeypatch.setattr(container, "CHUNK_BYTES", 1000)
    monkeypatch.setattr("irc_compiler.runtime.artifact.container_reader.CHUNK_BYTES", 1000)
    monkeypatch.setattr(container, "MIN_OWN_CHUNK_BYTES", 256)
    monkeypatch.setattr(stored_weights, "MIN_OWN_CHUNK_BYTES", 256)
    monkeypatch.setattr("irc_compiler.runtime.machine.memory_planner._OWN_PAGES", 512)
    encoder.export(tmp_path / "m.irc")
    assert len(Parts((tmp_path / "m.irc").read_bytes()).manifest["chunks"]) > 20
    wanted = encoder(encoder_inputs())
    lent: list[int] = []
    borrow = stored_weights.PlanReader._borrow

    def counted(self: Any, source: int, memory: Any) -> Any:
        lent.append(source)
        return borrow(self, source, memory)

    monkeypatch.setattr(stored_weights.PlanReader, "_borrow", counted)
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert len(lent) >= 5 and alike(again(encoder_inputs()), wanted)
    # A second net of the same file has the same constants.
    twin = irc.CompiledModel.load(tmp_path / "m.irc")
    assert all(a is b for a, b in zip(again.program.constants, twin.program.constants, strict=True))
    assert alike(irc.compile_model(again.model)(encoder_inputs()), wanted)


def test_a_weight_that_is_both_packed_and_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedding that is also the last layer's weight may not be lent."""
    monkeypatch.setattr(container, "MIN_OWN_CHUNK_BYTES", 256)
    monkeypatch.setattr(stored_weights, "MIN_OWN_CHUNK_BYTES", 256)
    graph = OnnxGraph(17)
    table = graph.weight("table", np.arange(400, dtype=np.float32).reshape(20, 20) % 7)
    x = graph.input("x", ["N", 20])
    scores = graph.op("MatMul", x, table)
    graph.op("Gather", table, graph.input("ids", ["N"], np.int64), result="rows")
    graph.op("Relu", scores, result="scores")
    for name in ("rows", "scores"):
        graph.output(name, ["N", 20])
    net = irc.compile_model(graph.model("tied"))
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert len({(c.source, c.layout) for c in again.plan.constants}) == 2
    assert len({c.source for c in again.plan.constants}) == 1
    inputs = {"x": np.eye(20, dtype=np.float32)[:5], "ids": np.array([3, 0, 19, 7, 3])}
    assert alike(again(inputs), net(inputs))


@pytest.mark.slow
def test_damage_in_any_chunk_is_found(
    encoder: irc.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "CHUNK_BYTES", 500)
    monkeypatch.setattr("irc_compiler.runtime.artifact.container_reader.CHUNK_BYTES", 500)
    monkeypatch.setattr(container, "MIN_OWN_CHUNK_BYTES", 200)
    monkeypatch.setattr(stored_weights, "MIN_OWN_CHUNK_BYTES", 200)
    path = tmp_path / "m.irc"
    encoder.export(path)
    data = path.read_bytes()
    at = 128
    for n, (size, _) in enumerate(Parts(data).manifest["chunks"]):
        broken = bytearray(data)
        broken[at + size // 2] ^= 1
        with pytest.raises(irc.ArtifactError, match=f"bytes {at}..{at + size}"):
            Container(bytes(broken)).fill([], [n])
        if n in (3, 30):
            refused(bytes(broken), "damaged", f"bytes {at}..{at + size}")
        at += size


# Another machine, another version ---------------------------------------------------------------


def other_target(parts: Parts) -> None:
    parts.manifest["plans"][0]["target"]["cores"] += 1


def other_version(parts: Parts) -> None:
    parts.manifest["plans"][0]["version"] = "0.0.1 0123456789abcdef"
    parts.manifest["plans"][0]["target"] = {"isa": "of tomorrow"}  # not even looked at


def no_plan(parts: Parts) -> None:
    parts.manifest["plans"].clear()


@pytest.mark.parametrize("change", [other_target, other_version, no_plan])
def test_without_a_fitting_plan_the_graph_is_compiled(
    change: Callable[[Parts], None], tiny_artifact: bytes, tiny_net: irc.CompiledModel
) -> None:
    parts = Parts(tiny_artifact)
    change(parts)
    again = load(parts.seal())
    assert not uses_stored_plan(again)
    assert again.plan == tiny_net.plan and alike(again(X), tiny_net(X))


def test_another_isa_is_compiled_again(
    tiny_artifact: bytes, tiny_net: irc.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRC_ISA", "plain")
    again = load(tiny_artifact)
    assert not uses_stored_plan(again) or tiny_net.program.target.isa == "plain"
    assert again.program.target.isa == "plain" and alike(again(X), tiny_net(X))


def test_plans_for_two_machines_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second machine makes its own plan and keeps the first one's, control flow and all."""
    net = irc.compile_model(DATA / "loop.onnx")
    net.export(tmp_path / "one.irc")
    if net.program.target.isa == "plain":
        pytest.skip("not run: this machine has one instruction set")
    with monkeypatch.context() as patch:
        patch.setenv("IRC_ISA", "plain")
        other = irc.CompiledModel.load(tmp_path / "one.irc")
        assert not uses_stored_plan(other)
        other.export(tmp_path / "two.irc")
        assert uses_stored_plan(irc.CompiledModel.load(tmp_path / "two.irc"))
    again = irc.CompiledModel.load(tmp_path / "two.irc")
    assert uses_stored_plan(again) and again.program.target == net.program.target
    inputs = [np.array(3), np.ones(2, np.float32), np.zeros(2, np.float32)]
    assert alike(again(inputs), net(inputs))


def test_a_plan_under_another_target_is_refused(tiny_artifact: bytes) -> None:
    """The manifest says this machine, the plan says another."""
    parts = Parts(tiny_artifact)
    plan = json.loads(parts.section("plan"))
    plan["plan"]["target_key"] = "0123456789abcdef"
    parts.replace("plan", json.dumps(plan).encode())
    refused(parts.seal(), "Target", "0123456789abcdef", "(plan")


def test_precision_is_kept_and_can_be_chosen(tiny_net: irc.CompiledModel, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    irc.compile_model(tiny_net.model, precision="bf16").export(path)
    assert irc.compile_model(path).plan.precision == "bf16"
    exact = irc.compile_model(path, precision="f32")
    assert exact.plan.precision == "f32" and alike(exact(X), tiny_net(X))
