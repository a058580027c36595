"""Weights of 4 bits as panels of bytes, each of which holds two rows of one column."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .....ir.int4 import Int4Bytes
from .....plan.packing.layouts import PackedB, PackedLayout
from .....plan.plan import PlanConstant

Array = np.ndarray[Any, np.dtype[Any]]

# The lower halves of the bytes of two elements, read as one number.
_LOWER_HALVES: Final = np.uint16(0x0F0F)


class CellRows:
    """Matrices [matrices, N, K] of 4-bit integers whose rows are whole cells of a layout: their
    cells are copied as numbers, and no element is looked at."""

    def __init__(self, source: Array | Int4Bytes, shape: tuple[int, int, int], kr: int) -> None:
        self._source, self._kr = source, kr
        self._bytes = isinstance(source, Int4Bytes)
        count, n, k = shape
        data = source.data if isinstance(source, Int4Bytes) else source.view(np.uint8)
        self._rows = data.reshape(count, n, k // 2 if self._bytes else k)

    def cells(self, which: slice, first: int, last: int) -> Array:
        """The cells [matrices, rows, K / kr] of rows first to last, as numbers of kr / 2 bytes."""
        rows = self._rows[which, first:last]
        if not self._bytes:
            pairs = rows.view(np.uint16) & _LOWER_HALVES
            rows = (pairs | pairs >> 4).astype(np.uint8)
        return rows.view(f"u{self._kr // 2}")


def find_cell_rows(source: Array | Int4Bytes, constant: PlanConstant) -> CellRows | None:
    """The rows of a constant whose cells are in the source as they shall be in panels: of a
    transposed matrix without gaps, K whole cells. None for any other."""
    layout = constant.layout
    if constant.dtype.bits != 4 or not isinstance(layout, PackedB) or not constant.transposed:
        return None
    n, k = constant.shape[-2:]
    ready = isinstance(source, Int4Bytes) or source.flags.c_contiguous
    if not ready or layout.kr not in (2, 4, 8, 16) or k % layout.kr or not k:
        return None
    return CellRows(source, (math.prod(constant.shape[:-2]), n, k), layout.kr)


def fill_panels(blocks: Array, rows: CellRows, nr: int, job: tuple[slice, int, int]) -> None:
    """Write panels first to last of blocks [matrices, panels, bytes] from rows of cells."""
    which, first, last = job
    cells = rows.cells(which, first * nr, last * nr)
    panels = blocks[which, first:last].view(cells.dtype)
    depth = cells.shape[-1]
    panels = panels.reshape(*panels.shape[:2], depth, nr)
    full = cells.shape[1] // nr
    whole = cells[:, : full * nr].reshape(len(cells), full, nr, depth)
    panels[:, :full] = whole.swapaxes(-1, -2)
    if rest := cells.shape[1] % nr:
        panels[:, full, :, :rest] = cells[:, full * nr :].swapaxes(-1, -2)
        panels[:, full, :, rest:] = 0


def pack_columns(columns: Array, nr: int, kr: int) -> Array:
    """Columns [K, nr at most] as cells [K / kr, nr, kr / 2] of bytes, padded with zeros."""
    k, wide = columns.shape
    codes = np.zeros((PackedLayout(k, nr, nr, kr).depth, nr), np.uint8)
    codes[:k, :wide] = columns.view(np.uint8) & 15
    pairs = codes.reshape(-1, kr // 2, 2, nr)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).swapaxes(1, 2)
