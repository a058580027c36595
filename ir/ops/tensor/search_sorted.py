"""Indices of values in sorted sequences: SearchSorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import widen_array, widened_bytes
from ..math.elementwise import NUMBERS
from ..shape_inference import one_dtype, require_dtype, require_index_type, same_size


@dataclass(frozen=True)
class SearchSorted(Op):
    """Insertion points of values in their sorted rows: before equal elements, or behind them
    where `right_mode`. sorted [..., n], values [..., m] of the same leading axes; or sorted [n]."""

    kind: ClassVar[str] = "SearchSorted"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("sorted"), Port("values"))
    right_mode: bool = False
    output_type: DType = DType.i64

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return 8 * outputs[0].elements + widened_bytes(*inputs)

    def infer(self, sorted: Fact, values: Fact) -> tuple[Type, ...]:
        one_dtype(sorted, values)
        require_dtype(sorted, "sorted", NUMBERS, "a numeric type")
        require_index_type(self.output_type)
        have, want = sorted.tensor.shape, values.tensor.shape
        if have is not None and not have:
            raise ShapeError("a sorted sequence has no axis", got=sorted.type)
        if have is not None and want is not None and len(have) > 1:
            if len(have) != len(want):
                raise ShapeError(
                    "sorted and values differ in rank", got=f"{sorted.type} and {values.type}"
                )
            for a, b in zip(have[:-1], want[:-1], strict=True):
                same_size(a, b, "sorted and values differ in a leading axis")
        return (TensorType(self.output_type, want),)

    def evaluate(self, sorted: Array, values: Array) -> tuple[Array, ...]:
        rows, wanted = widen_array(sorted), widen_array(values)
        side = "right" if self.right_mode else "left"
        if rows.ndim == 1:
            found: Array = np.asarray(np.searchsorted(rows, wanted, side))
        else:
            found = np.zeros(values.shape, np.int64)
            flat = found.reshape(-1, values.shape[-1])
            pairs = zip(
                rows.reshape(-1, rows.shape[-1]),
                wanted.reshape(-1, values.shape[-1]),
                strict=True,
            )
            for n, (row, of) in enumerate(pairs):
                flat[n] = np.searchsorted(row, of, side)
        return (found.astype(self.output_type.numpy, copy=False),)
