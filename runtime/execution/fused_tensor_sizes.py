"""Sizes of tensors that no buffer holds, because they are computed as they are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.errors import MemoryLimitError
from ...ir.limits.format_bytes import format_size
from ...ir.limits.memory_budget import RAISE_LIMIT
from ...plan.plan import KernelStep, NativeStep
from ...plan.specs.base import RuntimeDim, Size
from ...plan.specs.rows import ReduceSpec
from ...plan.verify.values import RegionLayoutTables, RegionSizes


class FusedReductions:
    """The reductions of a region's native steps, by their indices among these."""

    def __init__(self, steps: Sequence[NativeStep]) -> None:
        self._steps = [
            (row, step, step.spec)
            for row, step in enumerate(steps)
            if isinstance(step, KernelStep) and isinstance(step.spec, ReduceSpec)
        ]

    def require_memory(self, tables: RegionLayoutTables, sizes: RegionSizes, limit: int) -> None:
        """MemoryLimitError where a reduction walks over more bytes than `limit` and no operand
        holds as many elements: the tensor is fused into it, and counts as if a buffer held it."""
        if not self._steps:
            return
        dims, skipped = tables.dims(sizes), tables.rows_not_run(sizes)
        for row, step, spec in self._steps:
            start = int(tables.step_dims_start[row])

            def at(size: Size, start: int = start) -> int:
                return int(dims[start + size.index]) if isinstance(size, RuntimeDim) else size

            shape = [at(s) for s in (*spec.kept, *spec.reduced)]
            bits = min((i.dtype.bits for i in spec.inputs), default=8)
            size = prod(shape) * bits // 8
            if size <= limit or row in skipped:
                continue
            strides = [[at(s) for s in operand.strides] for operand in spec.inputs]
            if not any(_is_dense(shape, s) for s in strides):
                raise MemoryLimitError(
                    "a reduction reads more memory than max_memory allows",
                    where=step.name or f"step {row}",
                    got=f"{format_size(size)} for a tensor of {shape}, computed as it is read",
                    expected=f"at most {format_size(limit)} (max_memory)",
                    fix=RAISE_LIMIT,
                )


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Does an operand have an element of its own for each step along each axis?"""
    return all(n == 1 or stride != 0 for n, stride in zip(shape, strides, strict=True))
