"""Sums and means of table rows: EmbeddingBagOffsets, EmbeddingBagPacked, EmbeddingSegmentsSum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import computing_bytes, narrow_array, widen_array
from ..math.elementwise import INTEGERS, NUMBERS, sizes_of
from ..shape_inference import (
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)


def _infer_rows(
    op: Op,
    table: Fact,
    bags: Dim,
    numbers: tuple[tuple[str, Fact | None], ...],
    weights: Fact | None,
    indices: Fact,
) -> tuple[Type, ...]:
    """One row of the table per bag; `numbers` are inputs of one integer type."""
    dtype = one_dtype(table, weights)
    require_dtype(table, "emb_table", NUMBERS, "a numeric type")
    one_dtype(*(fact for _, fact in numbers))
    for name, fact in numbers:
        require_dtype(fact, name, INTEGERS, "an integer type")
        if name in ("default_index", "num_segments") and fact is not None:
            require_single(fact, name)
    shape = table.tensor.shape
    if shape is not None and not shape:
        raise ShapeError("the table has no rows", got=table.type, expected="rank 1 or more")
    if weights is not None and weights.tensor.shape is not None:
        have, want = weights.tensor.shape, indices.tensor.shape
        if want is not None:
            if len(have) != len(want):
                raise ShapeError("weights and indices differ in rank", got=weights.type)
            for a, b in zip(have, want, strict=True):
                same_size(a, b, "weights and indices differ in shape")
    return (TensorType(dtype, None if shape is None else (bags, *shape[1:])),)


def _scratch_bytes(
    inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], weights: int
) -> int:
    """Temporaries of sums of table rows; `weights` is the port of the factors."""
    table, indices = inputs[:2]
    if table is None or indices is None or not table.is_static:
        return 0
    rows, item = indices.elements * math.prod(sizes_of(table.shape)[1:]), table.dtype.numpy.itemsize
    wide, weighted = computing_bytes(table.dtype), len(inputs) > weights and inputs[weights]
    # The rows as the table has them, in the computing type, times their weights, by bag; the sums;
    # numbers of rows and bags.
    copies = item + (2 if wide > item else 1) * wide + (wide if weighted else 0)
    first = outputs[0].shape[0] if outputs[0].shape else 0
    bags = first if isinstance(first, int) else 0
    return copies * rows + 2 * wide * outputs[0].elements + 72 * (indices.elements + bags)


def sum_segments(rows: Array, segments: Array, count: int) -> Array:
    """Sums of rows [n, ...] by their segment numbers [n], none of which is `count` or more."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    if len(rows):
        order = np.argsort(segments, kind="stable")
        ordered = segments[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0, dtype=rows.dtype)
    return out


def _pick(table: Array, indices: Array, weights: Array | None) -> Array:
    """Rows of the table in its computing type, times their weights; a negative index counts from
    the end, as Gather's does."""
    size = len(table)
    flat = indices.reshape(-1).astype(np.int64)
    if flat.size and (flat.min() < -size or flat.max() >= size):
        raise ShapeError(
            "an index is not a row of the table",
            got=int(flat.min() if flat.min() < -size else flat.max()),
            expected=f"0..{size - 1}",
        )
    rows = widen_array(table[indices.astype(np.int64)])
    if weights is None:
        return rows
    return rows * widen_array(weights).reshape(*indices.shape, *[1] * (table.ndim - 1))


def _fill_empty(sums: Array, counts: Array, table: Array, default: Array | None) -> None:
    """The default row for empty bags; zeros without one, and where it is negative."""
    row = -1 if default is None else int_of(default)
    if row >= len(table):
        raise ShapeError(
            "the default index is not a row of the table", got=row, expected=f"-1..{len(table) - 1}"
        )
    sums[counts == 0] = widen_array(table[row : row + 1]) if row >= 0 else 0


class EmbeddingBagOffsetsSum(Op):
    """Sums of table rows; bag i takes the indices from offsets[i] up to offsets[i + 1].

    emb_table [rows, ...], indices [n], offsets [bags], default_index a number, weights [n].
    """

    kind: ClassVar[str] = "EmbeddingBagOffsetsSum"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("emb_table"),
        Port("indices"),
        Port("offsets"),
        Port("default_index", optional=True),
        Port("per_sample_weights", optional=True),
    )

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _scratch_bytes(inputs, outputs, 4)

    def _means(self) -> bool:
        return False

    def infer(
        self,
        emb_table: Fact,
        indices: Fact,
        offsets: Fact,
        default_index: Fact | None = None,
        per_sample_weights: Fact | None = None,
    ) -> tuple[Type, ...]:
        require_rank(indices, "indices", 1)
        require_rank(offsets, "offsets", 1)
        _refuse_weighted_mean(self._means(), per_sample_weights)
        bags = fresh_symbol(self) if offsets.tensor.shape is None else offsets.tensor.shape[0]
        numbers = (
            ("indices", indices),
            ("offsets", offsets),
            ("default_index", default_index),
        )
        return _infer_rows(self, emb_table, bags, numbers, per_sample_weights, indices)

    def evaluate(
        self,
        emb_table: Array,
        indices: Array,
        offsets: Array,
        default_index: Array | None = None,
        per_sample_weights: Array | None = None,
    ) -> tuple[Array, ...]:
        rows = _pick(emb_table, indices, per_sample_weights)
        starts = np.array(ints_of(offsets), np.int64)
        ends = np.append(starts[1:], len(rows))[: len(starts)]
        counts = ends - starts
        if np.any(counts < 0) or np.any(starts < 0):
            raise ShapeError(
                "offsets fall, or are out of range",
                got=starts[:20].tolist(),
                expected=f"rising from 0 to at most {len(rows)}",
            )
        first = int(starts[0]) if len(starts) else len(rows)
        sums = sum_segments(rows[first:], np.repeat(np.arange(len(starts)), counts), len(starts))
        if self._means():
            divisors = np.maximum(counts, 1).reshape(-1, *[1] * (sums.ndim - 1))
            sums = _divide_sums(sums, divisors, emb_table.dtype)
        _fill_empty(sums, counts, emb_table, default_index)
        return (narrow_array(sums, emb_table.dtype),)


def _divide_sums(sums: Array, counts: Array, dtype: np.dtype[Any]) -> Array:
    """Means; of integers the floor, of sums that wrap around in the type of the table."""
    if sums.dtype.kind == "f":
        return np.asarray(sums / counts.astype(sums.dtype))
    # A bag may have more rows than a type of 8 bits has numbers.
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.int64)
    return np.asarray(narrow_array(sums, dtype).astype(wide) // counts.astype(wide))


def _refuse_weighted_mean(means: bool, weights: Fact | None) -> None:
    if means and weights is not None:
        raise ShapeError("a mean takes no weights", expected="reduction sum, or no weights")


@dataclass(frozen=True)
class EmbeddingBagOffsets(EmbeddingBagOffsetsSum):
    """EmbeddingBagOffsetsSum with a choice of sums or means."""

    kind: ClassVar[str] = "EmbeddingBagOffsets"
    version: ClassVar[int] = 15
    reduction: str = "sum"

    def _means(self) -> bool:
        return self.reduction.lower() == "mean"


class EmbeddingBagPackedSum(Op):
    """Sums of table rows; indices [bags, n] hold one bag per row."""

    kind: ClassVar[str] = "EmbeddingBagPackedSum"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("emb_table"),
        Port("indices"),
        Port("per_sample_weights", optional=True),
    )

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _scratch_bytes(inputs, outputs, 2)

    def means(self) -> bool:
        """Whether bags are averaged."""
        return False

    def infer(
        self, emb_table: Fact, indices: Fact, per_sample_weights: Fact | None = None
    ) -> tuple[Type, ...]:
        require_rank(indices, "indices", 2)
        _refuse_weighted_mean(self.means(), per_sample_weights)
        bags = fresh_symbol(self) if indices.tensor.shape is None else indices.tensor.shape[0]
        numbers = (("indices", indices),)
        return _infer_rows(self, emb_table, bags, numbers, per_sample_weights, indices)

    def evaluate(
        self, emb_table: Array, indices: Array, per_sample_weights: Array | None = None
    ) -> tuple[Array, ...]:
        rows = _pick(emb_table, indices, per_sample_weights)
        sums = rows.sum(axis=1, dtype=rows.dtype)
        if self.means():
            sums = sums / rows.dtype.type(max(indices.shape[1], 1))
        return (narrow_array(sums, emb_table.dtype),)


@dataclass(frozen=True)
class EmbeddingBagPacked(EmbeddingBagPackedSum):
    """EmbeddingBagPackedSum with a choice of sums or means."""

    kind: ClassVar[str] = "EmbeddingBagPacked"
    version: ClassVar[int] = 15
    reduction: str = "sum"

    def means(self) -> bool:
        return self.reduction.lower() == "mean"


class EmbeddingSegmentsSum(Op):
    """Sums of table rows by segment: indices [n] and segment_ids [n], which do not fall."""

    kind: ClassVar[str] = "EmbeddingSegmentsSum"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("emb_table"),
        Port("indices"),
        Port("segment_ids"),
        Port("num_segments"),
        Port("default_index", optional=True),
        Port("per_sample_weights", optional=True),
    )

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _scratch_bytes(inputs, outputs, 5)

    def infer(
        self,
        emb_table: Fact,
        indices: Fact,
        segment_ids: Fact,
        num_segments: Fact,
        default_index: Fact | None = None,
        per_sample_weights: Fact | None = None,
    ) -> tuple[Type, ...]:
        require_rank(indices, "indices", 1)
        require_rank(segment_ids, "segment_ids", 1)
        have, want = segment_ids.tensor.shape, indices.tensor.shape
        if have is not None and want is not None:
            same_size(have[0], want[0], "segment_ids and indices differ in length")
        known = known_dims(num_segments)
        bags = known[0] if known else fresh_symbol(self)
        numbers = (
            ("indices", indices),
            ("segment_ids", segment_ids),
            ("num_segments", num_segments),
            ("default_index", default_index),
        )
        return _infer_rows(self, emb_table, bags, numbers, per_sample_weights, indices)

    def evaluate(
        self,
        emb_table: Array,
        indices: Array,
        segment_ids: Array,
        num_segments: Array,
        default_index: Array | None = None,
        per_sample_weights: Array | None = None,
    ) -> tuple[Array, ...]:
        count, segments = int_of(num_segments), segment_ids.astype(np.int64)
        refuse_segments(segments, count)
        sums = sum_segments(_pick(emb_table, indices, per_sample_weights), segments, count)
        counts = np.bincount(segments, minlength=count)
        _fill_empty(sums, counts, emb_table, default_index)
        return (narrow_array(sums, emb_table.dtype),)


def refuse_segments(segments: Array, count: int) -> None:
    """ShapeError for segment numbers outside of 0..count - 1, and for a negative count."""
    if count < 0:
        raise ShapeError("num_segments is negative", got=count)
    if segments.size and (segments.min() < 0 or segments.max() >= count):
        raise ShapeError(
            "a segment number is out of range",
            got=int(segments.min() if segments.min() < 0 else segments.max()),
            expected=f"0..{count - 1}",
        )
