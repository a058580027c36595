"""Rules get their node's operation from the table, typed: none asserts its class."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from irc_compiler.compiler.lowering.op_table import LOWERERS
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes.fuse.activations import NAMES
from irc_compiler.compiler.pipeline import PASSES
from irc_compiler.compiler.rewrite.engine import op_rule
from irc_compiler.compiler.rewrite.patch import MatchFailure
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import MaxPool8, Relu
from irc_compiler.ir.text.graph_text import parse_graph

Function = Callable[..., Any]
POOLS = """
graph "pools"
%0 = Parameter.1() {element_type=f32, shape=[1, 2, 8, 8]} "x"
%1 = MaxPool.1(%0) {kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], strides=[2, 2]}
%2 = Relu.1(%1)
%3 = Result.1(%2) "y"
"""


def listed_functions() -> Iterator[tuple[str, Function]]:
    """The functions of the lowering table, the passes and the activations, with their names."""
    for op, lowerer in LOWERERS.items():
        for role in ("lower", "refuse", "ports"):
            if (function := getattr(lowerer, role)) is not None:
                yield f"{role} of {op.__name__}", function
    for each in PASSES:
        for rule in each.rules(Options()):
            yield f"{each.name}, {rule.name}", inspect.unwrap(rule.match)
    for op, read in NAMES.items():
        yield f"activation {op.__name__}", read


def class_assertions(function: Function) -> list[str]:
    """What the first statements of a function assert of the class of a value."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return [
        ast.unparse(each)
        for statement in getattr(tree, "body", ())[:4]
        if isinstance(statement, ast.Assert)
        for each in ast.walk(statement)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "isinstance"
    ]


@pytest.mark.slow
def test_rules_do_not_assert_the_class_of_their_operation() -> None:
    functions = dict(listed_functions())
    assert len(functions) > 200
    assert {n: found for n, f in functions.items() if (found := class_assertions(f))} == {}


def test_class_assertions_are_found() -> None:
    def rule(graph: Graph, node: int) -> None:
        """With an assertion behind the lookup."""
        op = graph.op(node)
        assert isinstance(op, Relu)

    assert class_assertions(rule) == ["isinstance(op, Relu)"]


@pytest.mark.parametrize("op, kind", [(Relu, "Relu"), (MaxPool8, "MaxPool")])
def test_an_op_rule_is_tried_at_operations_of_its_classes(op: type[Op], kind: str) -> None:
    seen: list[Op] = []

    def match(graph: Graph, node: int, op: Op) -> MatchFailure:
        """Note what it is tried at."""
        seen.append(op)
        return MatchFailure("noted")

    graph, rule = parse_graph(POOLS), op_rule("note", (op,), match)
    assert rule.kinds == (kind,)
    for node in graph.order():
        rule.match(graph, node)
    # The graph's MaxPool is another version of its kind.
    assert [type(each) for each in seen] == [Relu] * (op is Relu)
