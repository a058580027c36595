"""onnxruntime's GroupQueryAttention (domain com.microsoft), which onnxruntime-genai's models hold.

Sizes: batch B, new tokens S, heads N, heads of keys and values M, head size H, rows of the past P,
rows of the present T = max(P, total_sequence_length). Each sequence of a batch has a length of its
own: its new tokens follow the tokens that it has in the past, so a past that is longer than that (a
buffer of fixed size) and right-padded prompts are one case. Rows of the present beyond a
sequence's length are zeros. Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.lazy_dataclass import dataclass
from ......ir.ops import (
    Add,
    Attention,
    Broadcast,
    Concat,
    Gather,
    Greater,
    Less,
    LogicalAnd,
    Maximum,
    Range,
    Reshape,
    RMSNorm,
    Select,
    ShapeOf,
    Slice,
    Squeeze,
    Subtract,
    Transpose,
    Unsqueeze,
    VariadicSplit,
)
from ..elementary import convert_value, size_of
from ..nn.attention import attend_grouped, split_heads
from .rotary import rotate

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


@dataclass(frozen=True)
class _GroupQuerySizes:
    heads: int
    shared: int
    head_size: int


def group_query_attention(n: ImportContext) -> Imported:
    """Inputs: query, key, value, past key, past value, lengths - 1, the longest length, cosines,
    sines, positions, bias, sink, 2 scales of the past, 2 weights of RMS norms, new lengths."""
    _refuse(n)
    query, key, value, sizes = project_heads(n)
    last, total = (convert_value(n, n.input(i), DType.i64) for i in (5, 6))
    lengths = n.add(Add(), n.add(Reshape(), last, n.ints_value([-1])), n.int_value(1))
    fresh = size_of(n, n.input(0), 1)
    given = n.optional(16)
    before = fresh if given is None else convert_value(n, given, DType.i64)
    # The tokens in the past of each sequence, [B].
    before = n.add(Maximum(), n.add(Subtract(), lengths, before), n.int_value(0))
    column = n.add(Unsqueeze(), before, n.ints_value([1]))
    positions = n.add(Add(), column, range_below(n, fresh))
    query, key = _normalize_heads(n, query, 14), _normalize_heads(n, key, 15)
    if n.flag("do_rotary"):
        own = n.optional(9)
        rotary_positions, tables = positions if own is None else own, (n.input(7), n.input(8))
        pairs = n.flag("rotary_interleaved")
        query, key = (rotate(n, v, rotary_positions, tables, 1, pairs=pairs) for v in (query, key))
    key, value = add_presents(n, (key, value), column, total)
    found = _attend(n, (query, key, value), (positions, lengths), total, sizes)
    return [found, key, value]


def _refuse(n: ImportContext) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if n.text(name, "NONE") != "NONE":
            raise n.unsupported_error("GroupQueryAttention with a quantized cache")
    n.has("kv_cache_bit_width")
    if n.flag("sliding_window_cache"):
        raise n.unsupported_error("GroupQueryAttention with a window-sized cache")
    if n.wants(3) or n.integer("qk_output", 0):
        raise n.unsupported_error("GroupQueryAttention with scores as output")


def project_heads(n: ImportContext) -> tuple[Value, Value, Value, _GroupQuerySizes]:
    """Queries [B, N, S, H], keys and values [B, M, S, H]; without input 1 they are packed."""
    heads, shared = n.integer("num_heads"), n.integer("kv_num_heads")
    query, key, value = n.input(0), n.optional(1), n.optional(2)
    shape = n.shape(query)
    if shape is None or len(shape) != 3 or not isinstance(shape[2], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    if shared < 1 or heads < 1 or heads % shared:
        raise n.type_error("num_heads is not a multiple of kv_num_heads", got=f"{heads}, {shared}")
    count = heads if key is not None else heads + 2 * shared
    if shape[2] % count:
        raise n.type_error("the hidden size is not a multiple of the heads", got=shape[2])
    size = shape[2] // count
    if key is None:
        widths = n.ints_value([heads * size, shared * size, shared * size])
        split = VariadicSplit(num_outputs=3)
        query, key, value = n.add_all(split, query, n.int_value(2), widths)
    elif value is None:
        raise n.error("keys without values", expected="inputs 1 and 2, or neither")
    assert value is not None
    listed = ((query, heads), (key, shared), (value, shared))
    query, key, value = (split_heads(n, v, count) for v, count in listed)
    return query, key, value, _GroupQuerySizes(heads, shared, size)


def _normalize_heads(n: ImportContext, x: Value, port: int) -> Value:
    """Each head over the root of its mean square, where there are weights for that."""
    weight = n.optional(port)
    eps = n.number("qk_norm_epsilon", 1e-6)
    eps = n.number("q_norm_epsilon" if port == 14 else "k_norm_epsilon", eps)
    return x if weight is None else n.add(RMSNorm(-1, eps), x, weight)


def range_below(n: ImportContext, size: Value) -> Value:
    """0, 1, ... below the one element of `size`."""
    stop = n.add(Squeeze(), n.add(Reshape(), size, n.ints_value([1])), n.ints_value([0]))
    return n.add(Range(DType.i64), n.int_value(0), stop, n.int_value(1))


def add_presents(
    n: ImportContext, new: tuple[Value, Value], before: Value, total: Value
) -> tuple[Value, Value]:
    """Keys and values of past and new tokens, [B, M, T, H]. `before` is [B, 1]."""
    pasts = n.optional(3), n.optional(4)
    if pasts[0] is None or pasts[1] is None:
        return new
    rows = size_of(n, pasts[0], 2)
    every = range_below(n, n.add(Maximum(), rows, n.add(Reshape(), total, n.ints_value([1]))))
    # Behind the past, the new rows; an index behind those gives zeros.
    behind = n.add(Add(), n.add(Subtract(), every, before), rows)
    index = n.add(Select(), n.add(Less(), every, before), every, behind)
    key, value = (
        n.add(Gather(batch_dims=1), n.add(Concat(axis=2), past, x), index, n.int_value(2))
        for past, x in zip(pasts, new, strict=True)
        if past is not None
    )
    return key, value


def _attend(
    n: ImportContext,
    given: tuple[Value, Value, Value],
    rows: tuple[Value, Value],
    total: Value,
    sizes: _GroupQuerySizes,
) -> Value:
    """[B, S, N * H]. `rows`: the positions of the queries, [B, S], and the lengths, [B]."""
    query, key, value = given
    past = n.optional(3)
    shape = None if past is None else n.shape(past)
    bias, sink = n.optional(10), _sink(n, query, sizes)
    if bias is not None or (shape is not None and isinstance(shape[2], int)):
        # A past of a fixed size is a buffer of which the first rows are in use.
        cut = [n.ints_value([0]), n.add(Reshape(), total, n.ints_value([1])), n.ints_value([1])]
        key, value = (n.add(Slice(), v, *cut, n.ints_value([2])) for v in (key, value))
    mask = _mask(n, key, rows)
    if bias is not None:
        mask = n.add(Select(), mask, bias, n.like(bias, -math.inf))
        groups = n.shape(bias)
        if sizes.heads != sizes.shared and groups is not None and groups[1] != 1:
            parts = [sizes.shared, sizes.heads // sizes.shared]
            every = n.add(ShapeOf(DType.i64), mask)
            ends = [
                n.add(Gather(), every, n.ints_value(at), n.int_value(0)) for at in ([0], [2, 3])
            ]
            split = n.add(Concat(axis=0), ends[0], n.ints_value(parts), ends[1])
            mask = n.add(Reshape(), mask, split)
    cap = n.number("softcap", 0.0)
    scale = n.number("scale", 0.0) or 1 / math.sqrt(sizes.head_size)
    op = Attention(scale / (cap or 1.0), zeros=True, cap=cap)
    if sizes.heads == sizes.shared:
        if sink is not None:
            sink = n.add(Reshape(), sink, n.ints_value([1, -1, 1, 1]))
        found, order = n.add(op, query, key, value, mask, sink), [0, 2, 1, 3]
    else:
        found = attend_grouped(n, op, (query, key, value, mask), sizes.shared, sink)
        order = [0, 3, 1, 2, 4]
    found = n.add(Transpose(), found, n.ints_value(order))
    width = n.ints_value([0, 0, sizes.heads * sizes.head_size])
    return n.add(Reshape(special_zero=True), found, width)


def _sink(n: ImportContext, query: Value, sizes: _GroupQuerySizes) -> Value | None:
    """One more score of each head, [N], that no value belongs to."""
    given = n.optional(11)
    if given is None and n.integer("smooth_softmax", 0) == 1:
        return n.add(Broadcast(), n.like(query, 0), n.ints_value([sizes.heads]))
    return given


def _mask(n: ImportContext, key: Value, rows: tuple[Value, Value]) -> Value:
    """[B, 1, S, T]: the keys that each query sees: its own and those before it, within a window."""
    own = n.add(Unsqueeze(), rows[0], n.ints_value([1, 3]))
    every, window = range_below(n, size_of(n, key, 2)), n.integer("local_window_size", -1)
    if not n.flag("causal", True):
        if window > 0:
            raise n.unsupported_error("GroupQueryAttention with a window that is not causal")
        length = n.add(Unsqueeze(), rows[1], n.ints_value([1, 2, 3]))
        return n.add(Less(), every, length)
    shown = show_past_keys(n, key, rows[0])
    if window > 0:
        first = n.add(Subtract(), own, n.int_value(window))
        shown = n.add(LogicalAnd(), shown, n.add(Greater(), every, first))
    return shown


def show_past_keys(n: ImportContext, key: Value, positions: Value) -> Value:
    """[B, 1, S, T]: each query, at its position [B, S], sees its own key and those before it."""
    own = n.add(Unsqueeze(), positions, n.ints_value([1, 3]))
    every = range_below(n, size_of(n, key, 2))
    return n.add(Less(), every, n.add(Add(), own, n.int_value(1)))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::GroupQueryAttention": {1: group_query_attention},
}
