"""Outputs that a caller provides: do they fit, and which can kernels write at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.errors import InputError

Array = npt.NDArray[Any]


def check_output(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], mine: Any) -> None:
    """Can `mine` (None: no array) take a result of this type and shape? InputError."""
    if mine is None:
        return
    if not isinstance(mine, np.ndarray):
        raise InputError(
            f"output {name!r} can't be put there",
            got=type(mine).__name__,
            expected=f"numpy.empty({list(shape)}, {dtype.name!r})",
        )
    if mine.dtype != dtype or mine.shape != shape or not mine.flags.writeable:
        raise InputError(
            f"the array given for output {name!r} does not fit",
            got=f"{mine.dtype}{list(mine.shape)}{' (read-only)' * (not mine.flags.writeable)}",
            expected=f"{dtype}{list(shape)}",
        )


def written_at_once(out: Sequence[Array | None], inputs: Sequence[Array]) -> list[Array | None]:
    """`out` without the arrays that must wait until all is read and done: those with strides, and
    those that may share memory with an input or another output."""
    found: list[Array | None] = []
    taken = list(inputs)
    for mine in out:
        if mine is None or not (mine.flags.c_contiguous and mine.flags.aligned):
            found.append(None)
        elif any(np.may_share_memory(mine, other) for other in taken):
            found.append(None)
        else:
            found.append(mine)
        if mine is not None:
            taken.append(mine)
    return found
