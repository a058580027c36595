"""The memory budget of a call: host evaluators charge it before they allocate.

A budget belongs to a thread while a call runs (`use_budget`). `require` refuses bytes beyond the
limit, `charge` also counts them until the evaluation ends (`charge_temporarily`). A value counts
with the size of its shape and type, also where it is a view without memory of its own.
"""

from __future__ import annotations

import math
import operator
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..errors import MemoryLimitError
from .format_bytes import format_size
from .host_memory import default_max_memory

_P = ParamSpec("_P")
_R = TypeVar("_R")
RAISE_LIMIT = "use smaller inputs, or raise max_memory (--max-memory)"
_bytes_of = operator.attrgetter("nbytes")
_SCALARS = frozenset([float, int, bool, str])
# Arrays of at most so many texts count with an upper bound, if that is at most so many bytes.
_MAX_BOUNDED_TEXTS = 4096
_MAX_BOUNDED_BYTES = 1 << 20
# Of a str: four bytes and as many in UTF-8, which Python may keep with it.
_MAX_TEXT_HEADER, _MAX_CHARACTER_BYTES = 80, 8


@dataclass
class Budget:
    """Bytes that the values of one call may take together (`limit`), and take now (`used`)."""

    limit: int
    used: int = 0

    def require(self, size: int, what: str = "", where: str | None = None) -> None:
        """MemoryLimitError unless `size` more bytes, for `what`, stay within the limit."""
        if self.used + size <= self.limit:
            return
        in_use = f", with {format_size(self.used)} in use" if self.used else ""
        raise MemoryLimitError(
            "an operation needs more memory than max_memory allows",
            where=where,
            got=f"{format_size(size)}{f' for {what}' if what else ''}{in_use}",
            expected=f"at most {format_size(self.limit)} (max_memory)",
            fix=RAISE_LIMIT,
        )

    def charge(self, size: int, what: str = "", where: str | None = None) -> None:
        """`require`, and count the bytes as used."""
        self.require(size, what, where)
        self.used += size

    @contextmanager
    def charge_temporarily(self) -> Generator[None]:
        """Inside the block charges add up; behind it they are forgotten."""
        before = self.used
        try:
            yield
        finally:
            self.used = before


class _Local(threading.local):
    budget: Budget | None = None


_local = _Local()


def active_budget(limit: int | None = None) -> Budget:
    """The budget of the call that this thread runs; outside of calls a fresh one."""
    if _local.budget is not None:
        return _local.budget
    return Budget(default_max_memory() if limit is None else limit)


@contextmanager
def use_budget(budget: Budget) -> Generator[Budget]:
    """Inside the block `budget` is this thread's."""
    before, _local.budget = _local.budget, budget
    try:
        yield budget
    finally:
        _local.budget = before


def with_budget(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function within a budget of its keyword argument `max_memory` (None: the default)."""

    @wraps(function)
    def run(*args: _P.args, **options: _P.kwargs) -> _R:
        with use_budget(active_budget(cast("int | None", options.get("max_memory")))):
            return function(*args, **options)

    return run


def charge_array(shape: Sequence[int], dtype: np.dtype[Any], copies: int = 1) -> None:
    """Charge this thread's budget with arrays that an evaluator is about to allocate."""
    size, budget = math.prod(map(int, shape)) * dtype.itemsize * copies, active_budget()
    if budget.used + size > budget.limit:  # the text takes longer than the rest
        budget.require(size, f"{dtype.name}{list(map(int, shape))}")
    budget.used += size


def charge_bytes(size: int, what: str) -> None:
    """Charge this thread's budget with what an evaluator is about to allocate."""
    active_budget().charge(size, what)


def value_bytes(value: Any) -> int:
    """Bytes of a value as its type says: arrays, and what sequences and maps hold, each time they
    hold it; strings once."""
    if isinstance(value, np.ndarray):
        array = cast("npt.NDArray[Any]", value)
        return array.nbytes + (_bound_text_bytes(array) if array.dtype == object else 0)
    if isinstance(value, Mapping):
        value = list(cast("Mapping[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if _are_maps_of_numbers(items):
            return 0
        try:  # arrays of numbers, in C
            if True not in [a.dtype.hasobject for a in items]:
                return sum(map(_bytes_of, items))
        except AttributeError:
            pass
        return sum(map(value_bytes, items))
    return 0


def _are_maps_of_numbers(items: Sequence[Any]) -> bool:
    """Whether all are dicts of Python's numbers and texts (a ZipMap's result), in C."""
    if set(map(type, items)) != {dict}:
        return False
    return set(map(type, chain.from_iterable(map(dict[Any, Any].values, items)))) <= _SCALARS


def _bound_text_bytes(array: npt.NDArray[Any]) -> int:
    """`text_bytes` of an array; where it is small an upper bound, which takes less time."""
    count = array.size
    if count <= _MAX_BOUNDED_TEXTS:
        try:
            bound = (
                _MAX_CHARACTER_BYTES * sum(map(len, array.reshape(-1).tolist()))
                + _MAX_TEXT_HEADER * count
            )
        except TypeError:  # elements that are not text
            return text_bytes(array)
        if bound <= _MAX_BOUNDED_BYTES:
            return bound
    return text_bytes(array)


def text_bytes(value: Any) -> int:
    """What the strings in a value take, each object once: arrays may share them."""
    found: dict[int, object] = {}
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, np.ndarray):
            array = cast("npt.NDArray[Any]", part)
            if array.dtype == object:
                texts = cast("list[object]", array.reshape(-1).tolist())
                found |= dict(zip(map(id, texts), texts, strict=True))
        elif isinstance(part, Mapping):
            pending += cast("Mapping[Any, Any]", part).values()
        elif isinstance(part, list | tuple):
            pending += cast("Sequence[Any]", part)
        elif isinstance(part, str | bytes):
            found[id(part)] = part
    return sum(map(sys.getsizeof, found.values()))
