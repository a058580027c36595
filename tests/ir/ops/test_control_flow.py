"""If, Loop and TensorIterator: inference with growing sizes, and running bodies."""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import BodyInput, BodyOutput
from irc_compiler.ir.verify import verify

F32, I64, BOOL = DType.f32, DType.i64, DType.boolean
N = symbol("N")


def constant(graph: Graph, data: Any) -> Value:
    array = np.asarray(data)
    return Value(graph.add(o.Constant.of(array, DType.from_numpy(array.dtype))))


def parameter(graph: Graph, dtype: DType, shape: Any) -> Value:
    return Value(graph.add(o.Parameter(dtype, shape), name=f"p{len(graph.parameters)}"))


def result(graph: Graph, value: Value) -> None:
    graph.add(o.Result(), [value])


def around(op: Op, parameters: list[tuple[DType, Any]]) -> Graph:
    """A graph with one node that all parameters feed; every output is a result."""
    graph = Graph()
    node = graph.add(op, [parameter(graph, *p) for p in parameters])
    for port in range(op.output_count()):
        result(graph, Value(node, port))
    infer_graph(graph)
    verify(graph)
    return graph


def types(graph: Graph) -> list[str]:
    return [str(graph.node(r).types[0]) for r in graph.results]


def branch(scale: float, *, longer: bool) -> Graph:
    body = Graph()
    x = parameter(body, F32, None)
    y = Value(body.add(o.Multiply(), [x, constant(body, np.float32(scale))]))
    result(body, Value(body.add(o.Concat(0), [y, y])) if longer else y)
    infer_graph(body)
    return body


def test_if_takes_a_branch() -> None:
    op = o.If(branch(2, longer=False), branch(-1, longer=False), (1,), (2,), (0,), (0,))
    graph = around(op, [(BOOL, ()), (F32, (N, 3)), (F32, (N, 3))])
    assert types(graph) == ["f32[N, 3]"]
    a, b = np.ones((1, 3), np.float32), np.full((1, 3), 5, np.float32)
    assert interpret(graph, [np.array(True), a, b])[0].tolist() == [[2, 2, 2]]
    assert interpret(graph, [np.array(False), a, b])[0].tolist() == [[-5, -5, -5]]


def test_branches_of_different_sizes_and_types() -> None:
    op = o.If(branch(2, longer=True), branch(-1, longer=False), (1,), (1,), (0,), (0,))
    (type_,) = types(around(op, [(BOOL, ()), (F32, (4, 3))]))
    assert type_.startswith("f32[_") and type_.endswith(", 3]")
    other = Graph()
    result(other, constant(other, np.int64(1)))
    infer_graph(other)
    mixed = o.If(branch(1, longer=False), other, (1,), (), (0,), (0,))
    with pytest.raises(ShapeError, match="element type"):
        around(mixed, [(BOOL, ()), (F32, (4, 3))])


def test_if_with_a_known_condition_has_that_branch_s_type() -> None:
    op = o.If(branch(2, longer=True), branch(-1, longer=False), (1,), (1,), (0,), (0,))
    graph = Graph()
    node = graph.add(op, [constant(graph, np.array(True)), parameter(graph, F32, (4, 3))])
    result(graph, Value(node))
    infer_graph(graph)
    assert types(graph) == ["f32[8, 3]"]


def counting_body(*, grows: bool) -> Graph:
    """(i, sum, limit) -> (sum + i, or sum joined with i; sum so far < limit)."""
    body = Graph()
    i = parameter(body, I64, ())
    total = parameter(body, F32, None)
    limit = parameter(body, F32, ())
    # The number of the iteration; a loop that did not end would run out of them.
    numbers = [constant(body, np.arange(50, dtype=np.float32)), i, constant(body, np.array(0))]
    step = Value(body.add(o.Gather(out_of_range="error"), numbers))
    if grows:
        one = Value(body.add(o.Unsqueeze(), [step, constant(body, np.array([0]))]))
        fresh = Value(body.add(o.Concat(0), [total, one]))
    else:
        fresh = Value(body.add(o.Add(), [total, step]))
    last = Value(body.add(o.ReduceMax(), [fresh, constant(body, np.array([0]))]))
    result(body, Value(body.add(o.Less(), [last, limit])))
    result(body, fresh)
    return body


def loop(*, grows: bool) -> o.Loop:
    body = counting_body(grows=grows)
    infer_graph(body)
    ports = (BodyInput("iteration"), BodyInput("carried", 2, 1), BodyInput("invariant", 3))
    results = (BodyOutput("last", 1), BodyOutput("joined", 1))
    return o.Loop(body, ports, results[: 1 if grows else 2], condition=0)


LOOP_INPUTS = [(I64, ()), (BOOL, ()), (F32, (2,)), (F32, ())]


def test_loop_runs_until_the_condition_fails() -> None:
    graph = around(loop(grows=False), LOOP_INPUTS)
    assert types(graph)[0] == "f32[2]"
    assert types(graph)[1].startswith("f32[_")
    zeros, limit = np.zeros(2, np.float32), np.float32(4)
    last, joined = interpret(graph, [np.array(-1), np.array(True), zeros, np.array(limit)])
    assert last.tolist() == [6, 6]
    assert joined.tolist() == [0, 0, 1, 1, 3, 3, 6, 6]
    last, joined = interpret(graph, [np.array(2), np.array(True), zeros, np.array(limit)])
    assert last.tolist() == [1, 1] and joined.shape == (4,)
    last, joined = interpret(graph, [np.array(9), np.array(False), zeros + 7, np.array(limit)])
    assert last.tolist() == [7, 7] and joined.shape == (0,)


def test_sizes_that_change_from_one_iteration_to_the_next_are_open() -> None:
    graph = around(loop(grows=True), LOOP_INPUTS)
    (type_,) = types(graph)
    assert type_.startswith("f32[_")
    # Inferring again gives the same symbols.
    infer_graph(graph)
    assert types(graph) == [type_]
    inputs = [np.array(3), np.array(True), np.zeros(2, np.float32), np.array(np.float32(9))]
    assert interpret(graph, inputs)[0].tolist() == [0, 0, 0, 1, 2]


def test_loop_with_a_known_trip_count_has_a_known_size() -> None:
    body = Graph()
    x = parameter(body, F32, None)
    result(body, constant(body, np.array(True)))
    result(body, Value(body.add(o.Relu(), [x])))
    infer_graph(body)
    op = o.Loop(body, (BodyInput("invariant", 2),), (BodyOutput("joined", 1, axis=1),), condition=0)
    graph = Graph()
    inputs = [constant(graph, np.array(5)), constant(graph, np.array(True))]
    node = graph.add(op, [*inputs, parameter(graph, F32, (N, 3))])
    result(graph, Value(node))
    infer_graph(graph)
    assert types(graph) == ["f32[N, 15]"]


@pytest.mark.parametrize("port", [0, 1])
def test_conditions_and_counts_are_single_numbers(port: int) -> None:
    inputs = list(LOOP_INPUTS)
    inputs[port] = (inputs[port][0], (2,))
    with pytest.raises(ShapeError, match=("trip_count", "condition")[port] + " is a single number"):
        infer_graph(around(loop(grows=False), inputs))


def test_the_condition_of_an_if_is_a_single_number() -> None:
    op = o.If(branch(2, longer=True), branch(-1, longer=False), (1,), (1,), (0,), (0,))
    with pytest.raises(ShapeError, match="condition is a single number"):
        infer_graph(around(op, [(BOOL, (2,)), (F32, (4, 3))]))


def test_a_carried_value_keeps_its_element_type() -> None:
    body = Graph()
    x = parameter(body, F32, None)
    result(body, Value(body.add(o.Convert(I64), [x])))
    infer_graph(body)
    op = o.Loop(body, (BodyInput("carried", 2, 0),), (BodyOutput("last", 0),))
    with pytest.raises(ShapeError, match="changes its type"):
        around(op, [(I64, ()), (BOOL, ()), (F32, (2,))])


def scan(stride: int, part: int) -> o.TensorIterator:
    """Running sum over parts of axis 1, joined in the order of the parts."""
    body = Graph()
    x, total = parameter(body, F32, None), parameter(body, F32, None)
    fresh = Value(body.add(o.Add(), [total, x]))
    result(body, fresh)
    infer_graph(body)
    bounds = {"start": 0, "end": -1} if stride > 0 else {"start": -1, "end": 0}
    ports = (
        BodyInput("sliced", 0, axis=1, stride=stride, part_size=part, **bounds),
        BodyInput("carried", 1, 0),
    )
    joined = BodyOutput("joined", 0, axis=1, stride=stride, part_size=part, **bounds)
    return o.TensorIterator(body, ports, (BodyOutput("last", 0), joined))


def test_tensor_iterator_forwards_and_backwards() -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    forward = around(scan(1, 1), [(F32, (N, 4)), (F32, (N, 1))])
    assert types(forward) == ["f32[N, 1]", "f32[N, 4]"]
    last, joined = interpret(forward, [x, np.zeros((1, 1), np.float32)])
    assert last.tolist() == [[10]] and joined.tolist() == [[1, 3, 6, 10]]
    backward = around(scan(-1, 1), [(F32, (N, 4)), (F32, (N, 1))])
    last, joined = interpret(backward, [x, np.zeros((1, 1), np.float32)])
    assert last.tolist() == [[10]] and joined.tolist() == [[10, 9, 7, 4]]


def test_tensor_iterator_over_parts_of_two() -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    graph = around(scan(2, 2), [(F32, (1, 4)), (F32, (1, 2))])
    assert types(graph) == ["f32[1, 2]", "f32[1, 4]"]
    last, joined = interpret(graph, [x, np.zeros((1, 2), np.float32)])
    assert last.tolist() == [[4, 6]] and joined.tolist() == [[1, 2, 4, 6]]


def test_tensor_iterator_over_a_symbolic_axis() -> None:
    graph = around(scan(1, 1), [(F32, (3, N)), (F32, (3, 1))])
    assert types(graph) == ["f32[3, 1]", "f32[3, N]"]
