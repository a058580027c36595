"""Patches: what a rule returns instead of touching the graph.

A patch lists new nodes and which values they replace. Only the rewrite engine applies it
(engine.py): it infers the new nodes, checks that every replacement keeps type and
shape, moves names and uses, and removes dead nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.lazy_dataclass import dataclass
from ...ir.op import Op
from ...ir.ops.tensor.constants import Constant


@dataclass(frozen=True)
class MatchFailure:
    """A near miss: the pattern is there but the rule does not apply, and this is why."""

    reason: str


@dataclass(frozen=True)
class NewNode:
    """A node to be added; its values are referred to by negative node numbers."""

    op: Op
    inputs: tuple[Value | None, ...]
    name: str


@dataclass
class Patch:
    """New nodes and replacements. Values of the i-th new node have node number -(i + 1)."""

    nodes: list[NewNode] = field(default_factory=list[NewNode])
    replacements: list[tuple[Value, Value]] = field(default_factory=list[tuple[Value, Value]])

    def add(self, op: Op, *inputs: Value | None, name: str = "") -> Value:
        """Add a node and return its first output."""
        self.nodes.append(NewNode(op, inputs, name))
        return Value(-len(self.nodes))

    def constant(self, data: Any, dtype: DType) -> Value:
        """Add a constant: an array, or a number, converted to `dtype` as NumPy converts."""
        array = np.asarray(data).astype(dtype.numpy, order="C", copy=False)
        return self.add(Constant.of(array, dtype))

    def integers(self, values: int | Sequence[Dim]) -> Value:
        """Add a constant of i64 as shapes and axes are: a scalar [] or a list [n]."""
        return self.add(Constant.of(np.array(values, np.int64), DType.i64))

    def replace(self, old: Value, new: Value) -> Patch:
        """Let every reader of `old` read `new`. Returns the patch, to end a rule with it."""
        self.replacements.append((old, new))
        return self


def has_one_use(graph: Graph, value: Value) -> bool:
    """Whether exactly one input port reads the value."""
    return graph.use_count(value) == 1


def producer(graph: Graph, value: Value | None, kind: str) -> int | None:
    """The node that makes `value` if it is of this kind (and this is its first output)."""
    if value is None or value.port != 0 or graph.op(value.node).kind != kind:
        return None
    return value.node
