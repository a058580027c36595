"""Rows of different lengths in one request: rows join, take a step together, and leave.

A row's logits are those that it has alone, bit for bit. Products treat rows alone. Attention adds
up keys in blocks of fixed size, from the first on, and a masked key adds exactly nothing, so the
tokens of a row must be in the blocks in which they are alone. Columns of the cache are therefore
laid out so: full blocks of a row come first, block by block; its remaining tokens, fewer than a
block, are in the last block of the pool, where the next token of every row is appended. All other
columns are masked. After a step the new keys and values move to the next free column of their row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...api.infer_request import ATTENTION_BLOCK_KEYS as BLOCK
from ...ir.lazy_dataclass import dataclass
from ..decoder import Decoder, Floats, TokenCache
from ..language_model import ModelConfig

Array = npt.NDArray[Any]
ROW_AXIS, COLUMN_AXIS = 0, 2


class Rows(Protocol):
    """What the engine does with its rows; they are numbered from 0 without gaps."""

    def join(self, cache: TokenCache) -> None:
        """Add a row: the tokens of a cache of one row, which the pool may keep."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all rows but these, which are in order."""
        ...

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append a token to each row. Returns logits f32 [rows, V]."""
        ...

    def copy_row(self, row: int, start: int, stop: int) -> list[Array]:
        """Keys and values [heads, tokens, size] per variable of a row's tokens from start to stop,
        which are in one block. The row has taken a step."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        ...


@dataclass(frozen=True)
class RowColumns:
    """The columns of a row of `length` tokens: the first `full` of them are in columns 0 to `full`,
    the others in block number `last`."""

    length: int
    full: int
    last: int

    @classmethod
    def lay_out(cls, length: int, last: int) -> RowColumns:
        """The columns in a pool whose last block is this one."""
        return cls(length, length // BLOCK * BLOCK, last)

    @property
    def rest(self) -> slice:
        """The columns of the remaining tokens."""
        return slice(self.last * BLOCK, self.last * BLOCK + self.length - self.full)

    @property
    def end(self) -> int:
        """The column of the next token."""
        return self.rest.stop


class RowPool:
    """Rows in one request of the decoder, which must take any mask of past columns."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._request = decoder.net.create_infer_request()
        self._rows: list[RowColumns] = []
        # Rows whose values are in the request, by number, and rows that join before the next step.
        self._stored: list[int] = []
        self._held = 0  # rows in the request
        self._joining: dict[int, TokenCache] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return self._request.state_nbytes()

    def join(self, cache: TokenCache) -> None:
        """Add a row."""
        self._joining[len(self._rows)] = cache
        # A cache of one row is a pool whose last block begins behind its full blocks.
        self._rows.append(RowColumns.lay_out(cache.columns, cache.columns // BLOCK))
        self._stored.append(-1)

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all rows but these."""
        self._joining = {n: self._joining[r] for n, r in enumerate(rows) if r in self._joining}
        self._rows = [self._rows[r] for r in rows]
        self._stored = [self._stored[r] for r in rows]
        if not rows:
            self._request.reset_state()
            self._held = 0

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append a token to each row. Where the run fails, the rows are as they were."""
        self._lay_out()
        rows, count = self._rows, len(self._rows)
        columns = max(row.end for row in rows)
        mask = np.zeros((count, columns + 1), np.int64)
        for n, row in enumerate(rows):
            mask[n, : row.full] = mask[n, row.rest] = mask[n, columns] = 1
        positions = np.array([[row.length] for row in rows], np.int64)
        ids = np.array(tokens, np.int64)[:, None]
        logits = self._decoder.run(self._request, ids, mask, positions)["logits"][:, -1]
        moved = [n for n, row in enumerate(rows) if row.end != columns]
        if moved:
            ends = [rows[n].end for n in moved]
            for values in self._request.state_views():
                values[moved, :, ends] = values[moved, :, columns]
        self._rows = [replace(row, length=row.length + 1) for row in rows]
        self._request.trim_state(COLUMN_AXIS, max(row.end for row in self._rows))
        return logits

    def copy_row(self, row: int, start: int, stop: int) -> list[Array]:
        """Keys and values of tokens of a row that has taken a step."""
        found = self._rows[row]
        shift = 0 if stop <= found.full else found.rest.start - found.full
        at, views = self._stored[row], self._request.state_views()
        return [v[at, :, start + shift : stop + shift].copy() for v in views]

    def _lay_out(self) -> None:
        """Give every row its columns for the next step."""
        last = max(row.length // BLOCK for row in self._rows)
        wanted = [RowColumns.lay_out(row.length, last) for row in self._rows]
        if wanted == self._rows and self._stored == list(range(self._held)):
            return
        old = self._request.state_views() if max(self._stored) >= 0 else []
        sources = [
            self._joining[n].state_views() if n in self._joining else old
            for n in range(len(self._rows))
        ]
        sizes = {ROW_AXIS: len(wanted), COLUMN_AXIS: max(row.end for row in wanted)}
        made = self._request.renew_state(sizes)
        for n, (before, after) in enumerate(zip(self._rows, wanted, strict=True)):
            number = 0 if n in self._joining else self._stored[n]
            for source, target in zip(sources[n], made, strict=True):
                for there, here in _list_moves(before, after):
                    target[n, :, here] = source[number, :, there]
        self._rows, self._stored = wanted, list(range(len(wanted)))
        self._held, self._joining = len(wanted), {}


def _list_moves(before: RowColumns, after: RowColumns) -> Iterator[tuple[slice, slice]]:
    """Columns of a row in two pools: (there, here) for each piece that is contiguous in both."""
    yield slice(0, before.full), slice(0, before.full)
    # A block that has been filled takes its place among the full ones.
    filled = after.full > before.full
    yield before.rest, slice(before.full, after.full) if filled else after.rest


def takes_gaps(config: ModelConfig, context_length: int) -> bool:
    """Whether rows of a model may have masked columns between their tokens: not where a window
    counts columns, unless it is longer than all of them."""
    window, columns = config.sliding_window, context_length + 2 * BLOCK
    return config.left_padding and (window is None or window >= columns)


class SeparateRows:
    """Rows in a request each, for a decoder whose rows cannot have gaps: one that takes no padding,
    or that counts a window's keys by columns. A step runs them one after another."""

    def __init__(self) -> None:
        self._caches: list[TokenCache] = []

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return sum(cache.nbytes for cache in self._caches)

    def join(self, cache: TokenCache) -> None:
        """Add a row."""
        self._caches.append(cache)

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all rows but these."""
        self._caches = [self._caches[r] for r in rows]

    def step(self, tokens: Sequence[int]) -> Floats:
        """Append a token to each row. Where a run fails, the rows before it have their token."""
        pairs = zip(self._caches, tokens, strict=True)
        return np.concatenate([c.read(np.array([[t]], np.int64))[:, -1] for c, t in pairs])

    def copy_row(self, row: int, start: int, stop: int) -> list[Array]:
        """Keys and values of tokens of a row."""
        return self._caches[row].copy(start, stop)
