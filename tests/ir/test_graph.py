"""The graph: ports, uses, order, copies."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from irc_compiler.compiler.rewrite.patch import Patch, has_one_use, producer
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Use, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.ops import Add, Concat, Constant, Exp, Gemm, Parameter, Result, Split
from irc_compiler.ir.types import TensorType

F32 = DType.f32


def x(graph: Graph, name: str = "x") -> Value:
    return Value(graph.add(Parameter(F32, (2, 2)), name=name))


def test_both_edges_of_x_plus_x() -> None:
    g = Graph()
    v = x(g)
    add = g.add(Add(), [v, v])
    assert g.inputs(add) == [v, v]
    assert g.uses(v) == [Use(add, 0), Use(add, 1)]
    assert g.consumers(v.node) == [add] and g.producers(add) == [v.node]
    assert not has_one_use(g, v)


def test_an_absent_input_keeps_its_place() -> None:
    g = Graph()
    v = x(g)
    concat = g.add(Concat(), [v, None, v])
    assert g.inputs(concat) == [v, None, v]
    plain = g.add(Gemm(), [v, v, None])
    assert g.inputs(plain) == [v, v]


def test_connect_replaces_one_port() -> None:
    g = Graph()
    a, b = x(g, "a"), x(g, "b")
    add = g.add(Add(), [a, a])
    g.connect(b, Use(add, 1))
    assert g.inputs(add) == [a, b]
    g.connect(b, Use(add, 0))
    assert g.inputs(add) == [b, b] and not g.has_uses(a.node)


def test_uses_of_one_output_of_several() -> None:
    g = Graph()
    v = x(g)
    axis = Value(g.add(Constant.of(np.array(0), DType.i64)))
    split = g.add(Split(2), [v, axis])
    first, second = g.values(split)
    add = g.add(Add(), [second, first])
    assert g.uses(first) == [Use(add, 1)] and g.uses(second) == [Use(add, 0)]
    infer_graph(g)
    assert g.type(second) == TensorType(F32, (1, 2))
    assert g.known_value(axis) is not None and g.known_value(second) is None
    assert g.fact(None) is None


def test_ids_are_never_used_twice() -> None:
    g = Graph()
    v = x(g)
    node = g.add(Exp(), [v])
    g.remove(node)
    assert node not in g and g.add(Exp(), [v]) == node + 1
    assert len(g) == 2 and g.ids() == [v.node, node + 1]


def test_roots_are_kept_in_order() -> None:
    g = Graph()
    a, b = x(g, "a"), x(g, "b")
    second, first = g.add(Result(), [b]), g.add(Result(), [a])
    assert g.parameters == [a.node, b.node] and g.results == [second, first]
    g.remove(second)
    assert g.results == [first]


def test_the_order_does_not_depend_on_insertion() -> None:
    def build(swap: bool) -> list[str]:
        g = Graph()
        v = x(g)
        exps = {n: Value(g.add(Exp(), [v], name=n)) for n in (("b", "a") if swap else ("a", "b"))}
        add = g.add(Add(), [exps["a"], exps["b"]], name="add")
        g.add(Result(), [Value(add)], name="out")
        return [g.node(n).name for n in g.order()]

    assert build(False) == build(True) == ["x", "a", "b", "add", "out"]


@pytest.mark.slow
def test_the_order_of_a_long_chain_and_of_dead_nodes() -> None:
    g = Graph()
    v = x(g)
    for _ in range(20_000):
        v = Value(g.add(Exp(), [v]))
    g.add(Result(), [v])
    order = g.order()
    assert order == sorted(order) and len(order) == 20_002
    dead = g.add(Exp(), [Value(g.parameters[0])])
    assert g.order()[-1] == dead


def test_cycles_are_found_and_ordered_once() -> None:
    g = Graph()
    v = x(g)
    a = g.add(Exp(), [v])
    b = g.add(Exp(), [Value(a)])
    assert g.find_cycle() == []
    g.connect(Value(b), Use(a, 0))
    assert sorted(g.find_cycle()) == [a, b]
    assert sorted(g.order()) == g.ids()


def test_find_cycle_takes_time_in_proportion_to_the_edges() -> None:
    def count_calls(length: int) -> int:
        g = Graph()
        v = x(g)
        for _ in range(length):
            v = Value(g.add(Add(), [v, v]))
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            assert g.find_cycle() == []
        finally:
            sys.setprofile(None)
        return calls

    count_calls(10)  # networkx loads its backends
    assert count_calls(400) <= 2.2 * count_calls(200)


def test_a_copy_is_independent() -> None:
    g = Graph("g")
    v = x(g)
    g.add(Result(), [v], names=[frozenset({"out"})])
    infer_graph(g)
    other = g.copy()
    node = other.add(Exp(), [v])
    other.connect(Value(node), Use(other.results[0], 0))
    other.node(v.node).name = "changed"
    other.node(v.node).names[0] = frozenset({"changed"})
    assert len(g) == 2 and g.input(g.results[0], 0) == v
    assert g.node(v.node).name == "x" and g.node(v.node).names == [frozenset()]
    assert other.name == "g" and node == len(g)


def test_an_input_that_is_not_connected() -> None:
    g = Graph()
    node = g.add(Concat(), [None, x(g)])
    with pytest.raises(AssertionError):
        g.input(node, 0)


def test_patches_number_new_values_downwards() -> None:
    g = Graph()
    v = x(g)
    patch = Patch()
    first = patch.add(Exp(), v)
    second = patch.add(Add(), first, v, name="n")
    assert (first, second) == (Value(-1), Value(-2))
    assert patch.replace(v, second).replacements == [(v, second)]
    assert producer(g, v, "Parameter") == v.node
    assert producer(g, v, "Exp") is None and producer(g, None, "Exp") is None


def test_use_counts_follow_every_change() -> None:
    g = Graph()
    x, y = (Value(g.add(Parameter(F32, (2,)))) for _ in range(2))
    add = g.add(Add(), [x, x])
    neg = g.add(Exp(), [x])
    assert g.use_count(x) == 3 and g.readers(x) == {add, neg} and g.only_reader(x) is None
    g.remove(neg)
    assert g.use_count(x) == 2 and g.only_reader(x) == add and g.only_use(x) is None
    g.connect(y, Use(add, 1))
    assert g.only_use(x) == Use(add, 0) and g.only_use(y) == Use(add, 1)
    g.connect(x, Use(add, 0))
    assert g.use_count(x) == 1 and g.inputs(add) == [x, y]
    twin = g.copy()
    twin.connect(y, Use(add, 0))
    assert (twin.use_count(x), twin.use_count(y)) == (0, 2) and g.use_count(x) == 1
    assert twin.uses(y) == [Use(add, 0), Use(add, 1)] and twin.readers(x) == set()
    g.clear()
    assert g.use_count(x) == 0 and g.uses(x) == []
