"""benchmarks.workloads.graph_shapes: graphs of any size take work in proportion to their nodes.

Counts, no timings: what grows faster than the graph is found at a few hundred nodes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.graph import Graph
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_coverage import Coverage
from irc_compiler.runtime.driver.loop_tables import Control

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def calls_to_compile(graph: Graph) -> int:
    """Calls of Python functions, and elements of generators, that passes, lowering, verification
    and the tables of a call take."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        optimize(graph, Options())
        plan, _ = lower(graph, generic_target("avx2"), Options())
        verify_plan(plan)
        for region in plan.regions:
            tables = RegionLayoutTables(region, plan.constants)
            sizes = tables.sizes({symbol.symbol: 3 for symbol in region.symbols})
            Coverage(tables).unwritten(sizes)
            Control(region, tables).blocks(sizes, np.zeros(1, np.int64))
    finally:
        sys.setprofile(None)
    return calls


SHAPES = ("chain", "fan-out", "fan-in", "many outputs", "many kernels", "deep nesting")
MORE = ("split", "products of one", "shared concats", "regions", "branches", "loops")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, *MORE])
def test_work_grows_with_the_nodes(shape: str) -> None:
    from benchmarks.workloads.graph_shapes import MORE_SHAPES, SHAPES

    build = (SHAPES | MORE_SHAPES)[shape]
    calls_to_compile(build(200).graph)  # what is computed once and kept
    once, twice = (calls_to_compile(build(n).graph) for n in (400, 800))
    assert twice / once <= 2.2


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, *MORE[1:]])
def test_shapes_have_about_the_nodes_asked_for(shape: str) -> None:
    from benchmarks.workloads.graph_shapes import MORE_SHAPES, SHAPES, count_nodes

    assert 960 <= count_nodes((SHAPES | MORE_SHAPES)[shape](1000).graph) <= 1150


@pytest.mark.slow
def test_nesting_beyond_the_limit_is_refused() -> None:
    from benchmarks.workloads.graph_shapes import nesting

    assert lower(nesting(64, 32).graph, generic_target("avx2"), Options())[0].regions
    for depth in (33, 300):
        with pytest.raises(ShapeError, match="nested too deeply"):
            nesting(2 * depth, depth)
