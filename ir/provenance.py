"""Where in a file an array's bytes come from, so that equal weights of a process are stored once.

Readers record the memory that they fill; code that derives something from an array (packed panels)
looks up its origin, which views share: reshaped, transposed, sliced. Two arrays of one origin hold
the same numbers. A record is removed with its memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from .lazy_dataclass import dataclass
from .op import Array


@dataclass(frozen=True)
class FileSlice:
    """Bytes of a file in one of its states: the array's elements lie as `strides` say, from `start`
    on. `file` identifies the state of a file."""

    file: Hashable
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_notes: dict[int, tuple[weakref.ref[Array], Hashable, int]] = {}


def note(memory: Array, file: Hashable, offset: int = 0) -> None:
    """`memory`, which owns its bytes and is not written to any more, holds those of `file` from
    `offset` on."""
    key = id(memory)
    gone = weakref.ref(memory, lambda _: _notes.pop(key, None))
    _notes[key] = (gone, file, offset)  # a single step: no lock, which a fork might leave held


def file_slice_of(array: Array) -> FileSlice | None:
    """The bytes of a file that an array or a view holds, None if they are not recorded."""
    memory = owner(array)
    found = _notes.get(id(memory))
    if found is None or found[0]() is not memory:
        return None
    start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return FileSlice(found[1], found[2] + start, array.dtype, array.shape, array.strides)


def owner(array: Array) -> Array:
    """The array whose memory a view looks into."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
