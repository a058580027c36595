"""irc graph: a picture of a model before and after each pass, and of its compiled plan."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...api import Model, read_model
from ...api.compiled_model import compile_with_options
from ...api.progress import show_progress
from ...compiler.export.files import replace_files
from ...compiler.inspect.summary import bodies_of
from ...compiler.lowering import lower
from ...compiler.options import Options
from ...compiler.pipeline import optimize
from ...compiler.rewrite.trace import Trace
from ...compiler.shape_analysis.override_inputs import fix_shapes
from ...ir.errors import Error, UsageError
from ...ir.graph import Graph
from ...runtime.machine.detect import host_target
from ..arguments import (
    add_compilation,
    add_inputs,
    add_model,
    given_inputs,
    limits,
    parse_shapes,
    require_file,
)
from ..drawing.dot import as_dot
from ..drawing.page import INSIDE, as_page
from ..drawing.picture import Picture, take_picture
from ..drawing.plan_picture import draw_plan
from ..drawing.svg import as_svg
from ..formatting import format_bytes
from ..logging import print_json, report
from ..random_inputs import fill_inputs
from .profile import measure

SCHEMA = 1
READ = "as read"
PLAN = "plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    add_compilation(parser)
    parser.add_argument(
        "-o",
        "--output",
        help="the .html, .svg or .dot to write (default: MODEL.html in this folder)",
    )
    parser.add_argument(
        "--stage", help=f"for .svg and .dot: {READ!r}, a pass, or its number (default: the last)"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help=f"draw the compiled plan, too: the stage {PLAN!r}, the default one for .svg and .dot",
    )
    parser.add_argument("--profile", action="store_true", help="run it, and show where time goes")
    add_inputs(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Draw; prints the file written."""
    path = Path(require_file(args.model))
    output = Path(args.output or path.with_suffix(".html").name)
    kind = output.suffix.lower()
    if kind not in (".html", ".svg", ".dot"):
        raise UsageError("the output's name has the wrong ending", got=args.output, expected=KINDS)
    model = Model(fix_shapes(read_model(path, **limits(args)).graph, parse_shapes(args.shape)))
    options = Options(precision=args.precision or "f32")
    with show_progress(f"drawing {path}"):
        with_plan = args.plan or args.stage == PLAN
        stages, optimized = draw_stages(model.graph, options, plan=with_plan)
    if kind == ".html":
        times = step_times(model, options, args) if args.profile else None
        reasons = host_reasons(optimized, options)
        text = as_page(model.name or path.name, stages, times, reasons)
    else:
        picture = choose_stage(stages, args.stage)
        text = as_svg(picture) if kind == ".svg" else as_dot(picture)
    with replace_files(output) as (stream,):
        stream.write(text.encode())
    size = output.stat().st_size
    if args.json:
        drawn = [name for name, picture in stages if picture is not None]
        state = {"schema": SCHEMA, "output": str(output), "size_bytes": size, "stages": drawn}
        print_json(state)
    else:
        report(f"{output}  {format_bytes(size)}")
    return 0


KINDS = "*.html, *.svg or *.dot"


class Album(Trace):
    """A trace that draws the graph after each pass that changed it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._last = take_picture(graph, READ)
        self._seen = 0
        self.stages: list[tuple[str, Picture | None]] = [(READ, self._last)]

    def after_pass(self, passname: str, graph: Graph, seconds: float) -> None:
        """Draw, if a rule fired."""
        super().after_pass(passname, graph, seconds)
        new = [e for e in self.events[self._seen :] if e.refused is None]
        self._seen = len(self.events)
        if not new:
            self.stages.append((passname, None))
            return
        changes = [f"{e.rule} at {e.node}" for e in new]
        self._last = take_picture(graph, passname, changes, self._last)
        self.stages.append((passname, self._last))


def draw_stages(
    graph: Graph, options: Options, *, plan: bool = False
) -> tuple[list[tuple[str, Picture | None]], Graph]:
    """The graph as read and after each pass, and the plan if it is wanted; and the graph after all
    passes. `graph` is not changed."""
    work = graph.copy()
    album = Album(work)
    before = _bodies(work, READ)
    optimize(work, options, album)
    after = _bodies(work, "at the end") if any(p for _, p in album.stages[1:]) else []
    stages = [album.stages[0], *before, *album.stages[1:], *after]
    if plan:
        made, _ = lower(work, host_target(), options)
        stages.append((PLAN, draw_plan(made, PLAN)))
    return stages, work


def host_reasons(graph: Graph, options: Options) -> dict[str, str] | None:
    """Why an operation of the optimized graph does not run in native code, by its name; None for a
    graph that can be drawn, but not compiled."""
    try:
        plan, _ = lower(graph, host_target(), options)
    except Error:
        return None
    return {step.name: step.reason for step in plan.host_steps()}


def _bodies(graph: Graph, when: str) -> list[tuple[str, Picture | None]]:
    """A stage for each body of control flow, as it is."""
    found = [(f"{INSIDE}{way}, {when}", body) for way, body in bodies_of(graph)]
    return [(name, take_picture(body, name)) for name, body in found]


def choose_stage(stages: list[tuple[str, Picture | None]], wish: str | None) -> Picture:
    """The picture of a stage by name or number, as it was when that pass ended."""
    at = max(n for n, (name, _) in enumerate(stages) if not name.startswith(INSIDE))
    if wish is not None:
        named = [n for n, (name, _) in enumerate(stages) if name == wish]
        numbered = int(wish) if wish.isdecimal() and int(wish) < len(stages) else None
        if not named and numbered is None:
            names = ", ".join(dict.fromkeys(name for name, _ in stages))
            raise UsageError("no such stage", got=wish, expected=names)
        at = named[-1] if numbered is None else numbered
    # A pass that changed nothing looks as the one before; a body of control flow is not the result
    # of a pass.
    inside = stages[at][0].startswith(INSIDE)
    seen = [p for name, p in stages[: at + 1] if inside or not name.startswith(INSIDE)]
    return next(p for p in reversed(seen) if p is not None)


def step_times(
    model: Model, options: Options, args: argparse.Namespace
) -> dict[str, tuple[float, float]]:
    """Microseconds and share of the step that computes each of the model's operations."""
    net = compile_with_options(model, options, max_memory=args.max_memory)
    inputs, _ = fill_inputs(net.inputs, given_inputs(args, net.inputs))
    found: dict[str, tuple[float, float]] = {}
    for step in measure(net, inputs, 20):
        for source in step["sources"] or [step["name"]]:
            found.setdefault(source, (step["time_us"], step["share"]))
    return found
