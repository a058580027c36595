"""The symbols of sizes and types, and which of them an input defines."""

from __future__ import annotations

from ....ir.dims import Dim, Expr, Symbol, plain_symbol
from ....ir.dtype import DType
from ....ir.types import TensorType, Type


def symbols_of(type_: Type) -> set[str]:
    """Names of the symbols in a tensor's shape."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return set()
    return {s.name for d in type_.shape if isinstance(d, Expr) for s in d.symbols()}


def is_host_only(type_: Type) -> bool:
    """Whether values of a type never are in a region's buffers: no tensors, strings, tensors of
    unknown rank or element type."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return True
    return type_.dtype in (DType.string, DType.dynamic)


def symbols_in(dim: Dim) -> frozenset[Symbol]:
    """The symbols of a size."""
    return dim.symbols() if isinstance(dim, Expr) else frozenset()


def symbols_defined_by(type_: Type) -> dict[str, int]:
    """Names of the symbols that an input of this type defines in a region, with the first axis of
    each: none without a buffer."""
    if not isinstance(type_, TensorType) or is_host_only(type_):
        return {}
    shape = list(enumerate(type_.shape or ()))
    return {s.name: i for i, d in reversed(shape) if (s := plain_symbol(d)) is not None}
