"""The role of a node: native code, a host step, or the end of a region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....ir.dims import Expr
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.types import TensorType, Type
from ..op_table import Lowerer, runtime_inputs

STRUCTURAL = frozenset({"Parameter", "Constant", "Result", "TypedParameter"})


@dataclass(frozen=True)
class Role:
    """`lowerer` is set for native nodes; else `reason` says why not. A `terminal` ends its
    region: what comes out has a shape or type that only data decides."""

    lowerer: Lowerer | None
    reason: str = ""
    terminal: bool = False


def symbols_of(type_: Type) -> set[str]:
    """Names of the symbols in a tensor's shape."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return set()
    return {s.name for d in type_.shape if isinstance(d, Expr) for s in d.symbols()}


def is_host_only(type_: Type) -> bool:
    """Whether values of a type never are in a region's buffers: no tensors, strings, tensors of
    unknown rank or element type."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return True
    return type_.dtype in (DType.string, DType.dynamic)


def reads(graph: Graph, node: int, roles: Mapping[int, Role]) -> list[Value]:
    """The values that a node reads at run time."""
    role = roles.get(node)
    return runtime_inputs(graph, node, role.lowerer if role is not None else None)
