"""Reductions over axes."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output

_WIDE: dict[DType, DType] = dict.fromkeys((DType.i8, DType.u8, DType.i16, DType.u16), DType.i32)


def _reduce(op_type: str) -> ExportFunction:
    def export(n: ExportContext) -> Exported:
        keep = bool(getattr(n.op, "keep_dims", False))
        dtype = n.dtype(0)
        wide = dtype
        if not n.takes(op_type, dtype):
            wide = _WIDE.get(dtype, DType.f32 if dtype.is_float else DType.f64)
        found = _over_axes(n, op_type, n.input_as(0, wide), keep)
        return None if found is None else narrow_output(n, found, wide)

    return export


def _reduce_logical(op_type: str) -> ExportFunction:
    """Truth values as 0 and 1."""

    def export(n: ExportContext) -> Exported:
        keep = bool(getattr(n.op, "keep_dims", False))
        numbers = n.cast(n.input_as(0, DType.boolean), DType.i32)
        found = _over_axes(n, op_type, numbers, keep)
        return None if found is None else n.cast(found, DType.boolean)

    return export


def _over_axes(n: ExportContext, op_type: str, data: str, keep: bool) -> str | None:
    """The reduction; no axes leave the data as it is (its size, for norms)."""
    axes, shape = n.known_ints(1), n.shape(0)
    if axes is not None and shape is not None:
        axes = sorted({normalize_axis(a, len(shape)) for a in axes})
    if axes == []:
        return n.add("Abs" if op_type in ("ReduceL1", "ReduceL2") else "Identity", data)
    attributes: dict[str, Any] = {"keepdims": int(keep)}
    if axes is not None:
        return n.reduce(op_type, data, axes, keep=keep)
    if not n.has_input(op_type, "axes"):
        raise n.error("axes that are not constants, in this operator set")
    if op_type not in ("ReduceL1", "ReduceL2"):
        attributes["noop_with_empty_axes"] = 1
    return n.add(op_type, data, n.vector(1), **attributes)


EXPORTERS: dict[str, ExportFunction] = {
    **{
        kind: _reduce(kind)
        for kind in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2".split()
    },
    "ReduceLogicalAnd": _reduce_logical("ReduceMin"),
    "ReduceLogicalOr": _reduce_logical("ReduceMax"),
}
