"""Concat, Split and Slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .....ir.graph import Value
from .....ir.ops import (
    Add,
    Broadcast,
    Concat,
    Divide,
    Slice,
    Split,
    VariadicSplit,
)
from .....ir.types import MAX_RANK
from .elementary import size_of, sizes_of

if TYPE_CHECKING:
    from ..import_context import ImportContext, Imported, ImportFunction


def concat_default(n: ImportContext) -> Value:
    """Before version 4 the axis is 1 by default."""
    return n.add(Concat(n.integer("axis", 1)), *n.all_inputs())


def concat(n: ImportContext) -> Value:
    return n.add(Concat(n.integer("axis")), *n.all_inputs())


def split_attribute(n: ImportContext) -> Imported:
    lengths = n.optional_integers("split")
    return _add_split(n, None if lengths is None else n.ints_value(lengths))


def split(n: ImportContext) -> Imported:
    return _add_split(n, n.optional(1))


def split_counted(n: ImportContext) -> Imported:
    """Since version 18 parts need not be equal: `num_outputs` parts, the last one smaller."""
    lengths = n.optional(1)
    if lengths is not None and n.has("num_outputs"):
        raise n.error("Split has either lengths or num_outputs, not both")
    if lengths is not None or not n.has("num_outputs"):
        return _add_split(n, lengths)
    count = n.integer("num_outputs")
    if count != len(n.proto.output):
        raise n.error("num_outputs", got=count, expected=f"{len(n.proto.output)} outputs")
    x, axis = n.input(0), n.integer("axis", 0)
    shape = n.shape(x)
    if shape is None:
        return _add_split(n, None)
    total = shape[n.axis(axis, len(shape))]
    if isinstance(total, int):
        part = -(-total // count)
        parts = [part] * (total // part if part else 0)
        if not part or sum(parts) != total:
            parts.append(total - sum(parts))
        parts += [0] * (count - len(parts))
        return _variadic(n, n.ints_value(parts))
    if count == 1:
        return _variadic(n, n.ints_value([-1]))
    size = size_of(n, x, n.axis(axis, len(shape)))
    rounded = n.add(Add(), size, n.ints_value([count - 1]))
    part = n.add(Divide(m_pythondiv=True), rounded, n.ints_value([count]))
    return _variadic(n, n.add(Concat(0), *[part] * (count - 1), n.ints_value([-1])))


def _add_split(n: ImportContext, lengths: Value | None) -> Imported:
    if lengths is not None:
        return _variadic(n, lengths)
    axis = n.int_value(n.integer("axis", 0))
    return n.add_all(Split(len(n.proto.output)), n.input(0), axis)


def _variadic(n: ImportContext, lengths: Value) -> Imported:
    axis = n.int_value(n.integer("axis", 0))
    return n.add_all(VariadicSplit(len(n.proto.output)), n.input(0), axis, lengths)


def slice_attributes(n: ImportContext) -> Value:
    starts, ends = n.integers("starts"), n.integers("ends")
    axes = n.optional_integers("axes")
    if len(starts) != len(ends):
        raise n.error("starts and ends differ in length", got=f"{len(starts)} and {len(ends)}")
    bounds = [n.ints_value(v) for v in (starts, ends, [1] * len(starts))]
    return n.add(Slice(), n.input(0), *bounds, None if axes is None else n.ints_value(axes))


def slice_(n: ImportContext) -> Value:
    """Steps are 1 where they are absent, axes the leading ones."""
    starts, ends, axes, steps = n.input(1), n.input(2), n.optional(3), n.optional(4)
    shape = n.shape(starts)
    if shape is not None and shape and isinstance(shape[0], int) and shape[0] > MAX_RANK:
        raise n.type_error("Slice cuts more axes than a tensor has", got=shape[0])
    if steps is None:
        steps = _ones(n, starts)
    return n.add(Slice(), n.input(0), starts, ends, steps, axes)


def _ones(n: ImportContext, like: Value) -> Value:
    shape, dtype = n.shape(like), n.dtype(like)
    if shape is not None and len(shape) == 1 and isinstance(shape[0], int):
        return n.constant(np.ones(shape[0], dtype.numpy), dtype)
    return n.add(Broadcast(), n.constant(np.array(1), dtype), sizes_of(n, like))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Concat": {1: concat_default, 4: concat},
    "Split": {1: split_attribute, 13: split, 18: split_counted},
    "Slice": {1: slice_attributes, 10: slice_},
}
