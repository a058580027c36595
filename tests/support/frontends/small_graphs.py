"""Graphs for tests from a list of operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import Constant


def graph_of(*nodes: tuple[Op, list[int]], name: str = "g") -> Graph:
    """A graph from operations and the positions of what they read."""
    graph = Graph(name)
    for i, (op, sources) in enumerate(nodes):
        graph.add(op, [Value(s) for s in sources], name=f"n{i}")
    infer_graph(graph)
    return graph


def constant(data: Any, dtype: DType = DType.f32) -> Constant:
    return Constant.of(np.asarray(data).astype(dtype.numpy), dtype)
