"""Artefacts: what is exported loads again, alike; everything else is refused clearly."""

from __future__ import annotations

import copy
import errno
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import irc
import numpy as np
import pytest
from artifacts import Parts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from irc.ir.dtype import DType
from irc.ir.specs import SCALAR_OPS
from irc.runtime import artifact_writer, container, stored_weights
from irc.runtime.container_reader import Container, Piece
from models.encoders import bert, bert_inputs
from models.small import mlp

# IRC_FUZZ=100 runs a hundred times as many mutations.
MORE = int(os.environ.get("IRC_FUZZ", "1"))
ENCODER: dict[str, Any] = {
    "layers": 1,
    "hidden": 16,
    "heads": 2,
    "intermediate": 24,
    "vocab": 20,
    "positions": 12,
}
X = np.array([[1, -2, 3], [0, 1, 2]], np.float32)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A code cache of this module's own: forged specs leave nothing in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def net() -> irc.CompiledModel:
    return irc.compile_model(mlp((3, 5, 2), integers=True))


@pytest.fixture(scope="module")
def data(net: irc.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("artefact") / "tiny.irc"
    net.export(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def encoder() -> irc.CompiledModel:
    return irc.compile_model(bert(**ENCODER))


def load(data: bytes) -> irc.CompiledModel:
    return irc.CompiledModel.load(data)


def uses_stored_plan(net: irc.CompiledModel) -> bool:
    return net._entry is not None


def alike(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def refused(data: bytes, *words: str) -> irc.ArtifactError:
    """The error that loading gives, which says all of these words."""
    with pytest.raises(irc.ArtifactError) as caught:
        load(data)
    for word in words:
        assert word in str(caught.value)
    return caught.value


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


def test_symbolic_plan_takes_any_size(data: bytes, net: irc.CompiledModel) -> None:
    again = load(data)
    for n in (0, 1, 7, 33):
        x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
        assert alike(again(x), net(x))


def test_export_of_a_loaded_net(data: bytes, tmp_path: Path) -> None:
    load(data).export(tmp_path / "copy.irc")
    assert (tmp_path / "copy.irc").read_bytes() == data


def test_export_is_the_same_every_time(data: bytes, tmp_path: Path) -> None:
    irc.compile_model(mlp((3, 5, 2), integers=True)).export(tmp_path / "again.irc")
    assert (tmp_path / "again.irc").read_bytes() == data


def test_several_plans_share_the_weights(net: irc.CompiledModel, tmp_path: Path) -> None:
    fixed = irc.compile_model(net.model, shapes={"x": [2, 3]})
    path = tmp_path / "both.irc"
    net.export(path, also=[fixed])
    parts = Parts(path.read_bytes())
    assert [s[0] for s in parts.manifest["sections"]] == ["weights", "graph", "plan", "plan"]
    both = irc.CompiledModel.load(path, shapes={"x": [2, 3]})
    assert uses_stored_plan(both) and both.plan == fixed.plan
    default = irc.CompiledModel.load(path)
    assert uses_stored_plan(default) and default.plan == net.plan
    assert alike(both(X), net(X))
    other = irc.CompiledModel.load(path, shapes={"x": [4, 3]})
    assert not uses_stored_plan(other) and other.inputs[0].shape == (4, 3)
    # A net that was made from the artefact keeps its plans when it is exported.
    other.export(tmp_path / "three.irc")
    three = Parts((tmp_path / "three.irc").read_bytes())
    assert len(three.manifest["plans"]) == 3
    for shapes in (None, {"x": [2, 3]}, {"x": [4, 3]}):
        assert uses_stored_plan(irc.CompiledModel.load(tmp_path / "three.irc", shapes=shapes))


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
    # The scale is folded into no weight of the file: 0.5 * table is an array of its own.
    text = mlp((4, 4), integers=True)
    from onnx import helper, numpy_helper

    half = numpy_helper.from_array(np.full((4, 4), 0.5, np.float32), "half")
    text.graph.initializer.append(half)
    weight = next(n for n in text.graph.node if n.op_type == "MatMul").input[1]
    scaled = helper.make_node("Mul", [weight, "half"], ["scaled"], "scale")
    text.graph.node.insert(0, scaled)
    next(n for n in text.graph.node if n.op_type == "MatMul").input[1] = "scaled"
    net = irc.compile_model(text)
    net.export(tmp_path / "m.irc")
    parts = Parts((tmp_path / "m.irc").read_bytes())
    assert "derived" in [s[0] for s in parts.manifest["sections"]]
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    x = np.eye(4, dtype=np.float32)
    assert uses_stored_plan(again) and alike(again(x), net(x))


def test_a_net_without_weights(tmp_path: Path) -> None:
    from models.small import chain

    net = irc.compile_model(chain(["Abs", "Relu"], [2, 3]))
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert uses_stored_plan(again) and alike(again(X), net(X))
    assert len(again.model.graph) == len(net.model.graph)


def test_replacing_the_file_leaves_a_loaded_net_alone(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(data)
    net = irc.CompiledModel.load(path)
    (tmp_path / "new").write_bytes(b"something else")
    os.replace(tmp_path / "new", path)
    assert net(X)[0].shape == (2, 2)
    assert [p.name for p in net.model.inputs] == ["x"]  # read now, from the file as it was


def test_truncating_the_file_in_place_is_an_error_not_a_signal(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(data)
    net = irc.CompiledModel.load(path)
    wanted = net(X)
    os.truncate(path, 200)
    assert alike(net(X), wanted)
    with pytest.raises(irc.ArtifactError, match="shorter"):
        _ = net.model


def test_large_weights_are_read_chunk_by_chunk(
    encoder: irc.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small chunks, all the ways of reading: own chunks, shared ones, lent and kept arrays."""
    monkeypatch.setattr(container, "CHUNK", 1000)
    monkeypatch.setattr("irc.runtime.container_reader.CHUNK", 1000)
    monkeypatch.setattr(container, "CUT", 256)
    monkeypatch.setattr(stored_weights, "CUT", 256)
    monkeypatch.setattr(stored_weights, "_OWN_PAGES", 512)
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


def test_damage_in_any_chunk_is_found(
    encoder: irc.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "CHUNK", 500)
    monkeypatch.setattr("irc.runtime.container_reader.CHUNK", 500)
    monkeypatch.setattr(container, "CUT", 200)
    monkeypatch.setattr(stored_weights, "CUT", 200)
    path = tmp_path / "m.irc"
    encoder.export(path)
    data = path.read_bytes()
    at = 128
    for n, (size, _) in enumerate(Parts(data).manifest["chunks"]):
        broken = bytearray(data)
        broken[at + size // 2] ^= 1
        with pytest.raises(irc.ArtifactError, match=f"bytes {at}..{at + size}"):
            Container(bytes(broken)).fill([])
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
    change: Callable[[Parts], None], data: bytes, net: irc.CompiledModel
) -> None:
    parts = Parts(data)
    change(parts)
    again = load(parts.seal())
    assert not uses_stored_plan(again)
    assert again.plan == net.plan and alike(again(X), net(X))


def test_another_isa_is_compiled_again(
    data: bytes, net: irc.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRC_ISA", "plain")
    again = load(data)
    assert not uses_stored_plan(again) or net.program.target.isa == "plain"
    assert again.program.target.isa == "plain" and alike(again(X), net(X))


def test_a_plan_under_another_target_is_refused(data: bytes) -> None:
    """The manifest says this machine, the plan says another."""
    parts = Parts(data)
    plan = json.loads(parts.section("plan"))
    plan["plan"]["target_key"] = "0123456789abcdef"
    parts.replace("plan", json.dumps(plan).encode())
    refused(parts.seal(), "Target", "0123456789abcdef", "(plan")


def test_precision_is_kept_and_can_be_chosen(net: irc.CompiledModel, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    irc.compile_model(net.model, precision="bf16").export(path)
    assert irc.compile_model(path).plan.precision == "bf16"
    exact = irc.compile_model(path, precision="f32")
    assert exact.plan.precision == "f32" and alike(exact(X), net(X))


# Damage -----------------------------------------------------------------------------------------


def test_every_truncation_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(irc.ArtifactError) as caught:
            Container(data[:size])
        assert caught.value.where and caught.value.got is not None
    refused(data[:-1], "cut short", f"{len(data) - 1} bytes", f"{len(data)} bytes", "copy")
    refused(data + b"x", "header")


def test_every_changed_byte_is_refused(data: bytes) -> None:
    rng = random.Random(7)
    positions = [*range(128), *rng.sample(range(128, len(data)), min(len(data) - 128, 2500 * MORE))]
    for at in positions:
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        with pytest.raises(irc.ArtifactError) as caught:
            file = Container(bytes(changed))
            file.fill([])
        assert "<artefact>" in str(caught.value)


def test_damage_says_where(data: bytes) -> None:
    parts = Parts(data)
    for n, (kind, offset, size) in enumerate(parts.manifest["sections"]):
        changed = bytearray(data)
        changed[offset + size // 2] ^= 0x20
        refused(bytes(changed), f"{n} ({kind})", "SHA-256", "copy the file again")


OTHERS = {
    "onnx": (lambda: mlp((2, 2)).SerializeToString(), "ONNX"),
    "xml": (lambda: b'<?xml version="1.0"?><net/>', "XML"),
    "zip": (lambda: b"PK\x03\x04" + bytes(300), "zip"),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
    "zeros": (lambda: bytes(5000), "bytes b'\\x00"),
    "empty": (lambda: b"", "an empty file"),
    "line ends changed": (lambda: b"\x89IRC\n\x1a\n" + bytes(300), "no irc artefact"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_format_renamed(name: str, tmp_path: Path) -> None:
    make, word = OTHERS[name]
    path = tmp_path / "model.irc"
    path.write_bytes(make())
    with pytest.raises(irc.ArtifactError) as caught:
        irc.compile_model(path)
    text = str(caught.value)
    assert "no irc artefact" in text and word in text and str(path) in text


def test_another_version_of_the_format(data: bytes) -> None:
    changed = bytearray(data)
    changed[8] = 2
    refused(bytes(changed), "version 2", "version 1", "compile the model again")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "NUL", "device"])
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    name = {"NUL": "a\0.irc", "device": "/dev/zero"}.get(kind, str(path))
    with pytest.raises(irc.ArtifactError) as caught:
        irc.CompiledModel.load(name)
    assert caught.value.where and caught.value.got


def test_a_file_that_shrinks_while_it_is_read(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(data)
    file = Container(path)
    os.truncate(path, 300)
    with pytest.raises(irc.ArtifactError, match="shorter"):
        file.read(1)


def test_weights_beyond_max_memory(data: bytes) -> None:
    with pytest.raises(irc.MemoryLimitError, match="max_memory"):
        irc.CompiledModel.load(data, max_memory=100)


# Forged: every digest is right ------------------------------------------------------------------


def change(data: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    """The artefact with one value of its manifest (or of the plan, behind "plan") replaced."""
    parts = Parts(data)
    if path[0] != "plan section":
        parent: Any = parts.manifest
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
        return parts.seal(json.dumps(parts.manifest).encode())
    document = parent = json.loads(parts.section("plan"))
    for step in path[1:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    parts.replace("plan", json.dumps(document).encode())
    return parts.seal()


PLAN = ("plan section", "plan")
SPEC = (*PLAN, "specs", 0)
HUGE = 1 << 62
FORGED: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "sections": (("sections",), 7, "sections"),
    "section kind": (("sections", 0, 0), 5, "section"),
    "section beyond the end": (("sections", 2, 2), 10**6, "section"),
    "negative section": (("sections", 0, 2), -1, "section"),
    "unaligned section": (("sections", 0, 1), 129, "section"),
    "overlapping sections": (("sections", 1, 1), 128, "section"),
    "chunks": (("chunks",), {}, "chunks"),
    "chunk too large": (("chunks", 0, 0), 1 << 40, "chunk"),
    "chunk too small": (("chunks", 0, 0), 10, "whole body"),
    "no chunk": (("chunks",), [], "whole body"),
    "digest of another kind": (("chunks", 0, 1), 12, "chunk"),
    "graph's number": (("graph",), 99, "graph"),
    "graph's kind": (("graph",), 0, "graph"),
    "weights' number": (("weights",), True, "weights"),
    "plans": (("plans",), None, "plans"),
    "plan entry": (("plans", 0), "x", "plan"),
    "plan's section": (("plans", 0, "section"), 1, "section"),
    "target": (("plans", 0, "target", "registers"), 7, "Target"),
    "target's feature": (("plans", 0, "target", "cpu_features"), ["a b"], "features"),
    "options": (("options",), [], "options"),
    "precision": (("options", "options", "precision"), "f1", "options"),
    "fold limit": (("options", "options", "fold_limit"), HUGE, "options"),
    "stored shapes": (("options", "shapes"), {"x": [1.5]}, "options"),
    "plan": (("plan section", "plan"), [], "plan"),
    "weights table": (("plan section", "weights"), {}, "weights"),
    "weight's section": (("plan section", "weights", 0, 0), 1, "weights"),
    "weight's offset": (("plan section", "weights", 0, 1), HUGE, "128 bytes"),
    "weight's negative offset": (("plan section", "weights", 0, 1), -4, "128 bytes"),
    "weight's type": (("plan section", "weights", 0, 2), "f64", "f32"),
    "weight's shape": (("plan section", "weights", 0, 3), [HUGE, HUGE], "array"),
    "overlapping weights": (("plan section", "weights", 1, 1), 40, "overlap"),
    "a missing weight": (("plan section", "weights"), [], "weight"),
    "a source": ((*PLAN, "constants", 0, "source"), 10**9, "weight"),
    "a negative source": ((*PLAN, "constants", 0, "source"), -1, "weight"),
    "panel width": ((*PLAN, "constants", 0, "layout", "nr"), 1, "layout"),
    "an index": ((*PLAN, "regions", 0, "steps", 0, 2), [1, 2, 3, 99], "buffer"),
    "a step's spec": ((*PLAN, "regions", 0, "steps", 0, 1), -1, "spec"),
    "a step's kind": ((*PLAN, "regions", 0, "steps", 0, 0), "eval", "step"),
    "a dim's number": ((*PLAN, "regions", 0, "dims", 0), [99], "size"),
    "a dim": ((*PLAN, "dims", 0), ["sym", "N", -1], "size"),
    "a buffer": ((*PLAN, "regions", 0, "buffers", 0), [1, 2], "buffer"),
    "a buffer's type": ((*PLAN, "regions", 0, "buffers", 1, 1), "f64", "type"),
    "a port's type": ((*PLAN, "inputs", 0, "type"), {"type": ["f16", [3]]}, "port"),
    "a spec's class": ((*SPEC, "$"), "Popen", "Spec"),
    "a spec's field": ((*SPEC, "more"), 1, "GemmSpec"),
    "a spec's panels": ((*SPEC, "packed", "nr"), 8, "panels"),
    "a huge number": ((*SPEC, "n"), 1 << 64, "64 bits"),
    "an accumulator": ((*SPEC, "acc"), "i8", "panels"),
    "a factor": ((*SPEC, "a", "dtype"), "i32", "types"),
    "an output's type": ((*SPEC, "out", "dtype"), "bf16", "stores"),
    "a stride": ((*SPEC, "out", "strides"), [5], "stride"),
    "an instruction": ((*SPEC, "epilogue", "instrs", 2, "op"), "system", "scalar operation"),
    "its arguments": ((*SPEC, "epilogue", "instrs", 2, "args"), [0, 9], "reads"),
    "its type": ((*SPEC, "epilogue", "instrs", 2, "dtype"), "f64", "type"),
    "an input's type": ((*SPEC, "epilogue", "instrs", 0, "dtype"), "f64", "type"),
    "an input's number": ((*SPEC, "epilogue", "instrs", 1, "args"), [-1], "reads"),
    "no result": ((*SPEC, "epilogue", "results"), [], "stores"),
    "a name": ((*PLAN, "name"), "\ud800", "Unicode"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged(name: str, data: bytes) -> None:
    path, value, word = FORGED[name]
    error = refused(change(data, path, value), word)
    assert error.where and error.fix


def test_json_that_is_none(data: bytes) -> None:
    for text in (
        b"",
        b"[" * 100_000,
        b"[]",
        b"{",
        b'{"a":NaN}',
        b"\xff\xfe",
        b'{"a":' + b"9" * 9999,
    ):
        refused(Parts(data).seal(text), "manifest")
        parts = Parts(data)
        parts.replace("plan", text)
        refused(parts.seal(), "plan")


def test_json_that_would_fill_the_memory(data: bytes) -> None:
    refused(Parts(data).seal(b"[" + b"[]," * 3_000_000 + b"[]]"), "too large")


def test_a_forged_graph_is_refused(data: bytes) -> None:
    parts = Parts(data)
    parts.manifest["plans"].clear()
    text = parts.section("graph")
    for old, new in (
        (b'offset="0"', b'offset="99"'),
        (b'type="MatMul"', b'type="Frobnicate"'),
        (b"<net ", b"<nets "),
        (text, b""),
    ):
        again = copy.deepcopy(parts)
        again.replace("graph", text.replace(old, new))
        refused(again.seal(), "graph")


WORDS = [*SCALAR_OPS, *(d.value for d in DType), "input", "output", "arena", "constant", "max"]
NUMBERS = [-1, 0, 1, 2, 3, 31, 64, 2**31, 2**62, 2**63, -(2**63), 10**30, 0.5, 1e308]
VALUES = st.sampled_from([None, True, [], {}, [0], "", "x", {"$": "DimArg", "index": 9}, *NUMBERS])


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*at, key))


def at_path(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutate(draw: Callable[[Any], Any], document: Any) -> None:
    """Change one thing somewhere in a JSON value."""
    listed = list(places(document))
    path = draw(st.sampled_from(listed))
    parent, key = at_path(document, path[:-1]), path[-1]
    old = parent[key]
    how = draw(st.sampled_from(["near", "near", "any", "other place", "twice", "gone"]))
    if how == "near" and isinstance(old, str):
        parent[key] = draw(st.sampled_from(WORDS))
    elif how == "near" and isinstance(old, int):
        parent[key] = draw(st.sampled_from([old + 1, old - 1, -old, old * 2, not old]))
    elif how == "other place":
        parent[key] = copy.deepcopy(at_path(document, draw(st.sampled_from(listed))))
    elif how == "twice" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    elif how == "gone":
        del parent[key]
    else:
        parent[key] = draw(VALUES)


def runs_or_is_refused(data: bytes, inputs: Any) -> None:
    """An ArtifactError, or a net that gives an answer or one of irc's errors."""
    try:
        net = load(data)
    except irc.ArtifactError as error:
        assert error.where and str(error)
        return
    except irc.MemoryLimitError:
        return
    try:
        for array in net(inputs):
            assert isinstance(array, np.ndarray)
    except irc.Error as error:
        assert str(error)


FUZZ = settings(
    max_examples=60 * MORE, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@FUZZ
@given(choices=st.data())
def test_mutated_plans(choices: st.DataObject, data: bytes) -> None:
    parts = Parts(data)
    document = json.loads(parts.section("plan"))
    for _ in range(choices.draw(st.sampled_from([1, 1, 2]))):
        mutate(choices.draw, document)
    parts.replace("plan", json.dumps(document).encode())
    runs_or_is_refused(parts.seal(), X)


@FUZZ
@given(choices=st.data())
def test_mutated_manifests(choices: st.DataObject, data: bytes) -> None:
    parts = Parts(data)
    mutate(choices.draw, parts.manifest)
    runs_or_is_refused(parts.seal(json.dumps(parts.manifest).encode()), X)


@pytest.mark.parametrize("kind", ["plan", "graph", "weights"])
def test_changed_bytes_with_right_digests(kind: str, data: bytes, net: irc.CompiledModel) -> None:
    rng = random.Random(kind)
    whole = Parts(data)
    if kind == "graph":
        whole.manifest["plans"].clear()
    content = whole.section(kind)
    for _ in range(25 * MORE):
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        parts = copy.deepcopy(whole)
        parts.replace(kind, bytes(changed))
        runs_or_is_refused(parts.seal(), X)


# Writing ----------------------------------------------------------------------------------------


class Full:
    """A stream on a disk with room for `room` bytes."""

    def __init__(self, stream: BinaryIO, room: int) -> None:
        self.stream, self.room = stream, room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@pytest.mark.parametrize("room", [0, 100, 300, 3000, 8000])
def test_a_full_disk_leaves_nothing(
    room: int,
    net: irc.CompiledModel,
    data: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(b"what was there")
    write = artifact_writer.write_artifact

    def full(stream: BinaryIO, *rest: Any) -> Any:
        return write(Full(stream, room), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(artifact_writer, "write_artifact", full)
    with pytest.raises(irc.Error, match="cannot be written") as caught:
        net.export(path)
    assert "No space left" in str(caught.value) and str(path) in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m.irc"]
    assert path.read_bytes() == b"what was there"


def test_a_folder_that_is_not_there(net: irc.CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(irc.Error, match="cannot be written"):
        net.export(tmp_path / "no" / "m.irc")


def test_pieces_of_a_chunk(tmp_path: Path) -> None:
    """Pieces beside one another, apart, empty, and across chunks, in any order."""
    content = bytes(range(256)) * 40
    with open(tmp_path / "c", "wb") as stream:
        writer = container.Writer(stream)
        writer.begin("a")
        writer.write(content)
        writer.finish({})
    file = Container(tmp_path / "c")
    wanted = [(0, 10), (10, 5), (10, 0), (300, 1), (1024, 4096), (10239, 1), (9000, 0)]
    memory = [bytearray(size) for _, size in wanted]
    pieces = [Piece(128 + at, memoryview(m)) for (at, _), m in zip(wanted, memory, strict=True)]
    file.fill(pieces[::-1])
    for (at, size), m in zip(wanted, memory, strict=True):
        assert bytes(m) == content[at : at + size]
    assert file.read(0) == content
