"""Forged plans: whole artifacts whose plan holds extreme integers, loaded and run.

A case changes one to three integers anywhere in a stored plan of several steps or regions: buffers,
offsets, sizes, steps, branches, loops, variables and specs. All digests are right. The loader
refuses the file, or the plan runs to an answer or to one of irc's errors within SECONDS; a run that
takes longer is interrupted and counted as `long`. A signal that ends the process is a finding.
`python -m fuzz.forged_plans 0 10` draws for ten minutes from case 0 on.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from support.artifacts import ENCODER, Parts
from support.models import recurrent_models, small
from support.models.control_flow import INPUTS, TEXTS, control_flow
from support.models.encoders import bert, bert_inputs

from .forged_steps import extreme, run_children
from .mutations import at_path, places

SECONDS = 5.0
MAX_MEMORY = 1 << 30


@dataclass(frozen=True)
class Artifact:
    """data: the file's bytes. inputs: one set of arrays that the true plan accepts."""

    name: str
    data: bytes
    inputs: Any


class _TooLong(BaseException):
    """The time of a run is over."""


def _models() -> Iterator[tuple[str, Any, Any]]:
    yield "mlp", small.mlp((3, 5, 2), integers=True), [np.ones((2, 3), np.float32)]
    yield "encoder", bert(**ENCODER), bert_inputs(1, 5, vocab=ENCODER["vocab"])
    yield "recurrent", recurrent_models.model("LSTM"), recurrent_models.feeds("xh", 1, 6, 3, 2)
    for name in TEXTS:
        yield name, control_flow(name), INPUTS[name][0]()


@cache
def artifacts() -> list[Artifact]:
    """The models, exported."""
    found: list[Artifact] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model, inputs in _models():
            path = Path(folder) / "model.irc"
            irc.compile_model(model).export(path)
            found.append(Artifact(name, path.read_bytes(), inputs))
    return found


def forge(artifact: Artifact, rng: random.Random) -> bytes:
    """The artifact with some integers of its plan changed, and right digests."""
    parts = Parts(artifact.data)
    document = json.loads(parts.section("plan"))
    listed = [
        path for path in places(document["plan"]) if type(at_path(document["plan"], path)) is int
    ]
    numbers = [at_path(document["plan"], path) for path in listed]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path = rng.choice(listed)
        parent = at_path(document["plan"], path[:-1])
        parent[path[-1]] = extreme(parent[path[-1]], numbers, rng)
    parts.replace("plan", json.dumps(document).encode())
    return parts.seal()


def run_case(artifact: Artifact, data: bytes) -> str:
    """What became of a forged artifact: refused, failed, long or ran. Other errors are raised."""

    def stop(*_: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        net = irc.CompiledModel.load(data, max_memory=MAX_MEMORY)
        try:
            net(artifact.inputs)
        except irc.Error:
            return "failed"
        return "ran"
    except irc.Error:
        return "refused"
    except _TooLong:
        return "long"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_cases(first: int, count: int) -> None:
    """Cases one after the other: a line before each, and one of what became of it."""
    listed = artifacts()
    for number in range(first, first + count):
        rng = random.Random(number)
        artifact = listed[number % len(listed)]
        print(f"case {number} {artifact.name.replace(' ', '_')}", flush=True)
        try:
            found = run_case(artifact, forge(artifact, rng))
        except Exception as error:
            found = f"finding {type(error).__name__}: {error}".replace("\n", " ")[:300]
        print(f"done {found}", flush=True)


def run_forged(first: int, count: int, minutes: float = 1e9) -> tuple[dict[str, int], list[str]]:
    """(counts by what became of cases, findings) of so many cases, from number `first` on."""
    return run_children("fuzz.forged_plans", first, count, minutes)


if __name__ == "__main__":
    counts, findings = run_forged(int(sys.argv[1]), 10**9, float(sys.argv[2]))
    print(json.dumps(counts, indent=1), *findings, sep="\n")
    sys.exit(bool(findings))
