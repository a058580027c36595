"""benchmarks.graph_shapes: graphs of any size take work in proportion to their nodes.

Counts, no timings: what grows faster than the graph is found at a few hundred nodes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.graph import Graph
from irc_compiler.plan.target import generic

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def calls_to_compile(graph: Graph) -> int:
    """Calls of Python functions, and elements of generators, that passes and lowering take."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        optimize(graph, Options())
        lower(graph, generic("avx2"), Options())
    finally:
        sys.setprofile(None)
    return calls


SHAPES = ("chain", "fan-out", "fan-in", "many outputs", "many kernels", "deep nesting")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, "split"])
def test_work_grows_with_the_nodes(shape: str) -> None:
    from benchmarks.graph_shapes import SHAPES, split_into

    build = {**SHAPES, "split": split_into}[shape]
    calls_to_compile(build(200).graph)  # what is computed once and kept
    once, twice = (calls_to_compile(build(n).graph) for n in (800, 1600))
    assert twice / once <= 2.2


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_about_the_nodes_asked_for(shape: str) -> None:
    from benchmarks.graph_shapes import SHAPES, count_nodes

    assert 960 <= count_nodes(SHAPES[shape](1000).graph) <= 1150


def test_nesting_beyond_the_limit_is_refused() -> None:
    from benchmarks.graph_shapes import nesting

    assert lower(nesting(64, 32).graph, generic("avx2"), Options())[0].regions
    for depth in (33, 300):
        with pytest.raises(ShapeError, match="nested too deeply"):
            nesting(2 * depth, depth)
