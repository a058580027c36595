"""Fixing input shapes before compilation (`shapes=` of irc.compile_model)."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from ...ir.dims import Dim, Expr, Symbol, substitute, symbol
from ...ir.errors import UsageError
from ...ir.graph import Graph
from ...ir.ops import Parameter
from .infeasible_branches import specialize_branches


def fix_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | str | None]]) -> Graph:
    """Give inputs other shapes and infer the graph again, in place. Returns the graph.

    A size is a number, a symbol's name, or None to keep what the model says. Fixing one use of a
    symbol fixes it everywhere. UsageError for an unknown input or a contradiction.
    """
    if not shapes:
        return graph
    if not isinstance(shapes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            "shapes= is not a mapping", got=repr(shapes)[:80], expected="{name: [sizes]}"
        )
    by_name: dict[str, int] = {}
    for node in graph.parameters:
        record = graph.node(node)
        for name in (record.name, *record.names[0]):
            by_name[name] = node
    fixed: dict[str, Dim] = {}
    changed: dict[int, tuple[Dim, ...]] = {}
    for name, sizes in shapes.items():
        node = by_name.get(name)
        if node is None:
            raise UsageError("unknown input", got=name, expected=", ".join(by_name))
        op = graph.op(node)
        if not isinstance(op, Parameter):
            raise UsageError(
                "this input has no shape", got=name, expected="an input that is a tensor"
            )
        if isinstance(sizes, str) or not isinstance(sizes, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                "a shape is not a list of sizes",
                where=name,
                got=repr(sizes)[:80],
                expected="[1, 64]",
            )
        declared = op.shape
        if declared is not None and len(declared) != len(sizes):
            raise UsageError(
                "a shape of another rank", where=name, got=list(sizes), expected=list(declared)
            )
        made: list[Dim] = []
        for axis, size in enumerate(sizes):
            before = declared[axis] if declared is not None else symbol(f"{name}_{axis}")
            made.append(_merge(name, before, size, fixed))
        changed[node] = tuple(made)
    for node in graph.parameters:
        op = graph.op(node)
        if not isinstance(op, Parameter):
            continue
        shape = changed.get(node, op.shape)
        if shape is not None:
            shape = tuple(substitute(d, fixed) if isinstance(d, Expr) else d for d in shape)
        graph.node(node).op = Parameter(op.element_type, shape)
    return specialize_branches(graph)


def _merge(name: str, before: Dim, size: int | str | None, fixed: dict[str, Dim]) -> Dim:
    if size is None:
        return before
    try:
        wanted: Dim = symbol(size) if isinstance(size, str) else operator.index(size)
    except TypeError:
        expected = "a number, a name or None"
        raise UsageError(
            "a size is not an integer", where=name, got=size, expected=expected
        ) from None
    if isinstance(before, int):
        if before != wanted:
            raise UsageError("the model fixes this size", where=name, got=size, expected=before)
        return before
    only = _single_symbol(before)
    if only is not None:
        if fixed.setdefault(only.name, wanted) != wanted:
            raise UsageError(
                f"size {only.name!r} is fixed twice",
                where=name,
                got=size,
                expected=fixed[only.name],
            )
        if isinstance(wanted, int) and (
            wanted < only.lo or (only.hi is not None and wanted > only.hi)
        ):
            bounds = f"{only.lo}..{'' if only.hi is None else only.hi}"
            raise UsageError("a size out of its bounds", where=name, got=size, expected=bounds)
    return wanted


def _single_symbol(dim: Expr) -> Symbol | None:
    """The symbol that a size consists of, if it is nothing else."""
    symbols = list(dim.symbols())
    return symbols[0] if len(symbols) == 1 and str(dim) == str(symbols[0].name) else None
