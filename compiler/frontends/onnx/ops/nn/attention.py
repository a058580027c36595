"""ONNX's Attention as the dialect's; what that does not say is left to the operator's own function.

Source: onnx.ai, Attention of operator sets 23 and 24. Rows that see no key are zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ......ir.dims import Dim, eq
from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.lazy_dataclass import dataclass
from ......ir.ops import (
    Add,
    Attention,
    Concat,
    Gather,
    LessEqual,
    LogicalAnd,
    Range,
    Reshape,
    Select,
    ShapeOf,
    Transpose,
    Unsqueeze,
)
from ...import_context import UseFunctionBody

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction

_TYPES = (DType.f32, DType.f16, DType.bf16)


def attention(n: ImportContext) -> Imported:
    """Queries, keys and values of three axes (heads side by side) or four; a past goes first."""
    query, key, value = (n.input(i) for i in range(3))
    mask, past = n.optional(3), (n.optional(4), n.optional(5))
    flat, sizes = n.rank(query) == 3, _sizes(n)
    causal = ""
    if n.flag("is_causal"):
        causal = "last" if past[0] is not None else "first"
    if causal == "last" and eq(sizes.rows, sizes.fresh) is not True:
        raise UseFunctionBody
    if flat:
        query = split_heads(n, query, sizes.heads)
        key, value = (split_heads(n, v, sizes.shared) for v in (key, value))
    if past[0] is not None and past[1] is not None:
        key, value = n.add(Concat(axis=2), past[0], key), n.add(Concat(axis=2), past[1], value)
    scale, cap = n.number("scale", 0.0) or 1 / math.sqrt(sizes.size), n.number("softcap", 0.0)
    op = Attention(scale / (cap or 1.0), causal, zeros=True, cap=cap)
    mask = _within_windows(n, mask, query, key, past[0])
    if sizes.heads == sizes.shared:
        found = n.add(op, query, key, value, mask)
        order = [0, 2, 1, 3]
    else:
        found = attend_grouped(n, op, (query, key, value, mask), sizes.shared)
        order = [0, 3, 1, 2, 4]
    # [B, S, heads..., width]: as it is requested flat.
    rows = n.add(Transpose(), found, n.ints_value(order))
    if flat:
        merged_sizes = n.ints_value([0, 0, sizes.heads * sizes.width])
        found = n.add(Reshape(special_zero=True), rows, merged_sizes)
    elif sizes.heads != sizes.shared:
        apart = n.ints_value([0, 0, sizes.heads, sizes.width])
        rows = n.add(Reshape(special_zero=True), rows, apart)
        found = n.add(Transpose(), rows, n.ints_value([0, 2, 1, 3]))
    return [found, key, value]


@dataclass(frozen=True)
class _AttentionSizes:
    """Heads of queries, and of keys and values; rows of queries and of new keys; sizes of a row of
    queries and of values."""

    heads: int
    shared: int
    rows: Dim
    fresh: Dim
    size: int
    width: int


def _sizes(n: ImportContext) -> _AttentionSizes:
    """The sizes of a node that the dialect can say. UseFunctionBody for any other."""
    n.has("softmax_precision")
    n.has("qk_matmul_output_mode")
    counts = [n.integer(name, 0) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    values = [n.input(i) for i in range(3)]
    if n.number("softcap", 0.0) < 0 or n.optional(6) is not None or n.wants(3):
        raise UseFunctionBody
    if n.dtype(values[0]) not in _TYPES or len({n.dtype(v) for v in values}) > 1:
        raise UseFunctionBody
    found: list[tuple[int, Dim, int]] = []
    for value, count in zip(values, counts, strict=True):
        shape = n.shape(value)
        if shape is None or len(shape) not in (3, 4):
            raise UseFunctionBody
        last, heads = shape[-1], count if len(shape) == 3 else shape[1]
        if not isinstance(last, int) or not isinstance(heads, int) or not (last and heads):
            raise UseFunctionBody
        found.append((heads, shape[-2], last // heads if len(shape) == 3 else last))
    (heads, rows, size), (shared, fresh, _), (_, _, width) = found
    if heads % shared:
        raise UseFunctionBody
    past, mask = n.optional(4), n.optional(3)
    before = None if past is None else n.shape(past)
    if past is not None and (before is None or n.optional(5) is None):
        raise UseFunctionBody
    if mask is not None:
        seen = n.shape(mask)
        keys = fresh if before is None else before[2] + fresh
        if seen is None or len(seen) < 2 or eq(seen[-1], keys) is not True:
            raise UseFunctionBody
        if n.dtype(mask) not in (n.dtype(values[0]), DType.boolean):
            raise UseFunctionBody
        if heads != shared and len(seen) > 2 and eq(seen[-3], 1) is not True:
            raise UseFunctionBody
    return _AttentionSizes(heads, shared, rows, fresh, size, width)


def _within_windows(
    n: ImportContext, mask: Value | None, query: Value, key: Value, past: Value | None
) -> Value | None:
    """The mask, with the keys outside of the window around each query's position hidden."""
    left, right = (n.integer(f"{side}_window_size", -1) for side in ("left", "right"))
    if left < 0 and right < 0:
        return mask
    rows, keys = _positions(n, query), _positions(n, key)
    if past is not None:
        rows = n.add(Add(), rows, _length(n, past))
    rows = n.add(Unsqueeze(), rows, n.ints_value([1]))
    shown: Value | None = None
    for size, less, more in ((left, rows, keys), (right, keys, rows)):
        if size >= 0:
            limit = n.add(Add(), more, n.ints_value([size]))
            side = n.add(LessEqual(), less, limit)
            shown = side if shown is None else n.add(LogicalAnd(), shown, side)
    assert shown is not None
    if mask is None:
        return shown
    if n.dtype(mask) is DType.boolean:
        return n.add(LogicalAnd(), mask, shown)
    return n.add(Select(), shown, mask, n.like(mask, -math.inf))


def _length(n: ImportContext, x: Value) -> Value:
    """How many rows [B, N, S, H] has."""
    return n.add(Gather(), n.add(ShapeOf(DType.i64), x), n.int_value(2), n.int_value(0))


def _positions(n: ImportContext, x: Value) -> Value:
    return n.add(Range(DType.i64), n.int_value(0), _length(n, x), n.int_value(1))


def split_heads(n: ImportContext, x: Value, heads: int) -> Value:
    """[B, S, N * H] as [B, N, S, H]."""
    apart = n.add(Reshape(special_zero=True), x, n.ints_value([0, 0, heads, -1]))
    return n.add(Transpose(), apart, n.ints_value([0, 2, 1, 3]))


def attend_grouped(
    n: ImportContext,
    op: Attention,
    given: tuple[Value, Value, Value, Value | None],
    shared: int,
    sink: Value | None = None,
) -> Value:
    """[B, N, G, S, H] of queries [B, N * G, S, H] whose N (`shared`) keys and values serve G heads
    each. The mask is [S, T], or the same for all heads, or [B, N, G, S, T]; the sink is one score
    per head, [N * G]."""
    query, key, value, mask = given
    shape = n.shape(query)
    assert shape is not None
    rows = n.add(Transpose(), query, n.ints_value([0, 2, 1, 3]))
    apart = n.ints_value([0, 0, shared, -1, int(shape[3])])  # type: ignore[arg-type]
    rows = n.add(Reshape(special_zero=True), rows, apart)
    query = n.add(Transpose(), rows, n.ints_value([0, 2, 3, 1, 4]))
    if mask is not None and n.rank(mask) in (3, 4):
        mask = n.add(Unsqueeze(), mask, n.ints_value([-3]))
    if sink is not None:
        sink = n.add(Reshape(), sink, n.ints_value([1, shared, -1, 1, 1]))
    key, value = (n.add(Unsqueeze(), x, n.ints_value([2])) for x in (key, value))
    return n.add(op, query, key, value, mask, sink)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {"Attention": {23: attention}}
