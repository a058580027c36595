"""Runs passes on graph texts.

A graph is written without its heading, types and constants' defaults: see
irc_compiler.ir.text.graph_text. `$NAME` in a text stands for one of the short constants below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import PASSES
from irc_compiler.compiler.rewrite.engine import Match, Pass, Rule, run_pass
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.dims import substitute
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph, print_graph
from irc_compiler.ir.types import TensorType
from irc_compiler.ir.verify import verify

CHECKED = Options(verify=True)
_SHORT = re.compile(r"Const\((\w+)\[([^\]]*)\] = ([^)]*)\)")
_INPUT = re.compile(r"Input\((\w+)\[([^\]]*)\]\)")
PASS_BY_NAME = {p.name: p for p in PASSES}


def pass_of(match: Match, *kinds: str) -> Pass:
    """A pass of one rule, which is tried at operations of these kinds."""
    return Pass("alone", lambda options: (Rule("alone", kinds, match),))


def graph(text: str) -> Graph:
    """A graph from its lines. `Const(f32[2, 2] = 1, 2, 3, 4)` is a Constant (`= ~7`: drawn from
    seed 7), `Input(f32[N, 3])` a Parameter."""
    return parse_graph('graph "test"\n' + _SHORT.sub(_constant, _INPUT.sub(_parameter, text)))


def _constant(match: re.Match[str]) -> str:
    dtype, shape, data = match.groups()
    data = data if data.startswith("~") else f"[{data}]"
    return f"Constant.1() {{data={data}, dtype={dtype}, shape=[{shape}]}}"


def _parameter(match: re.Match[str]) -> str:
    dtype, shape = match.groups()
    if shape == "...":
        return f"Parameter.1() {{element_type={dtype}, shape=null}}"
    dims = [d if d.isdecimal() else f'"{d}"' for d in shape.split(", ") if d]
    return f"Parameter.1() {{element_type={dtype}, shape=[{', '.join(dims)}]}}"


def run(text: str | Graph, passes: Pass | Sequence[Pass], options: Options = CHECKED) -> Graph:
    """The graph after the passes, verified after each. Running them again changes nothing."""
    found, _ = traced(text, passes, options)
    return found


def traced(
    text: str | Graph, passes: Pass | Sequence[Pass], options: Options = CHECKED
) -> tuple[Graph, Trace]:
    """The graph after the passes, and the trace of the first run."""
    made = graph(text) if isinstance(text, str) else text.copy()
    listed = [passes] if isinstance(passes, Pass) else list(passes)
    verify(made)
    trace = Trace()
    for each in listed:
        run_pass(made, each, options, trace)
        once = print_graph(made)
        assert run_pass(made, each, options, Trace()) == 0, f"{each.name} is not idempotent"
        assert print_graph(made) == once
    return made, trace


def becomes(before: str, passes: Pass | Sequence[Pass], after: str) -> None:
    """The text after the passes is the other text, and both compute the same values."""
    source, found = graph(before), run(before, passes)
    assert print_graph(found) == print_graph(graph(after))
    same_values(source, found)


def stays(before: str, passes: Pass, reason: str | None) -> None:
    """The pass changes nothing; `reason` is its only refusal (None: it refuses nothing)."""
    found, trace = traced(before, passes)
    assert print_graph(found) == print_graph(graph(before))
    assert {e.refused for e in trace.refusals()} == ({reason} if reason else set())


def same_values(a: Graph, b: Graph, *, seed: int = 0, tolerance: float = 1e-5) -> None:
    """Both graphs give the same outputs for random inputs. Symbols have small sizes."""
    inputs = random_inputs(a, seed)
    for left, right in zip(interpret(a, inputs), interpret(b, inputs), strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(left, right)


def random_inputs(made: Graph, seed: int = 0, **sizes: int) -> list[Any]:
    """Normal floats, integers of 0 and 1. Every symbol is 3 unless `sizes` says otherwise."""
    rng = np.random.default_rng(seed)
    inputs: list[Any] = []
    for node in made.parameters:
        type_ = made.node(node).types[0]
        assert isinstance(type_, TensorType)
        dims = type_.shape if type_.shape is not None else (2, 3)
        shape = []
        for dim in dims:
            names = [] if isinstance(dim, int) else [s.name for s in dim.symbols()]
            shape.append(int(substitute(dim, {n: sizes.get(n, 3) for n in names})))
        if type_.dtype.is_float:
            inputs.append(rng.standard_normal(shape).astype(type_.dtype.numpy))
        else:
            inputs.append(rng.integers(0, 2, shape).astype(type_.dtype.numpy))
    return inputs
