"""What the inference of many operations shares: fresh symbols, known values, axes, types."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TypeAlias

import numpy as np

from ..dims import Dim, Expr, symbol
from ..dims.constraints import require_equal
from ..dtype import DType
from ..errors import ShapeError
from ..op import Array, Fact, Op
from ..types import MAX_RANK, TensorType, normalize_axis

Shape: TypeAlias = tuple[Dim, ...]


class _Scope:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.numbers = prefix, itertools.count()


_scope: ContextVar[_Scope | None] = ContextVar("scope", default=None)
_everywhere = _Scope("_")


class naming:
    """Symbols made inside are `_<prefix>_0`, `_<prefix>_1`, ...; scopes nest.

    The inference of each node opens a scope that names it, so the same graph always gets the
    same symbols and no two nodes share one.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __enter__(self) -> None:
        outer = _scope.get()
        self._token = _scope.set(_Scope(f"{outer.prefix if outer else ''}_{self._prefix}"))

    def __exit__(self, *raised: object) -> None:
        _scope.reset(self._token)


def fresh_symbol(op: Op, lo: int = 0, hi: int | None = None) -> Dim:
    """A fresh symbol for a size of `op`'s output that depends on data."""
    if hi is not None and hi <= lo:
        return lo
    scope = _scope.get()
    if scope is None:
        return symbol(f"_{op.kind.lower()}.{next(_everywhere.numbers)}", lo, hi)
    return symbol(f"{scope.prefix}_{next(scope.numbers)}", lo, hi)


def unknown_shape(op: Op, rank: int) -> Shape:
    """A shape of fresh symbols. ShapeError for more axes than any tensor has."""
    if rank > MAX_RANK:
        raise ShapeError("a tensor has too many axes", got=rank, expected=f"at most {MAX_RANK}")
    return tuple(fresh_symbol(op) for _ in range(rank))


def one_dtype(*facts: Fact | None) -> DType:
    """The element type that all given inputs share; `dynamic` (in bodies of control flow, before
    they are joined with what is outside) goes with any."""
    given = [f.tensor.dtype for f in facts if f is not None]
    found = [d for d in given if d is not DType.dynamic] or given
    if any(d != found[0] for d in found):
        raise ShapeError(
            "the inputs must have one element type",
            got=", ".join(str(d) for d in found),
            expected=f"all {found[0]}",
            fix="insert a Convert",
        )
    return found[0]


def fits(dtype: DType, kinds: Iterable[DType]) -> bool:
    """Whether an element type is one of `kinds`, or not known."""
    return dtype is DType.dynamic or dtype in kinds


def require_dtype(fact: Fact | None, name: str, kinds: Iterable[DType], rule: str) -> None:
    """Refuse an input whose element type is not one of `kinds`; `rule` says them in words."""
    if fact is not None and not fits(fact.tensor.dtype, kinds):
        raise ShapeError(
            f"input {name!r} has an element type that is not allowed",
            got=fact.tensor.dtype,
            expected=list_dtypes(rule, kinds),
        )


def list_dtypes(rule: str, kinds: Iterable[DType]) -> str:
    """What is allowed, in words and by name, for a message."""
    allowed = set(kinds)
    names = ", ".join(str(t) for t in DType if t in allowed)
    return names if rule == names else f"{rule}: {names}"


def require_rank(fact: Fact, name: str, *ranks: int) -> None:
    """Refuse an input whose rank is known and not one of `ranks`."""
    shape = fact.tensor.shape
    if shape is not None and len(shape) not in ranks:
        expected = " or ".join(f"rank {r}" for r in ranks)
        raise ShapeError(f"input {name!r} has the wrong rank", got=fact.type, expected=expected)


def known_dims(fact: Fact | None) -> list[Dim] | None:
    """The elements of a known input, flattened, as ints or symbolic sizes."""
    if fact is None or fact.value is None or fact.value.dtype.kind not in "iubO":
        return None
    return [v if isinstance(v, Expr) else int(v) for v in fact.value.reshape(-1).tolist()]


def known_ints(fact: Fact | None) -> list[int] | None:
    """The elements of a known input, flattened, where all of them are plain integers."""
    found = known_dims(fact)
    return None if found is None or not all(isinstance(v, int) for v in found) else found  # type: ignore[return-value]


def known_int(fact: Fact | None) -> int | None:
    """The value of a known input of one element; ShapeError for another number of them."""
    found, count = known_ints(fact), None if fact is None else count_of(fact)
    if count not in (None, 1):
        raise ShapeError("a single number is needed here", got=count if found is None else found)
    return None if found is None else found[0]


def count_of(fact: Fact) -> int | None:
    """How many elements an input has (a list of axes, say), where that is known."""
    if fact.value is not None:
        return int(fact.value.size)
    shape = fact.tensor.shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return int(np.prod([int(d) for d in shape if isinstance(d, int)], dtype=np.int64))


def require_single(fact: Fact, name: str) -> None:
    """Refuse an input that does not have one element; check it at run time where the size is
    dynamic."""
    what = f"{name} is a single number"
    if count_of(fact) not in (None, 1):
        raise ShapeError(what, got=fact.type)
    for size in fact.tensor.shape or ():
        require_equal(size, 1, what)


def require_index_type(dtype: DType) -> None:
    """Refuse an attribute output_type that is not a type of indices."""
    if dtype not in (DType.i32, DType.i64):
        raise ShapeError("output_type is not i32 or i64", got=dtype)


def axes_in(fact: Fact, rank: int) -> list[int] | None:
    """A known list of axes, counted from 0, each once; None where it is not known."""
    found = known_ints(fact)
    return None if found is None else unique_axes(found, rank)


def left_over(rank: int, count: int) -> int:
    """How many axes are left without `count` of them. ShapeError where there are not as many."""
    if count > rank:
        raise ShapeError("more axes are listed than there are", got=count, expected=f"<= {rank}")
    return rank - count


def unique_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from 0 in the given order. ShapeError where one is out of range or doubled."""
    out = [normalize_axis(a, rank) for a in axes]
    if len(set(out)) != len(out):
        raise ShapeError("an axis is listed twice", got=list(axes), expected="each axis once")
    return out


def same_size(a: Dim, b: Dim, what: str) -> Dim:
    """Two sizes that must be equal; the more exact one. ShapeError where they differ for sure."""
    require_equal(a, b, what)
    return a if isinstance(a, int) or not isinstance(b, int) else b


def ints_of(array: Array) -> list[int]:
    """A run-time list of integers (axes, sizes), flattened. TypeError for symbolic sizes."""
    if array.dtype == object and any(isinstance(v, Expr) for v in array.flat):
        raise TypeError("symbolic sizes where numbers are needed")
    return [int(v) for v in array.reshape(-1)]


def int_of(array: Array) -> int:
    """A run-time integer in an array of one element; ShapeError for another number of them."""
    found = ints_of(array)
    if len(found) != 1:
        raise ShapeError("a single number is needed here", got=found)
    return found[0]


def tensor(dtype: DType, shape: Sequence[Dim] | None) -> TensorType:
    """A tensor type; `shape` None is an unknown rank."""
    return TensorType(dtype, None if shape is None else tuple(shape))
