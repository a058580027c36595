"""Counts of n-grams as ONNX's TfIdfVectorizer defines them, by array operations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np

from ..errors import ExecutionError
from ..op import Array


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
    def levels(self) -> list[tuple[Array, Array, Array]]:
        """A tree of the n-grams: for each length the sorted keys (the number of the shorter n-gram
        times the number of items, plus the code of the last item), the number of each n-gram, and
        the output column of each number, -1 for a mere beginning of longer ones.

        ExecutionError where the attributes contradict one another.
        """
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
        return [self._sorted_level(f, c) for f, c in zip(found, columns, strict=True)]

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
                columns[depth].append(-1)
            before = found[depth][key]
        columns[len(items) - 1][before] = column

    def _sorted_level(
        self, found: dict[tuple[int, int], int], columns: list[int]
    ) -> tuple[Array, Array, Array]:
        keys = np.array([before * len(self.codes) + code for before, code in found], np.int64)
        order = np.argsort(keys)
        numbers = np.fromiter(found.values(), np.int64, len(found))
        return keys[order], numbers[order], np.array(columns, np.int64)

    def count(self, data: Array) -> Array:
        """Items [C] or [B, C] to f32 [columns] or [B, columns]. ExecutionError for another rank."""
        array: Array = np.asarray(data)
        if array.ndim > 2 or (array.ndim == 2 and not len(array)):
            raise ExecutionError("n-grams are of [C] or [B, C]", got=list(array.shape))
        shape = (*array.shape[:-1], self.columns) if array.ndim == 2 else (self.columns,)
        rows = array if array.ndim == 2 else array.reshape(1, -1)
        found = map(self.codes.get, rows.reshape(-1).tolist(), repeat(-1))
        flat = np.fromiter(found, np.int64, rows.size)
        counts = self._count_codes(flat.reshape(rows.shape))
        return self._weigh(counts).reshape(shape)

    def _count_codes(self, codes: Array) -> Array:
        """How often each row has the n-grams of each column."""
        rows, length = codes.shape
        total = np.zeros(rows * self.columns, np.int64)
        starts = range(0, rows * self.columns, self.columns)
        base: Array = np.array(starts, np.int64).reshape(rows, 1)
        shortest = self.min_gram_length
        # An n-gram of more items than one ends behind the row if they are too far apart.
        for distance in range(1, min(self.max_skip_count + 1, max(length, 1)) + 1):
            # Those of one item are the same for every distance.
            if distance == 2 and shortest == 1:
                shortest = 2
            numbers = np.zeros((rows, length), np.int64)
            for n, (keys, values, columns) in enumerate(self.levels[: self.max_gram_length], 1):
                width = max(length - (n - 1) * distance, 0)
                last = codes[:, (n - 1) * distance :][:, :width]
                numbers = _find(numbers[:, :width], last, len(self.codes), keys, values)
                if n < shortest or not numbers.size:
                    continue
                hits: Array = np.where(numbers < 0, -1, columns[numbers])
                cells: Array = np.add(hits, base)[hits >= 0]
                total += np.bincount(cells, minlength=len(total))
        return total.reshape(rows, self.columns)

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


def _find(before: Array, codes: Array, items: int, keys: Array, values: Array) -> Array:
    """The numbers of n-grams that are `before` and an item more; -1 where there are none."""
    wanted = before * items + codes
    found: Array = np.searchsorted(keys, wanted)
    at = np.minimum(found, len(keys) - 1)
    hit = (keys[at] == wanted) & (before >= 0) & (codes >= 0)
    return np.where(hit, values[at], -1)
