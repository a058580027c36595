"""Updates written into a slice: SliceScatter."""

from __future__ import annotations

from typing import ClassVar

from ...dims.constraints import require_broadcast
from ...errors import ShapeError
from ...op import Array, Fact, Op, Port
from ...slice_bounds import index_slice
from ...types import TensorType, Type
from ..shape_inference import ints_of, one_dtype, unique_axes
from .slice import Slice


class SliceScatter(Op):
    """data with `updates` in place of data[start:stop:step] on the listed axes; updates have the
    shape that Slice gives (or broadcast to it)."""

    kind: ClassVar[str] = "SliceScatter"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("updates"),
        Port("start"),
        Port("stop"),
        Port("step"),
        Port("axes", optional=True),
    )

    def infer(
        self,
        data: Fact,
        updates: Fact,
        start: Fact,
        stop: Fact,
        step: Fact,
        axes: Fact | None = None,
    ) -> tuple[Type, ...]:
        one_dtype(data, updates)
        (part,) = Slice().infer(data, start, stop, step, axes)
        assert isinstance(part, TensorType)
        have, want = updates.tensor.shape, part.shape
        if have is not None and want is not None:
            if len(have) != len(want):
                raise ShapeError(
                    "updates and the slice differ in rank", got=updates.type, expected=part
                )
            for size, wanted in zip(have, want, strict=True):
                require_broadcast(size, wanted, "updates do not fit the slice")
        return (data.tensor,)

    def evaluate(
        self,
        data: Array,
        updates: Array,
        start: Array,
        stop: Array,
        step: Array,
        axes: Array | None = None,
    ) -> tuple[Array, ...]:
        listed = list(range(start.size)) if axes is None else ints_of(axes)
        index = [slice(None)] * data.ndim
        for axis, first, last, by in zip(
            unique_axes(listed, data.ndim),
            ints_of(start),
            ints_of(stop),
            ints_of(step),
            strict=True,
        ):
            index[axis] = index_slice(first, last, by, data.shape[axis])
        out = data.copy()
        out[tuple(index)] = updates
        return (out,)
