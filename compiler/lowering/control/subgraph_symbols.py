"""Sizes at a body's interface. A plan reads its symbols off axes of its inputs, so that an axis
has to be a plain symbol; what a body gets from around it may be any expression."""

from __future__ import annotations

from ....ir.dims import Dim, Expr, plain_symbol, symbol
from ....ir.graph import Graph
from ....ir.infer import infer_graph
from ....ir.ops import Parameter
from ..schedule.symbols import symbols_in


def plain_sizes(body: Graph) -> Graph:
    """The body, or a copy in which composite sizes of its parameters have symbols of their own,
    where one of them holds a symbol that no axis of a parameter is."""
    shapes = [op.shape or () for n in body.parameters if isinstance(op := body.op(n), Parameter)]
    sizes = [d for shape in shapes for d in shape if isinstance(d, Expr)]
    plain = {s.name for d in sizes if (s := plain_symbol(d)) is not None}
    if all(s.name in plain for d in sizes for s in symbols_in(d)):
        return body
    fresh, renamed = body.copy(), dict[Expr, Dim]()
    for node in fresh.parameters:
        record, op = fresh.node(node), fresh.op(node)
        if isinstance(op, Parameter) and op.shape is not None:
            shape = tuple(_replace_by_symbol(d, plain, renamed) for d in op.shape)
            record.op = Parameter(op.element_type, shape)
    infer_graph(fresh)
    return fresh


def _replace_by_symbol(d: Dim, plain: set[str], renamed: dict[Expr, Dim]) -> Dim:
    if not isinstance(d, Expr) or all(s.name in plain for s in symbols_in(d)):
        return d
    return renamed.setdefault(d, symbol(f"size.{len(renamed)}"))
