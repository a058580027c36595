"""Artefacts whose digests are right and whose content is not: the parser and the checks of plan
and specs are all that stands between a file and the machine."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.artifacts import MORE, Parts, X, load, refused

from fuzz.mutations import break_json

pytestmark = pytest.mark.usefixtures("own_cache")


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
    "attachments": (("attachments",), [], "attachments"),
    "attachment without a name": (("attachments",), {"": 0}, "attachments"),
    "attachment's name": (("attachments",), {"a" * 201: 0}, "attachments"),
    "attachment's section": (("attachments",), {"labels": 0}, "labels"),
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
    "weight's type": (("plan section", "weights", 0, 2), "i32", "f32"),
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
    "a spec's panels": ((*SPEC, "packed", "nr"), 7, "panels"),
    "a huge number": ((*SPEC, "n"), 1 << 64, "64 bits"),
    "an accumulator": ((*SPEC, "acc"), "i8", "panels"),
    "a factor": ((*SPEC, "a", "dtype"), "i32", "types"),
    "an output's type": ((*SPEC, "out", "dtype"), "bf16", "stores"),
    "a stride": ((*SPEC, "out", "strides"), [5], "stride"),
    "an instruction": ((*SPEC, "epilogue", "instrs", 2, "op"), "system", "scalar operation"),
    "its arguments": ((*SPEC, "epilogue", "instrs", 2, "args"), [0, 9], "reads"),
    "its type": ((*SPEC, "epilogue", "instrs", 2, "dtype"), "f64", "type"),
    "an input's type": ((*SPEC, "epilogue", "instrs", 0, "dtype"), "f64", "type"),
    "an input's number": ((*SPEC, "epilogue", "instrs", 1, "args"), [-1], "Instr.args"),
    "no result": ((*SPEC, "epilogue", "results"), [], "stores"),
    "a name": ((*PLAN, "name"), "\ud800", "Unicode"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged(name: str, tiny_artifact: bytes) -> None:
    path, value, word = FORGED[name]
    error = refused(change(tiny_artifact, path, value), word)
    assert error.where and error.fix


def test_json_that_is_none(tiny_artifact: bytes) -> None:
    for text in (
        b"",
        b"[" * 100_000,
        b"[]",
        b"{",
        b'{"a":NaN}',
        b"\xff\xfe",
        b'{"a":' + b"9" * 9999,
    ):
        refused(Parts(tiny_artifact).seal(text), "manifest")
        parts = Parts(tiny_artifact)
        parts.replace("plan", text)
        refused(parts.seal(), "plan")


def test_json_that_would_fill_the_memory(tiny_artifact: bytes) -> None:
    refused(Parts(tiny_artifact).seal(b"[" + b"[]," * 3_000_000 + b"[]]"), "too large")


def test_a_forged_graph_is_refused(tiny_artifact: bytes) -> None:
    parts = Parts(tiny_artifact)
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


def test_whatever_goes_wrong_with_a_stored_plan_is_the_files_fault(
    tiny_artifact: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a generator makes of a plan that only looks right may be any exception."""

    def fail(*_: object) -> None:
        raise KeyError("a generator's own")

    monkeypatch.setattr(irc.runtime.artifact.reader, "verify_specs", fail)
    refused(tiny_artifact, "a stored plan is broken", "KeyError", "(plan")


SEEDS = st.integers(0, 1 << 32)
FUZZ = settings(
    max_examples=60 * MORE, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.slow
@FUZZ
@given(seed=SEEDS)
def test_mutated_plans(seed: int, tiny_artifact: bytes) -> None:
    rng = random.Random(seed)
    parts = Parts(tiny_artifact)
    document = json.loads(parts.section("plan"))
    for _ in range(rng.choice([1, 1, 2])):
        break_json(document, rng)
    parts.replace("plan", json.dumps(document).encode())
    runs_or_is_refused(parts.seal(), X)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A plan that holds a graph with constants."""
    path = tmp_path_factory.mktemp("artefact") / "loop.irc"
    irc.compile_model(Path(__file__).resolve().parents[2] / "data" / "ir" / "loop.onnx").export(
        path
    )
    return path.read_bytes()


@pytest.mark.slow
@FUZZ
@given(seed=SEEDS)
def test_mutated_control_flow(seed: int, loop: bytes) -> None:
    rng = random.Random(seed)
    parts = Parts(loop)
    document = json.loads(parts.section("plan"))
    for _ in range(rng.choice([1, 1, 2])):
        break_json(document["plan"]["regions"], rng)
    parts.replace("plan", json.dumps(document).encode())
    # It is not run: a loop may be told to run for ever.
    with contextlib.suppress(irc.ArtifactError):
        load(parts.seal())


@pytest.mark.slow
@FUZZ
@given(seed=SEEDS)
def test_mutated_manifests(seed: int, tiny_artifact: bytes) -> None:
    parts = Parts(tiny_artifact)
    break_json(parts.manifest, random.Random(seed))
    runs_or_is_refused(parts.seal(json.dumps(parts.manifest).encode()), X)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plan", "graph", "weights"])
def test_changed_bytes_with_right_digests(
    kind: str, tiny_artifact: bytes, tiny_net: irc.CompiledModel
) -> None:
    rng = random.Random(kind)
    whole = Parts(tiny_artifact)
    if kind == "graph":
        whole.manifest["plans"].clear()
    content = whole.section(kind)
    for _ in range(25 * MORE):
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        parts = copy.deepcopy(whole)
        parts.replace(kind, bytes(changed))
        runs_or_is_refused(parts.seal(), X)
