"""Arithmetic of two inputs, mathematical functions, bits and shifts."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.ops import CumProd, CumSum, Divide, Einsum, Round
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output, write_as, write_widened

_INTS = (DType.i32, DType.i64, DType.u64)
_NUMBERS = (*_INTS, DType.f32, DType.f64)


def _divide(n: ExportContext) -> Exported:
    """Integers are rounded down where m_pythondiv is set; ONNX truncates."""
    op, dtype = n.cast_op(Divide), n.dtype(0)
    if not n.takes("Div", dtype):
        return None
    found = n.add("Div", *n.names)
    if not (dtype.is_int and dtype.is_signed and op.m_pythondiv):
        return found
    zero = n.scalar(0, dtype)
    rest = n.add("Sub", n.input(0), n.add("Mul", found, n.input(1)))
    signs = n.add("Xor", n.add("Less", rest, zero), n.add("Less", n.input(1), zero))
    inexact = n.add("Not", n.add("Equal", rest, zero))
    return n.add("Sub", found, n.cast(n.add("And", inexact, signs), dtype))


def _floor_mod(n: ExportContext) -> Exported:
    """The sign is the divisor's, as ONNX's Mod has it for integers."""
    dtype = n.dtype(0)
    if not n.takes("Mod", dtype):
        return None
    if dtype.is_int:
        return n.add("Mod", *n.names)
    rest, zero = n.add("Mod", *n.names, fmod=1), n.scalar(0, dtype)
    signs = n.add("Xor", n.add("Less", rest, zero), n.add("Less", n.input(1), zero))
    wrong = n.add("And", signs, n.add("Not", n.add("Equal", rest, zero)))
    return n.add("Add", rest, n.add("Where", wrong, n.input(1), zero))


def _squared_difference(n: ExportContext) -> Exported:
    if not n.takes("Sub", n.dtype(0)):
        return None
    difference = n.add("Sub", *n.names)
    return n.add("Mul", difference, difference)


def _negative(n: ExportContext) -> Exported:
    dtype = n.dtype(0)
    if n.takes("Neg", dtype):
        return n.add("Neg", n.input(0))
    return n.add("Sub", n.scalar(0, dtype), n.input(0)) if n.takes("Sub", dtype) else None


def _round_down(op_type: str) -> ExportFunction:
    def export(n: ExportContext) -> Exported:
        if n.dtype(0).is_int:
            return n.add("Identity", n.input(0))
        return n.add(op_type, n.input(0)) if n.takes(op_type, n.dtype(0)) else None

    return export


def _round(n: ExportContext) -> Exported:
    op, dtype = n.cast_op(Round), n.dtype(0)
    if dtype.is_int:
        return n.add("Identity", n.input(0))
    if op.mode.lower() == "half_to_even":
        return n.add("Round", n.input(0)) if n.takes("Round", dtype) else None
    size = n.add("Abs", n.input(0))
    floor = n.add("Floor", size)
    # x + 0.5 would round up numbers just below a half.
    up = n.add("GreaterOrEqual", n.add("Sub", size, floor), n.scalar(0.5, dtype))
    return n.add("Mul", n.add("Sign", n.input(0)), n.add("Add", floor, n.cast(up, dtype)))


def _bitwise(op_type: str, logical: str) -> ExportFunction:
    def export(n: ExportContext) -> Exported:
        return n.add(logical if n.dtype(0) is DType.boolean else op_type, *n.names)

    return export


_UNSIGNED = {
    DType.i8: DType.u8,
    DType.i16: DType.u16,
    DType.i32: DType.u32,
    DType.i64: DType.u64,
}


def _shift(direction: str) -> ExportFunction:
    """ONNX shifts unsigned integers only."""

    def export(n: ExportContext) -> Exported:
        dtype = n.dtype(0)
        if dtype not in _UNSIGNED:
            return n.add("BitShift", *n.names, direction=direction)
        # Where and shifts of 8 and 16 bits are rare among runtimes.
        wide = dtype if dtype.bits >= 32 else DType.i32
        bits = _UNSIGNED[wide]
        x, by = n.input_as(0, wide), n.cast(n.input(1), bits)
        if direction == "LEFT":
            moved = n.cast(n.add("BitShift", n.cast(x, bits), by, direction=direction), wide)
            return narrow_output(n, moved, wide)
        # Below 0 the complement is shifted, so that the sign comes in from the left.
        below = n.add("Less", x, n.scalar(0, wide))
        plain = n.add("Where", below, n.add("BitwiseNot", x), x)
        moved = n.cast(n.add("BitShift", n.cast(plain, bits), by, direction=direction), wide)
        return narrow_output(n, n.add("Where", below, n.add("BitwiseNot", moved), moved), wide)

    return export


def _accumulate(op_type: str) -> ExportFunction:
    def export(n: ExportContext) -> Exported:
        op = n.op
        assert isinstance(op, CumSum | CumProd)
        axis = n.int_scalar(0) if n.optional(1) is None else n.flatten_scalar(1, DType.i64)
        if n.has(op_type) and not n.takes(op_type, n.dtype(0)):
            return None
        attributes: dict[str, Any] = {"exclusive": int(op.exclusive), "reverse": int(op.reverse)}
        return n.add(op_type, n.input(0), axis, **attributes)

    return export


def _einsum(n: ExportContext) -> Exported:
    if not n.takes("Einsum", n.dtype(0)):
        return None
    return n.add("Einsum", *n.names, equation=n.cast_op(Einsum).equation)


EXPORTERS: dict[str, ExportFunction] = {
    "Add": write_widened("Add", *_NUMBERS),
    "Subtract": write_widened("Sub", *_NUMBERS),
    "Multiply": write_widened("Mul", *_NUMBERS),
    "Divide": _divide,
    "FloorMod": _floor_mod,
    "Mod": lambda n: n.add("Mod", *n.names, fmod=1),
    "Power": write_widened("Pow", *_NUMBERS),
    "Maximum": write_widened("Max", *_NUMBERS),
    "Minimum": write_widened("Min", *_NUMBERS),
    "SquaredDifference": _squared_difference,
    "Negative": _negative,
    "Abs": write_widened("Abs", *_NUMBERS),
    "Sign": write_widened("Sign", *_NUMBERS),
    "Ceiling": _round_down("Ceil"),
    "Floor": _round_down("Floor"),
    "Round": _round,
    **{
        kind: write_as(kind)
        for kind in (
            *("Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan"),
            *("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"),
        )
    },
    "BitwiseAnd": _bitwise("BitwiseAnd", "And"),
    "BitwiseOr": _bitwise("BitwiseOr", "Or"),
    "BitwiseXor": _bitwise("BitwiseXor", "Xor"),
    "BitwiseNot": _bitwise("BitwiseNot", "Not"),
    "BitwiseLeftShift": _shift("LEFT"),
    "BitwiseRightShift": _shift("RIGHT"),
    "CumSum": _accumulate("CumSum"),
    "CumProd": _accumulate("CumProd"),
    "Einsum": _einsum,
}
