"""Operations that only move strings, evaluated on their numbers.

NumPy holds the interpreter's lock while it copies an array of strings, and no signal handler runs:
10 million strings take a second. So such an operation is evaluated on the positions of the strings,
and the strings are picked by their positions in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..scalar.blocks import BLOCK_ELEMENTS, iterate_blocks
from .memory_budget import charge_bytes

Array = npt.NDArray[Any]
# Operations whose outputs hold elements of their inputs, and nothing else but empty strings.
STRING_MOVES = frozenset(
    "Broadcast Concat DepthToSpace Gather GatherElements GatherND Reverse ReverseSequence Roll "
    "ScatterNDUpdate ScatterUpdate Select Slice SliceScatter SpaceToDepth Split StridedSlice Tile "
    "Transpose VariadicSplit".split()
)
# Fewer strings are copied in milliseconds.
MIN_STRINGS = 4 * BLOCK_ELEMENTS
_POSITION_BYTES = 8


def is_string(array: Any) -> bool:
    """Whether an input is an array of strings."""
    return isinstance(array, np.ndarray) and cast(Array, array).dtype == np.object_


def stand_ins(arrays: Sequence[Any]) -> list[Any]:
    """The inputs with positions in place of strings, of the same shapes and without memory."""
    zero: Array = np.zeros((), np.int64)
    return [np.broadcast_to(zero, a.shape) if is_string(a) else a for a in arrays]


def move_strings(
    evaluate: Callable[[list[Any]], Sequence[Array]], arrays: Sequence[Any]
) -> tuple[Array, ...]:
    """What `evaluate` returns for these inputs, one of which at least holds strings, from what it
    returns for their positions. Position 0 is the empty string."""
    total = 1 + sum(a.size for a in arrays if is_string(a))
    charge_bytes(2 * _POSITION_BYTES * total, f"positions of {total} strings")
    table = np.empty(total, np.object_)
    table[0] = ""
    numbered: list[Any] = []
    start = 1
    for array in arrays:
        if not is_string(array):
            numbered.append(array)
            continue
        part = np.reshape(table[start : start + array.size], array.shape)
        for block in iterate_blocks(array.shape):
            part[block] = array[block]
        positions = cast("Array", np.arange(start, start + array.size))
        numbered.append(positions.reshape(array.shape))
        start += array.size
    return tuple(_pick(table, positions) for positions in evaluate(numbered))


def _pick(table: Array, positions: Array) -> Array:
    """The strings at these positions."""
    charge_bytes(_POSITION_BYTES * positions.size, f"{positions.size} strings")
    out = np.empty(positions.shape, np.object_)
    for block in iterate_blocks(positions.shape):
        out[block] = table[positions[block]]
    return out
