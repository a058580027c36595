"""Pad, Reverse, ReverseSequence, Roll: elements moved along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, maximum
from ...dims.constraints import require_at_least
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, normalize_axis
from ..math.elementwise import INTEGERS
from ..shape_inference import (
    axes_in,
    count_of,
    ints_of,
    known_dims,
    known_ints,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
    unique_axes,
    unknown_shape,
)

_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}


_CUTS = "a Pad removes more than there is"


@dataclass(frozen=True)
class Pad(Op):
    """Elements added before and after each axis (negative numbers remove some).

    pad_mode: constant (`pad_value`, 0 where absent), edge, reflect (the edge itself is not
    repeated), symmetric (it is).
    """

    kind: ClassVar[str] = "Pad"
    version: ClassVar[int] = 12
    evaluates_shapes: ClassVar[bool] = True
    scratch_copies: ClassVar[int] = 2
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("pads_begin"),
        Port("pads_end"),
        Port("pad_value", optional=True),
    )
    pad_mode: str = "constant"

    def infer(
        self, data: Fact, pads_begin: Fact, pads_end: Fact, pad_value: Fact | None = None
    ) -> tuple[Type, ...]:
        self._mode()
        for fact, name in ((pads_begin, "pads_begin"), (pads_end, "pads_end")):
            require_dtype(fact, name, INTEGERS, "an integer type")
        if pad_value is not None:
            require_single(pad_value, "pad_value")
        dtype, shape = one_dtype(data, pad_value), data.tensor.shape
        if shape is None:
            return (TensorType(dtype, None),)
        before, after = known_dims(pads_begin), known_dims(pads_end)
        if before is None or after is None:
            return (TensorType(dtype, unknown_shape(self, len(shape))),)
        if not len(before) == len(after) == len(shape):
            raise ShapeError(
                "paddings need one number per axis",
                got=f"{len(before)} and {len(after)}",
                expected=len(shape),
            )
        for d, *pair in zip(shape, before, after, strict=True):
            require_at_least(cropped_elements(pair[0]) + cropped_elements(pair[1]), d, _CUTS)
        sizes = [d + b + e for d, b, e in zip(shape, before, after, strict=True)]
        for size in sizes:
            require_at_least(0, size, _CUTS)
        return (TensorType(dtype, tuple(sizes)),)

    def _mode(self) -> str:
        found = _MODES.get(self.pad_mode.lower())
        if found is None:
            raise UnsupportedOperationError(
                "Pad with this mode", got=self.pad_mode, expected=", ".join(_MODES)
            )
        return found

    def evaluate(
        self, data: Array, pads_begin: Array, pads_end: Array, pad_value: Array | None = None
    ) -> tuple[Array, ...]:
        pads = list(zip(ints_of(pads_begin), ints_of(pads_end), strict=True))
        for n, (b, e) in zip(data.shape, pads, strict=True):
            if max(-b, 0) + max(-e, 0) > n:
                raise ShapeError(_CUTS, got=f"{-min(b, 0)} and {-min(e, 0)} of {n}")
        cut = tuple(
            slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(data.shape, pads, strict=True)
        )
        value: Any = 0 if pad_value is None else pad_value.reshape(())[()]
        return (
            pad_array(data[cut], [(max(b, 0), max(e, 0)) for b, e in pads], self._mode(), value),
        )


def cropped_elements(padding: Dim) -> Dim:
    """How many elements a padding removes."""
    return maximum(-padding, 0)


def pad_array(data: Array, pads: Sequence[tuple[int, int]], mode: str, value: Any) -> Array:
    """np.pad for every type: positions are padded and elements picked by them."""
    if mode == "constant":
        out = np.full([n + b + e for n, (b, e) in zip(data.shape, pads, strict=True)], value)
        out = out.astype(data.dtype)
        where = tuple(slice(b, b + n) for n, (b, _) in zip(data.shape, pads, strict=True))
        out[where] = data
        return out
    indices = [_positions(n, *widths, mode) for n, widths in zip(data.shape, pads, strict=True)]
    return np.array(data[np.ix_(*indices)])


def _positions(size: int, begin: int, end: int, mode: str) -> Array:
    """The element of an axis at each index of the padded one."""
    listed: Any = np.arange(size)
    return np.pad(listed, (begin, end), mode=mode)  # type: ignore[call-overload]


class Pad1(Pad):
    """Pad of operation set 1: no negative numbers."""

    version: ClassVar[int] = 1


@dataclass(frozen=True)
class Reverse(Op):
    """Axes in opposite order; `mode`: index (a list of axes) or mask (one boolean per axis)."""

    kind: ClassVar[str] = "Reverse"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes_or_mask", optional=True))
    mode: str = "index"

    def infer(self, data: Fact, axes: Fact | None = None) -> tuple[Type, ...]:
        if self.mode.lower() == "mask":
            require_dtype(axes, "axes_or_mask", (DType.boolean,), "boolean")
        else:
            require_dtype(axes, "axes_or_mask", INTEGERS, "an integer type")
            if axes is not None and data.tensor.shape is not None:
                axes_in(axes, len(data.tensor.shape))
        return (data.tensor,)

    def evaluate(self, data: Array, axes: Array | None = None) -> tuple[Array, ...]:
        if axes is None:
            return (data,)
        listed = [int(i) for i in np.flatnonzero(axes)] if axes.dtype == bool else ints_of(axes)
        return (np.flip(data, tuple(unique_axes(listed, data.ndim))).copy(),)


@dataclass(frozen=True)
class ReverseSequence(Op):
    """The first seq_lengths[b] elements along `seq_axis` in opposite order, for each b of
    `batch_axis`; a length below 0 is 0, one beyond the axis the axis."""

    kind: ClassVar[str] = "ReverseSequence"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("seq_lengths"))
    batch_axis: int = 0
    seq_axis: int = 1

    def infer(self, data: Fact, seq_lengths: Fact) -> tuple[Type, ...]:
        shape, lengths = data.tensor.shape, seq_lengths.tensor.shape
        require_rank(seq_lengths, "seq_lengths", 1)
        if shape is not None:
            batch, _ = unique_axes([self.batch_axis, self.seq_axis], len(shape))
            if lengths is not None:
                same_size(shape[batch], lengths[0], "a ReverseSequence has a length for each batch")
        return (data.tensor,)

    def evaluate(self, data: Array, seq_lengths: Array) -> tuple[Array, ...]:
        batch, time = unique_axes([self.batch_axis, self.seq_axis], data.ndim)
        same_size(
            data.shape[batch], seq_lengths.size, "a ReverseSequence has a length for each batch"
        )
        moved = np.moveaxis(data, (batch, time), (0, 1))
        out = moved.copy()
        for n, length in enumerate(np.maximum(seq_lengths.reshape(-1).astype(int), 0).tolist()):
            out[n, :length] = moved[n, :length][::-1]
        return (np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch, time))),)


class Roll(Op):
    """Elements moved along axes by `shift`, those beyond the end to the beginning."""

    kind: ClassVar[str] = "Roll"
    version: ClassVar[int] = 7
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("shift"), Port("axes"))

    def infer(self, data: Fact, shift: Fact, axes: Fact) -> tuple[Type, ...]:
        for fact, name in ((shift, "shift"), (axes, "axes")):
            require_dtype(fact, name, INTEGERS, "an integer type")
        moves, listed = count_of(shift), count_of(axes)
        if moves is not None and listed is not None and moves not in (1, listed):
            raise ShapeError("shift and axes differ in number", got=f"{moves} and {listed}")
        if data.tensor.rank is not None:
            for axis in known_ints(axes) or ():
                normalize_axis(axis, data.tensor.rank)
        return (data.tensor,)

    def evaluate(self, data: Array, shift: Array, axes: Array) -> tuple[Array, ...]:
        listed = [normalize_axis(a, data.ndim) for a in ints_of(axes)]
        moves = ints_of(shift)
        moves = moves * len(listed) if len(moves) == 1 else moves
        return (np.roll(data, moves, listed) if listed else data,)
