"""SegmentMax, and SparseFillEmptyRows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import charge_array, charge_bytes
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import INTEGERS, NUMBERS
from ..shape_inference import (
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)


@dataclass(frozen=True)
class SegmentMax(Op):
    """The largest values of the rows of each segment; segment_ids [rows] do not fall.

    Rows of segments from `num_segments` on do not count. An empty segment has zeros (fill_mode
    zero) or the type's smallest number (lowest).
    """

    kind: ClassVar[str] = "SegmentMax"
    version: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("segment_ids"),
        Port("num_segments", optional=True),
    )
    data_dependent: ClassVar[bool] = True
    fill_mode: str

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        segments = inputs[1]
        return 40 * (0 if segments is None else segments.elements)

    def infer(
        self, data: Fact, segment_ids: Fact, num_segments: Fact | None = None
    ) -> tuple[Type, ...]:
        require_dtype(data, "data", NUMBERS, "a numeric type")
        require_rank(segment_ids, "segment_ids", 1)
        require_dtype(segment_ids, "segment_ids", INTEGERS, "an integer type")
        shape = data.tensor.shape
        if shape is not None and not shape:
            raise ShapeError("data has no rows", got=data.type, expected="rank 1 or more")
        if shape is not None and segment_ids.tensor.shape is not None:
            same_size(segment_ids.tensor.shape[0], shape[0], "segment_ids has one number per row")
        count: Dim | None = None
        if num_segments is not None:
            require_dtype(num_segments, "num_segments", INTEGERS, "an integer type")
            require_single(num_segments, "num_segments")
            known = known_dims(num_segments)
            count = known[0] if known else None
        count = fresh_symbol(self) if count is None else count
        return (TensorType(data.tensor.dtype, None if shape is None else (count, *shape[1:])),)

    def evaluate(
        self, data: Array, segment_ids: Array, num_segments: Array | None = None
    ) -> tuple[Array, ...]:
        segments = segment_ids.astype(np.int64)
        if segments.size and (segments[0] < 0 or np.any(np.diff(segments) < 0)):
            raise ShapeError(
                "segment_ids fall, or are negative",
                got=segments[:20].tolist(),
                expected="numbers that do not fall, from 0 on",
            )
        last = int(segments[-1]) + 1 if segments.size else 0
        count = last if num_segments is None else int_of(num_segments)
        if count < 0:
            raise ShapeError("num_segments is negative", got=count)
        # The largest values of the segments that have rows, and an output of unknown size.
        found = min(count, len(data)) + (count if num_segments is None else 0)
        charge_array((found, *data.shape[1:]), data.dtype)
        least = 0 if self.fill_mode.lower() == "zero" else DType.from_numpy(data.dtype).min
        out = np.full((count, *data.shape[1:]), least, data.dtype)
        rows = int(np.searchsorted(segments, count))
        if rows:
            starts = np.flatnonzero(np.diff(segments[:rows], prepend=-1))
            out[segments[starts]] = np.maximum.reduceat(data[:rows], starts, axis=0)
        return (out,)


class SparseFillEmptyRows(Op):
    """A sparse matrix with the default value in column 0 of each row that has none.

    values [n], dense_shape [2], indices [n, 2], default_value. Outputs: indices and values in the
    order of rows and columns, and which rows were empty [rows].
    """

    kind: ClassVar[str] = "SparseFillEmptyRows"
    version: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("values"),
        Port("dense_shape"),
        Port("indices"),
        Port("default_value"),
    )
    outputs: ClassVar[tuple[Port, ...]] = (
        Port("output_indices"),
        Port("output_values"),
        Port("empty_row_indicator"),
    )
    data_dependent: ClassVar[bool] = True

    def infer(
        self, values: Fact, dense_shape: Fact, indices: Fact, default_value: Fact
    ) -> tuple[Type, ...]:
        dtype, number = one_dtype(values, default_value), one_dtype(dense_shape, indices)
        for name, fact in (("dense_shape", dense_shape), ("indices", indices)):
            require_dtype(fact, name, INTEGERS, "an integer type")
        require_rank(values, "values", 1)
        require_rank(dense_shape, "dense_shape", 1)
        require_rank(indices, "indices", 2)
        require_single(default_value, "default_value")
        have, want = values.tensor.shape, indices.tensor.shape
        if dense_shape.tensor.shape is not None:
            same_size(dense_shape.tensor.shape[0], 2, "dense_shape has two numbers")
        if want is not None:
            same_size(want[1], 2, "an index has a row and a column")
            if have is not None:
                same_size(have[0], want[0], "values and indices differ in length")
        known = known_dims(dense_shape)
        rows: Dim = known[0] if known and len(known) == 2 else fresh_symbol(self)
        count = fresh_symbol(self)
        return (
            TensorType(number, (count, 2)),
            TensorType(dtype, (count,)),
            TensorType(DType.boolean, (rows,)),
        )

    def evaluate(
        self, values: Array, dense_shape: Array, indices: Array, default_value: Array
    ) -> tuple[Array, ...]:
        rows = ints_of(dense_shape)[0]
        if rows < 0 or (indices.size and (indices[:, 0].min() < 0 or indices[:, 0].max() >= rows)):
            raise ShapeError(
                "an index is not in the dense shape",
                got=f"{indices.reshape(-1)[:20].tolist()} in {dense_shape.tolist()}",
            )
        charge_array((rows,), np.dtype(np.bool_))
        empty = np.ones(rows, bool)
        empty[indices[:, 0].astype(np.int64)] = False
        # Indices in the order of the input and of the output, rows, columns and their order.
        count, item = int(np.count_nonzero(empty)), indices.itemsize
        total = len(values) + count
        charge_array((total,), np.dtype(np.int64), copies=3)
        charge_bytes(count * (16 + 2 * item + values.itemsize), f"{count} empty rows")
        charge_bytes(total * (5 * item + 2 * values.itemsize), f"{total} values")
        added = np.flatnonzero(empty)
        fresh = np.stack([added, np.zeros_like(added)], axis=1).astype(indices.dtype)
        coordinates = np.concatenate([indices, fresh])
        fill = np.full(len(added), default_value.reshape(-1)[0], values.dtype)
        order = np.lexsort((coordinates[:, 1], coordinates[:, 0]))
        return coordinates[order], np.concatenate([values, fill])[order], empty
