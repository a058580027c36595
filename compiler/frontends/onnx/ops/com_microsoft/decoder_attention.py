"""onnxruntime's attention of one new token (DecoderMasked...) and of tokens without padding
(Packed...), domain com.microsoft, by the attention of com_microsoft/attention.py.

Sizes: batch B, queries S, keys T, heads N, head size H. Source: docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Broadcast,
    Concat,
    Gather,
    MatMul,
    Reshape,
    ScatterUpdate,
    ShapeOf,
    Slice,
    Subtract,
    VariadicSplit,
)
from ..elementary import convert_value, size_of
from ..nn.attention import split_heads
from .attention import attend

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def decoder_masked_multi_head_attention(n: ImportContext) -> Imported:
    """Keys and values of the new token (three axes, or packed with the query), or of the encoder
    (four axes). A past may be a buffer, whose rows before past_sequence_length are in use."""
    heads = n.integer("num_heads")
    query, key, value = n.input(0), n.optional(1), n.optional(2)
    if n.optional(9) is not None:
        raise n.unsupported_error(f"{n.op_type} with an indirect cache")
    if n.wants(3) or n.flag("output_qk"):
        raise n.unsupported_error(f"{n.op_type} with scores as output")
    bias = n.optional(10)
    if key is None or value is None:
        query, key, value, bias = (
            *_thirds(n, query if bias is None else _plus(n, query, bias)),
            None,
        )
    elif bias is not None:
        parts = _thirds(n, bias)
        query = _plus(n, query, parts[0])
        if n.rank(key) == 3:
            key, value = _plus(n, key, parts[1]), _plus(n, value, parts[2])
    shape = n.shape(query)
    if shape is None or not isinstance(shape[2], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    query = split_heads(n, query, heads)
    presents: list[Value | None] = [None, None]
    if n.rank(key) == 3:
        key, value = (split_heads(n, v, heads) for v in (key, value))
        (key, value), presents = _append_cache(n, key, value)
    mask, extra = n.optional(3), n.optional(4)
    return [attend(n, query, key, value, mask, extra, shape[2] // heads), *presents]


def _plus(n: ImportContext, x: Value, bias: Value) -> Value:
    return n.add(Add(), x, bias)


def _thirds(n: ImportContext, x: Value) -> list[Value]:
    """The parts of queries, keys and values along the last axis, of one size."""
    shape = n.shape(x)
    if shape is None or not isinstance(shape[-1], int) or shape[-1] % 3:
        raise n.unsupported_error(f"{n.op_type} of unequal or unknown hidden sizes")
    sizes = n.ints_value([shape[-1] // 3] * 3)
    return n.add_all(VariadicSplit(num_outputs=3), x, n.int_value(-1), sizes)


def _append_cache(
    n: ImportContext, key: Value, value: Value
) -> tuple[tuple[Value, Value], list[Value | None]]:
    """Keys and values to attend to, and as outputs."""
    pasts = n.optional(5), n.optional(6)
    if pasts[0] is None or pasts[1] is None:
        return (key, value), [key, value]
    if not n.flag("past_present_share_buffer"):
        joined = [
            n.add(Concat(axis=2), past, new)
            for past, new in zip(pasts, (key, value), strict=True)
            if past is not None
        ]
        return (joined[0], joined[1]), [*joined]
    used = n.add(Reshape(), convert_value(n, n.input(7), DType.i64), n.ints_value([1]))
    axis, end = n.int_value(2), n.add(Add(), used, n.int_value(1))
    buffers = [
        n.add(ScatterUpdate(), past, used, new, axis)
        for past, new in zip(pasts, (key, value), strict=True)
        if past is not None
    ]
    bounds = n.ints_value([0]), end, n.ints_value([1]), n.ints_value([2])
    parts = [n.add(Slice(), buffer, *bounds) for buffer in buffers]
    return (parts[0], parts[1]), [*buffers]


def packed_attention(n: ImportContext) -> Value:
    """Rows of tokens [tokens, hidden size], projected to queries, keys and values."""
    projected = _plus(n, n.add(MatMul(), n.input(0), n.input(1)), n.input(2))
    sizes = n.optional_integers("qkv_hidden_sizes")
    if sizes is None:
        parts = _thirds(n, projected)
    else:
        split = VariadicSplit(num_outputs=3)
        parts = n.add_all(split, projected, n.int_value(-1), n.ints_value(sizes))
    return _attend_packed(n, parts, 3, 5)


def packed_multi_head_attention(n: ImportContext) -> Value:
    """The same of queries, keys and values as inputs, or packed: [tokens, N, 3, H]."""
    query, key, value, bias = n.input(0), n.optional(1), n.optional(2), n.optional(3)
    if key is None or value is None:
        apart = [n.add(Gather(), query, n.int_value(i), n.int_value(2)) for i in range(3)]
        parts = [n.add(Reshape(special_zero=True), v, n.ints_value([0, -1])) for v in apart]
    else:
        parts = [query, key, value]
    if bias is not None:
        widths = [n.add(Gather(), n.add(ShapeOf(DType.i64), v), n.ints_value([1]), n.int_value(0))
                  for v in parts]  # fmt: skip
        lengths = n.add(Concat(axis=0), *widths)
        biases = n.add_all(VariadicSplit(num_outputs=3), bias, n.int_value(0), lengths)
        parts = [_plus(n, v, b) for v, b in zip(parts, biases, strict=True)]
    return _attend_packed(n, parts, 4, 6)


def _attend_packed(n: ImportContext, parts: list[Value], offsets: int, bias: int) -> Value:
    """Attention of sequences whose tokens are concatenated: put at their offsets in a batch
    [B, S], and taken from there again."""
    heads, first = n.integer("num_heads"), n.int_value(0)
    grid = n.add(ShapeOf(DType.i64), n.input(offsets))
    count = size_of(n, parts[0], 0)
    flat = n.add(Reshape(), convert_value(n, n.input(offsets), DType.i64), n.ints_value([-1]))
    bounds = n.ints_value([0]), count, n.ints_value([1])
    where = n.add(Slice(), flat, *bounds)
    cells = size_of(n, flat, 0)
    spread: list[Value] = []
    for part in parts:
        shape = n.add(Concat(axis=0), cells, size_of(n, part, 1))
        zeros = n.add(Broadcast(), n.like(part, 0), shape)
        rows = n.add(ScatterUpdate(), zeros, where, part, first)
        batch = n.add(Concat(axis=0), grid, size_of(n, part, 1))
        spread.append(split_heads(n, n.add(Reshape(), rows, batch), heads))
    ends = convert_value(n, n.input(offsets + 1), DType.i64)
    size = size_of(n, ends, 0)
    one, last = n.ints_value([1]), n.add(Subtract(), size, n.ints_value([1]))
    lengths = n.add(
        Subtract(),
        n.add(Slice(), ends, one, size, one),
        n.add(Slice(), ends, n.ints_value([0]), last, one),
    )
    shape = n.shape(spread[0])
    if shape is None or not isinstance(shape[3], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    found = attend(n, spread[0], spread[1], spread[2], lengths, n.optional(bias), shape[3])
    width = n.add(Concat(axis=0), n.ints_value([-1]), size_of(n, found, 2))
    return n.add(Gather(), n.add(Reshape(), found, width), where, first)


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}DecoderMaskedMultiHeadAttention": {1: decoder_masked_multi_head_attention},
    f"{_MS}PackedAttention": {1: packed_attention},
    f"{_MS}PackedMultiHeadAttention": {1: packed_multi_head_attention},
}
