"""Bodies of If, Loop and TensorIterator."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.graph import Graph
from ....ir.op import Op
from .records import Layer


@dataclass
class Bodies:
    """A body's graph, and its nodes by layer id, which port maps speak of."""

    graph: Graph
    nodes: dict[int, int]


def read_control(layer: Layer, cls: type[Op], bodies: dict[str, Bodies]) -> Op:
    raise layer.error("not yet")
