"""Pools."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ......ir.graph import Value
from ......ir.ops import Abs, AvgPool, MaxPool, Multiply, Power, ReduceMax, ReduceMean, ReduceSum
from ..reference import by_reference
from .convolution import spatial_attributes

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def max_pool(n: ImportContext) -> Imported:
    """The second output are indices over all axes of the data, as if it were flat; in column-major
    order they are left to onnx.reference."""
    if n.wants(1) and n.flag("storage_order"):
        return by_reference(n)
    n.has("storage_order")
    op = MaxPool(
        kernel=tuple(n.integers("kernel_shape")),
        rounding_type=_rounding(n),
        axis=0,
        **spatial_attributes(n),
    )
    return n.add_all(op, n.input(0))


def add_average_pool(n: ImportContext, x: Value) -> Value:
    """The mean of each window of x, as the node's attributes say."""
    op = AvgPool(
        kernel=tuple(n.integers("kernel_shape")),
        rounding_type=_rounding(n),
        exclude_pad=not n.flag("count_include_pad"),
        **spatial_attributes(n),
    )
    return n.add(op, x)


def lp_pool(n: ImportContext) -> Value:
    """The p-norm of each window; padding adds nothing."""
    kernel = tuple(n.integers("kernel_shape"))
    if n.flag("ceil_mode"):
        raise n.unsupported_error("LpPool with ceil_mode")
    op = AvgPool(kernel=kernel, **spatial_attributes(n))
    x, p = n.input(0), _exponent(n)
    power = n.like(x, p)
    mean = n.add(op, n.add(Power(), n.add(Abs(), x), power))
    return _root(n, n.add(Multiply(), mean, n.like(x, math.prod(kernel))), p)


def _exponent(n: ImportContext) -> float:
    """The p of the norm, a float in version 1."""
    return n.number("p", 2.0) if n.version < 2 else n.integer("p", 2)


def _root(n: ImportContext, value: Value, p: float) -> Value:
    return n.add(Power(), value, n.like(value, 1 / p))


def global_lp_pool(n: ImportContext) -> Value:
    x, p = n.input(0), _exponent(n)
    axes = n.ints_value(range(2, n.rank(x)))
    powers = n.add(Power(), n.add(Abs(), x), n.like(x, p))
    return _root(n, n.add(ReduceSum(keep_dims=True), powers, axes), p)


def _rounding(n: ImportContext) -> str:
    """No window begins in the padding at the end."""
    return "ceil_torch" if n.flag("ceil_mode") else "floor"


def global_pool(cls: type[ReduceMean | ReduceMax]) -> ImportFunction:
    def load(n: ImportContext) -> Value:
        axes = n.ints_value(range(2, n.rank(n.input(0))))
        return n.add(cls(keep_dims=True), n.input(0), axes)

    return load


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "MaxPool": {1: max_pool},
    "AveragePool": {1: lambda n: add_average_pool(n, n.input(0))},
    "GlobalAveragePool": {1: global_pool(ReduceMean)},
    "GlobalMaxPool": {1: global_pool(ReduceMax)},
    "LpPool": {1: lp_pool},
    "GlobalLpPool": {1: global_lp_pool},
}
