"""Quantised values: QuantizeLinear and DequantizeLinear with scales per tensor, axis or block."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....ir.ops import Dequantize, Quantize
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction


@dataclass(frozen=True)
class _Spread:
    """How scales broadcast to the data: the shape that ONNX takes, its axis, its block."""

    shape: list[int]
    axis: int | None = None
    block: int | None = None

    def attributes(self) -> dict[str, Any]:
        return {"axis": self.axis, "block_size": self.block}


def _find_spread(n: ExportContext, op_type: str, group: int, axis: int) -> _Spread | None:
    """None where neither one scale, nor one per element of an axis, nor blocks of an axis fit."""
    own, shape = n.fixed_shape(1), n.shape(0)
    if own is None:
        return None
    lengths = [d for d in own if d != 1]
    if not lengths:
        return _Spread([]) if not group else None
    if shape is None:
        return None
    sizes = [1] * (len(shape) - len(own)) + own
    if not group and len(lengths) == 1:
        return _Spread([-1], sizes.index(lengths[0]))
    if not n.has_attribute(op_type, "block_size"):
        return None
    if group:
        at = normalize_axis(axis, len(shape))
        fits = all(a == b for i, (a, b) in enumerate(zip(sizes, shape, strict=True)) if i != at)
        return _Spread(sizes, at, group) if fits else None
    # One scale for all elements of an axis is one block.
    open_axes = [i for i, (a, b) in enumerate(zip(sizes, shape, strict=True)) if a != b]
    if len(open_axes) != 1 or not isinstance(block := shape[open_axes[0]], int):
        return None
    return _Spread(sizes, open_axes[0], block)


def _as_shape(n: ExportContext, port: int, spread: _Spread, scale: list[int]) -> str | None:
    """A scale or zero point in the shape of `spread`; a zero point may be one for all scales."""
    data, dtype = n.constant_data(port), n.dtype(port)
    own = n.fixed_shape(port)
    if data is not None:
        if data.size != int(np.prod(scale)):
            data = np.broadcast_to(data, scale)
        return n.writer.initializer(
            np.ascontiguousarray(data.reshape(spread.shape)), dtype, n.where, _label(n, port)
        )
    if own is None or int(np.prod(own)) != int(np.prod(scale)):
        return None
    return (
        n.input(port)
        if own == spread.shape
        else n.add("Reshape", n.input(port), n.ints(spread.shape))
    )


def _label(n: ExportContext, port: int) -> str:
    value = n.value(port)
    name = n.graph.node(value.node).name if value is not None else ""
    return name or f"{n.record.name}/{'scale' if port == 1 else 'zero_point'}"


def _scales(n: ExportContext, spread: _Spread) -> tuple[str, str | None] | None:
    own = n.fixed_shape(1)
    assert own is not None
    scale = _as_shape(n, 1, spread, own)
    zero = None if n.optional(2) is None else _as_shape(n, 2, spread, own)
    if scale is None or (zero is None and n.optional(2) is not None):
        return None
    return scale, zero


def _dequantize(n: ExportContext) -> Exported:
    op, op_type = n.cast_op(Dequantize), "DequantizeLinear"
    if not n.takes(op_type, n.dtype(0)) or not n.takes(op_type, n.dtype(1), 1):
        return None
    if n.dtype(0) is DType.i32 and n.optional(2) is not None:
        return None
    spread = _find_spread(n, op_type, op.group, op.axis)
    found = None if spread is None else _scales(n, spread)
    if spread is None or found is None:
        return None
    return n.add(op_type, n.input(0), *found, **spread.attributes())


def _quantize(n: ExportContext) -> Exported:
    op, op_type = n.cast_op(Quantize), "QuantizeLinear"
    to = op.destination_type
    if n.dtype(0) is not DType.f32 or not n.takes(op_type, to, 2):
        return None
    if n.optional(1) is None:
        zero = None if n.optional(2) is None else n.known(2)
        if n.optional(2) is not None and (zero is None or zero.size != 1):
            return None
        number = 0 if zero is None else int(zero.reshape(-1)[0])
        return n.add(op_type, n.input(0), n.scalar(1, DType.f32), n.scalar(number, to))
    spread = _find_spread(n, op_type, 0, -1)
    found = None if spread is None else _scales(n, spread)
    if spread is None or found is None:
        return None
    scale, zero_name = found
    if zero_name is None and to is not DType.u8:  # the zero point defines the type
        own = n.fixed_shape(1) or []
        shape = [int(np.prod(own))] if spread.shape == [-1] else spread.shape
        zero_name = n.constant(np.zeros(shape), to)
    return n.add(op_type, n.input(0), scale, zero_name, **spread.attributes())


EXPORTERS: dict[str, ExportFunction] = {"Dequantize": _dequantize, "Quantize": _quantize}
