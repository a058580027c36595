"""The distinct size expressions of a region, numbered, and names of buffers for messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dims import Dim, compile_dims
from ...ir.errors import VerificationError
from ..plan import Region
from ..specs.base import RuntimeDim, Size

Ints = npt.NDArray[np.int64]

# Sizes and strides below it can be added in int64.
MAX_SIZE = 1 << 62


class SizeTable:
    """Size expressions by position: index arrays of these are evaluated all at once."""

    def __init__(self) -> None:
        self._positions: dict[Dim, int] = {}

    def position(self, d: Dim) -> int:
        """The position of an expression, a new one if it is not there."""
        return self._positions.setdefault(d, len(self._positions))

    def size(self, size: Size, dims: Sequence[int]) -> int:
        """The position of a spec's size; `dims`: those of its step's run-time sizes."""
        return dims[size.index] if isinstance(size, RuntimeDim) else self.position(size)

    def compile(self) -> Callable[[Mapping[str, int]], list[int]]:
        """The values of all expressions, by position, for values of the symbols."""
        return compile_dims(list(self._positions))

    def require_addable(self, numbers: Sequence[int], where: str) -> None:
        """VerificationError for values beyond MAX_SIZE."""
        if not numbers or -MAX_SIZE < min(numbers) <= max(numbers) < MAX_SIZE:
            return
        worst = max(numbers, key=abs)
        size = list(self._positions)[numbers.index(worst)]
        shown = str(worst) if worst.bit_length() < 128 else f"about 2^{worst.bit_length() - 1}"
        raise VerificationError(
            "a size is beyond any machine",
            where=where,
            got=shown if isinstance(size, int) else f"{shown}, which is {size}",
            expected="sizes below 2^62",
            fix="check the input shapes",
        )


class RegionNames:
    """Names of buffers and operands for messages. `kernels`: numbers of the native steps; `starts`:
    where each one's operands begin in the list of all."""

    def __init__(self, region: Region, kernels: Sequence[int], starts: Ints) -> None:
        self._region, self._kernels, self._starts = region, kernels, starts

    def buffer(self, b: int) -> str:
        """Buffer `b`."""
        return f"buffer {b} ({self._region.buffers[b].name or 'unnamed'})"

    def operand(self, n: int) -> str:
        """Operand `n` of all native steps."""
        k = int(np.searchsorted(self._starts, n, "right")) - 1
        number = self._kernels[k]
        name = self._region.steps[number].name or "unnamed"
        return f"step {number} ({name}), operand {n - int(self._starts[k])}"


def to_ints(values: Sequence[int]) -> Ints:
    """An array of int64."""
    return np.array(values, np.int64)


def to_starts(counts: Sequence[int]) -> Ints:
    """[0, c0, c0 + c1, ...]."""
    out: Any = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out
