"""onnxruntime's attention operators (domain com.microsoft) as products and softmax, which passes
recognise again, and the embedding before them.

Sizes: batch B, queries S, keys T, heads N, head size H. Source: docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dims import eq
from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Concat,
    Convert,
    Dequantize,
    Gather,
    Greater,
    Less,
    MatMul,
    Multiply,
    Range,
    ReduceSum,
    Reshape,
    Select,
    Softmax,
    Squeeze,
    Subtract,
    Transpose,
    Unsqueeze,
    VariadicSplit,
)
from ......ir.ops.nn.normalize import LayerNorm
from ..elementary import convert_value, size_of
from ..nn.attention import split_heads
from .quantized import integer_product, scale_product

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def attention(n: ImportContext) -> Imported:
    """Q, K and V are projections of input 0 by one matrix."""
    projected = n.add(MatMul(), n.input(0), n.input(1))
    bias = n.optional(2)
    projected = projected if bias is None else n.add(Add(), projected, bias)
    return _self_attention(n, projected, n.optional(4), n.optional(3), n.optional(5))


def quantized_attention(n: ImportContext) -> Imported:
    """The same, of integers with scales and zero points."""
    product = integer_product(n, (n.input(0), n.optional(6)), (n.input(1), n.optional(7)))
    projected = scale_product(n, product, n.add(Multiply(), n.input(3), n.input(4)), n.optional(2))
    return _self_attention(n, projected, n.optional(8), n.optional(5), None)


def _self_attention(
    n: ImportContext, projected: Value, past: Value | None, mask: Value | None, bias: Value | None
) -> Imported:
    heads = n.integer("num_heads")
    if n.flag("do_rotary") or n.flag("past_present_share_buffer"):
        raise n.unsupported_error("Attention with rotary embedding or a shared buffer")
    width = n.shape(projected)
    sizes = n.optional_integers("qkv_hidden_sizes")
    if sizes is None:
        if width is None or not isinstance(width[-1], int):
            raise n.unsupported_error("Attention of an unknown hidden size")
        sizes = [width[-1] // 3] * 3
    parts = n.add_all(VariadicSplit(num_outputs=3), projected, n.int_value(-1), n.ints_value(sizes))
    query, key, value = (split_heads(n, part, heads) for part in parts)
    present: Value | None = None
    if past is not None:
        pieces = n.add_all(VariadicSplit(num_outputs=2), past, n.int_value(0), n.ints_value([1, 1]))
        before = [n.add(Squeeze(), piece, n.ints_value([0])) for piece in pieces]
        key, value = (
            n.add(Concat(axis=2), old, new) for old, new in zip(before, (key, value), strict=True)
        )
    if n.wants(1):
        present = n.add(
            Concat(axis=0), *(n.add(Unsqueeze(), v, n.ints_value([0])) for v in (key, value))
        )
    result = attend(n, query, key, value, mask, bias, sizes[0] // heads)
    return [result, present]


def multi_head_attention(n: ImportContext) -> Imported:
    """Q, K and V as three inputs, K and V also with their heads apart."""
    heads = n.integer("num_heads")
    query, key, value = n.input(0), n.optional(1), n.optional(2)
    if n.rank(query) != 3 or key is None or value is None:
        raise n.unsupported_error("MultiHeadAttention with packed inputs")
    if any(n.optional(i) is not None for i in (8, 9)):
        raise n.unsupported_error("MultiHeadAttention with a shared cache")
    shape, bias = n.shape(query), n.optional(3)
    assert shape is not None
    if not isinstance(shape[2], int):
        raise n.unsupported_error("MultiHeadAttention of an unknown hidden size")
    if bias is not None:
        total = n.shape(bias)
        if total is None or not isinstance(total[0], int):
            raise n.unsupported_error("MultiHeadAttention of an unknown hidden size")
        lengths = n.ints_value([shape[2], shape[2], total[0] - 2 * shape[2]])
        parts = n.add_all(VariadicSplit(num_outputs=3), bias, n.int_value(0), lengths)
        if n.rank(key) != 3 or n.rank(value) != 3:
            raise n.unsupported_error("MultiHeadAttention with a bias and heads apart")
        query, key, value = (
            n.add(Add(), v, p) for v, p in zip((query, key, value), parts, strict=True)
        )
    query = split_heads(n, query, heads)
    key, value = (v if n.rank(v) == 4 else split_heads(n, v, heads) for v in (key, value))
    for port in (6, 7):
        past = n.optional(port)
        if past is not None and port == 6:
            key = n.add(Concat(axis=2), past, key)
        elif past is not None:
            value = n.add(Concat(axis=2), past, value)
    result = attend(n, query, key, value, n.optional(4), n.optional(5), shape[2] // heads)
    return [result, key, value]


def attend(
    n: ImportContext,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    bias: Value | None,
    head_size: int,
) -> Value:
    """softmax(Q x K' * scale + mask + bias) x V, as [B, S, N * H]."""
    scale = n.number("scale", 0.0) or 1 / math.sqrt(head_size)
    scores = n.add(MatMul(transpose_b=True), query, key)
    scores = n.add(Multiply(), scores, n.like(scores, scale))
    if mask is not None:
        scores = n.add(Add(), scores, _additive(n, mask, key, scores))
    if bias is not None:
        scores = n.add(Add(), scores, bias)
    if n.flag("unidirectional"):
        lowest = n.like(scores, float(np.finfo(np.float32).min))
        scores = n.add(Select(), _future_mask(n, query, key), lowest, scores)
    mixed = n.add(MatMul(), n.add(Softmax(axis=-1), scores), value)
    joined = n.add(Transpose(), mixed, n.ints_value([0, 2, 1, 3]))
    return n.add(Reshape(special_zero=True), joined, n.ints_value([0, 0, -1]))


def _additive(n: ImportContext, mask: Value, key: Value, scores: Value) -> Value:
    """0 where a key is seen, else `mask_filter_value`: from lengths [B], or [B, T], [B, S, T]."""
    rank, shape = n.rank(mask), n.shape(mask)
    if rank == 1:
        batch = n.shape(key)
        if shape is None or batch is None or eq(shape[0], batch[0]) is False:
            raise n.unsupported_error("a mask of starts and ends")
        positions = _positions(n, key)
        seen = n.add(Less(), positions, n.add(Unsqueeze(), _to_i64(n, mask), n.ints_value([1])))
        seen = n.add(Unsqueeze(), seen, n.ints_value([1, 2]))
    elif rank in (2, 3):
        axes = n.ints_value([1, 2] if rank == 2 else [1])
        zero = n.int_value(0)
        seen = n.add(Unsqueeze(), n.add(Greater(), _to_i64(n, mask), zero), axes)
    else:
        raise n.unsupported_error("a mask of four axes")
    hidden = n.like(scores, n.number("mask_filter_value", -10000.0))
    return n.add(Select(), seen, n.like(scores, 0), hidden)


def _future_mask(n: ImportContext, query: Value, key: Value) -> Value:
    """[S, T]: which keys come after each query; the queries are the last ones."""
    own, all_ = _length(n, query), _length(n, key)
    rows = n.add(Add(), _positions(n, query), n.add(Subtract(), all_, own))
    return n.add(Greater(), _positions(n, key), n.add(Unsqueeze(), rows, n.ints_value([1])))


def _length(n: ImportContext, x: Value) -> Value:
    """The number of rows of [B, N, rows, H], a scalar."""
    return n.add(Squeeze(), size_of(n, x, 2), n.ints_value([0]))


def _positions(n: ImportContext, x: Value) -> Value:
    """0, 1, ... for the rows of [B, N, rows, H]."""
    return n.add(Range(DType.i64), n.int_value(0), _length(n, x), n.int_value(1))


def _to_i64(n: ImportContext, x: Value) -> Value:
    return convert_value(n, x, DType.i64)


def embed_layer_normalization(n: ImportContext) -> Imported:
    """Words, positions and segments added and normalised; output 1 counts what the mask shows."""
    tables = [n.input(2), n.input(3), n.optional(4), n.input(5), n.input(6)]
    result, counts, total = _embed(n, tables, n.optional(8), n.optional(7))
    n.has("mask_index_type")
    return [result, counts, total]


def quantized_embed_layer_normalization(n: ImportContext) -> Imported:
    """The same of tables in 8 bits, each with a scale and a zero point; output 1 without a mask is
    zeros."""
    tables: list[Value | None] = []
    for i in range(5):
        table = n.optional(2 + i)
        if table is not None:
            table = n.add(Dequantize(), table, n.input(8 + i), n.optional(13 + i))
        tables.append(table)
    return list(_embed(n, tables, None, n.optional(7))[:2])


def _embed(
    n: ImportContext, tables: list[Value | None], positions: Value | None, mask: Value | None
) -> tuple[Value, Value | None, Value]:
    """`tables`: of words, positions and segments, then scale and offset of the normalization."""
    words, position_table, parts, scale, offset = tables
    ids, segments, zero = n.input(0), n.optional(1), n.int_value(0)
    assert words is not None
    total = n.add(Gather(), words, ids, zero)
    if positions is None:
        length = n.add(Squeeze(), size_of(n, ids, 1), n.ints_value([0]))
        positions = n.add(Range(DType.i64), zero, length, n.int_value(1))
    total = n.add(Add(), total, n.add(Gather(), position_table, positions, zero))
    if segments is not None:
        total = n.add(Add(), total, n.add(Gather(), parts, segments, zero))
    result = n.add(LayerNorm(-1, n.number("epsilon", 1e-12)), total, scale, offset)
    counts: Value | None = None
    if n.wants(1):
        if mask is None:
            first = n.add(Convert(DType.i32), n.add(Multiply(), ids, n.constant(0, n.dtype(ids))))
        else:
            first = n.add(Convert(DType.i32), mask)
        counts = n.add(ReduceSum(), first, n.ints_value([1]))
    return result, counts, total


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}Attention": {1: attention},
    f"{_MS}QAttention": {1: quantized_attention},
    f"{_MS}MultiHeadAttention": {1: multi_head_attention},
    f"{_MS}EmbedLayerNormalization": {1: embed_layer_normalization},
    f"{_MS}QEmbedLayerNormalization": {1: quantized_embed_layer_normalization},
}
