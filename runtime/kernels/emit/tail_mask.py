"""The first lanes of a vector: the tail of a row."""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function
from ...llvmir.values import (
    Value,
)


@dataclass(frozen=True)
class TailMask:
    """The first `count` (1..lanes) lanes of a vector, for what is before a row's end."""

    count: Value
    mask: Value


def tail_mask(f: Function, lanes: int, left: Value) -> TailMask:
    """The part of a vector that `left` > 0 remaining elements fill."""
    count = f.smin(left, lanes)
    return TailMask(count, f.mask(lanes, count))
