"""Comparisons, logic, choices and changes of element type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Abs,
    Convert,
    ConvertE8M0,
    Equal,
    Greater,
    GreaterEqual,
    Identity,
    IsInf,
    IsNaN,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    LogicalXor,
    Select,
)
from ..files.tensors import element_type
from .elementary import aligned_binary, binary, unary

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

# Casts without saturation: the largest magnitude that still rounds to a number, whether it does
# so itself (ties go to even), and whether what is beyond becomes infinity (else NaN).
_WITHOUT_SATURATION: dict[DType, tuple[float, bool, bool]] = {
    DType.f8e4m3: (464.0, True, False),
    DType.f8e4m3fnuz: (248.0, False, False),
    DType.f8e5m2: (61440.0, False, True),
    DType.f8e5m2fnuz: (61440.0, False, False),
}

_NARROW = (DType.u4, DType.i4, DType.u2, DType.i2)


def is_inf(n: ImportContext) -> Value:
    negative, positive = n.flag("detect_negative", True), n.flag("detect_positive", True)
    return n.add(IsInf(detect_negative=negative, detect_positive=positive), n.input(0))


def cast(n: ImportContext) -> Value:
    return _cast(n, element_type(n.integer("to"), n.origin))


def cast_by_name(n: ImportContext) -> Value:
    """Before version 6: the element type is the name of a member of TensorProto.DataType."""
    from onnx import TensorProto

    name = n.text("to").upper()
    numbers = dict(TensorProto.DataType.items())
    if name not in numbers:
        raise n.error("Cast to an unknown type", got=name[:40], expected=", ".join(numbers))
    return _cast(n, element_type(numbers[name], n.origin))


def cast_like(n: ImportContext) -> Value:
    return _cast(n, n.dtype(n.input(1)))


def _cast(n: ImportContext, to: DType) -> Value:
    x = n.input(0)
    saturate, mode = n.flag("saturate", True), n.text("round_mode", "up")
    source = n.dtype(x)
    if to is source:
        return n.add(Identity(), x)
    if to is DType.f8e8m0 and source.is_float:
        return n.add(ConvertE8M0(mode, saturate), x)
    if source.is_float and to in _NARROW:
        # As ONNX's reference: to a wider integer, whose low bits are the result.
        x = n.add(Convert(DType.i32), x)
    return n.add(Convert(to), x) if saturate else cast_unsaturated(n, x, to)


def cast_unsaturated(n: ImportContext, x: Value, to: DType) -> Value:
    """x as `to`, where a float that float8 can't hold becomes infinity or, without one, NaN."""
    source, result = n.dtype(x), n.add(Convert(to), x)
    if to not in _WITHOUT_SATURATION or not source.is_float:
        return result
    limit, reached, infinite = _WITHOUT_SATURATION[to]
    wide = x if source in (DType.f32, DType.f64) else n.add(Convert(DType.f32), x)
    size = n.add(Abs(), wide)
    inside = n.add(LessEqual() if reached else Less(), size, n.like(wide, limit))
    beyond = n.constant(np.array(np.nan, to.numpy), to)
    if infinite:
        signs = [n.constant(np.array(v, to.numpy), to) for v in (np.inf, -np.inf)]
        positive = n.add(Greater(), wide, n.like(wide, 0))
        numeric = n.add(Equal(), wide, wide)  # NaN stays NaN
        beyond = n.add(Select(), numeric, n.add(Select(), positive, *signs), beyond)
    return n.add(Select(), inside, result, beyond)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Equal": {1: aligned_binary(Equal), 7: binary(Equal)},
    "Greater": {1: aligned_binary(Greater), 7: binary(Greater)},
    "Less": {1: aligned_binary(Less), 7: binary(Less)},
    "GreaterOrEqual": {12: binary(GreaterEqual)},
    "LessOrEqual": {12: binary(LessEqual)},
    "And": {1: aligned_binary(LogicalAnd), 7: binary(LogicalAnd)},
    "Or": {1: aligned_binary(LogicalOr), 7: binary(LogicalOr)},
    "Xor": {1: aligned_binary(LogicalXor), 7: binary(LogicalXor)},
    "Not": {1: unary(LogicalNot)},
    "IsNaN": {9: unary(IsNaN)},
    "IsInf": {10: is_inf},
    "Where": {9: lambda n: n.add(Select(), n.input(0), n.input(1), n.input(2))},
    "Cast": {1: cast_by_name, 6: cast},
    "CastLike": {15: cast_like},
}
