"""What control flow is fed is cut down to what its bodies need, and bodies are optimised."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes.canonicalize.simplify_subgraphs import simplify_subgraphs
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.compiler.rewrite.engine import run_pass
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Use, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Constant, Gemm, If, Loop
from support.models.control_flow import INPUTS, TEXTS, control_flow

VERIFIED = Options(verify=True)


def simplified(name: str) -> Graph:
    graph = read_onnx(control_flow(name))
    run_pass(graph, simplify_subgraphs, VERIFIED, Trace())
    return graph


def loop_of(graph: Graph) -> tuple[int, Loop]:
    (found,) = [(n, op) for n in graph.ids() if isinstance(op := graph.op(n), Loop)]
    return found


def test_constants_go_inside() -> None:
    node, op = loop_of(simplified("rnn_loop"))
    modes = [p.mode for p in op.ports]
    # The weight is a constant of the body; the condition never changes and is one, too.
    assert sorted(modes) == ["carried", "invariant"]
    assert [op.body.op(n).kind for n in op.body.ids()].count("Constant") >= 2
    assert op.always()


def test_passed_on_values_are_not_carried() -> None:
    graph = simplified("choose")
    node, op = loop_of(graph)
    assert [p.mode for p in op.ports].count("carried") == 1
    assert [o.mode for o in op.results] == ["last"]


def test_bodies_are_optimised() -> None:
    graph = read_onnx(control_flow("rnn_loop"))
    trace = optimize(graph, VERIFIED)
    _, op = loop_of(graph)
    assert any(isinstance(op.body.op(n), Gemm) for n in op.body.ids())
    (inner,) = trace.bodies.values()
    assert inner.hits()["take_addend"] == 1 and not trace.hits()["take_addend"]


def test_a_known_condition_leaves_its_branch() -> None:
    graph = read_onnx(control_flow("branch"))
    (node,) = [n for n in graph.ids() if isinstance(graph.op(n), If)]
    known = graph.add(Constant.of(np.array(False), DType.boolean))
    graph.connect(Value(known), Use(node, 0))
    infer_graph(graph)
    optimize(graph, VERIFIED)
    assert not any(isinstance(graph.op(n), If) for n in graph.ids())
    inputs = INPUTS["branch"][0]()
    (y,) = interpret(graph, inputs)
    assert (y == -2 * inputs["x"]).all()


@pytest.mark.slow
def test_numbers_stay_and_a_second_run_changes_nothing() -> None:
    for name in TEXTS:
        source = read_onnx(control_flow(name))
        found = source.copy()
        optimize(found, VERIFIED)
        for make in INPUTS[name]:
            for a, b in zip(interpret(source, make()), interpret(found, make()), strict=True):
                assert a.dtype == b.dtype and (a == b).all()
        again = optimize(found, VERIFIED)
        assert not any(t.hits() for t in (again, *again.bodies.values())), name
