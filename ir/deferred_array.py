"""Arrays that are made each time they are read, so that nothing holds them in between.

What a file stores in another form, such as codes of 4 bits in blocks, need not be in memory as an
array until kernels' constants are packed, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from .dtype import DType
from .errors import VerificationError
from .int4 import Int4Bytes
from .op import Array


class DeferredArray:
    """An array of `dtype` and `shape`. make: gives it, or Int4Bytes for a type of 4 bits; it may
    read files, and raise what that raises. bytes_of: an array that has the same bytes."""

    __slots__ = ("__weakref__", "_bytes_of", "_make", "dtype", "shape")

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        make: Callable[[], Array | Int4Bytes],
        bytes_of: DeferredArray | None = None,
    ) -> None:
        self.dtype, self.shape, self._make, self._bytes_of = dtype, shape, make, bytes_of

    def has_bytes_of(self, other: DeferredArray) -> bool:
        """Whether the bytes of both are known to be the same, of 4 bits two elements in each."""
        return (self._bytes_of or self) is (other._bytes_of or other)

    @property
    def nbytes(self) -> int:
        """Bytes of the array, of 4-bit types with one element to a byte."""
        return math.prod(self.shape) * self.dtype.numpy.itemsize

    def load(self) -> Array | Int4Bytes:
        """The array, made now, as `make` gives it. VerificationError for one of another shape."""
        made = self._make()
        if made.shape != self.shape:
            raise VerificationError(
                "an array has another shape than its constant", got=made.shape, expected=self.shape
            )
        return made

    def unpack(self) -> Array:
        """The array, made now, one element to an item of NumPy's type."""
        made = self.load()
        return made.unpack() if isinstance(made, Int4Bytes) else made


StoredArray: TypeAlias = Array | DeferredArray


def unpack_stored(array: StoredArray) -> Array:
    """The array itself."""
    return array.unpack() if isinstance(array, DeferredArray) else array
