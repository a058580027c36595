"""Values replaced by a table (ai.onnx.ml's LabelEncoder), numbers and strings alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from ...errors import ExecutionError, ShapeError
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..shape_inference import one_dtype, require_rank, tensor


class LabelEncoder(Op):
    """`values[i]` where x is `keys[i]` (NaN is equal to NaN), else the one element of `default`;
    without a default that is an error. Where a key occurs twice, its last value counts."""

    kind: ClassVar[str] = "LabelEncoder"
    version: ClassVar[int] = 0
    fresh: ClassVar[bool] = True
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
        indices = self._find(x, keys)
        if default is None:
            if (indices < 0).any():
                raise _unknown_value(x.reshape(-1).tolist()[int(indices.argmin())], keys)
            known = values
        else:
            # Index -1 is the last one.
            known = np.concatenate((values, default.reshape(-1)[:1]))
        return (known[indices.reshape(x.shape)],)

    def _find(self, x: Array, keys: Array) -> Array:
        """The index of each element of x among the keys, -1 where it is none of them."""
        table = self._table(keys)
        if x.dtype.kind not in "OUT":
            found, inverse = np.unique(x, return_inverse=True)
            indices = np.array([table.get(_key(v), -1) for v in found.tolist()], np.int64)
            return indices[np.asarray(inverse).reshape(-1)]
        texts = x.reshape(-1).tolist()
        indices = np.fromiter(map(table.get, texts, repeat(-1)), np.int64, len(texts))
        for i in np.flatnonzero(indices < 0).tolist():
            if not isinstance(texts[i], str):
                indices[i] = table.get(_key(texts[i]), -1)
        return indices

    def _table(self, keys: Array) -> dict[Any, int]:
        """The index of each key, kept from call to call as long as the keys are the same."""
        # Of strings, the addresses of objects that the kept list keeps alive.
        content = keys.dtype, keys.tobytes()
        kept = self.__dict__.get("_kept")
        if kept is None or kept[0] != content:
            listed = keys.tolist()
            kept = content, listed, {_key(key): i for i, key in enumerate(listed)}
            self.__dict__["_kept"] = kept
        return kept[2]


def _unknown_value(value: Any, keys: Array) -> ExecutionError:
    return ExecutionError(
        "a value is none of the keys, and there is no default",
        got=repr(value)[:80],
        expected=", ".join(repr(key)[:40] for key in keys.tolist()[:10]),
    )


def _key(value: Any) -> Any:
    """NaN by one name; text as str."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "\0nan" if isinstance(value, float) and value != value else value
