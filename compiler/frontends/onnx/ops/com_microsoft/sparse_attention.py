"""onnxruntime's SparseAttention (domain com.microsoft), attention to some blocks of keys, as
Phi-3-small has it: GroupQueryAttention with one more mask.

Sizes: batch B, new tokens S, heads N, keys T, layouts of blocks Y. Source: docs/ContribOperators.md
of onnxruntime.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.op import Array
from ......ir.ops import (
    Add,
    Attention,
    Divide,
    Gather,
    LogicalAnd,
    Maximum,
    Reshape,
    Slice,
    Subtract,
    Transpose,
    Unsqueeze,
)
from ..elementary import convert_value, size_of
from .group_query_attention import add_presents, project_heads, range_below, show_past_keys
from .rotary import rotate

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def sparse_attention(n: ImportContext) -> Imported:
    """Inputs: query, key, value, past key, past value (buffers), rows and columns of the blocks
    that each block of queries sees, the longest length, all lengths, cosines, sines."""
    query, key, value, sizes = project_heads(n)
    block, blocks = n.integer("sparse_block_size"), _dense_blocks(n)
    if block < 1 or sizes.heads % blocks.shape[0]:
        raise n.type_error("the heads do not divide by the layouts", got=blocks.shape[0])
    total, lengths = (convert_value(n, n.input(i), DType.i64) for i in (7, 8))
    fresh = size_of(n, n.input(0), 1)
    before = n.add(Maximum(), n.add(Subtract(), lengths, fresh), n.int_value(0))
    column = n.add(Unsqueeze(), before, n.ints_value([1]))
    positions = n.add(Add(), column, range_below(n, fresh))
    if n.flag("do_rotary"):
        tables, pairs = (n.input(9), n.input(10)), n.flag("rotary_interleaved")
        query, key = (rotate(n, v, positions, tables, 1, pairs=pairs) for v in (query, key))
    key, value = add_presents(n, (key, value), column, total)
    cut = [n.ints_value([0]), n.add(Reshape(), total, n.ints_value([1])), n.ints_value([1])]
    seen = [n.add(Slice(), v, *cut, n.ints_value([2])) for v in (key, value)]
    mask = show_past_keys(n, seen[0], positions)
    mask = n.add(LogicalAnd(), mask, _block_mask(n, blocks, block, seen[0], positions))
    # Heads of one layout are not neighbours, so each head gets keys and values of its own.
    owner = n.ints_value(i // (sizes.heads // sizes.shared) for i in range(sizes.heads))
    full = [n.add(Gather(), v, owner, n.int_value(1)) for v in seen]
    layout = n.ints_value(i % blocks.shape[0] for i in range(sizes.heads))
    mask = n.add(Gather(), mask, layout, n.int_value(1))
    scale = n.number("scale", 0.0) or 1 / math.sqrt(sizes.head_size)
    found = n.add(Attention(scale, zeros=True), query, *full, mask)
    found = n.add(Transpose(), found, n.ints_value([0, 2, 1, 3]))
    width = n.ints_value([0, 0, sizes.heads * sizes.head_size])
    return [n.add(Reshape(special_zero=True), found, width), key, value]


def _dense_blocks(n: ImportContext) -> Array:
    """[Y, blocks, blocks]: which blocks of keys each block of queries sees."""
    rows, columns = n.constant_of(n.input(5)), n.constant_of(n.input(6))
    if rows is None or columns is None:
        raise n.unsupported_error(f"{n.op_type} with blocks that are not constants")
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns) or rows.shape[1] < 2:
        raise n.type_error("rows and columns of the blocks do not fit", got=rows.shape)
    count = rows.shape[1] - 1
    dense = np.zeros((len(rows), count, count), bool)
    for layout, (ends, listed) in enumerate(zip(rows, columns, strict=True)):
        for row in range(count):
            dense[layout, row, listed[max(ends[row], 0) : max(ends[row + 1], 0)]] = True
    return dense


def _block_mask(n: ImportContext, blocks: Array, block: int, key: Value, positions: Value) -> Value:
    """[B, Y, S, T]: which keys the block of each query sees."""
    size = n.int_value(block)
    own = n.add(Divide(), positions, size)
    rows = n.add(Gather(), n.constant(blocks, DType.boolean), own, n.int_value(1))
    every = n.add(Divide(), range_below(n, size_of(n, key, 2)), size)
    cells = n.add(Gather(), rows, every, n.int_value(3))
    return n.add(Transpose(), cells, n.ints_value([1, 0, 2, 3]))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::SparseAttention": {1: sparse_attention},
}
