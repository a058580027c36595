"""LabelEncoder of integers in a narrow range as Gather from a table."""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Gather, LabelEncoder, Maximum, Minimum, Subtract
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of

# Rows of the table for each key, and where it may be longer than that.
_MAX_ROWS_PER_KEY, _SMALL_TABLE = 16, 4096
# One more or less is an i32.
_MAX_KEY = (1 << 31) - 1


def decompose_integer_labels(
    graph: Graph, node: int, op: LabelEncoder
) -> Patch | MatchFailure | None:
    """The value of each integer from the least key to the largest, between defaults. Tables begin
    at 0 where they can and have powers of two as lengths, so that many share a kernel."""
    x, dtype = graph.input(node, 0), dtype_of(graph, graph.input(node, 0))
    if dtype not in (DType.i32, DType.i64):
        return None
    constants = [_constant(graph, value) for value in graph.inputs(node)[1:]]
    if len(constants) < 3 or any(c is None or c.dtype == np.object_ for c in constants):
        return MatchFailure("without a default, or a table of strings or one that is not constant")
    keys, values, default = (np.reshape(c, -1) for c in constants if c is not None)
    if not keys.size or not default.size:
        return MatchFailure("no keys")
    least, largest = int(keys.min()), int(keys.max())
    most = max(_SMALL_TABLE, _MAX_ROWS_PER_KEY * len(keys))
    if 0 < least <= largest < most - 3:
        least = 0
    rows = largest - least + 3
    if max(-least, largest) >= _MAX_KEY or rows > most:
        return MatchFailure("the keys are far apart")
    rows = min(1 << (rows - 1).bit_length(), _MAX_KEY + 2 - least)
    table = np.full(rows, default[0], values.dtype)
    for key, value in zip(keys.tolist(), values, strict=True):  # the last of equal keys counts
        table[key - least + 1] = value
    patch = Patch()
    first = patch.constant(least - 1, dtype)
    limited = patch.add(Minimum(), x, patch.constant(least + rows - 2, dtype))
    row = patch.add(Subtract(), patch.add(Maximum(), limited, first), first)
    made = patch.add(
        Gather(), patch.constant(table, dtype_of(graph, Value(node))), row, patch.integers(0)
    )
    return patch.replace(Value(node), made)


def _constant(graph: Graph, value: Value | None) -> np.ndarray | None:
    op = None if value is None else graph.op(value.node)
    return op.data if isinstance(op, Constant) else None


_RULES = (op_rule("decompose_integer_labels", (LabelEncoder,), decompose_integer_labels),)

decompose_label_tables = Pass("decompose_label_tables", lambda options: _RULES)
