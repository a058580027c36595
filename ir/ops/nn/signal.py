"""Fourier transforms, whole or frame by frame. Complex values are pairs on a last axis of 2."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, eq
from ...dims.constraints import require_at_least, require_equal
from ...dtype import DType
from ...errors import ShapeError, VerificationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    axes_in,
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    unique_axes,
)

# Frames up to here are transformed by a product in native code, whose work is the square of a
# frame: on one thread it takes as long as NumPy's fast transform with 512 samples, 1.8 times as
# long with 1024. What NumPy computes is outside native code, on one thread.
MAX_DFT_MATMUL_SIZE = 1024
# Less than any cosine of such a frame that is not 0, more than what 0 is rounded to.
_COSINE_ZERO_TOLERANCE = 1e-12


class _Transform(Op):
    """Base. `signal_size` cuts or fills up each axis before (-1: as it is)."""

    scratch_width: ClassVar[int] = 28
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
        self._require_axes(listed)
        sizes = known_dims(signal_size)
        if listed is None or (signal_size is not None and sizes is None):
            inner = [fresh_symbol(self) for _ in inner]
        else:
            if sizes is not None and len(sizes) != len(listed):
                what = "axes and signal_size differ in length"
                raise ShapeError(what, got=f"{len(listed)} and {len(sizes)}")
            for i, axis in enumerate(listed):
                given = None if sizes is None or sizes[i] == -1 else sizes[i]
                require_at_least(1, 1 if given is None else given, "a signal has 1 value or more")
                last = i == len(listed) - 1
                size = inner[axis] if given is None else given
                inner[axis] = self._last_size(inner[axis], given) if last else size
        return (TensorType(dtype, (*inner, *([2] if self.complex_out else []))),)

    def _require_axes(self, axes: list[int] | None) -> None:
        """ShapeError where a real signal has no axis that becomes its half."""
        if axes == [] and not (self.complex_in and self.complex_out):
            raise ShapeError("a transform of real numbers has one axis or more", got="no axes")

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        """The transform of a complex (or real) array."""
        raise VerificationError(f"{self.kind} is not defined")

    def evaluate(
        self, data: Array, axes: Array, signal_size: Array | None = None
    ) -> tuple[Array, ...]:
        # NumPy 2 transforms f32 in less time than f64; NumPy 1 transforms it as f64.
        wide: Any = data if data.dtype == np.float32 else data.astype(np.float64)
        if self.complex_in:
            kind = np.complex64 if wide.dtype == np.float32 else np.complex128
            wide = np.ascontiguousarray(wide).view(kind)[..., 0]
        listed = unique_axes(ints_of(axes), wide.ndim)
        self._require_axes(listed)
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


class DFT(_Transform):
    """Complex to complex."""

    kind: ClassVar[str] = "DFT"
    version: ClassVar[int] = 7

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.fftn(data, sizes, axes)


class IDFT(_Transform):
    """The inverse of DFT."""

    kind: ClassVar[str] = "IDFT"
    version: ClassVar[int] = 7

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.ifftn(data, sizes, axes)


class RDFT(_Transform):
    """Real to complex: the first half of the last axis, n // 2 + 1 values."""

    kind: ClassVar[str] = "RDFT"
    version: ClassVar[int] = 9
    complex_in: ClassVar[bool] = False

    def _last_size(self, size: Dim, given: Dim | None) -> Dim:
        return (size if given is None else given) // 2 + 1

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.rfftn(data, sizes, axes)


class IRDFT(_Transform):
    """The inverse of RDFT."""

    kind: ClassVar[str] = "IRDFT"
    version: ClassVar[int] = 9
    complex_out: ClassVar[bool] = False

    def _last_size(self, size: Dim, given: Dim | None) -> Dim:
        return 2 * (size - 1) if given is None else given

    def transform(self, data: Array, sizes: list[int] | None, axes: list[int]) -> Array:
        return np.fft.irfftn(data, sizes, axes)


@dataclass(frozen=True)
class STFT(Op):
    """The first half of the transform of each frame of a signal, `frame_size // 2 + 1` values. A
    frame begins every `frame_step` samples as long as it ends inside the signal; it is multiplied
    by the window, which has zeros on both sides where it is shorter. Transposed, frames are the
    last axis but one."""

    kind: ClassVar[str] = "STFT"
    version: ClassVar[int] = 15
    scratch_width: ClassVar[int] = 48
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("signal"),
        Port("window"),
        Port("frame_size"),
        Port("frame_step"),
    )

    transpose_frames: bool = False

    def infer(
        self, signal: Fact, window: Fact, frame_size: Fact, frame_step: Fact
    ) -> tuple[Type, ...]:
        for fact, name in ((signal, "signal"), (window, "window")):
            require_dtype(fact, name, FLOATS, "a float type")
        for fact, name in ((frame_size, "frame_size"), (frame_step, "frame_step")):
            require_dtype(fact, name, INTEGERS, "an integer type")
            require_single(fact, name)
        require_rank(signal, "signal", 1, 2)
        require_rank(window, "window", 1)
        dtype = one_dtype(signal, window)
        size, step = (
            _known_positive(frame_size, "frame_size"),
            _known_positive(frame_step, "frame_step"),
        )
        if window.tensor.shape is not None:
            (length,) = window.tensor.shape
            require_at_least(1, length, "a window has one value or more")
            if size is not None:
                require_at_least(length, size, "a window is longer than its frame")
        shape = signal.tensor.shape
        if shape is None:
            return (TensorType(dtype, None),)
        if size is not None:
            require_at_least(size, shape[-1], "a frame is longer than the signal")
        found = [fresh_symbol(self, 1), fresh_symbol(self, 1)]
        if size is not None and isinstance(step, int):
            found[0] = (shape[-1] - size) // step + 1
        if size is not None:
            found[1] = size // 2 + 1
        if self.transpose_frames:
            found.reverse()
        return (TensorType(dtype, (*shape[:-1], *found, 2)),)

    def evaluate(
        self, signal: Array, window: Array, frame_size: Array, frame_step: Array
    ) -> tuple[Array, ...]:
        size, step = int_of(frame_size), int_of(frame_step)
        wide: Any = signal.astype(np.float64)
        frames = np.lib.stride_tricks.sliding_window_view(wide, size, axis=-1)[..., ::step, :]
        frames = frames * pad_window(window, size)
        found: Any = np.fft.rfft(frames, axis=-1)
        out: Array = np.stack([found.real, found.imag], -1)
        infinite = ~np.isfinite(frames).all(-1)
        if size <= MAX_DFT_MATMUL_SIZE and infinite.any():  # as a product has them
            out[infinite] = (frames[infinite] @ waves(size)).reshape(-1, size // 2 + 1, 2)
        out = np.swapaxes(out, -3, -2) if self.transpose_frames else out
        return (cast_array(out, DType.from_numpy(signal.dtype)),)


def pad_window(window: Array, size: int) -> Array:
    """A window's values in f64, with as many zeros on both sides as fill a frame (one more behind
    them where their number is odd)."""
    before = (size - len(window)) // 2
    wide: Array = np.zeros(size)
    wide[before : before + len(window)] = window
    return wide


def waves(size: int) -> Array:
    """What a frame is multiplied by: a column for the real part of each value of its spectrum, and
    one for its imaginary part."""
    turns = np.outer(np.arange(size), np.arange(size // 2 + 1))
    return rotations(turns, size, inverse=False)[:, 0].reshape(size, -1)


def rotations(turns: Array, size: int, *, inverse: bool) -> Array:
    """[..., j, 2, k, 2]: the matrices that turn a complex number, as a row of its parts, by
    turns[..., j, k] parts of a circle of `size`, clockwise unless `inverse`. Angles are less than a
    turn, so that cosines and sines are as exact for the last value as for the first, and what is 0
    is 0: quarter turns of integers are."""
    angles = turns % size * (2 * np.pi / size)
    cosines, sines = np.cos(angles), np.sin(angles) * (1 if inverse else -1)
    rows = np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], -3)
    rows[np.abs(rows) < _COSINE_ZERO_TOLERANCE] = 0
    return rows


def _known_positive(fact: Fact, name: str) -> Dim | None:
    """The known value of an input that is a number of samples; ShapeError for less than one."""
    found = known_dims(fact)
    if found is not None:
        require_at_least(1, found[0], f"{name} is 1 or more")
    return None if found is None else found[0]
