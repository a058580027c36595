"""Discrete Fourier transforms. Complex values are pairs on a last axis of size 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dim import Dim, eq
from ..dtype import DType
from ..errors import ShapeError, VerificationError
from ..op import Array, Fact, Op, Port
from ..require import require_equal
from ..scalar import cast_array
from ..types import TensorType, Type
from .elementwise import FLOATS, INTEGERS
from .rules import axes_in, ints_of, known_dims, require_dtype, unique_axes, unknown_dim


@dataclass(frozen=True)
class _Transform(Op):
    """Base. `signal_size` cuts or fills up each axis before (-1: as it is)."""

    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("axes"),
        Port("signal_size", optional=True),
    )
    # Whether the last axis of input and output holds real and imaginary part.
    complex_in: ClassVar[bool] = True
    complex_out: ClassVar[bool] = True

    def _last_size(self, size: Dim, given: Dim | None) -> Dim:
        """Size of the last transformed axis of the output."""
        return size if given is None else given

    def infer(self, data: Fact, axes: Fact, signal_size: Fact | None = None) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        require_dtype(axes, "axes", INTEGERS, "an integer type")
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        if self.complex_in:
            what = "complex data has a last axis of size 2"
            if not shape or eq(shape[-1], 2) is False:
                raise ShapeError(what, got=data.type)
            require_equal(shape[-1], 2, what)
        inner: list[Dim] = list(shape[:-1] if self.complex_in else shape)
        listed = axes_in(axes, len(inner))
        sizes = known_dims(signal_size)
        if listed is None or (signal_size is not None and sizes is None):
            inner = [unknown_dim(self) for _ in inner]
        else:
            for i, axis in enumerate(listed):
                given = None if sizes is None or sizes[i] == -1 else sizes[i]
                last = i == len(listed) - 1
                size = inner[axis] if given is None else given
                inner[axis] = self._last_size(inner[axis], given) if last else size
        return (TensorType(dtype, (*inner, *([2] if self.complex_out else []))),)

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        """The transform of a complex (or real) array."""
        raise VerificationError(f"{self.kind} is not defined")

    def evaluate(
        self, data: Array, axes: Array, signal_size: Array | None = None
    ) -> tuple[Array, ...]:
        wide: Any = data.astype(np.float64)
        if self.complex_in:
            wide = wide[..., 0] + 1j * wide[..., 1]
        listed = unique_axes(ints_of(axes), wide.ndim)
        sizes = None
        if signal_size is not None:
            given = ints_of(signal_size)
            sizes = [wide.shape[a] if n == -1 else n for a, n in zip(listed, given, strict=True)]
            if not self.complex_out and given[-1] == -1:
                sizes[-1] = 2 * (wide.shape[listed[-1]] - 1)
        if sizes and 0 in wide.shape:  # NumPy leaves what it makes of no numbers unwritten
            wide = np.zeros([1 if i in listed else n for i, n in enumerate(wide.shape)], wide.dtype)
        found: Any = self.transform(wide, sizes, listed)
        out: Array = np.stack([found.real, found.imag], -1) if self.complex_out else found
        return (cast_array(out, DType.from_numpy(data.dtype)),)


@dataclass(frozen=True)
class DFT(_Transform):
    """Complex to complex."""

    kind: ClassVar[str] = "DFT"
    version: ClassVar[int] = 7

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.fftn(data, sizes, axes)


@dataclass(frozen=True)
class IDFT(_Transform):
    """The inverse of DFT."""

    kind: ClassVar[str] = "IDFT"
    version: ClassVar[int] = 7

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.ifftn(data, sizes, axes)


@dataclass(frozen=True)
class RDFT(_Transform):
    """Real to complex: the first half of the last axis, n // 2 + 1 values."""

    kind: ClassVar[str] = "RDFT"
    version: ClassVar[int] = 9
    complex_in: ClassVar[bool] = False

    def _last_size(self, size: Dim, given: Dim | None) -> Dim:
        return (size if given is None else given) // 2 + 1

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.rfftn(data, sizes, axes)


@dataclass(frozen=True)
class IRDFT(_Transform):
    """The inverse of RDFT."""

    kind: ClassVar[str] = "IRDFT"
    version: ClassVar[int] = 9
    complex_out: ClassVar[bool] = False

    def _last_size(self, size: Dim, given: Dim | None) -> Dim:
        return 2 * (size - 1) if given is None else given

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.irfftn(data, sizes, axes)
