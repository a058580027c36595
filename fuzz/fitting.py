"""What drawn structures are made with: nodes that must fit, and values to begin at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from irc_compiler.ir.graph import Value
from irc_compiler.ir.op import Op
from irc_compiler.ir.types import TensorType

if TYPE_CHECKING:
    from .graphs import Maker


class Misfit(Exception):
    """What was drawn does not fit together."""


def must(m: Maker, op: Op, *inputs: Value | None) -> Value:
    made = m.add(op, *inputs)
    if made is None:
        raise Misfit
    return made


def some(m: Maker, fits: Callable[[TensorType], bool]) -> tuple[Value, TensorType, int]:
    """A value that fits, its type and its rank; its last axis is of a fixed size."""
    x = m.value(lambda t: bool(t.shape) and isinstance(t.shape[-1], int) and fits(t))
    if x is None:
        raise Misfit
    t = m.type(x)
    return x, t, len(t.shape or ())


def last(t: TensorType) -> int:
    assert t.shape is not None and isinstance(t.shape[-1], int)
    return t.shape[-1]


def either(m: Maker, op: Op, a: Value, b: Value) -> Value:
    return must(m, op, *((a, b) if m.int(0, 1) else (b, a)))


def image(m: Maker, low: int = 3) -> tuple[Value, TensorType] | None:
    x = m.value(
        lambda t: (
            t.shape is not None
            and low <= len(t.shape) <= 5
            and t.dtype.is_float
            and isinstance(t.shape[1], int)
        )
    )
    return None if x is None else (x, m.type(x))
