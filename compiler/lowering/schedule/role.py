"""The role of a node: native code, a host step, or the end of a region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....ir.graph import Graph, Value
from ..op_table import Lowerer, runtime_inputs

STRUCTURAL = frozenset({"Parameter", "Constant", "Result", "TypedParameter"})


@dataclass(frozen=True)
class Role:
    """`lowerer` is set for native nodes; else `reason` says why not. A `terminal` ends its
    region: what comes out has a shape or type that only data decides."""

    lowerer: Lowerer[Any] | None
    reason: str = ""
    terminal: bool = False


def reads(graph: Graph, node: int, roles: Mapping[int, Role]) -> list[Value]:
    """The values that a node reads at run time."""
    role = roles.get(node)
    return runtime_inputs(graph, node, role.lowerer if role is not None else None)
