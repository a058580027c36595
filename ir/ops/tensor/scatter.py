"""Updates written into a copy of the data: ScatterUpdate and its relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dims.constraints import require_broadcast, require_equal
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import Type, format_shape, normalize_axis
from ..accumulate import widen_array
from ..math.elementwise import INTEGERS
from ..shape_inference import int_of, known_int, one_dtype, require_dtype
from .gather import resolve_indices

_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "add": np.add,
    "sub": np.subtract,
    "prod": np.multiply,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _function(reduction: str) -> Any:
    found = _REDUCE.get(reduction.lower())
    if found is None:
        raise UnsupportedOperationError(
            "a scatter with this reduction", got=reduction, expected=", ".join(_REDUCE)
        )
    return found


def _check(data: Fact, indices: Fact, updates: Fact) -> tuple[Type, ...]:
    one_dtype(data, updates)
    require_dtype(indices, "indices", INTEGERS, "an integer type")
    return (data.tensor,)


def _write_updates(out: Array, index: Any, updates: Array, reduction: str) -> Array:
    """`out` (a copy) with updates at an index; repeated indices are reduced one after another."""
    if reduction.lower() == "none":
        out[index] = updates
        return out
    wide = widen_array(out)
    wide = wide.copy() if wide is out else wide
    function = _function(reduction)
    if wide.dtype == bool:
        function = np.logical_or if reduction.lower() in ("sum", "add", "max") else np.logical_and
    with np.errstate(all="ignore"):
        function.at(wide, index, np.broadcast_to(widen_array(updates), wide[index].shape))
    return wide.astype(out.dtype)


class ScatterUpdate(Op):
    """data with updates [.., indices.., ..] at positions `indices` of an axis."""

    kind: ClassVar[str] = "ScatterUpdate"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("data", "indices", "updates", "axis")))
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact, indices: Fact, updates: Fact, axis: Fact) -> tuple[Type, ...]:
        shape, index, along = data.tensor.shape, indices.tensor.shape, known_int(axis)
        if shape is not None and index is not None and along is not None:
            at = normalize_axis(along, len(shape))
            _check_updates((*shape[:at], *index, *shape[at + 1 :]), updates)
        return _check(data, indices, updates)

    def evaluate(
        self, data: Array, indices: Array, updates: Array, axis: Array
    ) -> tuple[Array, ...]:
        at = normalize_axis(int_of(axis), data.ndim)
        picks, _ = resolve_indices(indices, data.shape[at], "error")
        out = data.astype(np.result_type(data, updates), copy=True)
        out[(*[slice(None)] * at, picks)] = updates
        return (out,)


class ScatterElementsUpdate3(Op):
    """out[indices[i, j], j] = updates[i, j], with the index on `axis`."""

    kind: ClassVar[str] = "ScatterElementsUpdate"
    version: ClassVar[int] = 3
    scratch_width: ClassVar[int] = 64
    inputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("data", "indices", "updates", "axis")))

    def _reduction(self) -> tuple[str, bool]:
        return "none", True

    def infer(self, data: Fact, indices: Fact, updates: Fact, axis: Fact) -> tuple[Type, ...]:
        if self._reduction()[0].lower() not in ("none", "mean"):
            _function(self._reduction()[0])
        ranks = [f.tensor.rank for f in (data, indices, updates) if f.tensor.rank is not None]
        if len(set(ranks)) > 1:
            raise ShapeError("data, indices and updates must have one rank", got=ranks)
        if (along := known_int(axis)) is not None and ranks:
            normalize_axis(along, ranks[0])
        index, have = indices.tensor.shape, updates.tensor.shape
        for size, want in zip(have or (), index or (), strict=False):
            require_equal(size, want, "the updates do not have the shape of the indices")
        return _check(data, indices, updates)

    def evaluate(
        self, data: Array, indices: Array, updates: Array, axis: Array
    ) -> tuple[Array, ...]:
        if updates.shape != indices.shape:
            raise ShapeError(
                "the updates do not have the shape of the indices",
                got=list(updates.shape),
                expected=list(indices.shape),
            )
        at = normalize_axis(int_of(axis), data.ndim)
        picks, _ = resolve_indices(indices, data.shape[at], "error")
        grid: list[Any] = list(np.indices(indices.shape, sparse=True))
        grid[at] = picks
        index = tuple(grid)
        reduction, with_data = self._reduction()
        if reduction.lower() == "none":
            return (_write_updates(data.copy(), index, updates, "none"),)
        hit = np.zeros(data.shape, np.int64)
        np.add.at(hit, index, 1)
        start = data if with_data else np.where(hit > 0, _neutral_element(reduction, data), data)
        if reduction.lower() != "mean":
            return (_write_updates(start.copy(), index, updates, reduction),)
        exact = np.float64 if data.dtype.kind != "i" and data.dtype.kind != "u" else data.dtype
        total = _write_updates(start.astype(exact), index, updates.astype(exact), "sum")
        count = np.maximum(hit + int(with_data), 1)
        mean = total / count if exact is np.float64 else np.floor_divide(total, count)
        wide = np.where(hit > 0, mean, data.astype(exact))
        return (cast_array(wide, DType.from_numpy(data.dtype)),)


def _neutral_element(reduction: str, data: Array) -> Any:
    kind, dtype = reduction.lower(), DType.from_numpy(data.dtype)
    if kind in ("sum", "mean", "prod"):
        return np.array(int(kind == "prod")).astype(data.dtype)
    if dtype is DType.boolean:
        return np.array(kind == "min")
    if dtype.is_float:
        return np.array(-np.inf if kind == "max" else np.inf).astype(data.dtype)
    return np.array(dtype.min if kind == "max" else dtype.max).astype(data.dtype)


@dataclass(frozen=True)
class ScatterElementsUpdate(ScatterElementsUpdate3):
    """As in set 3, with a reduction (none, sum, prod, min, max, mean) of updates at one index;
    `use_init_val`: the data takes part in it."""

    version: ClassVar[int] = 12
    reduction: str = "none"
    use_init_val: bool = True

    def _reduction(self) -> tuple[str, bool]:
        return self.reduction, self.use_init_val


class ScatterNDUpdate4(Op):
    """The last axis of `indices` is a position in data's leading axes, where updates go."""

    kind: ClassVar[str] = "ScatterNDUpdate"
    version: ClassVar[int] = 4
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("data", "indices", "updates")))

    def _reduction(self) -> str:
        return "none"

    def infer(self, data: Fact, indices: Fact, updates: Fact) -> tuple[Type, ...]:
        if self._reduction().lower() != "none":
            _function(self._reduction())
        shape, index = data.tensor.shape, indices.tensor.shape
        if shape is not None and index and isinstance(index[-1], int) and index[-1] > len(shape):
            raise ShapeError(
                "the indices reach beyond the data's axes", got=f"{index[-1]} of {data.type}"
            )
        if shape is not None and index and isinstance(index[-1], int):
            _check_updates((*index[:-1], *shape[index[-1] :]), updates)
        return _check(data, indices, updates)

    def evaluate(self, data: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
        depth = indices.shape[-1]
        index = tuple(
            resolve_indices(indices[..., i], data.shape[i], "error")[0] for i in range(depth)
        )
        return (_write_updates(data.copy(), index, updates, self._reduction()),)


@dataclass(frozen=True)
class ScatterNDUpdate(ScatterNDUpdate4):
    """As in set 4, with a reduction (none, sum, sub, prod, min, max)."""

    version: ClassVar[int] = 15
    reduction: str = "none"

    def _reduction(self) -> str:
        return self.reduction


def _check_updates(wanted: Sequence[Dim], updates: Fact) -> None:
    """Refuse updates that are not what is written: one part of the data per index."""
    have, what = updates.tensor.shape, "the updates do not fit the indices"
    if have is None:
        return
    if len(have) > len(wanted):
        raise ShapeError(what, got=updates.type, expected=format_shape(wanted))
    for size, want in zip(reversed(have), reversed(wanted), strict=False):
        require_broadcast(size, want, what)
