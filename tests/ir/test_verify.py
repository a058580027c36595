"""What `verify` finds, and the engine that keeps it from being needed."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.rewrite.engine import Pass, Rule, run_pass
from irc_compiler.compiler.rewrite.patch import Patch
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, ModelFormatError, ShapeError, VerificationError
from irc_compiler.ir.graph import Graph, Use, Value
from irc_compiler.ir.ops import Exp, Negative, Relu, Sigmoid
from irc_compiler.ir.text.graph_text import parse_graph, print_graph
from irc_compiler.ir.types import TensorType
from irc_compiler.ir.verify import verify

TEXT = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x" names=x
%1 = Exp.1(%0) "e" names=y
%2 = ShapeOf.3(%1) "shape"
%3 = Result.1(%1) "out"
%4 = Result.1(%2) "sizes"
"""


def fails(graph: Graph, message: str, kind: type[Error] = VerificationError) -> Error:
    with pytest.raises(kind, match=message) as caught:
        verify(graph)
    return caught.value


def test_a_good_graph_passes_and_is_not_changed() -> None:
    graph = parse_graph(TEXT)
    text = print_graph(graph)
    verify(graph)
    assert print_graph(graph) == text


def test_a_cycle_prints_its_path() -> None:
    graph = parse_graph(TEXT)
    other = graph.add(Relu(), [Value(1)], name="r")
    graph.connect(Value(other), Use(1, 0))
    error = fails(graph, "cycle", ModelFormatError)
    assert error.got in ("e -> r -> e", "r -> e -> r")


def test_an_output_that_does_not_exist() -> None:
    graph = parse_graph(TEXT)
    graph.connect(Value(1, 1), Use(2, 0))
    assert fails(graph, "output that does not exist").got == "output 1 of Exp"


def test_a_missing_input_and_one_too_many() -> None:
    graph = parse_graph(TEXT)
    node = graph.add(Exp(), [], name="lonely")
    assert "lonely" in str(fails(graph, "needs input 0", ShapeError))
    graph.connect(Value(0), Use(node, 0))
    graph.connect(Value(0), Use(node, 1))
    fails(graph, "too many inputs", ShapeError)


def test_types_that_are_not_inferred() -> None:
    graph = parse_graph(TEXT)
    graph.add(Exp(), [Value(0)])
    fails(graph, "not inferred")


def test_a_type_that_contradicts_inference() -> None:
    graph = parse_graph(TEXT)
    graph.node(1).types = [TensorType(DType.f32, (4, 4))]
    assert fails(graph, "contradicts inference").where == "Exp 'e'"


def test_a_known_value_that_contradicts_inference() -> None:
    graph = parse_graph(TEXT)
    graph.node(2).known = [np.array([5, 4])]
    fails(graph, "known value contradicts")


def test_a_known_nan_agrees_with_inference() -> None:
    graph = parse_graph("""graph "g"
%0 = Constant.1() {data=[1.0, 4.0], dtype=f32, shape=[2]}
%1 = Result.1(%0)
""")
    graph.op(0).data[0] = np.nan  # type: ignore[attr-defined]
    graph.node(1).known = [np.array([np.nan, 4], np.float32)]
    verify(graph)
    graph.node(1).known = [np.array([np.nan, 5], np.float32)]
    fails(graph, "known value contradicts")


def test_lists_of_roots() -> None:
    graph = parse_graph(TEXT)
    graph.results.reverse()
    verify(graph)
    graph.results.pop()
    fails(graph, "list of Results")
    graph = parse_graph(TEXT)
    graph.parameters.clear()
    fails(graph, "list of Parameters")


def test_bodies_are_verified() -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=boolean, shape=[]} "c"
%1 = Parameter.1() {element_type=f32, shape=["N"]} "x"
%2 = If.8(%0, %1) {then_inputs=[1], else_inputs=[1], then_outputs=[0], else_outputs=[0]} "if"
  graph "then"
  %0 = Parameter.1() {element_type=f32, shape=["N"]} "a"
  %1 = Exp.1(%0) "inner"
  %2 = Result.1(%1)
  graph "else"
  %0 = Parameter.1() {element_type=f32, shape=["N"]} "a"
  %1 = Result.1(%0)
%3 = Result.1(%2)
""")
    verify(graph)
    body = graph.op(2).bodies()[0]
    body.node(1).types = [TensorType(DType.f32, (4, 4))]
    assert fails(graph, "contradicts inference").where == "Exp 'inner'"


# The engine --------------------------------------------------------------------------------------


def rule(kind: str, patch: object) -> Pass:
    return Pass("p", lambda options: (Rule("r", (kind,), patch),))  # type: ignore[arg-type]


def run(graph: Graph, passes: Pass) -> Trace:
    trace = Trace()
    run_pass(graph, passes, Options(verify=True), trace)
    return trace


def swap(op: object) -> object:
    def match(graph: Graph, node: int) -> Patch:
        patch = Patch()
        return patch.replace(Value(node), patch.add(op, graph.input(node, 0)))  # type: ignore[arg-type]

    return match


def test_replacing_propagates_names_and_infers() -> None:
    graph = parse_graph(TEXT)
    assert run(graph, rule("Exp", swap(Sigmoid()))).hits() == {"r": 1}
    (node,) = [n for n in graph.ids() if graph.op(n).kind == "Sigmoid"]
    record = graph.node(node)
    assert (record.name, record.names) == ("e", [frozenset({"y"})])
    assert 1 not in graph and str(record.types[0]) == "f32[N, 3]"


def test_a_new_node_may_read_what_it_replaces() -> None:
    """Insert a node behind another: the new one alone goes on reading the old value."""

    def insert(graph: Graph, node: int) -> Patch | None:
        if graph.op(graph.uses(Value(node))[0].node).kind == "Negative":
            return None
        patch = Patch()
        return patch.replace(Value(node), patch.add(Negative(), Value(node), name="neg"))

    graph = parse_graph(TEXT)
    run(graph, rule("Exp", insert))
    kinds = [graph.op(n).kind for n in graph.order()]
    assert kinds == ["Parameter", "Exp", "Negative", "Result", "ShapeOf", "Result"]
    by_kind = {graph.op(n).kind: graph.node(n) for n in graph.ids()}
    assert by_kind["Exp"].names == [frozenset()]
    assert by_kind["Negative"].names == [frozenset({"y"})]


def test_a_rule_may_not_change_a_type() -> None:
    def wrong(graph: Graph, node: int) -> Patch:
        return Patch().replace(Value(node), graph.input(node, 0))

    graph = parse_graph(TEXT)
    with pytest.raises(
        VerificationError, match="rule r of pass p is wrong: a rewrite changes"
    ) as e:
        run(graph, rule("ShapeOf", wrong))
    assert (e.value.got, e.value.expected) == ("f32[N, 3]", "i64[2]")


def test_a_rule_without_end_is_stopped() -> None:
    with pytest.raises(VerificationError, match="does not come to an end"):
        run(parse_graph(TEXT), rule("Exp", swap(Exp())))


def test_dead_nodes_go_first_and_parameters_stay() -> None:
    graph = parse_graph(TEXT.replace("%3 = Result.1(%1)", "%3 = Relu.1(%1)"))
    graph.add(Exp(), [Value(graph.add(Negative(), [Value(0)]))])
    run(graph, rule("nothing", None))
    assert [graph.op(n).kind for n in graph.order()] == ["Parameter", "Exp", "ShapeOf", "Result"]
    lonely = parse_graph('graph "g"\n%0 = Parameter.1() {element_type=f32, shape=[]} "x"')
    run(lonely, rule("nothing", None))
    assert len(lonely) == 1


def test_facts_flow_on_where_they_become_better() -> None:
    """A value of unknown shape is replaced by one of known shape: its readers are inferred."""
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x"
%1 = Parameter.1() {element_type=i64, shape=["R"]} "t"
%2 = Reshape.1(%0, %1) "r"
%3 = Exp.1(%2)
%4 = Result.1(%3)
""")

    def skip(g: Graph, node: int) -> Patch:
        return Patch().replace(Value(node), g.input(node, 0))

    assert str(graph.type(Value(3))) == "f32[...]"
    run(graph, rule("Reshape", skip))
    assert str(graph.type(Value(3))) == str(graph.type(Value(4))) == "f32[N, 3]"


def test_rules_see_changes_further_away_than_the_neighbourhood() -> None:
    """An Exp whose reader's reader became a Relu is asked again in the next sweep."""

    def far(graph: Graph, node: int) -> Patch | None:
        reader = graph.consumers(node)[0]
        if not any(graph.op(n).kind == "Relu" for n in graph.consumers(reader)):
            return None
        patch = Patch()
        return patch.replace(Value(node), patch.add(Sigmoid(), graph.input(node, 0)))

    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x"
%1 = Exp.1(%0)
%2 = Negative.1(%1)
%3 = Tanh.1(%2)
%4 = Result.1(%3)
""")
    rules = (Rule("far", ("Exp",), far), Rule("near", ("Tanh",), swap(Relu())))  # type: ignore[arg-type]
    trace = run(graph, Pass("p", lambda options: rules))
    assert trace.hits() == {"near": 1, "far": 1}
