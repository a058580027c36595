"""Comparisons, logic, choices and changes of element type."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.ops import BitCast, Convert, ConvertE8M0, FakeConvert, IsInf
from ...fill_defaults import is_rounded
from ..context import ExportContext, Exported, ExportFunction
from ..value_types import data_type
from .elementary import write_widened

_NUMBERS = (DType.i32, DType.i64, DType.u64, DType.f32, DType.f64)


def _logical(op_type: str) -> ExportFunction:
    """Numbers are true where they are not 0."""
    return lambda n: n.add(op_type, *(n.input_as(p, DType.boolean) for p in range(len(n.names))))


def _not_equal(n: ExportContext) -> Exported:
    found = write_widened("Equal", *_NUMBERS)(n)
    return None if found is None else n.add("Not", str(found))


def _select(n: ExportContext) -> Exported:
    """Element types that Where does not take (float8) pass through f32, which holds them. Booleans
    are written with And and Or: onnxruntime has no Where for them."""
    condition, dtype = n.input_as(0, DType.boolean), n.dtype(1)
    if dtype is DType.boolean:
        first = n.add("And", condition, n.input(1))
        return n.add("Or", first, n.add("And", n.add("Not", condition), n.input(2)))
    if n.takes("Where", dtype, 1):
        return n.add("Where", condition, n.input(1), n.input(2))
    wide = DType.f32 if dtype.is_float else DType.i32
    return n.cast(n.add("Where", condition, n.input_as(1, wide), n.input_as(2, wide)), dtype)


def _convert(n: ExportContext) -> Exported:
    to = n.out_type().dtype
    op = n.op
    if isinstance(op, Convert) and n.dtype(0) is to:
        return n.add("Identity", n.input(0))
    return n.cast(_saturate(n, to), to)


def _saturate(n: ExportContext, to: DType) -> str:
    """A rounded float limited to the integers of a small type, which ONNX's Cast would wrap: the
    end of quantisation."""
    x, dtype = n.input(0), n.dtype(0)
    if not (dtype.is_float and to.is_int and to.bits <= 16 and n.takes("Clip", dtype)):
        return x
    if not is_rounded(n.graph, n.graph.input(n.node, 0)):
        return x
    return n.add("Clip", x, n.scalar(to.min, dtype), n.scalar(to.max, dtype))


def _convert_e8m0(n: ExportContext) -> Exported:
    op = n.cast_op(ConvertE8M0)
    to = data_type(DType.f8e8m0, n.opset, n.where)
    return n.add("Cast", n.input(0), to=to, round_mode=op.round_mode, saturate=int(op.saturate))


def _bit_cast(n: ExportContext) -> Exported:
    return n.add("BitCast", n.input(0), to=data_type(n.cast_op(BitCast).to, n.opset, n.where))


def _is_inf(n: ExportContext) -> Exported:
    op = n.cast_op(IsInf)
    x = n.input(0)
    if not n.takes("IsInf", n.dtype(0)):
        x = n.cast(x, DType.f32)
    attributes: dict[str, Any] = {
        "detect_negative": int(op.detect_negative),
        "detect_positive": int(op.detect_positive),
    }
    return n.add("IsInf", x, **attributes)


def _is_finite(n: ExportContext) -> Exported:
    x = n.input(0) if n.takes("IsInf", n.dtype(0)) else n.cast(n.input(0), DType.f32)
    return n.add("Not", n.add("Or", n.add("IsInf", x), n.add("IsNaN", x)))


def _fake_convert(n: ExportContext) -> Exported:
    """x * scale - shift as a float8 and back."""
    op, dtype = n.cast_op(FakeConvert), n.dtype(0)
    if dtype is not DType.f32:
        return None
    value = n.add("Mul", n.input(0), n.input(1))
    shift = n.optional(2)
    value = value if shift is None else n.add("Sub", value, shift)
    value = n.cast(n.cast(value, DType(op.destination_type)), dtype)
    value = value if shift is None else n.add("Add", value, shift)
    return n.add("Div", value, n.input(1))


EXPORTERS: dict[str, ExportFunction] = {
    "Equal": write_widened("Equal", *_NUMBERS),
    "NotEqual": _not_equal,
    "Less": write_widened("Less", *_NUMBERS),
    "LessEqual": write_widened("LessOrEqual", *_NUMBERS),
    "Greater": write_widened("Greater", *_NUMBERS),
    "GreaterEqual": write_widened("GreaterOrEqual", *_NUMBERS),
    "LogicalAnd": _logical("And"),
    "LogicalOr": _logical("Or"),
    "LogicalXor": _logical("Xor"),
    "LogicalNot": _logical("Not"),
    "Select": _select,
    "Convert": _convert,
    "ConvertLike": _convert,
    "ConvertE8M0": _convert_e8m0,
    "BitCast": _bit_cast,
    "FakeConvert": _fake_convert,
    "Identity": lambda n: n.add("Identity", n.input(0)),
    "IsNaN": write_widened("IsNaN", DType.f32),
    "IsInf": _is_inf,
    "IsFinite": _is_finite,
}
