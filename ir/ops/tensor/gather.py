"""Elements picked by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...errors import ExecutionError, ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, normalize_axis
from ..math.elementwise import INTEGERS
from ..shape_inference import int_of, known_int, require_dtype, same_size, unknown_shape


class _GatherOp(Op):
    """Base. out[b..., o..., i..., e...] = data[b..., o..., indices[b..., i...], e...]."""

    kind: ClassVar[str] = "Gather"
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("indices"), Port("axis"))
    evaluates_shapes: ClassVar[bool] = True

    def _batch_dims(self) -> int:
        return 0

    def _out_of_range(self) -> str:
        return "zeros"

    def infer(self, data: Fact, indices: Fact, axis: Fact) -> tuple[Type, ...]:
        require_dtype(indices, "indices", INTEGERS, "an integer type")
        require_dtype(axis, "axis", INTEGERS, "an integer type")
        shape, index, dtype = data.tensor.shape, indices.tensor.shape, data.tensor.dtype
        if shape is None or index is None:
            return (TensorType(dtype, None),)
        if not shape:
            raise ShapeError("a scalar has nothing to gather from", got=data.type)
        batch = normalize_axis(self._batch_dims(), len(index) + 1)
        where = known_int(axis)
        if where is None:
            rank = len(shape) + len(index) - 1 - batch
            return (TensorType(dtype, unknown_shape(self, rank)),)
        at = normalize_axis(where, len(shape))
        if batch > at:
            raise ShapeError("batch_dims lies beyond the axis", got=batch, expected=f"<= {at}")
        what = "data and indices must agree on the batch axes"
        shared = [same_size(shape[i], index[i], what) for i in range(batch)]
        out = (*shared, *shape[batch:at], *index[batch:], *shape[at + 1 :])
        return (TensorType(dtype, out),)

    def evaluate(self, data: Array, indices: Array, axis: Array) -> tuple[Array, ...]:
        at = normalize_axis(int_of(axis), data.ndim)
        batch = normalize_axis(self._batch_dims(), indices.ndim + 1)
        picks, good = resolve_indices(indices, data.shape[at], self._out_of_range())
        if batch == 0:
            out = _take_along(data, picks, at)
        else:
            lead = data.shape[:batch]
            count = int(np.prod(lead, dtype=np.int64))
            rows = data.reshape(count, *data.shape[batch:])
            lists = picks.reshape(count, *picks.shape[batch:])
            parts = [_take_along(rows[i], lists[i], at - batch) for i in range(count)]
            inner = (*data.shape[batch:at], *indices.shape[batch:], *data.shape[at + 1 :])
            out = np.stack(parts) if parts else np.empty((0, *inner), data.dtype)
            out = out.reshape(*lead, *inner)
        if good is not None:
            before, after = (1,) * (at - batch), (1,) * (data.ndim - at - 1)
            in_range = good.reshape((*good.shape[:batch], *before, *good.shape[batch:], *after))
            missing = np.array("", object) if data.dtype == object else np.zeros((), data.dtype)
            out = np.where(in_range, out, missing)
        return (out,)


def _take_along(data: Array, picks: Array, axis: int) -> Array:
    """np.take that also takes from an empty axis (every index is then out of range)."""
    if data.shape[axis] == 0 and picks.size:
        shape = (*data.shape[:axis], *picks.shape, *data.shape[axis + 1 :])
        return np.zeros(shape, data.dtype)
    return np.asarray(np.take(data, picks, axis=axis))


def resolve_indices(indices: Array, size: int, out_of_range: str) -> tuple[Array, Array | None]:
    """Indices counted from 0, and which of them are in range (None: all are).

    ExecutionError for an index out of range where that is an error.
    """
    wide = indices.astype(np.int64)
    picks = np.where(wide < 0, wide + size, wide)
    good = (picks >= 0) & (picks < size)
    if bool(good.all()):
        return picks, None
    if out_of_range == "error":
        at = int(np.flatnonzero(~good)[0])
        raise ExecutionError(
            "an index lies outside the axis it picks from",
            got=f"{int(wide.reshape(-1)[at])} (element {at} of the indices)",
            expected=f"{-size}..{size - 1}",
        )
    return np.where(good, picks, 0), good


class Gather1(_GatherOp):
    """Gather of operation set 1."""


@dataclass(frozen=True)
class Gather7(_GatherOp):
    """Gather of operation set 7: with batch axes."""

    version: ClassVar[int] = 7
    batch_dims: int = 0

    def _batch_dims(self) -> int:
        return self.batch_dims


@dataclass(frozen=True)
class Gather(_GatherOp):
    """Negative indices count from the end. `out_of_range`: "zeros" gives 0, "error" raises; IR
    has no such attribute, its meaning is "zeros"."""

    version: ClassVar[int] = 8
    batch_dims: int = 0
    out_of_range: str = "zeros"

    def _batch_dims(self) -> int:
        return self.batch_dims

    def _out_of_range(self) -> str:
        return self.out_of_range


@dataclass(frozen=True)
class GatherElements(Op):
    """out[i, j, ...] = data[indices[i, j, ...], j, ...], with the index on `axis`."""

    kind: ClassVar[str] = "GatherElements"
    version: ClassVar[int] = 6
    scratch_width: ClassVar[int] = 24
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("indices"))
    axis: int

    def infer(self, data: Fact, indices: Fact) -> tuple[Type, ...]:
        require_dtype(indices, "indices", INTEGERS, "an integer type")
        shape, index = data.tensor.shape, indices.tensor.shape
        if shape is not None and index is not None:
            if len(shape) != len(index):
                raise ShapeError(
                    "data and indices must have one rank", got=f"{data.type} and {indices.type}"
                )
            normalize_axis(self.axis, len(shape))
        return (TensorType(data.tensor.dtype, index),)

    def evaluate(self, data: Array, indices: Array) -> tuple[Array, ...]:
        at = normalize_axis(self.axis, data.ndim)
        picks, _ = resolve_indices(indices, data.shape[at], "error")
        grid: list[Any] = list(np.indices(indices.shape, sparse=True))
        grid[at] = picks
        return (data[tuple(grid)],)


@dataclass(frozen=True)
class _GatherND(Op):
    """Base. The last axis of the indices holds a position in the axes after the batch axes."""

    kind: ClassVar[str] = "GatherND"
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("indices"))
    # Operation set 5 joins the batch axes of the output into one.
    joins_batch: ClassVar[bool] = False
    batch_dims: int = 0

    def infer(self, data: Fact, indices: Fact) -> tuple[Type, ...]:
        require_dtype(indices, "indices", INTEGERS, "an integer type")
        shape, index, dtype = data.tensor.shape, indices.tensor.shape, data.tensor.dtype
        if index == ():
            raise ShapeError("indices have no axis", got=indices.type, expected="rank 1 or more")
        if shape is None or index is None or not isinstance(index[-1], int):
            return (TensorType(dtype, None),)
        batch, depth = self.batch_dims, index[-1]
        if batch + depth > len(shape) or not 0 <= batch < len(index):
            raise ShapeError(
                "the indices reach beyond the data's axes",
                got=f"{depth} after {batch} batch axes of {data.type}",
            )
        what = "data and indices must agree on the batch axes"
        shared = [same_size(shape[i], index[i], what) for i in range(batch)]
        if self.joins_batch and batch > 1:
            joined: Dim = 1
            for d in shared:
                joined = joined * d
            shared = [joined]
        return (TensorType(dtype, (*shared, *index[batch:-1], *shape[batch + depth :])),)

    def evaluate(self, data: Array, indices: Array) -> tuple[Array, ...]:
        batch, depth = self.batch_dims, indices.shape[-1]
        lead, inner = data.shape[:batch], data.shape[batch + depth :]
        axes = [
            resolve_indices(indices[..., i], data.shape[batch + i], "error")[0]
            for i in range(depth)
        ]
        middle = indices.shape[batch:-1]
        grid: list[Any] = []
        for i, d in enumerate(lead):
            after = batch - 1 - i + len(middle)
            grid.append(np.arange(d, dtype=np.int64).reshape(*[1] * i, d, *[1] * after))
        out = np.broadcast_to(data[(*grid, *axes)], (*lead, *middle, *inner))
        if self.joins_batch and batch > 1:
            out = out.reshape(-1, *middle, *inner)
        return (np.array(out),)


class GatherND5(_GatherND):
    version: ClassVar[int] = 5
    joins_batch: ClassVar[bool] = True


class GatherND(_GatherND):
    version: ClassVar[int] = 8
