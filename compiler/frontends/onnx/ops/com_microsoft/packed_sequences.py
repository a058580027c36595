"""Sequences of different lengths that are concatenated: put side by side in a batch, and back.

Sizes: batch B, tokens T, longest sequence L.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.lazy_dataclass import dataclass
from ......ir.ops import (
    Add,
    Concat,
    Gather,
    GreaterEqual,
    Less,
    Minimum,
    Multiply,
    Range,
    ReduceMax,
    ReduceSum,
    Reshape,
    Select,
    ShapeOf,
    Slice,
    Squeeze,
    Subtract,
    Unsqueeze,
)
from ..elementary import convert_value, size_of

if TYPE_CHECKING:
    from ...import_context import ImportContext


@dataclass(frozen=True)
class PackedSequences:
    """Where the tokens of each sequence are. `starts` and `lengths`: [B]; `longest`: a scalar;
    `rows`: [B, L], the token at each position of the batch; `valid`: [B, L], whether it has one;
    `cells`: [T], the position of each token in the flattened batch."""

    starts: Value
    lengths: Value
    longest: Value
    rows: Value
    valid: Value
    cells: Value


def count_up(n: ImportContext, stop: Value) -> Value:
    """0, 1, ... below a scalar, in i64."""
    return n.add(Range(DType.i64), n.int_value(0), stop, n.int_value(1))


def find_sequences(n: ImportContext, ends: Value, tokens: Value) -> PackedSequences:
    """The sequences that `ends`, [B + 1] and 0 first, cuts the first axis of `tokens` into."""
    bounds = convert_value(n, ends, DType.i64)
    one, count = n.ints_value([1]), size_of(n, bounds, 0)
    last = n.add(Subtract(), count, one)
    starts = n.add(Slice(), bounds, n.ints_value([0]), last, one)
    stops = n.add(Slice(), bounds, one, count, one)
    lengths = n.add(Subtract(), stops, starts)
    longest = n.add(ReduceMax(keep_dims=False), lengths, n.ints_value([0]))
    positions = count_up(n, longest)
    column = n.add(Unsqueeze(), lengths, n.ints_value([1]))
    total = n.add(Squeeze(), size_of(n, tokens, 0), n.ints_value([0]))
    rows = n.add(Add(), n.add(Unsqueeze(), starts, n.ints_value([1])), positions)
    rows = n.add(Minimum(), rows, n.add(Subtract(), total, n.int_value(1)))
    every = count_up(n, total)
    passed = n.add(GreaterEqual(), n.add(Unsqueeze(), every, n.ints_value([1])), stops)
    owner = n.add(ReduceSum(), convert_value(n, passed, DType.i64), n.ints_value([1]))
    own = n.add(Subtract(), every, n.add(Gather(), starts, owner, n.int_value(0)))
    cells = n.add(Add(), n.add(Multiply(), owner, longest), own)
    return PackedSequences(starts, lengths, longest, rows, n.add(Less(), positions, column), cells)


def pad_sequences(n: ImportContext, found: PackedSequences, tokens: Value) -> Value:
    """[T, ...] as [B, L, ...], with zeros behind each sequence."""
    batch = n.add(Gather(), tokens, found.rows, n.int_value(0))
    valid = found.valid
    if n.rank(tokens) > 1:
        valid = n.add(Unsqueeze(), valid, n.ints_value(range(2, n.rank(tokens) + 1)))
    return n.add(Select(), valid, batch, n.like(tokens, 0))


def pack_sequences(n: ImportContext, found: PackedSequences, batch: Value) -> Value:
    """[B, L, ...] as [T, ...], without what is behind each sequence."""
    rank = n.rank(batch)
    flat = n.ints_value([-1])
    if rank > 2:
        bounds = n.ints_value([2]), n.ints_value([rank]), n.ints_value([1])
        rest = n.add(Slice(), n.add(ShapeOf(DType.i64), batch), *bounds)
        flat = n.add(Concat(axis=0), flat, rest)
    return n.add(Gather(), n.add(Reshape(), batch, flat), found.cells, n.int_value(0))
