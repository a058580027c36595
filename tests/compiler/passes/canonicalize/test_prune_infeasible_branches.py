"""A branch that what follows cannot take becomes one that fails; the condition stays."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes.canonicalize.prune_infeasible_branches import (
    prune_infeasible_branches,
)
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.compiler.rewrite.engine import run_pass
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Constant, Fail, If, Transpose
from irc_compiler.ir.ops.control_flow.conditional import failure
from irc_compiler.ir.text.graph_text import print_graph
from irc_compiler.ir.verify import verify
from onnx import parser

VERIFIED = Options(verify=True)
_HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
_SQUEEZE = """
    axis = Constant <value_ints = [1]> ()
    flat = If (c) <then_branch = squeezed () => (float[] s) { s = Squeeze (x, axis) },
        else_branch = kept () => (float[] k) { k = Identity (x) }>"""


def net(body: str, inputs: str = "bool c, float[N, T] x") -> Graph:
    text = f"{_HEAD}net ({inputs}) => (float[] y) {{{_SQUEEZE}{body}\n}}"
    return read_onnx(parser.parse_model(text))


def refused(graph: Graph) -> tuple[Trace, str]:
    """The trace of the pass, and the graph behind it."""
    trace = Trace()
    run_pass(graph, prune_infeasible_branches, VERIFIED, trace)
    return trace, print_graph(graph)


def only_if(graph: Graph) -> If:
    (op,) = [op for n in graph.ids() if isinstance(op := graph.op(n), If)]
    return op


@pytest.mark.parametrize(("perm", "branch"), [([0], 1), ([1, 0], 0)])
def test_what_follows_takes_one_rank(perm: list[int], branch: int) -> None:
    graph = net(f"\n    y = Transpose <perm = {perm}> (flat)")
    (flat,) = [n for n in graph.ids() if isinstance(graph.op(n), If)]
    assert str(graph.node(flat).types[0]) == "f32[...]"
    trace, after = refused(graph)
    assert trace.hits() == {"refuse_branch": 1}
    verify(graph)
    why = failure(only_if(graph).bodies()[branch])
    refusal = "a transposition lists every axis" if branch else "axis is out of range"
    assert why is not None and refusal in why
    assert failure(only_if(graph).bodies()[1 - branch]) is None
    sizes = "f32[N]" if branch else "f32[T, N]"
    assert after.split('"y/sink_port_0"')[1].splitlines()[0].endswith(sizes)
    x = np.arange(3, dtype=np.float32).reshape(3, 1)
    (y,) = interpret(graph, [np.array(branch == 1), x])
    np.testing.assert_array_equal(y, x[:, 0] if branch else x.T)
    with pytest.raises(irc.ShapeError, match="this branch cannot work with its sizes"):
        interpret(graph, [np.array(branch == 0), x])


REFUSALS = {
    # Any rank will do.
    "both branches may work": "\n    y = Relu (flat)",
    # Neither.
    "no branch works": "\n    y = Transpose <perm = [0, 1, 2]> (flat)",
    # A loop that runs never refuses nothing.
    "a loop decides, which may never run": """
    count = Constant <value_int = 0> ()
    yes = Constant <value = bool {1}> ()
    start = Constant <value_floats = [1.0]> ()
    y = Loop (, yes, start) <body = step (int64 i, bool go, float[] s)
        => (bool more, float[] t) {
        more = Identity (go)
        turned = Transpose <perm = [1, 0]> (flat)
        z = ReduceSum <keepdims = 0> (turned)
        t = Add (s, z)
    }>""",
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_refusals(reason: str) -> None:
    graph = net(REFUSALS[reason])
    trace, after = refused(graph)
    assert [e.refused for e in trace.refusals()] == [reason] and not trace.hits()
    assert "Fail" not in after


def test_a_branch_that_may_not_be_taken_decides_nothing() -> None:
    """What refuses a rank stands in a branch: it counts where the other branch does, too."""
    body = """
    y = If (d) <then_branch = a () => (float[] p) {{ p = Transpose <perm = [1, 0]> (flat) }},
        else_branch = b () => (float[] q) {{ q = {other} (flat) }}>"""
    inputs = "bool c, bool d, float[N, T] x"
    trace, _ = refused(net(body.format(other="Relu"), inputs))
    assert "both branches may work" in [e.refused for e in trace.refusals()]
    graph = net(body.format(other="Transpose <perm = [1, 0]>"), inputs)
    trace, _ = refused(graph)
    assert trace.hits() == {"refuse_branch": 1}


def test_unused_values_do_not_constrain_sizes() -> None:
    graph = net("\n    lost = Transpose <perm = [1, 0]> (flat)\n    y = Relu (flat)")
    trace, _ = refused(graph)
    assert [e.refused for e in trace.refusals()] == ["both branches may work"]


def test_unused_values_of_a_branch_do_not_constrain_sizes() -> None:
    body = """
    y = If (d) <then_branch = a () => (float[] p) { p = Relu (flat) },
        else_branch = b () => (float[] q) { q = Transpose <perm = [1, 0]> (flat) }>"""
    graph = net(body, "bool c, bool d, float[N, T] x")
    (branch,) = [
        op.then_body
        for n in graph.ids()
        if isinstance(op := graph.op(n), If) and "Relu" in op.then_body.kinds()
    ]
    order = branch.add(Constant.of(np.array([1, 0]), DType.i64))
    branch.add(Transpose(), [Value(branch.parameters[0]), Value(order)])
    infer_graph(branch)
    trace, _ = refused(graph)
    assert "both branches may work" in [e.refused for e in trace.refusals()] and not trace.hits()


def test_the_pipeline_keeps_what_fails() -> None:
    graph = net("\n    y = Transpose <perm = [0]> (flat)")
    optimize(graph, VERIFIED)
    body = only_if(graph).else_body
    assert [body.op(n).kind for n in body.ids()] == ["Fail", "Result"]
    assert any(isinstance(body.op(n), Fail) for n in body.ids())
    net_ = irc.compile_model(irc.Model(net("\n    y = Transpose <perm = [0]> (flat)")))
    assert not net_.plan.host_steps()


def test_many_branches_are_not_tried() -> None:
    """Each takes an inference of all that follows: a small file of many would take minutes."""
    more = [
        f"v{i} = If (c) <then_branch = t{i} () => (float[] s{i}) {{ s{i} = Identity ({of}) }},"
        f" else_branch = e{i} () => (float[] k{i}) {{ k{i} = Identity ({of}) }}>"
        for i in range(80)
        for of in [f"v{i - 1}" if i else "flat"]
    ]
    trace, _ = refused(net("\n" + "\n".join(more) + "\n    y = Relu (v79)"))
    assert {e.refused for e in trace.refusals()} == {"too many branches to try"}
