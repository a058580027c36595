"""The judges of the fuzzers find what is planted: a fault each, in one of the ways of computing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.ops import Softmax
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.runtime.execution.session import Session

from fuzz import agreement
from fuzz.agreement import Disagreement, check_graph
from fuzz.batches import Batch
from fuzz.broken_files import Careless, within_limits

SOFTMAX = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 3]} "x"
%1 = Constant.1() {data=[2.5], dtype=f32, shape=[1]}
%2 = Multiply.1(%0, %1)
%3 = Softmax.8(%2) {axis=-1}
%4 = Result.1(%3) "y"
"""
X = [np.arange(6, dtype=np.float32).reshape(2, 3) / 4]
Patch = pytest.MonkeyPatch


def wrong_evaluation(patch: Patch) -> None:
    """What is interpreted, before and after the passes, is not what kernels compute."""
    real = Softmax.evaluate
    patch.setattr(Softmax, "evaluate", lambda self, x: (real(self, x)[0] + np.float32(1),))


def wrong_by_one_bit_on_two_threads(patch: Patch) -> None:
    real = Session.run

    def run(self: Session, *given: Any, **more: Any) -> Any:
        first, *rest = real(self, *given, **more)
        if self.num_threads == 2:
            first = np.nextafter(first, np.float32(2))
        return [first, *rest]

    patch.setattr(Session, "run", run)


def wrong_weights_in_xml(patch: Patch) -> None:
    def read(text: bytes, weights: bytes) -> Graph:
        before, after = (np.float32(x).tobytes() for x in (2.5, 2.75))
        assert before in weights
        return read_xml(text, weights.replace(before, after))

    patch.setattr(agreement, "read_xml", read)


FAULTS = {
    "native code": wrong_evaluation,
    "two threads": wrong_by_one_bit_on_two_threads,
    "XML in irc's dialect": wrong_weights_in_xml,
}


def test_without_a_fault_all_agree() -> None:
    found = check_graph(parse_graph(SOFTMAX), 0, X)
    assert found.ran and {"dialect", "standard", "native"} <= set(found.checks)


@pytest.mark.parametrize("where", FAULTS)
def test_a_planted_fault_is_found(where: str, monkeypatch: Patch) -> None:
    plant: Callable[[Patch], None] = FAULTS[where]
    plant(monkeypatch)
    with pytest.raises(Disagreement, match=f"^{where}: output 0"):
        check_graph(parse_graph(SOFTMAX), 0, X)


@pytest.mark.slow
def test_the_limits_are_limits() -> None:
    """Of memory, even where it is given back at once, and of the processor's time."""
    with within_limits(300 << 20):
        np.ones(300 << 20, np.uint8)
    with pytest.raises(Careless, match="MiB for a file of 0 bytes"), within_limits(0):
        np.ones(300 << 20, np.uint8)
    with pytest.raises(Careless, match=r"\d s$"), within_limits(0, seconds=0.05):
        sum(range(10**7))


@pytest.mark.parametrize("kind", [OverflowError, ValueError, MemoryError, RecursionError, KeyError])
@pytest.mark.parametrize("where", ["evaluation", "native code", "a refusal"])
def test_any_exception_but_an_irc_error_is_a_finding(
    kind: type[Exception], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **named: object) -> None:
        raise kind("raw")

    def refuse(*args: object) -> None:
        raise irc.InputError("refused")

    if where != "native code":
        monkeypatch.setattr(agreement, "interpret", fail if where == "evaluation" else refuse)
    if where != "evaluation":
        monkeypatch.setattr(agreement, "compile_with_options", fail)
    graph = parse_graph(SOFTMAX)
    batch = Batch("graphs", 1, tmp_path)
    batch.attempt(lambda base: None, lambda: agreement.check_graph(graph, 0))
    assert batch.counts["findings"] == 1
    assert f"{kind.__name__}: " in (tmp_path / "graphs-1-1.txt").read_text()
