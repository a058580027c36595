"""Dynamic batching changes no bit: a batch size is used only after it was compared with lone calls.

A kernel's order of operations depends on sizes, not on values (the plan is fixed, and a row's
position in the batch decides its tile). So for each batch size and each shape of a row, one batch
of random values is computed together and row by row, and every output row is compared bit for bit.
A size is used only if all of its rows are equal; a request that holds several rows joins a batch
only if its own number of rows is such a size, too. Until a size is checked, requests run alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Run = Callable[[Sequence[Array]], Sequence[Array]]
# Shape of one row of every input.
RowShapes = tuple[tuple[int, ...], ...]

MAX_SHAPES = 256  # row shapes whose results are kept
MAX_CHECKED_ROWS = 4096  # larger sizes are never used


class BatchEquality:
    """Knows which batch sizes give the bits of lone calls, for each shape of a row."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._equal: OrderedDict[RowShapes, dict[int, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def lookup(self, shapes: RowShapes, size: int) -> bool | None:
        """Whether batches of this size equal lone calls; None before the check."""
        return True if size == 1 else self._equal.get(shapes, {}).get(size)

    def different_sizes(self) -> list[int]:
        """The sizes that were found to change bits, of any shape."""
        with self._lock:
            found = [dict(sizes) for sizes in self._equal.values()]
        return sorted({n for sizes in found for n, equal in sizes.items() if not equal})

    def check(self, shapes: RowShapes, size: int, rows: Sequence[Array]) -> bool:
        """Compare a batch with its rows alone. rows: real inputs (any number of rows), whose
        integers are used again, because a model accepts them; floating-point values are drawn."""
        if size > MAX_CHECKED_ROWS:
            return self.refuse(shapes, size)
        inputs = [make_check_values(array, size) for array in rows]
        alone = [self._run([array[n : n + 1] for array in inputs]) for n in range(size)]
        together = self._run(inputs)
        equal = all(
            found.shape[:1] == (size,) and equal_bits(found[n : n + 1], wanted)
            for n, outputs in enumerate(alone)
            for found, wanted in zip(together, outputs, strict=True)
        )
        return self._keep(shapes, size, equal)

    def refuse(self, shapes: RowShapes, size: int) -> bool:
        """Never use this size; returns False."""
        return self._keep(shapes, size, False)

    def _keep(self, shapes: RowShapes, size: int, equal: bool) -> bool:
        with self._lock:
            self._equal.setdefault(shapes, {})[size] = equal
            self._equal.move_to_end(shapes)
            while len(self._equal) > MAX_SHAPES:
                self._equal.popitem(last=False)
        return equal


def make_check_values(array: Array, size: int) -> Array:
    """`size` different rows that a model takes: random floating-point values, or the rows of the
    array in turn."""
    if array.dtype.kind in "OUSTbiu":
        return np.resize(array, (size, *array.shape[1:])) if array.size else array[:size]
    rng = np.random.default_rng(size)
    return rng.standard_normal((size, *array.shape[1:])).astype(array.dtype)


def equal_bits(a: Array, b: Array) -> bool:
    """The same type, shape and bits; strings are compared as such."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "OUST":
        return bool(np.array_equal(a, b))
    return a.tobytes() == b.tobytes()
