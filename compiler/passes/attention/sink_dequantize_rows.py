"""Rows of codes that are moved before attention reads them: they are dequantized behind the move.

Attention reads codes where DequantizeRows is its operand (compiler/lowering/schedule/fusion.py).
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.graph import Graph, Value
from ....ir.ops import DequantizeRows, Reshape, Transpose, Unsqueeze
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import shape_of


def sink_dequantize_rows(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Move(DequantizeRows(x)) = DequantizeRows(Move(x)) where the move keeps the last axis."""
    made = producer(graph, graph.input(node, 0), "DequantizeRows")
    if made is None or graph.use_count(Value(made)) != 1:
        return None
    op, rows = graph.op(made), graph.input(made, 0)
    before, after = shape_of(graph, rows), shape_of(graph, Value(node))
    given = graph.known_value(graph.input(node, 1))
    assert isinstance(op, DequantizeRows)
    if before is None or after is None or given is None or given.dtype == object:
        return MatchFailure("a rank or a move of rows of codes is known at run time only")
    values, move = [int(n) for n in given.reshape(-1)], graph.op(node)
    if isinstance(move, Transpose):
        kept = values[-1:] == [len(before) - 1]
    elif isinstance(move, Unsqueeze):
        kept = len(after) - 1 not in [n % len(after) for n in values]
    else:
        assert isinstance(move, Reshape)
        size = op.layout(int(str(before[-1]))).size
        # A 0 copies the size of the same axis, which is not that of the codes.
        kept = values[-1:] in ([size], [-1]) and after[-1] == size
        values[-1:] = [int(str(before[-1]))]
    if not kept:
        return MatchFailure("a move of rows of codes changes their last axis")
    patch = Patch()
    moved = patch.add(replace(move), rows, patch.integers(values))
    return patch.replace(Value(node), patch.add(op, moved))
