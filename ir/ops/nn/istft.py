"""A signal from its frames' spectra: ISTFT."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dims.constraints import require_at_least
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import charge_array
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    fresh_symbol,
    int_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)
from .signal import pad_window


@dataclass(frozen=True)
class ISTFT(Op):
    """The inverse of STFT with transposed frames: frames are transformed back, multiplied by the
    window, added where they overlap, and divided by the sum of the squared windows.

    data [frame_size // 2 + 1, frames, 2] or [N, ...]; `center` drops half a frame at each end
    (at the begin only where there is a `signal_length`, which cuts the signal or adds zeros).
    """

    kind: ClassVar[str] = "ISTFT"
    version: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("window"),
        Port("frame_size"),
        Port("frame_step"),
        Port("signal_length", optional=True),
    )
    center: bool = False
    normalized: bool = False

    def infer(
        self,
        data: Fact,
        window: Fact,
        frame_size: Fact,
        frame_step: Fact,
        signal_length: Fact | None = None,
    ) -> tuple[Type, ...]:
        dtype = one_dtype(data, window)
        require_dtype(data, "data", FLOATS, "a float type")
        require_rank(data, "data", 3, 4)
        require_rank(window, "window", 1)
        known: list[Dim | None] = []
        for name, fact in (
            ("frame_size", frame_size),
            ("frame_step", frame_step),
            ("signal_length", signal_length),
        ):
            require_dtype(fact, name, INTEGERS, "an integer type")
            if fact is not None:
                require_single(fact, name)
            found = known_dims(fact)
            known.append(found[0] if found else None)
            if found:
                require_at_least(1, found[0], f"{name} is 1 or more")
        size, step, length = known
        shape = data.tensor.shape
        if size is not None and window.tensor.shape is not None:
            require_at_least(window.tensor.shape[0], size, "a window is longer than its frame")
        if shape is None:
            return (TensorType(dtype, None),)
        same_size(shape[-1], 2, "a complex value is a pair on the last axis")
        if size is not None:
            same_size(shape[-3], size // 2 + 1, "data has frame_size // 2 + 1 values per frame")
        if signal_length is None and size is not None and step is not None:
            length = (shape[-2] - 1) * step + (0 if self.center else size)
        return (TensorType(dtype, (*shape[:-3], fresh_symbol(self) if length is None else length)),)

    def evaluate(
        self,
        data: Array,
        window: Array,
        frame_size: Array,
        frame_step: Array,
        signal_length: Array | None = None,
    ) -> tuple[Array, ...]:
        size, step = int_of(frame_size), int_of(frame_step)
        frames = data.shape[-2]
        if size < 1 or step < 1 or len(window) > size or data.shape[-3] != size // 2 + 1:
            raise ShapeError(
                "the frames do not fit",
                got=f"frames of {size}, every {step}; window {len(window)}; data {data.shape}",
            )
        total = max(frames - 1, 0) * step + size
        # The input in f64 and twice as complex numbers; frames before and after the window; sums,
        # their quotients, and the norm; the output in f64.
        charge_array(data.shape, np.dtype(np.float64), copies=3)
        charge_array((*data.shape[:-3], frames, size), np.dtype(np.float64), copies=2)
        charge_array((*data.shape[:-3], total), np.dtype(np.float64), copies=4)
        wanted = total - size if self.center else total
        wanted = wanted if signal_length is None else int_of(signal_length)
        charge_array((*data.shape[:-3], max(wanted, 0)), np.dtype(np.float64))
        wide: Any = data.astype(np.float64)
        spectra = np.swapaxes(wide[..., 0] + 1j * wide[..., 1], -1, -2)
        weights = pad_window(window, size)
        parts = np.fft.irfft(spectra, size, axis=-1) * weights
        out = np.zeros((*data.shape[:-3], total))
        norm = np.zeros(total)
        for n in range(frames):
            out[..., n * step : n * step + size] += parts[..., n, :]
            norm[n * step : n * step + size] += weights * weights
        out = np.divide(out, norm, out=np.zeros_like(out), where=norm != 0)
        out = out * np.sqrt(size) if self.normalized else out
        out = out[..., size // 2 :] if self.center else out
        result = np.zeros((*out.shape[:-1], wanted))
        filled = min(wanted, out.shape[-1])
        result[..., :filled] = out[..., :filled]
        return (cast_array(result, DType.from_numpy(data.dtype)),)
