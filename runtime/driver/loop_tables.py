"""Control steps as rows of the driver's table, and the blocks of their loops (abi.py)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.dtype import DType
from ...plan.plan import BRANCH, CHECK, JUMP, LOOP, LOOP_END, ControlStep, Region
from ...plan.verify.values import RegionLayoutTables, RegionSizes
from ..machine.memory_planner import address_of
from . import abi as words

Array = npt.NDArray[Any]

_KINDS: Final = {
    LOOP: words.KIND_LOOP,
    LOOP_END: words.KIND_LOOP_END,
    BRANCH: words.KIND_BRANCH,
    JUMP: words.KIND_JUMP,
    # On by one step; a frame of sizes for which it fails makes that NOWHERE, which ends the run.
    CHECK: words.KIND_JUMP,
}


class Control:
    """A region's native control flow, without addresses."""

    def __init__(self, region: Region, tables: RegionLayoutTables) -> None:
        self._region, self._tables = region, tables
        self._rows = {number: row for row, number in enumerate(tables.kernels)}
        self._loops: list[tuple[int, ControlStep]] = [
            (n, s)
            for n, s in enumerate(region.steps)
            if isinstance(s, ControlStep) and s.kind == LOOP
        ]
        # By loop, the buffers that move with it and their operands.
        self._moves: dict[int, list[tuple[int, list[int]]]] = {}
        for b, loop, operands in tables.moves:
            self._moves.setdefault(loop, []).append((b, operands))

    def _row(self, number: int) -> int:
        """How many native steps precede a step."""
        return bisect_left(self._tables.kernels, number)

    def row(self, row: int) -> tuple[int, int]:
        """Word 0 (of a loop: 0, its block is a frame's) and flags of a control step."""
        step = self._region.steps[self._tables.kernels[row]]
        assert isinstance(step, ControlStep)
        flags = words.CONTROL | _KINDS[step.kind] << words.KIND_SHIFT
        flags |= self._width(step.count, words.COUNT, words.COUNT_SHORT)
        flags |= self._width(step.index, words.INDEX, words.INDEX_SHORT)
        flags |= 0 if step.condition is None else words.GO
        way = self._row(step.target) - row if step.kind in (BRANCH, JUMP) else 0
        way = 1 if step.kind == CHECK else way
        return way, flags

    def _width(self, buffer: int | None, flag: int, short: int) -> int:
        if buffer is None:
            return 0
        return flag | (short if self._region.buffers[buffer].dtype is DType.i32 else 0)

    def blocks(self, sizes: RegionSizes, pointers: Array) -> list[tuple[int, Array]]:
        """(row, block) for each end of each loop, over these addresses of operands."""
        found: list[tuple[int, Array]] = []
        for number, loop in self._loops:
            begin, end = self._rows[number], self._rows[loop.target]
            moves: list[int] = []
            for b, operands in self._moves.get(number, ()):
                by = self._tables.stride_bytes(sizes, b)
                for operand in operands:
                    moves += [address_of(pointers) + 8 * operand, by]
            head = [end + 1 - begin, begin + 1 - end, 0, 0, len(moves) // 2]
            block = np.array([*head, *moves], np.int64)
            found += [(begin, block), (end, block)]
        return found
