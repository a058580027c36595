"""onnxruntime's operators on tokens (domain com.microsoft): n-grams that repeat or match, hashes.

Source: docs/ContribOperators.md of onnxruntime; MurmurHash3_x86_32 by Austin Appleby.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dims import symbol
from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    BitCast,
    BitwiseAnd,
    BitwiseLeftShift,
    BitwiseOr,
    BitwiseRightShift,
    BitwiseXor,
    Broadcast,
    Concat,
    Convert,
    Equal,
    FloorMod,
    Gather,
    Greater,
    GreaterEqual,
    LogicalAnd,
    LogicalOr,
    Maximum,
    Multiply,
    NotEqual,
    Range,
    ReduceMin,
    ReduceSum,
    Reshape,
    ScatterElementsUpdate,
    Select,
    Slice,
    Squeeze,
    Subtract,
    Unsqueeze,
)
from ......ir.types import TensorType
from ..elementary import convert_value, size_of, sizes_of
from ..reference import by_own_evaluation
from .packed_sequences import find_sequences, pack_sequences, pad_sequences

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def _length(n: ImportContext, x: Value, axis: int) -> Value:
    """The size of an axis, a scalar."""
    return n.add(Squeeze(), size_of(n, x, axis), n.ints_value([0]))


def _range(n: ImportContext, stop: Value) -> Value:
    return n.add(Range(DType.i64), n.int_value(0), stop, n.int_value(1))


def _equal_windows(
    n: ImportContext, tokens: Value, ending: Value, length: Value, size: int
) -> Value:
    """[..., starts]: which windows of `size` tokens [..., length] equal the last `size` tokens of
    `ending`; of a shorter one the first token is compared more than once."""
    axis = n.int_value(n.rank(tokens) - 1)
    count = n.add(Maximum(), n.add(Subtract(), length, n.int_value(size - 1)), n.int_value(0))
    starts, own = _range(n, count), _length(n, ending, n.rank(ending) - 1)
    equal: Value | None = None
    for i in range(size):
        window = n.add(Gather(), tokens, n.add(Add(), starts, n.int_value(i)), axis)
        at = n.add(Maximum(), n.add(Subtract(), own, n.int_value(size - i)), n.int_value(0))
        last = n.add(Gather(), ending, n.add(Reshape(), at, n.ints_value([1])), axis)
        same = n.add(Equal(), window, last)
        equal = same if equal is None else n.add(LogicalAnd(), equal, same)
    assert equal is not None
    return equal


def block_repeated_ngrams(n: ImportContext) -> Value:
    """Scores [B, vocabulary], -inf for each token that would repeat an n-gram of tokens [B, S]."""
    tokens, scores, size = n.input(0), n.input(1), n.integer("ngram_size")
    if size < 1:
        raise n.error("ngram_size is below 1", got=size)
    length = _length(n, tokens, 1)
    # The tokens before the last of each n-gram; those of n = 1 always match.
    count = n.add(Maximum(), n.add(Subtract(), length, n.int_value(size - 1)), n.int_value(0))
    follow = n.add(Add(), _range(n, count), n.int_value(size - 1))
    after = n.add(Gather(), tokens, follow, n.int_value(1))
    hits = n.add(Broadcast(), n.like(scores, 1), sizes_of(n, after))
    if size > 1:
        shorter = n.add(Subtract(), length, n.int_value(1))
        equal = _equal_windows(n, tokens, tokens, shorter, size - 1)
        hits = convert_value(n, equal, n.dtype(scores))
    zeros = n.add(Broadcast(), n.like(scores, 0), sizes_of(n, scores))
    marked = n.add(ScatterElementsUpdate("max"), zeros, after, hits, n.int_value(1))
    blocked = n.add(Greater(), marked, n.like(scores, 0))
    return n.add(Select(), blocked, n.like(scores, -math.inf), scores)


def detect_bifurcation(n: ImportContext) -> Imported:
    """Tokens with the predicted ones up to the first that is not the source's, and where in the
    source the one match of their last n-gram ends, or -1."""
    source, tokens, predicted = n.input(0), n.input(1), n.optional(3)
    least, most = n.integer("min_ngram_size", 1), n.integer("max_ngram_size", 3)
    if not 0 < least <= most <= 16:
        raise n.error("sizes of n-grams are 1 to 16, in order", got=(least, most))
    length, one, zero = _length(n, source, 0), n.ints_value([1]), n.ints_value([0])
    if predicted is not None:
        start = n.add(Reshape(), n.input(2), n.ints_value([1]))
        rest = n.add(Slice(), source, start, size_of(n, source, 0), one)
        own = size_of(n, rest, 0)
        other = n.add(NotEqual(), n.add(Slice(), predicted, zero, own, one), rest)
        indices = _range(n, _length(n, rest, 0))
        first = n.add(Concat(axis=0), own, n.add(Select(), other, indices, own))
        split = n.add(ReduceMin(keep_dims=True), first, n.ints_value([0]))
        kept = n.add(Slice(), predicted, zero, n.add(Add(), split, one), one)
        tokens = n.add(Concat(axis=0), tokens, kept)
    found, have = n.int_value(-1), _length(n, tokens, 0)
    for size in range(least, most + 1):
        equal = convert_value(n, _equal_windows(n, source, tokens, length, size), DType.i64)
        hits = n.add(ReduceSum(), equal, n.ints_value([0]))
        ends = n.add(Add(), _range(n, _length(n, equal, 0)), n.int_value(size))
        end = n.add(ReduceSum(), n.add(Multiply(), equal, ends), n.ints_value([0]))
        once = n.add(LogicalAnd(), n.add(Equal(), hits, n.int_value(1)),
                     n.add(GreaterEqual(), have, n.int_value(size)))  # fmt: skip
        found = n.add(Select(), once, end, found)
    return [tokens, n.add(Reshape(), found, n.ints_value([1]))]


def map_ngrams_to_hashes(n: ImportContext) -> Imported:
    """[B, S, hashes] of tokens [B, S]; the tokens before a sequence are its past or padding."""
    ids, size = n.input(0), n.integer("max_ngram_size")
    found, whole = _hash_ngrams(n, ids, (3, 4, 5), n.optional(6))
    return [found, _tail(n, whole, size_of(n, ids, 1), size - 1)]


def map_packed_ngrams_to_hashes(n: ImportContext) -> Imported:
    """The same of tokens [T] of several sequences, each with a past of its own."""
    if n.wants(2) or n.wants(3) or n.optional(8) is not None:
        raise n.unsupported_error(f"{n.op_type} with segments or updates that are carried on")
    sequences, size = find_sequences(n, n.input(3), n.input(0)), n.integer("max_ngram_size")
    ids, segments = pad_sequences(n, sequences, n.input(0)), n.optional(7)
    if segments is not None:
        segments = pad_sequences(n, sequences, segments)
    found, whole = _hash_ngrams(n, ids, (4, 5, 6), segments)
    lengths = n.add(Unsqueeze(), sequences.lengths, n.ints_value([1]))
    return [pack_sequences(n, sequences, found), _tail(n, whole, lengths, size - 1)]


def _tail(n: ImportContext, whole: Value, length: Value, count: int) -> Value:
    """[B, count]: past and tokens, [B, count + S], behind the first `length` tokens."""
    indices = n.add(Add(), length, n.ints_value(range(count)))
    batch = 1 if n.rank(length) == 2 else 0
    return n.add(Gather(batch_dims=batch), whole, indices, n.int_value(1))


def _hash_ngrams(
    n: ImportContext, ids: Value, ports: tuple[int, int, int], segments: Value | None
) -> tuple[Value, Value]:
    """The hashes, and past and tokens joined. `ports`: of the past, of what is added to each hash,
    and of the token that ends a text."""
    past, offsets, stop = (n.optional(port) for port in ports)
    size, heads = n.integer("max_ngram_size"), n.integer("n_head_per_ngram")
    pad, resets = n.constant(n.integer("pad_id"), n.dtype(ids)), n.flag("reset_on_eos")
    if size < 2 or heads < 1:
        raise n.error("an n-gram has 2 or more tokens and 1 or more hashes", got=(size, heads))
    missing = pad if stop is None else n.add(Reshape(), stop, n.ints_value([]))
    if past is None:
        shape = n.add(Concat(axis=0), size_of(n, ids, 0), n.ints_value([size - 1]))
        past = n.add(Broadcast(), missing, shape)
    whole = n.add(Concat(axis=1), past, ids)
    column, zero = n.int_value(1), n.int_value(0)
    mixed = n.add(Multiply(), ids, n.add(Gather(), n.input(1), zero, zero))
    lost: Value | None = None
    found: list[Value] = []
    for shift in range(1, size):
        indices = n.add(Add(), _range(n, _length(n, ids, 1)), n.int_value(size - 1 - shift))
        token = n.add(Gather(), whole, indices, column)
        ends = [n.add(Equal(), token, missing)] if resets and stop is not None else []
        if segments is not None:
            ends.append(_begins_segment(n, segments, shift - 1))
        for end in ends:
            lost = end if lost is None else n.add(LogicalOr(), lost, end)
        if lost is not None:
            token = n.add(Select(), lost, missing, token)
        factor = n.add(Gather(), n.input(1), n.int_value(shift), zero)
        mixed = n.add(BitwiseXor(), mixed, n.add(Multiply(), token, factor))
        which = n.ints_value(range((shift - 1) * heads, shift * heads))
        modulus = n.add(Gather(), n.input(2), which, zero)
        found.append(n.add(FloorMod(), n.add(Unsqueeze(), mixed, n.ints_value([2])), modulus))
    hashes = n.add(Concat(axis=2), *found)
    return hashes if offsets is None else n.add(Add(), hashes, offsets), whole


def _begins_segment(n: ImportContext, segments: Value, back: int) -> Value:
    """[B, S]: whether the token so many indices back is the first one of its segment."""
    every = _range(n, _length(n, segments, 1))
    own, before = (
        n.add(Gather(), segments, n.add(Maximum(), n.add(Subtract(), every, n.int_value(i)),
                                        n.int_value(0)), n.int_value(1))
        for i in (back, back + 1)
    )  # fmt: skip
    return n.add(NotEqual(), own, before)


def murmur_hash(n: ImportContext) -> Imported:
    """MurmurHash3_x86_32 of each element's bytes."""
    x, seed = n.input(0), n.integer("seed", 0) & 0xFFFFFFFF
    dtype = n.dtype(x)
    target = DType.u32 if n.flag("positive", True) else DType.i32
    if dtype is DType.string:
        return by_own_evaluation(n, [TensorType(target, n.fact(x).tensor.shape)])
    word = DType.u64 if dtype.bits == 64 else DType.u32
    bits = n.add(BitCast(word), x)
    words = [convert_value(n, bits, DType.u32)]
    if word is DType.u64:
        low = n.add(BitwiseAnd(), bits, n.constant(0xFFFFFFFF, DType.u64))
        high = n.add(BitwiseRightShift(), bits, n.constant(32, DType.u64))
        words = [n.add(Convert(DType.u32), v) for v in (low, high)]
    found = _u32(n, seed)
    for part in words:
        part = _rotate(n, n.add(Multiply(), part, _u32(n, 0xCC9E2D51)), 15)
        part = n.add(Multiply(), part, _u32(n, 0x1B873593))
        found = _rotate(n, n.add(BitwiseXor(), part, found), 13)
        found = n.add(Multiply(), found, _u32(n, 5))
        found = n.add(Add(), found, _u32(n, 0xE6546B64))
    found = n.add(BitwiseXor(), found, _u32(n, 4 * len(words)))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = n.add(Multiply(), _xor_shifted(n, found, shift), _u32(n, factor))
    found = _xor_shifted(n, found, 16)
    return found if target is DType.u32 else n.add(BitCast(DType.i32), found)


def _u32(n: ImportContext, value: int) -> Value:
    return n.constant(np.uint32(value), DType.u32)


def _xor_shifted(n: ImportContext, x: Value, by: int) -> Value:
    return n.add(BitwiseXor(), x, n.add(BitwiseRightShift(), x, _u32(n, by)))


def _rotate(n: ImportContext, x: Value, by: int) -> Value:
    left = n.add(BitwiseLeftShift(), x, _u32(n, by))
    return n.add(BitwiseOr(), left, n.add(BitwiseRightShift(), x, _u32(n, 32 - by)))


def dynamic_time_warping(n: ImportContext) -> list[Value]:
    """The cheapest path through costs [M, N] or [1, M, N], as rows and columns, [2, steps]."""
    shape = n.shape(n.input(0))
    if shape is None or len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] != 1):
        raise n.type_error("costs are a matrix", got=n.fact(n.input(0)).type)
    return by_own_evaluation(n, [TensorType(DType.i32, (2, symbol("steps")))])


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}NGramRepeatBlock": {1: block_repeated_ngrams},
    f"{_MS}BifurcationDetector": {1: detect_bifurcation},
    f"{_MS}NGramHashMapping": {1: map_ngrams_to_hashes},
    f"{_MS}VarlenNGramHashMapping": {1: map_packed_ngrams_to_hashes},
    f"{_MS}MurmurHash3": {1: murmur_hash},
    f"{_MS}DynamicTimeWarping": {1: dynamic_time_warping},
}
