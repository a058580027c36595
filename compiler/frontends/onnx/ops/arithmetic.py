"""Elementwise arithmetic and mathematical functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Abs,
    Acos,
    Acosh,
    Add,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseAnd,
    BitwiseLeftShift,
    BitwiseNot,
    BitwiseOr,
    BitwiseRightShift,
    BitwiseXor,
    Ceiling,
    Clamp,
    Convert,
    Cos,
    Cosh,
    Divide,
    Erf,
    Exp,
    Floor,
    FloorMod,
    Identity,
    LessEqual,
    Log,
    Maximum,
    Minimum,
    Mod,
    Multiply,
    Negative,
    Power,
    Round,
    Select,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Subtract,
    Tan,
)
from .elementary import aligned_binary, binary, convert_value, unary, variadic

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

_F32_MAX = float(np.finfo(np.float32).max)


def divide(n: ImportContext) -> Value:
    """Of integers the quotient is truncated toward zero."""
    a, b = n.input(0), n.input(1)
    return n.add(Divide(m_pythondiv=not n.dtype(a).is_int), a, b)


def power(n: ImportContext) -> Value:
    """The output has the base's type; base and exponent may differ since version 12."""
    base, exponent = n.input(0), n.input(1)
    own, other = n.dtype(base), n.dtype(exponent)
    if own is other:
        return n.add(Power(), base, exponent)
    if own.is_float and (not other.is_float or own.bits >= other.bits):
        return n.add(Power(), base, convert_value(n, exponent, own))
    if own.is_int and other.is_int:
        wide = DType.i64 if own.is_signed or other.is_signed else DType.u64
        result = n.add(Power(), convert_value(n, base, wide), convert_value(n, exponent, wide))
    else:
        wide = other if own.is_float else DType.f64
        result = n.add(Power(), convert_value(n, base, wide), convert_value(n, exponent, wide))
    if own.is_int and not other.is_int:
        result = _round_near_integers(n, result)
    return n.add(Convert(own), result)


def _round_near_integers(n: ImportContext, value: Value) -> Value:
    """A power of integers, which a kernel computes within 2 ulp, as the integer that it
    is next to: conversion truncates."""
    near = n.add(Round(), value)
    apart = n.add(Abs(), n.add(Subtract(), value, near))
    allowed = n.add(Multiply(), n.add(Abs(), near), n.like(value, 2.0**-50))
    return n.add(Select(), n.add(LessEqual(), apart, allowed), near, value)


def modulo(n: ImportContext) -> Value:
    """fmod=1: the sign of the dividend; fmod=0 (of floats since version 28): of the divisor."""
    a, b = n.input(0), n.input(1)
    if n.flag("fmod"):
        return n.add(Mod(), a, b)
    if n.dtype(a).is_float and n.version < 28:
        raise n.type_error("Mod of floats needs fmod=1", got=n.dtype(a), expected="an integer type")
    return n.add(FloorMod(), a, b)


def mean(n: ImportContext) -> Value:
    values = n.all_inputs()
    total = variadic(Add)(n)
    assert isinstance(total, Value)
    if len(values) == 1:
        return total
    return n.add(Divide(), total, n.like(total, len(values)))


def reciprocal(n: ImportContext) -> Value:
    x = n.input(0)
    return n.add(Divide(), n.like(x, 1), x)


def shift(n: ImportContext) -> Value:
    direction = n.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise n.error("unknown direction of a shift", got=direction, expected="LEFT or RIGHT")
    cls = BitwiseLeftShift if direction == "LEFT" else BitwiseRightShift
    return n.add(cls(), n.input(0), n.input(1))


def clip_attributes(n: ImportContext) -> Value:
    """Before version 11 the limits are attributes, by default the range of float."""
    return n.add(Clamp(n.number("min", -_F32_MAX), n.number("max", _F32_MAX)), n.input(0))


def clip(n: ImportContext) -> Value:
    """min(max(x, low), high); an absent limit limits nothing."""
    x, low, high = n.input(0), n.optional(1), n.optional(2)
    if low is None and high is None:
        return n.add(Identity(), x)
    known = [None if v is None else n.constant_of(v) for v in (low, high)]
    if n.dtype(x).is_float and all(k is not None and k.size == 1 for k in known):
        least, most = (float(k.reshape(-1)[0]) for k in known if k is not None)
        if np.isfinite([least, most]).all():
            return n.add(Clamp(least, most), x)
    if low is not None:
        x = n.add(Maximum(), x, low)
    return x if high is None else n.add(Minimum(), x, high)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Add": {1: aligned_binary(Add), 7: binary(Add)},
    "Sub": {1: aligned_binary(Subtract), 7: binary(Subtract)},
    "Mul": {1: aligned_binary(Multiply), 7: binary(Multiply)},
    "Div": {1: aligned_binary(Divide, m_pythondiv=False), 7: divide},
    "Pow": {1: aligned_binary(Power), 7: power},
    "Mod": {10: modulo},
    "Sum": {1: variadic(Add)},
    "Mean": {1: mean},
    "Max": {1: variadic(Maximum)},
    "Min": {1: variadic(Minimum)},
    "Neg": {1: unary(Negative)},
    "Abs": {1: unary(Abs)},
    "Sign": {9: unary(Sign)},
    "Ceil": {1: unary(Ceiling)},
    "Floor": {1: unary(Floor)},
    "Round": {11: unary(Round)},
    "Reciprocal": {1: reciprocal},
    "Sqrt": {1: unary(Sqrt)},
    "Exp": {1: unary(Exp)},
    "Log": {1: unary(Log)},
    "Erf": {9: unary(Erf)},
    "Sin": {7: unary(Sin)},
    "Cos": {7: unary(Cos)},
    "Tan": {7: unary(Tan)},
    "Asin": {7: unary(Asin)},
    "Acos": {7: unary(Acos)},
    "Atan": {7: unary(Atan)},
    "Sinh": {9: unary(Sinh)},
    "Cosh": {9: unary(Cosh)},
    "Asinh": {9: unary(Asinh)},
    "Acosh": {9: unary(Acosh)},
    "Atanh": {9: unary(Atanh)},
    "Clip": {1: clip_attributes, 11: clip},
    "BitShift": {11: shift},
    "BitwiseAnd": {18: binary(BitwiseAnd)},
    "BitwiseOr": {18: binary(BitwiseOr)},
    "BitwiseXor": {18: binary(BitwiseXor)},
    "BitwiseNot": {18: unary(BitwiseNot)},
}
