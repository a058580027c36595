"""Checks the integers of kernel specs against the ranges that their classes state (`ranges`), also
where a value is known at run time only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from ...ir.errors import MemoryLimitError, VerificationError
from ...ir.limits.memory_budget import RAISE_LIMIT
from ...ir.scalar.program import Instr, Program
from ..plan import KernelStep, Plan
from ..ranges import BITS, COUNT, MAX_ELEMENTS, NUMBER, Range
from ..specs.base import RuntimeDim, Size, Spec

# Of the classes that specs share with the graph. The others have a table `ranges`.
_SHARED: Final[Mapping[type, Mapping[str, Range]]] = {
    Instr: {"args": NUMBER, "value": BITS},
    Program: {"results": NUMBER},
}


def ranges_in(kind: type) -> Mapping[str, Range]:
    """Least and largest value of each integer field of a class that specs consist of. Fields
    without integers, and those that hold other such classes, are left out."""
    return _SHARED[kind] if kind in _SHARED else getattr(kind, "ranges", {})


def check_ranges(spec: Spec, where: str) -> None:
    """VerificationError for an integer outside its field's range, or without one."""
    for name, size, allowed in ranges_of(spec):
        late = isinstance(size, RuntimeDim)
        number, (low, high) = (size.index, NUMBER) if late else (size, allowed)
        if not low <= number <= high:
            raise VerificationError(
                "a kernel reads a size the step does not give"
                if late
                else "a number of a kernel is out of range",
                where=f"{where}, {name}",
                got=_shorten(number),
                expected=f"{low}..{high}",
            )


def require_possible_sizes(plan: Plan) -> None:
    """MemoryLimitError for a step whose static sizes no memory can hold."""
    for region in plan.all_regions():
        for step in region.steps:
            if not isinstance(step, KernelStep):
                continue
            for _, size, allowed in ranges_of(step.spec):
                if allowed == COUNT and isinstance(size, int) and size > MAX_ELEMENTS:
                    raise MemoryLimitError(
                        "a tensor has more elements than any memory holds",
                        where=step.name,
                        got=_shorten(size),
                        expected=f"at most {MAX_ELEMENTS} elements",
                        fix=RAISE_LIMIT,
                    )


@lru_cache(maxsize=1024)  # steps of equal layers have one spec
def ranges_of(spec: Spec) -> tuple[tuple[str, Size, Range], ...]:
    """(field, value, range) of every integer inside, and of every dynamic size."""
    return tuple(_ranges_inside(spec))


def _ranges_inside(value: object) -> Iterator[tuple[str, Size, Range]]:
    for name, get, allowed in _fields(type(value)):
        yield from _integers(get(value), f"{type(value).__name__}.{name}", allowed)


def _integers(value: Any, name: str, allowed: Range | None) -> Iterator[tuple[str, Size, Range]]:
    if value is None or isinstance(value, bool | float | str):
        return
    if isinstance(value, int | RuntimeDim):
        if allowed is None:
            raise VerificationError("no range is known for an integer of a kernel", where=name)
        yield name, value, allowed
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _integers(item, name, allowed)
    elif dataclasses.is_dataclass(value):
        yield from _ranges_inside(value)


@cache
def _fields(kind: type) -> tuple[tuple[str, Callable[[Any], Any], Range | None], ...]:
    if not dataclasses.is_dataclass(kind):
        return ()
    known, names = ranges_in(kind), [f.name for f in dataclasses.fields(kind)]
    return tuple((n, lambda o, n=n: getattr(o, n), known.get(n)) for n in names)


def _shorten(number: int) -> str:
    return str(number) if number.bit_length() < 128 else f"about 2^{number.bit_length() - 1}"
