"""onnxruntime's RotaryEmbedding and MRotaryEmbedding (domain com.microsoft), and the rotation that
operators share.

Sizes: batch B, positions S, heads N, head size H. Source: docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Concat,
    Gather,
    Multiply,
    Range,
    Reshape,
    Select,
    Squeeze,
    Subtract,
    Unsqueeze,
    VariadicSplit,
)
from ..elementary import size_of, sizes_of

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def rotary_embedding(n: ImportContext) -> Value:
    """x of [B, S, N * H] or [B, N, S, H]; positions [B, S], or the first one, [1]."""
    x, positions, rank = n.input(0), n.input(1), n.rank(n.input(0))
    data = _heads_apart(n)
    if n.rank(positions) == 1:
        count = n.add(Squeeze(), size_of(n, x, rank - 2), n.ints_value([0]))
        every = n.add(Range(DType.i64), n.int_value(0), count, n.int_value(1))
        positions = n.add(Unsqueeze(), n.add(Add(), every, positions), n.ints_value([0]))
    tables, heads_axis = (n.input(2), n.input(3)), 2 if rank == 3 else 1
    result = rotate(n, data, positions, tables, heads_axis, pairs=n.flag("interleaved"))
    if rank == 3:
        result = n.add(Reshape(special_zero=True), result, n.ints_value([0, 0, -1]))
    return result


def multimodal_rotary_embedding(n: ImportContext) -> Value:
    """The same with three positions of each token (time, height, width), [3, B, S]; mrope_section
    says how many pairs follow each, one section after the other or every third pair."""
    x, rank, half = n.input(0), n.rank(n.input(0)), _half(n, n.input(2))
    sections, layout = n.integers("mrope_section"), n.integer("mrope_layout", 0)
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        raise n.type_error("the sections are three sizes that sum up to the pairs", got=sections)
    if layout not in (0, 1):
        raise n.error("unknown mrope_layout", got=layout, expected="0 or 1")
    which = np.repeat(np.arange(3), sections)
    if layout:
        which = np.zeros(half, np.int64)
        for i in (1, 2):
            which[i : 3 * sections[i] : 3] = i
    data = _heads_apart(n)
    looked_up: list[Value] = []
    for port in (2, 3):
        rows = n.add(Gather(), n.input(port), n.input(1), n.int_value(0))
        parts = [n.add(Gather(), rows, n.int_value(i), n.int_value(0)) for i in range(3)]
        found = parts[0]
        for i in (1, 2):
            found = n.add(Select(), n.constant(which == i, DType.boolean), parts[i], found)
        looked_up.append(n.add(Unsqueeze(), found, n.ints_value([2 if rank == 3 else 1])))
    angles = (looked_up[0], looked_up[1])
    result = _rotate_by(n, data, angles, half, pairs=n.flag("interleaved"))
    if rank == 3:
        return n.add(Reshape(), result, sizes_of(n, x))
    return result


def _heads_apart(n: ImportContext) -> Value:
    """Input 0 with its heads on an axis of their own."""
    x, rank = n.input(0), n.rank(n.input(0))
    for name in ("is_packed_batching", "scale"):
        n.has(name)  # onnxruntime's CPU kernel ignores both
    turned, heads = n.integer("rotary_embedding_dim", 0), n.integer("num_heads", 0)
    if turned and not heads:
        raise n.error("rotary_embedding_dim needs num_heads", got=turned)
    # With heads side by side these are before the last axis, else before the positions.
    sizes = [0, 0, heads, -1] if turned else [0, 0, -1, 2 * _half(n, n.input(2))]
    return n.add(Reshape(special_zero=True), x, n.ints_value(sizes)) if rank == 3 else x


def rotate(
    n: ImportContext,
    data: Value,
    positions: Value,
    tables: tuple[Value, Value],
    heads_axis: int,
    *,
    pairs: bool,
) -> Value:
    """Pairs of numbers of [B, S, N, H] (heads on axis 2) or [B, N, S, H] (1), rotated by the angle
    of their position. `tables`: cosines and sines, [positions, pairs]; where they have fewer pairs
    than a head, the remaining numbers stay. `pairs`: a pair is two neighbours, not two halves."""
    axis = n.ints_value([heads_axis])
    cosine, sine = (
        n.add(Unsqueeze(), n.add(Gather(), table, positions, n.int_value(0)), axis)
        for table in tables
    )
    return _rotate_by(n, data, (cosine, sine), _half(n, tables[0]), pairs=pairs)


def _rotate_by(
    n: ImportContext, data: Value, angles: tuple[Value, Value], half: int, *, pairs: bool
) -> Value:
    """The first `half` pairs of each head, rotated by angles of these cosines and sines."""
    shape, (cosine, sine) = n.shape(data), angles
    assert shape is not None
    rest: list[Value] = []
    if shape[-1] != 2 * half:
        lengths = n.ints_value([2 * half, -1])
        data, *rest = n.add_all(VariadicSplit(num_outputs=2), data, n.int_value(-1), lengths)
    apart = n.ints_value([0, 0, 0, half, 2] if pairs else [0, 0, 0, 2, half])
    data = n.add(Reshape(special_zero=True), data, apart)
    side = n.int_value(4 if pairs else 3)
    a, b = (n.add(Gather(), data, n.int_value(i), side) for i in (0, 1))
    left = n.add(Subtract(), n.add(Multiply(), a, cosine), n.add(Multiply(), b, sine))
    right = n.add(Add(), n.add(Multiply(), a, sine), n.add(Multiply(), b, cosine))
    if pairs:
        left, right = (n.add(Unsqueeze(), v, n.ints_value([4])) for v in (left, right))
    joined = n.add(Concat(axis=-1), left, right)
    if pairs:
        joined = n.add(Reshape(special_zero=True), joined, n.ints_value([0, 0, 0, 2 * half]))
    return n.add(Concat(axis=-1), joined, *rest) if rest else joined


def _half(n: ImportContext, table: Value) -> int:
    """The number of pairs that a table of cosines rotates."""
    shape = n.shape(table)
    if shape is None or not isinstance(shape[-1], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown size")
    return shape[-1]


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::RotaryEmbedding": {1: rotary_embedding},
    "com.microsoft::MRotaryEmbedding": {1: multimodal_rotary_embedding},
}
