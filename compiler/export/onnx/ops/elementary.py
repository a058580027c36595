"""Exporters made from an operator's name: operations that are one operator, and shared steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....ir.dtype import DType
from ..context import ExportContext, Exported, ExportFunction


def write_as(op_type: str, **attributes: Any) -> ExportFunction:
    """The same inputs, one operator with fixed attributes, where it takes the element type."""

    def export(n: ExportContext) -> Exported:
        if not n.takes(op_type, n.dtype(0)):
            return None
        return n.add(op_type, *n.names, **attributes)

    return export


def write_widened(op_type: str, *wider: DType) -> ExportFunction:
    """As `write_as`; element types that the operator does not take are computed in the first of
    `wider` that holds them, which changes no result."""

    def export(n: ExportContext) -> Exported:
        dtype = n.dtype(0)
        if n.takes(op_type, dtype):
            return n.add(op_type, *n.names)
        wide = next((w for w in wider if n.takes(op_type, w) and _holds(w, dtype)), None)
        if wide is None:
            return None
        found = n.add(op_type, *(n.input_as(port, wide) for port in range(len(n.names))))
        out = n.out_type().dtype
        return found if out is DType.boolean else n.cast(found, out)

    return export


def _holds(wide: DType, dtype: DType) -> bool:
    """Whether every value of a type is one of another."""
    if dtype is DType.boolean:
        return True
    if dtype.is_int and wide.is_int:
        return wide.min <= dtype.min and dtype.max <= wide.max
    if dtype.is_int:
        return dtype.bits <= {DType.f32: 16, DType.f64: 32}.get(wide, 8)
    return dtype.is_float and wide.is_float and wide.bits > dtype.bits


def write_as_if(names: Sequence[str], function: ExportFunction) -> dict[str, ExportFunction]:
    """One function for several kinds."""
    return dict.fromkeys(names, function)


def widen_input(n: ExportContext, port: int = 0) -> tuple[str, DType]:
    """A float input in the type that sums are computed in: f32 for smaller floats."""
    dtype = n.dtype(port)
    wide = DType.f32 if dtype.is_float and dtype.bits < 32 else dtype
    return n.input_as(port, wide), wide


def narrow_output(n: ExportContext, name: str, wide: DType) -> str:
    """A result in the output's element type."""
    dtype = n.out_type().dtype
    return name if wide is dtype else n.cast(name, dtype)


def spatial_attributes(op: Any, rank: int, *, pads: bool = True) -> dict[str, Any]:
    """Strides, dilations and paddings of an operation with windows, as ONNX's attributes."""
    ones = (1,) * rank
    mode = str(op.auto_pad).lower()
    attributes: dict[str, Any] = {
        "strides": list(op.strides or ones),
        "dilations": list(getattr(op, "dilations", ()) or ones),
    }
    if mode in ("same_upper", "same_lower"):
        attributes["auto_pad"] = mode.upper()
    elif mode != "valid" and pads:
        zeros = (0,) * rank
        attributes["pads"] = [*(op.pads_begin or zeros), *(op.pads_end or zeros)]
    return attributes
