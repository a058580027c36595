"""Reductions. Axes are an attribute first, an input since version 13 (ReduceSum) or 18 (others)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.op import Op
from .....ir.ops import (
    Add,
    Exp,
    IsFinite,
    Log,
    Multiply,
    Range,
    ReduceL1,
    ReduceL2,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Select,
    Squeeze,
    Subtract,
)
from .elementary import sizes_of

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

# What a reduction does with data and axes (None: it reduces nothing).
_Rule: TypeAlias = "Callable[[ImportContext, Value, Value | None, bool], Value]"


def _import_reduction(cls: Callable[..., Op]) -> _Rule:
    def reduce(n: ImportContext, x: Value, axes: Value | None, keep: bool) -> Value:
        if axes is None:
            axes = n.ints_value([])
        return n.add(cls(keep_dims=keep), x, axes)

    return reduce


def _sum_square(n: ImportContext, x: Value, axes: Value | None, keep: bool) -> Value:
    return _import_reduction(ReduceSum)(n, n.add(Multiply(), x, x), axes, keep)


def _log_sum(n: ImportContext, x: Value, axes: Value | None, keep: bool) -> Value:
    return n.add(Log(), _import_reduction(ReduceSum)(n, x, axes, keep))


def _log_sum_exp(n: ImportContext, x: Value, axes: Value | None, keep: bool) -> Value:
    """log(sum(exp(x - m))) + m with the largest element m, where that is finite."""
    if axes is None or not n.dtype(x).is_float:
        return _log_sum(n, n.add(Exp(), x), axes, keep)
    largest = n.add(ReduceMax(keep_dims=True), x, axes)
    m = n.add(Select(), n.add(IsFinite(), largest), largest, n.like(x, 0))
    total = n.add(ReduceSum(keep_dims=True), n.add(Exp(), n.add(Subtract(), x, m)), axes)
    result = n.add(Add(), n.add(Log(), total), m)
    return result if keep else n.add(Squeeze(), result, axes)


def _by_attribute(rule: _Rule) -> ImportFunction:
    def load(n: ImportContext) -> Value:
        axes = n.optional_integers("axes")
        listed = _all_axes(n, n.input(0)) if not axes else n.ints_value(axes)
        return rule(n, n.input(0), listed, n.flag("keepdims", True))

    return load


def _by_input(rule: _Rule) -> ImportFunction:
    def load(n: ImportContext) -> Value:
        x, axes = n.input(0), n.optional(1)
        noop, keep = n.flag("noop_with_empty_axes"), n.flag("keepdims", True)
        if axes is None or n.shape(axes) == (0,):
            return rule(n, x, None if noop else _all_axes(n, x), keep)
        shape = n.shape(axes)
        if shape is not None and shape and not isinstance(shape[0], int) and not noop:
            raise n.unsupported_error("a list of axes whose length is not known")
        return rule(n, x, axes, keep)

    return load


def _all_axes(n: ImportContext, x: Value) -> Value:
    shape = n.shape(x)
    if shape is not None:
        return n.ints_value(range(len(shape)))
    rank = n.add(Squeeze(), sizes_of(n, sizes_of(n, x)), n.ints_value([0]))
    return n.add(Range(DType.i64), n.int_value(0), rank, n.int_value(1))


def _since(rule: _Rule, version: int) -> dict[int, ImportFunction]:
    return {1: _by_attribute(rule), version: _by_input(rule)}


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "ReduceSum": _since(_import_reduction(ReduceSum), 13),
    "ReduceMean": _since(_import_reduction(ReduceMean), 18),
    "ReduceMax": _since(_import_reduction(ReduceMax), 18),
    "ReduceMin": _since(_import_reduction(ReduceMin), 18),
    "ReduceProd": _since(_import_reduction(ReduceProd), 18),
    "ReduceL1": _since(_import_reduction(ReduceL1), 18),
    "ReduceL2": _since(_import_reduction(ReduceL2), 18),
    "ReduceSumSquare": _since(_sum_square, 18),
    "ReduceLogSum": _since(_log_sum, 18),
    "ReduceLogSumExp": _since(_log_sum_exp, 18),
}
