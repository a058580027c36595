"""Elements picked by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.graph import Value
from .....ir.ops import Gather, GatherElements, GatherND

if TYPE_CHECKING:
    from ..node import ImportFunction, OnnxNode


def gather(n: OnnxNode) -> Value:
    """Indices out of range are an error (ONNX leaves them undefined; ours is to refuse)."""
    axis = n.int_value(n.integer("axis", 0))
    return n.add(Gather(out_of_range="error"), n.input(0), n.input(1), axis)


def gather_elements(n: OnnxNode) -> Value:
    return n.add(GatherElements(n.integer("axis", 0)), n.input(0), n.input(1))


def gather_nd(n: OnnxNode) -> Value:
    return n.add(GatherND(n.integer("batch_dims", 0)), n.input(0), n.input(1))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Gather": {1: gather},
    "GatherElements": {11: gather_elements},
    "GatherND": {11: gather_nd},
}
