"""Counts of n-grams as ONNX's TfIdfVectorizer defines them, by array operations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import repeat

import numpy as np

from ..errors import ExecutionError
from ..lazy_dataclass import dataclass
from ..limits.memory_budget import charge_array
from ..op import Array

# Elements of a table of all pairs of an n-gram and an item behind it; more are searched for.
_MAX_TABLE = 1 << 16


@dataclass(frozen=True, eq=False)
class NgramLevel:
    """The n-grams of one length. Each has a number; the last one is for all that are not in the
    pool. A key is the number of the shorter n-gram, times the number of items + 1, plus the code of
    the last item.

    table: the number for each key, or empty. keys, numbers: in ascending order. columns: the output
    column of each number; a column behind all others for a mere beginning of longer n-grams, and
    for the last number.
    """

    table: Array
    keys: Array
    numbers: Array
    columns: Array
    items: int

    def find(self, before: Array, codes: Array) -> Array:
        """The numbers of n-grams that are the one of number `before` and an item more."""
        wanted = before * (self.items + 1) + codes
        if self.table.size:
            return self.table.take(wanted)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, self.numbers[at], len(self.keys))


@dataclass(frozen=True)
class NgramCounter:
    """TfIdfVectorizer's attributes. pool: the items of all n-grams, those of one item first;
    ngram_counts[n - 1] is where those of n items begin. ngram_indexes: the output column of each
    n-gram. weights: of each n-gram, or none."""

    pool: tuple[Hashable, ...]
    ngram_counts: tuple[int, ...]
    ngram_indexes: tuple[int, ...]
    weights: tuple[float, ...]
    mode: str
    min_gram_length: int
    max_gram_length: int
    max_skip_count: int

    @cached_property
    def columns(self) -> int:
        """How many columns an output has."""
        return max(self.ngram_indexes, default=-1) + 1

    @cached_property
    def codes(self) -> dict[Hashable, int]:
        """A number for each item of the pool, from 0 on."""
        return {item: i for i, item in enumerate(dict.fromkeys(self.pool))}

    @cached_property
    def levels(self) -> list[NgramLevel]:
        """A tree of the n-grams, by length. ExecutionError where the attributes contradict one
        another."""
        starts = [*self.ngram_counts, len(self.pool)]
        beyond = max(starts, default=0) > len(self.pool)
        if sorted(starts) != starts or starts[0] < 0 or beyond:
            raise ExecutionError("ngram_counts do not ascend within the pool", got=starts)
        found: list[dict[tuple[int, int], int]] = []
        columns: list[list[int]] = []
        number = 0
        for n, (start, end) in enumerate(zip(starts, starts[1:], strict=False), 1):
            for at in range(start, end - n + 1, n):
                if self.min_gram_length <= n <= self.max_gram_length:
                    self._insert(self.pool[at : at + n], self._column(number), found, columns)
                number += 1
        # With the number for none; each first item is behind number 0.
        befores = [1, *(len(c) + 1 for c in columns)]
        return [
            _make_level(f, c, before, len(self.codes), self.columns)
            for f, c, before in zip(found, columns, befores, strict=False)
        ]

    def _column(self, number: int) -> int:
        if number >= len(self.ngram_indexes) or self.ngram_indexes[number] < 0:
            raise ExecutionError("an n-gram has no column", got=number, expected="ngram_indexes")
        return self.ngram_indexes[number]

    def _insert(
        self,
        items: Sequence[Hashable],
        column: int,
        found: list[dict[tuple[int, int], int]],
        columns: list[list[int]],
    ) -> None:
        """Add an n-gram, and the beginnings of it that are missing."""
        before = 0
        for depth, item in enumerate(items):
            if depth == len(found):
                found.append({})
                columns.append([])
            key = (before, self.codes[item])
            if key not in found[depth]:
                found[depth][key] = len(columns[depth])
                columns[depth].append(self.columns)
            before = found[depth][key]
        columns[len(items) - 1][before] = column

    def count(self, data: Array) -> Array:
        """Items [C] or [B, C] to f32 [columns] or [B, columns]. ExecutionError for another rank."""
        array: Array = np.asarray(data)
        if array.ndim > 2 or (array.ndim == 2 and not len(array)):
            raise ExecutionError("n-grams are of [C] or [B, C]", got=list(array.shape))
        shape = (*array.shape[:-1], self.columns) if array.ndim == 2 else (self.columns,)
        rows = array if array.ndim == 2 else array.reshape(1, -1)
        codes = self.encode(rows.reshape(-1).tolist()).reshape(rows.shape)
        return self._weigh(self._count_matrix(codes)).reshape(shape)

    def count_rows(self, codes: Array, lengths: Array) -> Array:
        """Rows of several lengths, one after the other, as `encode` returns their items: what
        `count` gives for them as a matrix whose last items are none of the pool."""
        rows, none = len(lengths), len(self.codes)
        if not rows:
            raise ExecutionError("n-grams are of [C] or [B, C]", got=[0, 0])
        if self.max_skip_count > 0:
            width = int(lengths.max())
            charge_array((rows, width), codes.dtype)
            matrix = np.full((rows, width), none)
            matrix[np.arange(width) < lengths[:, None]] = codes
            return self._weigh(self._count_matrix(matrix))
        # One row, in which no n-gram reaches from one into the next.
        between = max(min(self.max_gram_length, len(self.levels)) - 1, 0)
        charge_array((len(codes) + rows * between, 4), codes.dtype)
        joined = codes
        if between:
            joined = np.full(len(codes) + rows * between, none)
            at = np.repeat(np.arange(0, rows * between, between), lengths)
            joined[np.arange(len(codes)) + at] = codes
        starts = np.arange(0, rows * (self.columns + 1), self.columns + 1)
        starts = np.repeat(starts, lengths + between)
        return self._weigh(self._sum_hits(self._find_hits(joined[None], starts[None]), rows))

    def encode(self, items: Sequence[Hashable]) -> Array:
        """The numbers of items; of those that are not in the pool, how many these are."""
        codes = self.codes
        return np.fromiter(map(codes.get, items, repeat(len(codes))), np.int64, len(items))

    def encode_characters(self, text: str) -> Array:
        """`encode` of the characters of a text."""
        table = self._character_codes
        if table is None:
            return self.encode(list(text))
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        return table.take(np.minimum(points, len(table) - 1))

    @cached_property
    def _character_codes(self) -> Array | None:
        """The number of each character's item by its code point, up to the largest and one more;
        None where there are too many."""
        points = {ord(c): i for c, i in self.codes.items() if isinstance(c, str) and len(c) == 1}
        size = max(points, default=0) + 2
        if size > _MAX_TABLE:
            return None
        table = np.full(size, len(self.codes))
        table[list(points)] = list(points.values())
        return table

    def _count_matrix(self, codes: Array) -> Array:
        """How often each row has the n-grams of each column."""
        rows = len(codes)
        starts = np.arange(0, rows * (self.columns + 1), self.columns + 1)
        starts = np.broadcast_to(starts[:, None], codes.shape)
        return self._sum_hits(self._find_hits(codes, starts), rows)

    def _find_hits(self, codes: Array, starts: Array) -> list[Array]:
        """The columns of all n-grams, each plus what `starts` holds for its first item."""
        rows, length = codes.shape
        shortest, hits = self.min_gram_length, list[Array]()
        # An n-gram of more items than one ends behind the row if they are too far apart.
        for distance in range(1, min(self.max_skip_count + 1, max(length, 1)) + 1):
            # Those of one item are the same for every distance.
            if distance == 2 and shortest == 1:
                shortest = 2
            numbers = np.zeros((rows, length), np.int64)
            for n, level in enumerate(self.levels[: self.max_gram_length], 1):
                width = max(length - (n - 1) * distance, 0)
                last = codes[:, (n - 1) * distance :][:, :width]
                numbers = level.find(numbers[:, :width], last)
                if n >= shortest and numbers.size:
                    found = level.columns.take(numbers)
                    found += starts[:, :width]
                    hits.append(found.reshape(-1))
        return hits

    def _sum_hits(self, hits: Sequence[Array], rows: int) -> Array:
        """Counts [rows, columns] of positions in [rows, columns + 1]."""
        size = rows * (self.columns + 1)
        charge_array((size, 3), np.dtype(np.int64))
        total = np.bincount(hits[0], minlength=size) if hits else np.zeros(size, np.int64)
        for found in hits[1:]:
            total += np.bincount(found, minlength=size)
        return total.reshape(rows, self.columns + 1)[:, : self.columns]

    def _weigh(self, counts: Array) -> Array:
        """Counts as the mode says."""
        if self.mode == "TF":
            return counts.astype(np.float32)
        if self.mode not in ("IDF", "TFIDF"):
            raise ExecutionError("no such mode", got=self.mode, expected="TF, IDF or TFIDF")
        weights = np.ones(self.columns)
        if self.weights:
            if len(self.weights) != len(self.ngram_indexes):
                got = f"{len(self.weights)} for {len(self.ngram_indexes)} n-grams"
                raise ExecutionError("weights are missing", got=got)
            # onnx.reference takes them in the order of columns; the specification does not.
            weights[list(self.ngram_indexes)] = self.weights
        factors = counts > 0 if self.mode == "IDF" else counts
        return (factors * weights).astype(np.float32)


def _make_level(
    found: dict[tuple[int, int], int], columns: list[int], befores: int, items: int, none: int
) -> NgramLevel:
    """The level of n-grams by (number of the shorter one, code of the last item)."""
    keys = np.array([before * (items + 1) + code for before, code in found], np.int64)
    numbers = np.fromiter(found.values(), np.int64, len(found))
    table = np.zeros(0, np.int64)
    if befores == 1 or befores * (items + 1) <= _MAX_TABLE:
        table = np.full(befores * (items + 1), len(found))
        table[keys] = numbers
    order = np.argsort(keys)
    extended = np.array([*columns, none], np.int64)
    return NgramLevel(table, keys[order], numbers[order], extended, items)
