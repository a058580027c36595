"""Values repeated: Broadcast and Tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim, eq
from ...dims.constraints import require_at_least, require_broadcast
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, broadcast_shapes, format_shape, joined_shape
from ..shape_inference import (
    Shape,
    axes_in,
    count_of,
    fresh_symbol,
    ints_of,
    known_dims,
    unique_axes,
    unknown_shape,
)

NEGATIVE = "an axis is repeated a negative number of times"


@dataclass(frozen=True)
class _Broadcast(Op):
    """Base. Modes: numpy (the output has the target shape), explicit (axis i of the data maps to
    axis axes_mapping[i] of the target), bidirectional (both broadcast to each other)."""

    kind: ClassVar[str] = "Broadcast"
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("target_shape"),
        Port("axes_mapping", optional=True),
    )
    evaluates_shapes: ClassVar[bool] = True
    mode: str = "numpy"

    def infer(
        self, data: Fact, target_shape: Fact, axes_mapping: Fact | None = None
    ) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        target, mode = known_dims(target_shape), self._mode()
        if mode == "explicit" and axes_mapping is None:
            raise ShapeError("an explicit Broadcast needs its axes", got="no axes_mapping")
        if mode == "explicit" and axes_mapping is not None and shape is not None:
            _check_count(count_of(axes_mapping), len(shape))
        if target is None:
            count = count_of(target_shape)
            if count is None or (mode == "bidirectional" and shape is None):
                return (TensorType(dtype, None),)
            if mode != "bidirectional" and shape is not None and len(shape) > count:
                raise ShapeError(
                    "the data has more axes than the target shape has sizes",
                    got=f"{data.type} to {count} sizes",
                )
            if mode == "bidirectional" and shape is not None:
                joined = broadcast_shapes(shape, unknown_shape(self, count)) or ()
                # A size of the result is read off the result: a symbol, not an expression.
                sizes = (d if isinstance(d, int) else fresh_symbol(self) for d in joined)
                return (TensorType(dtype, tuple(sizes)),)
            return (TensorType(dtype, unknown_shape(self, count)),)
        for size in target:
            require_at_least(0, size, "a size to broadcast to is negative")
        if mode == "bidirectional":
            return (TensorType(dtype, broadcast_shapes(shape, tuple(target))),)
        if shape is not None:
            mapping: list[int] | None = list(range(len(target) - len(shape), len(target)))
            if mode == "explicit":
                assert axes_mapping is not None
                mapping = axes_in(axes_mapping, len(target))
            if mapping is not None:
                _check_fit(shape, target, mapping)
        return (TensorType(dtype, tuple(target)),)

    def _mode(self) -> str:
        mode = self.mode.lower()
        if mode not in ("numpy", "explicit", "bidirectional"):
            raise UnsupportedOperationError(
                "Broadcast with this mode", got=mode, expected="numpy, explicit or bidirectional"
            )
        return mode

    def evaluate(
        self, data: Array, target_shape: Array, axes_mapping: Array | None = None
    ) -> tuple[Array, ...]:
        target, mode = ints_of(target_shape), self._mode()
        if mode == "bidirectional":
            target = list(joined_shape(data.shape, target))
        elif mode == "explicit":
            assert axes_mapping is not None
            mapping = unique_axes(ints_of(axes_mapping), len(target))
            _check_count(len(mapping), data.ndim)
            shape = [1] * len(target)
            for i, axis in enumerate(mapping):
                shape[axis] = data.shape[i]
            data = data.reshape(shape)
        return (np.broadcast_to(data, tuple(target)).copy(),)


def _check_count(listed: int | None, rank: int) -> None:
    if listed not in (None, rank):
        raise ShapeError("a Broadcast maps each axis of the data", got=listed, expected=rank)


def _check_fit(shape: Shape, target: Sequence[Dim], mapping: Sequence[int]) -> None:
    fits = len(mapping) == len(shape) and all(0 <= axis < len(target) for axis in mapping)
    if fits:
        fits = not any(
            eq(have, 1) is False and eq(have, target[axis]) is False
            for have, axis in zip(shape, mapping, strict=True)
        )
    if not fits:
        raise ShapeError(
            "the data does not broadcast to the target shape",
            got=f"{format_shape(shape)} to {format_shape(target)}",
            expected="each size 1 or the target's",
        )
    for have, axis in zip(shape, mapping, strict=True):
        require_broadcast(have, target[axis], "the data does not broadcast to the target shape")


class Broadcast1(_Broadcast):
    """Broadcast of operation set 1, without the bidirectional mode."""


class Broadcast(_Broadcast):
    version: ClassVar[int] = 3


class Tile(Op):
    """The data repeated along each axis; the shorter of shape and `repeats` is filled with 1."""

    kind: ClassVar[str] = "Tile"
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("repeats"))
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact, repeats: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        times, count = known_dims(repeats), count_of(repeats)
        if shape is None or count is None:
            return (TensorType(dtype, None),)
        rank = max(len(shape), count)
        for number in times or ():
            require_at_least(0, number, NEGATIVE)
        if times is None:
            return (TensorType(dtype, tuple(fresh_symbol(self) for _ in range(rank))),)
        padded = (1,) * (rank - len(shape)) + shape
        factors = [1] * (rank - count) + times
        return (TensorType(dtype, tuple(d * t for d, t in zip(padded, factors, strict=True))),)

    def evaluate(self, data: Array, repeats: Array) -> tuple[Array, ...]:
        times = ints_of(repeats)
        if any(number < 0 for number in times):
            raise ShapeError(NEGATIVE, got=times)
        return (np.tile(data, times),)
