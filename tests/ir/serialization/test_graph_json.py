"""Graphs inside operations as JSON and back; every operation's own attributes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir import dims as dim
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import ALL_OPS, Add, Constant, Parameter, Result
from irc_compiler.ir.serialization.dataclass_json import decode, encode
from irc_compiler.ir.serialization.graph_json import decode_graph, encode_graph
from irc_compiler.ir.types import TensorType

N = dim.symbol("N", 1, 99)
F32 = TensorType(DType.f32, (N, 3))


PLAIN = [c for c in ALL_OPS if not any(a.required for a in c.attributes())]


@pytest.mark.parametrize("cls", PLAIN, ids=lambda c: f"{c.kind}.{c.version}")
def test_every_operation_with_defaults(cls: type[Op]) -> None:
    assert decode(Op, json.loads(json.dumps(encode(cls())))) == cls()


def body() -> Graph:
    graph = Graph("body")
    x = graph.add(Parameter(DType.f32, (N, 3)), name="x", names=[frozenset({"x", "in"})])
    one = graph.add(Constant.of(np.ones(3, np.float32), DType.f32))
    y = graph.add(Add(), [Value(x), Value(one)], name="sum")
    graph.add(Result(), [Value(y)], name="r")
    graph.add(Result(), [Value(x)])
    graph.results.reverse()
    infer_graph(graph)
    return graph


def written(graph: Graph) -> tuple[Any, list[Any]]:
    kept: list[Any] = []

    def keep(array: Any, dtype: DType) -> int:
        kept.append(array)
        return len(kept) - 1

    return json.loads(json.dumps(encode_graph(graph, keep))), kept


def test_graphs_keep_order_names_and_types() -> None:
    data, kept = written(body())
    again = decode_graph(data, lambda n, *_: kept[n])
    assert written(again) == (data, kept)
    assert [again.type(Value(r)) for r in again.results] == [F32, F32]
    assert [again.node(r).name for r in again.results] == ["", "r"]
    assert again.node(again.parameters[0]).names == [frozenset({"x", "in"})]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((0,), 5),
        ((1,), {}),
        ((1, 0), []),
        ((1, 2, 1), [[3, 0], [1, 0]]),  # of itself: a cycle
        ((1, 2, 1), [[0, 1], [1, 0]]),  # an output there is not
        ((1, 2, 1), [[-1, 0], [1, 0]]),
        ((1, 2, 0), {"$": "Add.99"}),
        ((1, 2, 3), []),
        ((2,), []),
        ((3,), [0]),
        ((4,), [1]),
        ((1, 0, 0, "shape"), [5, 5]),  # 5 and 3 do not broadcast
    ],
)
def test_broken_graphs_are_refused(path: tuple[Any, ...], value: Any) -> None:
    data, kept = written(body())
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(VerificationError):
        decode_graph(data, lambda n, *_: kept[n])
