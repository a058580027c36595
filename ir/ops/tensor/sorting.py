"""TopK, NonZero, OneHot, CumSum, and other operations that rank, count or mark elements."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, minimum
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import charge_array
from ...op import Array, Fact, Op, Port, attr
from ...scalar.blocks import BLOCK_ELEMENTS
from ...scalar.builder import cast_array
from ...types import TensorType, Type, normalize_axis
from ..accumulate import widen_array
from ..math.elementwise import INTEGERS, NUMBERS
from ..shape_inference import (
    fresh_symbol,
    int_of,
    known_dims,
    known_int,
    one_dtype,
    require_dtype,
    require_index_type,
    require_rank,
    require_single,
)


@dataclass(frozen=True)
class TopK1(Op):
    """The k largest (mode max) or smallest elements along an axis, and their positions.

    sort: value (best first), index (by position), none. Among equal elements the first comes
    first. NaN ranks above every number.
    """

    kind: ClassVar[str] = "TopK"
    scratch_width: ClassVar[int] = 20
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("k"))
    outputs: ClassVar[tuple[Port, ...]] = (Port("values"), Port("indices"))
    axis: int = attr()
    mode: str = attr()
    sort: str = attr()
    index_element_type: DType = DType.i32

    def infer(self, data: Fact, k: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", NUMBERS, "a numeric type")
        require_dtype(k, "k", INTEGERS, "an integer type")
        require_single(k, "k")
        if self.index_element_type not in (DType.i32, DType.i64):
            raise ShapeError(
                "positions are integers", got=self.index_element_type, expected="i32 or i64"
            )
        shape, dtype = data.tensor.shape, data.tensor.dtype
        out: tuple[Dim, ...] | None = None
        if shape is not None:
            at = normalize_axis(self.axis, len(shape))
            wanted = known_dims(k)
            count = fresh_symbol(self) if wanted is None else minimum(wanted[0], shape[at])
            out = (*shape[:at], count, *shape[at + 1 :])
        return TensorType(dtype, out), TensorType(self.index_element_type, out)

    def evaluate(self, data: Array, k: Array) -> tuple[Array, ...]:
        at = normalize_axis(self.axis, data.ndim)
        count = min(int_of(k), data.shape[at])
        order = rank_positions(data, at, largest=self.mode.lower() == "max")
        picks = np.take(order, np.arange(count), axis=at)
        if self.sort.lower() == "index":
            picks = np.sort(picks, axis=at)
        values = np.take_along_axis(data, picks, axis=at)
        return values, picks.astype(self.index_element_type.numpy)


def rank_positions(data: Array, axis: int, *, largest: bool) -> Array:
    """Positions along an axis from best to worst, equal elements in their own order."""
    wide = widen_array(data)
    if not largest:
        return np.argsort(wide, axis=axis, kind="stable")
    # The reverse of a stable ascending order of the reversed axis keeps equal elements in order.
    turned = np.argsort(np.flip(wide, axis), axis=axis, kind="stable")
    return np.flip(data.shape[axis] - 1 - turned, axis)


class TopK3(TopK1):
    """TopK of operation set 3."""

    version: ClassVar[int] = 3


@dataclass(frozen=True)
class TopK(TopK1):
    """As before; equal elements are always in their own order, which is what `stable` means."""

    version: ClassVar[int] = 11
    stable: bool = False


@dataclass(frozen=True)
class NonZero(Op):
    """Positions of elements other than 0, one column each: [rank, count]."""

    kind: ClassVar[str] = "NonZero"
    version: ClassVar[int] = 3
    scratch_width: ClassVar[int] = 4
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    data_dependent: ClassVar[bool] = True
    output_type: DType = DType.i64

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape = data.tensor.shape
        rank = fresh_symbol(self) if shape is None else len(shape)
        count = data.tensor.element_count
        top = count if isinstance(count, int) else None
        return (TensorType(self.output_type, (rank, fresh_symbol(self, 0, top))),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        if data.ndim == 0:
            return (np.zeros((0, int(bool(data != 0))), self.output_type.numpy),)
        count = int(np.count_nonzero(data))
        # The positions are made an axis at a time, then joined, then converted.
        copies = 2 if self.output_type is DType.i64 else 3
        charge_array((data.ndim, count), np.dtype(np.int64), copies)
        found = np.nonzero(widen_array(data))
        return (np.stack(found).astype(self.output_type.numpy, copy=False),)


@dataclass(frozen=True)
class OneHot1(Op):
    """A new axis of size `depth` with on_value at the index and off_value elsewhere; indices out
    of range mark nothing."""

    kind: ClassVar[str] = "OneHot"
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("indices", "depth", "on_value", "off_value"))
    )
    axis: int = -1

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        indices = inputs[0]
        return outputs[0].elements + (0 if indices is None else 24 * indices.elements)

    def _counts_back(self) -> bool:
        return False

    def infer(
        self, indices: Fact, depth: Fact, on_value: Fact, off_value: Fact
    ) -> tuple[Type, ...]:
        require_dtype(indices, "indices", INTEGERS, "an integer type")
        dtype, shape = one_dtype(on_value, off_value), indices.tensor.shape
        for name, fact in (("depth", depth), ("on_value", on_value), ("off_value", off_value)):
            require_single(fact, name)
        if shape is None:
            return (TensorType(dtype, None),)
        at = normalize_axis(self.axis, len(shape) + 1)
        wanted = known_dims(depth)
        size = fresh_symbol(self) if wanted is None else wanted[0]
        if isinstance(size, int) and size < 0:
            raise ShapeError("depth is 0 or more", got=size)
        return (TensorType(dtype, (*shape[:at], size, *shape[at:])),)

    def evaluate(
        self, indices: Array, depth: Array, on_value: Array, off_value: Array
    ) -> tuple[Array, ...]:
        at, size = normalize_axis(self.axis, indices.ndim + 1), int_of(depth)
        if size < 0:
            raise ShapeError("depth is 0 or more", got=size)
        wide = np.expand_dims(indices.astype(np.int64), at)
        wide = np.where(wide < 0, wide + size, wide) if self._counts_back() else wide
        positions = np.arange(size).reshape([-1 if i == at else 1 for i in range(wide.ndim)])
        return (np.where(wide == positions, on_value.reshape(()), off_value.reshape(())),)


@dataclass(frozen=True)
class OneHot(OneHot1):
    """As before; negative_indices_mode: ignore_negative, or normalize (they count from the end)."""

    version: ClassVar[int] = 16
    negative_indices_mode: str = "ignore_negative"

    def _counts_back(self) -> bool:
        return self.negative_indices_mode.lower() == "normalize"


@dataclass(frozen=True)
class CumSum(Op):
    """Sums of all elements up to each one; `exclusive` leaves the element itself out, `reverse`
    sums from the end."""

    kind: ClassVar[str] = "CumSum"
    version: ClassVar[int] = 3
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axis", optional=True))
    exclusive: bool = False
    reverse: bool = False

    def infer(self, data: Fact, axis: Fact | None = None) -> tuple[Type, ...]:
        require_dtype(data, "data", NUMBERS, "a numeric type")
        where = known_int(axis) if axis is not None else 0
        if where is not None and data.tensor.shape is not None:
            normalize_axis(where, len(data.tensor.shape))
        return (data.tensor,)

    def evaluate(self, data: Array, axis: Array | None = None) -> tuple[Array, ...]:
        return (_accumulate(self, np.add, data, 0 if axis is None else int_of(axis)),)


class CumProd(CumSum):
    """As CumSum, with products (dialect; ONNX CumProd 26)."""

    kind: ClassVar[str] = "CumProd"
    version: ClassVar[int] = 0

    def evaluate(self, data: Array, axis: Array | None = None) -> tuple[Array, ...]:
        return (_accumulate(self, np.multiply, data, 0 if axis is None else int_of(axis)),)


def _accumulate(op: CumSum, function: np.ufunc, data: Array, axis: int) -> Array:
    wide = np.float64 if data.dtype.kind not in "iu" else data.dtype
    x = np.flip(data, axis) if op.reverse else data
    total: Any = function.accumulate(widen_array(x).astype(wide), axis=axis, dtype=wide)
    if op.exclusive:
        total = np.roll(total, 1, axis)
        total[(*[slice(None)] * (axis % data.ndim), slice(0, 1))] = function.identity
    total = np.flip(total, axis) if op.reverse else total
    return np.ascontiguousarray(cast_array(total, DType.from_numpy(data.dtype))).reshape(data.shape)


@dataclass(frozen=True)
class Bucketize(Op):
    """The bucket of each element among ascending boundaries."""

    kind: ClassVar[str] = "Bucketize"
    version: ClassVar[int] = 3
    scratch_width: ClassVar[int] = 12
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("buckets"))
    output_type: DType = DType.i64
    with_right_bound: bool = True

    def infer(self, data: Fact, buckets: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", NUMBERS, "a numeric type")
        require_rank(buckets, "buckets", 1)
        require_index_type(self.output_type)
        return (TensorType(self.output_type, data.tensor.shape),)

    def evaluate(self, data: Array, buckets: Array) -> tuple[Array, ...]:
        side = "left" if self.with_right_bound else "right"
        found = np.searchsorted(widen_array(buckets), widen_array(data), side)
        return (np.asarray(found).astype(self.output_type.numpy),)


def _unique_strings(texts: Array) -> tuple[Array, Array, Array, Array]:
    """np.unique of strings, sorted in pieces: Python sees no signal while NumPy compares them."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts.tolist()], np.int64)
    known = list(numbers)
    pieces = range(0, len(known), BLOCK_ELEMENTS)
    ordered = list(merge(*(sorted(known[n : n + BLOCK_ELEMENTS]) for n in pieces)))
    order = np.array([numbers[text] for text in ordered], np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    first, counts = np.unique(codes, return_index=True, return_counts=True)[1:]
    return np.array(ordered, object), first[order], rank[codes], counts[order]


@dataclass(frozen=True)
class Unique(Op):
    """Distinct elements (or slices along `axis`), where each first occurs, which of them each
    element is, and how often it occurs. Unsorted: in order of first occurrence."""

    kind: ClassVar[str] = "Unique"
    version: ClassVar[int] = 10
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axis", optional=True))
    outputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("values", "first", "inverse", "counts")))
    data_dependent: ClassVar[bool] = True
    sorted: bool = True
    index_element_type: DType = DType.i64
    count_element_type: DType = DType.i64

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # The outputs are of unknown size: per element, or per slice of a sorted copy.
        data, along = inputs[0], len(inputs) > 1 and inputs[1] is not None
        return 0 if data is None else (24 if along else 104) * data.elements

    def infer(self, data: Fact, axis: Fact | None = None) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        count = fresh_symbol(self)
        where = None if axis is None else known_int(axis)
        total = data.tensor.element_count
        values: tuple[Dim, ...] | None = (count,)
        if axis is not None:
            values, total = None, None
            if shape is not None and where is not None:
                at = normalize_axis(where, len(shape))
                values, total = (*shape[:at], count, *shape[at + 1 :]), shape[at]
        length = fresh_symbol(self) if total is None else total
        return (
            TensorType(dtype, values),
            TensorType(self.index_element_type, (count,)),
            TensorType(self.index_element_type, (length,)),
            TensorType(self.count_element_type, (count,)),
        )

    def evaluate(self, data: Array, axis: Array | None = None) -> tuple[Array, ...]:
        at = None if axis is None else normalize_axis(int_of(axis), data.ndim)
        rows = data.reshape(-1) if at is None else data
        if rows.dtype == object:
            found: Any = _unique_strings(rows)
        else:
            found = np.unique(
                widen_array(rows),
                return_index=True,
                return_inverse=True,
                return_counts=True,
                axis=at,
            )
        _, first, inverse, counts = found
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first, kind="stable")
            rank = np.empty_like(order)
            rank[order] = np.arange(order.size)
            first, counts, inverse = first[order], counts[order], rank[inverse]
        values = np.take(rows, first, axis=0 if at is None else at)
        index = self.index_element_type.numpy
        return (
            values,
            first.astype(index),
            inverse.astype(index),
            counts.astype(self.count_element_type.numpy),
        )
