"""Fourier transforms."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.ops import IDFT, STFT
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction


def _dft(n: ExportContext) -> Exported:
    """One axis after another; the last axis holds real and imaginary parts."""
    rank, value = n.rank(0) - 1, n.input(0)
    inverse = int(isinstance(n.op, IDFT))
    if n.known_ints(1) is None and n.shape(1) == (1,) and n.has_input("DFT", "axis"):
        size = None if n.optional(2) is None else n.flatten_scalar(2, DType.i64)
        return n.add("DFT", value, size, n.flatten_scalar(1, DType.i64), inverse=inverse)
    axes = [normalize_axis(a, rank) for a in n.ints_of(1, "axes")]
    for i, axis in enumerate(axes):
        value = _transform(n, value, axis, _size(n, i), inverse=inverse)
    return value


def _size(n: ExportContext, i: int) -> str | None:
    """The length of a transform, where it is given and not -1."""
    if n.optional(2) is None:
        return None
    size = n.ints_of(2, "signal_size")[i]
    return None if size == -1 else n.int_scalar(size)


def _transform(
    n: ExportContext, value: str, axis: int, size: str | None, inverse: int = 0, onesided: int = 0
) -> str:
    flags: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    if n.has_input("DFT", "axis"):
        return n.add("DFT", value, size, n.int_scalar(axis), **flags)
    return n.add("DFT", value, size, axis=axis, **flags)


def _rdft(n: ExportContext) -> Exported:
    """The last axis gives half of its values, the others are complex by then."""
    rank, value = n.rank(0), n.add("Unsqueeze", n.input(0), n.ints([-1]))
    if n.known_ints(1) is None and n.shape(1) == (1,) and n.has_input("DFT", "axis"):
        size = None if n.optional(2) is None else n.flatten_scalar(2, DType.i64)
        return n.add("DFT", value, size, n.flatten_scalar(1, DType.i64), onesided=1)
    axes = [normalize_axis(a, rank) for a in n.ints_of(1, "axes")]
    last = len(axes) - 1
    value = _transform(n, value, axes[last], _size(n, last), onesided=1)
    for i, axis in enumerate(axes[:last]):
        value = _transform(n, value, axis, _size(n, i))
    return value


def _irdft(n: ExportContext) -> Exported:
    """The missing half of the last axis is the first, mirrored and conjugated."""
    rank, dtype = n.rank(0) - 1, n.dtype(0)
    axes = [normalize_axis(a, rank) for a in n.ints_of(1, "axes")]
    shape, last, value = n.shape(0), len(axes) - 1, n.input(0)
    have = None if shape is None else shape[axes[last]]
    given = -1 if n.optional(2) is None else n.ints_of(2, "signal_size")[last]
    if not isinstance(have, int):
        raise n.error("a last axis of unknown size")
    size = 2 * (have - 1) if given == -1 else given
    if have != size // 2 + 1 or size < 2:
        raise n.error("a signal_size that is not that of the half spectrum")
    for i, axis in enumerate(axes[:last]):
        value = _transform(n, value, axis, _size(n, i), inverse=1)
    mirrored = n.slice(value, size - have, 0, axes[last], -1)
    mirrored = n.add("Mul", mirrored, n.constant([1, -1], dtype))
    value = n.add("Concat", value, mirrored, axis=axes[last])
    value = _transform(n, value, axes[last], None, inverse=1)
    return n.add("Gather", value, n.int_scalar(0), axis=rank)


def _stft(n: ExportContext) -> Exported:
    """Frames are ONNX's axis before frequencies. A window shorter than a frame is in its
    middle."""
    op = n.cast_op(STFT)
    known, window = n.known_ints(2), n.fixed_shape(1)
    shape = n.input(1)
    # A frame of unknown size is as long as its window, or ONNX refuses it.
    missing = 0 if known is None or window is None else known[0] - window[0]
    if missing:
        shape = n.add("Pad", shape, n.ints([missing // 2, missing - missing // 2]))
    signal, rank = n.input(0), n.rank(0)
    if rank == 1:
        signal = n.add("Unsqueeze", signal, n.ints([0]))
    step = n.flatten_scalar(3, DType.i64)
    found = n.add("STFT", signal, step, shape, n.flatten_scalar(2, DType.i64), onesided=1)
    if op.transpose_frames:
        found = n.transpose(found, [0, 2, 1, 3])
    return n.add("Squeeze", found, n.ints([0])) if rank == 1 else found


EXPORTERS: dict[str, ExportFunction] = {
    "DFT": _dft,
    "IDFT": _dft,
    "RDFT": _rdft,
    "IRDFT": _irdft,
    "STFT": _stft,
}
