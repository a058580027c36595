"""Pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.graph import Value
from .....ir.ops import AvgPool, MaxPool, ReduceMax, ReduceMean
from .convolution import spatial_attributes

if TYPE_CHECKING:
    from ..node import Imported, ImportFunction, OnnxNode


def max_pool(n: OnnxNode) -> Imported:
    """The second output are indices over all axes of the data, as if it were flat."""
    if n.wants(1) and n.flag("storage_order"):
        raise n.unsupported("MaxPool with column-major indices")
    n.has("storage_order")
    op = MaxPool(
        kernel=tuple(n.integers("kernel_shape")),
        rounding_type=_rounding(n),
        axis=0,
        **spatial_attributes(n),
    )
    return n.add_all(op, n.input(0))


def average_pool(n: OnnxNode) -> Value:
    op = AvgPool(
        kernel=tuple(n.integers("kernel_shape")),
        rounding_type=_rounding(n),
        exclude_pad=not n.flag("count_include_pad"),
        **spatial_attributes(n),
    )
    return n.add(op, n.input(0))


def _rounding(n: OnnxNode) -> str:
    """No window begins in the padding at the end."""
    return "ceil_torch" if n.flag("ceil_mode") else "floor"


def global_pool(cls: type[ReduceMean | ReduceMax]) -> ImportFunction:
    def load(n: OnnxNode) -> Value:
        axes = n.ints_value(list(range(2, n.rank(n.input(0)))))
        return n.add(cls(keep_dims=True), n.input(0), axes)

    return load


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "MaxPool": {1: max_pool},
    "AveragePool": {1: average_pool},
    "GlobalAveragePool": {1: global_pool(ReduceMean)},
    "GlobalMaxPool": {1: global_pool(ReduceMax)},
}
