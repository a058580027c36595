"""Fourier transforms."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.ops import IDFT, STFT
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction


def _dft(n: ExportContext) -> Exported:
    """One axis after another; the last axis holds real and imaginary parts."""
    rank = n.rank(0) - 1
    axes = [normalize_axis(a, rank) for a in n.ints_of(1, "axes")]
    value = n.input(0)
    inverse = int(isinstance(n.op, IDFT))
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
    flags = {"inverse": inverse, "onesided": onesided}
    if n.has_input("DFT", "axis"):
        return n.add("DFT", value, size, n.int_scalar(axis), **flags)
    return n.add("DFT", value, size, axis=axis, **flags)


def _rdft(n: ExportContext) -> Exported:
    """The last axis gives half of its values, the others are complex by then."""
    rank = n.rank(0)
    axes = [normalize_axis(a, rank) for a in n.ints_of(1, "axes")]
    last = len(axes) - 1
    value = n.add("Unsqueeze", n.input(0), n.ints([-1]))
    value = _transform(n, value, axes[last], _size(n, last), onesided=1)
    for i, axis in enumerate(axes[:last]):
        value = _transform(n, value, axis, _size(n, i))
    return value


def _stft(n: ExportContext) -> Exported:
    """Frames are ONNX's axis before frequencies. A window shorter than a frame stands in its
    middle."""
    op = n.cast_op(STFT)
    size, window = n.ints_of(2, "frame_size")[0], n.fixed_shape(1)
    if window is None:
        raise n.error("a window of unknown length")
    shape = n.input(1)
    missing = size - window[0]
    if missing:
        shape = n.add("Pad", shape, n.ints([missing // 2, missing - missing // 2]))
    signal, rank = n.input(0), n.rank(0)
    if rank == 1:
        signal = n.add("Unsqueeze", signal, n.ints([0]))
    step = n.flat(3, DType.i64)
    found = n.add("STFT", signal, step, shape, n.int_scalar(size), onesided=1)
    if op.transpose_frames:
        found = n.transpose(found, [0, 2, 1, 3])
    return n.add("Squeeze", found, n.ints([0])) if rank == 1 else found


EXPORTERS: dict[str, ExportFunction] = {
    "DFT": _dft,
    "IDFT": _dft,
    "RDFT": _rdft,
    "STFT": _stft,
}
