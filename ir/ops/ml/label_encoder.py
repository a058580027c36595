"""Values replaced by a table (ai.onnx.ml's LabelEncoder), numbers and strings alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import ExecutionError, ShapeError
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..shape_inference import one_dtype, require_rank, tensor


@dataclass(frozen=True)
class LabelEncoder(Op):
    """`values[i]` where x is `keys[i]` (NaN is equal to NaN), else the one element of `default`;
    without a default that is an error. Where a key occurs twice, its last value counts."""

    kind: ClassVar[str] = "LabelEncoder"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("keys"),
        Port("values"),
        Port("default", optional=True),
    )

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # Sorted copies, indices and Python's numbers of x; a table of the keys.
        x, keys = (0 if t is None else t.elements for t in inputs[:2])
        return 96 * x + 160 * keys

    def infer(
        self, x: Fact, keys: Fact, values: Fact, default: Fact | None = None
    ) -> tuple[Type, ...]:
        one_dtype(x, keys)
        require_rank(keys, "keys", 1)
        require_rank(values, "values", 1)
        sizes = keys.tensor.shape, values.tensor.shape
        if sizes[0] is not None and sizes[1] is not None and sizes[0] != sizes[1]:
            raise ShapeError("keys and values differ in number", got=f"{sizes[0]} and {sizes[1]}")
        return (tensor(one_dtype(values, default), x.tensor.shape),)

    def evaluate(
        self, x: Array, keys: Array, values: Array, default: Array | None = None
    ) -> tuple[Array, ...]:
        table: dict[Any, int] = {_key(key): i for i, key in enumerate(keys.tolist())}
        distinct, inverse = _unique(x)
        indices = np.array([table.get(_key(v), -1) for v in distinct], dtype=np.int64)
        if default is None and (indices < 0).any():
            raise ExecutionError(
                "a value is none of the keys, and there is no default",
                got=repr(distinct[int(indices.argmin())])[:80],
                expected=", ".join(repr(key)[:40] for key in keys.tolist()[:10]),
            )
        known = values if default is None else np.append(values, default.reshape(-1)[:1])
        return (known[np.where(indices < 0, len(values), indices)[inverse].reshape(x.shape)],)


def _unique(x: Array) -> tuple[list[Any], Array]:
    """The distinct elements, and the index of each element among them."""
    if x.dtype != object:
        found, inverse = np.unique(x, return_inverse=True)
        return found.tolist(), np.asarray(inverse).reshape(-1)
    numbers: dict[Any, int] = {}
    inverse = [numbers.setdefault(_key(v), len(numbers)) for v in x.reshape(-1).tolist()]
    return list(numbers), np.array(inverse, dtype=np.int64)


def _key(value: Any) -> Any:
    """NaN by one name; text as str."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "\0nan" if isinstance(value, float) and value != value else value
