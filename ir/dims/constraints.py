"""Constraints on sizes that a model assumes: noted by shape inference, checked at run time.

Inference refuses sizes that differ for sure. Where sizes are symbols it cannot know; the
constraint is then passed to the active collectors: the compiler turns it into facts about the
inputs (compiler/shape_analysis/unify_dims.py) and into checks before a region runs
(plan.SizeCheck).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import ShapeError
from ..lazy_dataclass import dataclass
from . import Dim, eq, le, maximum


@dataclass(frozen=True)
class ShapeConstraint:
    """Two sizes that must be equal, or where `or_one`, the left one may be 1; `what` is the message
    where they are not, `where` the operation that needs it, as far as it is known. Where `least`
    is given the left one is max(least, right)."""

    left: Dim
    right: Dim
    what: str
    or_one: bool = False
    least: Dim | None = None
    where: str = ""


_listener: ContextVar[list[ShapeConstraint] | None] = ContextVar("listener", default=None)


@contextmanager
def requirements() -> Generator[list[ShapeConstraint]]:
    """Collects what inference inside takes for granted."""
    found: list[ShapeConstraint] = []
    token = _listener.set(found)
    try:
        yield found
    finally:
        _listener.reset(token)


def are_wanted() -> bool:
    """Does anybody listen?"""
    return _listener.get() is not None


def require_equal(left: Dim, right: Dim, what: str) -> None:
    """ShapeError where two sizes differ for sure; noted where they may."""
    known = eq(left, right)
    if known is False:
        raise ShapeError(what, got=f"{left} and {right}", expected="equal sizes")
    if known is None:
        _record_constraint(ShapeConstraint(left, right, what))


def require_broadcast(have: Dim, want: Dim, what: str) -> None:
    """ShapeError where a size is for sure neither 1 nor the wanted one; noted where it may be."""
    one, same = eq(have, 1), eq(have, want)
    if one is False and same is False:
        raise ShapeError(what, got=f"{have} and {want}", expected="equal sizes, or 1")
    if not one and not same:
        # N is never N - 1: it is 1 then.
        wanted = 1 if same is False else want
        _record_constraint(ShapeConstraint(have, wanted, what, or_one=one is None and same is None))


def require_at_least(least: Dim, size: Dim, what: str) -> None:
    """ShapeError where a size is smaller for sure; noted where it may be."""
    enough = le(least, size)
    if enough is False:
        raise ShapeError(what, got=f"{least} and {size}", expected="no less than the first")
    if enough is None:
        _record_constraint(ShapeConstraint(maximum(least, size), size, what, least=least))


def _record_constraint(requirement: ShapeConstraint) -> None:
    listener = _listener.get()
    if listener is not None:
        listener.append(requirement)
