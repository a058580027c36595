"""A schedule holds all decisions: regions are built from it, each by an object of its own."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.compiler import lowering
from irc_compiler.compiler.lowering.build.plan_builder import PlanBuilder
from irc_compiler.compiler.lowering.build.region_lowering import RegionLowering
from irc_compiler.compiler.lowering.lower import build_plan
from irc_compiler.compiler.lowering.schedule.schedule import RegionSchedule, Schedule
from irc_compiler.compiler.lowering.schedule.scheduler import schedule
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.plan import Region
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.text import print_plan
from support.models.control_flow import TEXTS, control_flow

FOLDER = Path(lowering.__file__).parent
# What makes the decisions, and what builds from them.
ANALYSES = {
    "decide_roles",
    "decide_fusion",
    "channels_last_values",
    "rounded_values",
    "spaced_values",
    "winograd_tiles",
    "split_regions",
    "split_state",
    "match_control",
}
BUILDERS = [
    FOLDER / "lower.py",
    FOLDER / "control" / "lower_control.py",
    *(FOLDER / "build").glob("*.py"),
    *(FOLDER / "ops").rglob("*.py"),
]
PRODUCT = """
graph "product"
%0 = Parameter.1() {element_type=f32, shape=["N", 12]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[12, 20]}
%2 = MatMul.1(%0, %1)
%3 = Relu.1(%2)
%4 = Exp.1(%3)
%5 = NonZero.3(%4) {output_type="i64"}
%6 = Convert.1(%5) {destination_type=f32}
%7 = Result.1(%6) "where"
%8 = Result.1(%4) "y"
%9 = Result.1(%4) "y again"
"""


def scheduled(graph: Graph) -> Schedule:
    optimize(graph, Options(verify=True))
    return schedule(graph, generic_target("avx512"), Options())


def printed(found: Schedule) -> str:
    builder = PlanBuilder()
    plan = build_plan(found, builder)
    return print_plan(replace(plan, constants=tuple(builder.constants)))


def test_a_schedule_describes_its_decisions() -> None:
    found = scheduled(parse_graph(PRODUCT))
    assert list(found.describe()) == [
        "region 0, level 0: 2 nodes",
        "  %10 Gemm, native, epilogue %4",
        "  %4 Exp, native",
        "  %5 NonZero, terminal (the shape of NonZero's result depends on data)",
        "  slot 2 = %4.0",
        "  slot 3 = %4.0",
        "region 1, level 0: 1 nodes",
        "  %6 Convert, native",
        "  slot 1 = %6.0",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_building_changes_nothing_of_the_schedule(name: str) -> None:
    found = scheduled(irc.read_model(control_flow(name)).graph)
    before = list(found.describe())
    first, second = printed(found), printed(found)
    assert first == second and list(found.describe()) == before


def test_each_region_is_built_by_a_lowering_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seen = scheduled(parse_graph(PRODUCT)), list[RegionLowering]()
    module = sys.modules[build_plan.__module__]  # the package's name for it is the function
    build_region = module.build_region

    def record(lowering: RegionLowering, region: RegionSchedule, home: dict[int, int]) -> Region:
        assert not (
            lowering.views
            or lowering.placed
            or lowering.divided
            or lowering.inputs
            or lowering.region.steps
        )
        seen.append(lowering)
        return build_region(lowering, region, home)

    monkeypatch.setattr(module, "build_region", record)
    build_plan(found, PlanBuilder())
    assert len({id(lowering) for lowering in seen}) == len(found.regions) == 2


def imported_names(path: Path) -> set[str]:
    """The names that a module imports from others."""
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_building_imports_no_analysis() -> None:
    analysing = [*(FOLDER / "schedule").glob("*.py"), FOLDER / "control" / "eligibility.py"]
    assert {name for path in analysing for name in imported_names(path)} >= ANALYSES
    assert not {path.name: found for path in BUILDERS if (found := imported_names(path) & ANALYSES)}
