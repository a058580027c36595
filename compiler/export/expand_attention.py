"""The dialect's attention in products, a softmax and comparisons of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Node, Value
from ...ir.ops import (
    Attention,
    Broadcast,
    Concat,
    Convert,
    Gather,
    LessEqual,
    MatMul,
    NotEqual,
    Range,
    ReduceLogicalOr,
    Select,
    ShapeOf,
    Slice,
    Softmax,
    Subtract,
    Tanh,
    Unsqueeze,
)
from ...ir.ops.accumulate import computing_dtype
from .graph_builder import Build

_HIDDEN = -float("inf")


def expand_attention(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """softmax(scale * query x key^T, masked) x value."""
    op = record.op
    query, key, value, mask, sink, *zeros = (*inputs, None, None, None, None)[:7]
    assert isinstance(op, Attention)
    assert query is not None and key is not None and value is not None
    dtype = build.dtype(value)
    if build.dtype(query) is not dtype:
        query, key = (
            _open_bytes(build, v, z, dtype) for v, z in zip((query, key), zeros, strict=True)
        )
    # Scores that are not scaled yet may be too large for f16.
    early = abs(op.scale) < 1 and computing_dtype(dtype) is not dtype
    if early:
        query = build.multiply(query, build.number(op.scale, dtype))
    scores = build.op(MatMul(transpose_b=True), query, key)
    if op.scale != 1 and not early:
        scores = build.multiply(scores, build.number(op.scale, dtype))
    if op.cap:
        scores = build.multiply(build.op(Tanh(), scores), build.number(op.cap, dtype))
    if mask is not None and build.dtype(mask) is DType.boolean:
        scores = build.op(Select(), mask, scores, build.number(op.fill, dtype))
    elif mask is not None:
        scores = build.add(scores, mask)
    if op.causal:
        seen = _causal_mask(build, scores, last=op.causal == "last")
        scores = build.op(Select(), seen, scores, build.number(_HIDDEN, dtype))
    if sink is not None:
        scores = _with_sink(build, scores, sink)
    found = build.op(Softmax(axis=-1), scores)
    if op.zeros:
        axis = build.constant(np.array([-1], np.int64), DType.i64)
        shown = build.op(NotEqual(), scores, build.number(_HIDDEN, dtype))
        some = build.op(ReduceLogicalOr(keep_dims=True), shown, axis)
        found = build.op(Select(), some, found, build.number(0, dtype))
    if sink is not None:
        found = _drop_last(build, found)
    return [build.op(MatMul(), found, value)]


def _open_bytes(build: Build, codes: Value, zero: Value | None, dtype: DType) -> Value:
    """Bytes of queries or keys as numbers, less their zero point."""
    value = build.op(Convert(dtype), codes)
    return value if zero is None else build.op(Subtract(), value, build.op(Convert(dtype), zero))


def _with_sink(build: Build, scores: Value, sink: Value) -> Value:
    """Scores with one more column."""
    rows = _drop_last(build, build.op(ShapeOf(), scores))
    one = build.constant(np.array([1], np.int64), DType.i64)
    shape = build.op(Concat(0), rows, one)
    return build.op(Concat(-1), scores, build.op(Broadcast(), sink, shape))


def _drop_last(build: Build, value: Value) -> Value:
    """All but the last along the last axis."""
    bounds = (build.constant(np.array([n], np.int64), DType.i64) for n in (0, -1, 1, -1))
    return build.op(Slice(), value, *bounds)


def _causal_mask(build: Build, scores: Value, *, last: bool) -> Value:
    """[queries, keys]: which keys each query sees."""
    shape = build.op(ShapeOf(), scores)
    zero, one = (build.number(n, DType.i64) for n in (0, 1))
    rows, keys = (
        build.op(Gather(), shape, build.number(axis, DType.i64), zero) for axis in (-2, -1)
    )
    numbers = build.op(Range(DType.i64), zero, rows, one)
    if last:
        numbers = build.add(numbers, build.op(Subtract(), keys, rows))
    across = build.op(Unsqueeze(), numbers, build.constant(np.array([1], np.int64), DType.i64))
    return build.op(LessEqual(), build.op(Range(DType.i64), zero, keys, one), across)
