"""Elementwise arithmetic, bit operations, and comparisons and logic of two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact
from ...scalar.blocks import map_blocks
from ...scalar.builder import Builder, Ref
from ...types import joined_shape
from .elementwise import BOOLEAN, INTEGERS, NUMBERS, Binary, Unary


class Add(Binary):
    kind: ClassVar[str] = "Add"
    scalar: ClassVar[str] = "add"
    evaluates_shapes: ClassVar[bool] = True


class Subtract(Binary):
    kind: ClassVar[str] = "Subtract"
    scalar: ClassVar[str] = "sub"
    evaluates_shapes: ClassVar[bool] = True


class Multiply(Binary):
    kind: ClassVar[str] = "Multiply"
    scalar: ClassVar[str] = "mul"
    evaluates_shapes: ClassVar[bool] = True


@dataclass(frozen=True)
class Divide(Binary):
    """a / b; of integers the floor where `m_pythondiv`, else truncated toward zero."""

    kind: ClassVar[str] = "Divide"
    scalar: ClassVar[str] = "div"
    evaluates_shapes: ClassVar[bool] = True
    m_pythondiv: bool = True

    def program(self, b: Builder, *x: Ref) -> Ref:
        if not self.m_pythondiv or not x[0].dtype.is_int or not x[0].dtype.is_signed:
            return b.op("div", *x)
        # One less than the truncated quotient where that is inexact and negative. (The dividend
        # less its remainder, divided, would overflow at the type's end.)
        quotient, zero = b.op("div", *x), b.const(0, x[0].dtype)
        inexact = b.op("ne", b.op("mul", quotient, x[1]), x[0])
        negative = b.op("xor", b.op("lt", x[0], zero), b.op("lt", x[1], zero))
        return b.op("sub", quotient, b.cast(b.op("and", inexact, negative), x[0].dtype))

    def on_sizes(self, *arrays: Array) -> Array:
        if self.m_pythondiv:
            return np.asarray(arrays[0] // arrays[1])
        return super().on_sizes(*arrays)


class FloorMod(Binary):
    """The remainder with the divisor's sign (Python's)."""

    kind: ClassVar[str] = "FloorMod"
    scalar: ClassVar[str] = "floormod"
    evaluates_shapes: ClassVar[bool] = True


class Mod(Binary):
    """The remainder with the dividend's sign (C's)."""

    kind: ClassVar[str] = "Mod"
    scalar: ClassVar[str] = "mod"
    evaluates_shapes: ClassVar[bool] = True


class Power(Binary):
    kind: ClassVar[str] = "Power"
    scalar: ClassVar[str] = "pow"


class Maximum(Binary):
    kind: ClassVar[str] = "Maximum"
    scalar: ClassVar[str] = "max"
    evaluates_shapes: ClassVar[bool] = True


class Minimum(Binary):
    kind: ClassVar[str] = "Minimum"
    scalar: ClassVar[str] = "min"
    evaluates_shapes: ClassVar[bool] = True


class SquaredDifference(Binary):
    kind: ClassVar[str] = "SquaredDifference"

    def program(self, b: Builder, *x: Ref) -> Ref:
        difference = b.op("sub", *x)
        return b.op("mul", difference, difference)


class _Bitwise(Binary):
    """Base of bit operations, which on booleans are logic."""

    version: ClassVar[int] = 13
    allowed = INTEGERS | BOOLEAN
    rule = "an integer type or boolean"
    logic: ClassVar[str] = ""

    def program(self, b: Builder, *x: Ref) -> Ref:
        return b.op(self.logic if x[0].dtype is DType.boolean else self.scalar, *x)


class BitwiseAnd(_Bitwise):
    kind: ClassVar[str] = "BitwiseAnd"
    scalar: ClassVar[str] = "bitand"
    logic: ClassVar[str] = "and"


class BitwiseOr(_Bitwise):
    kind: ClassVar[str] = "BitwiseOr"
    scalar: ClassVar[str] = "bitor"
    logic: ClassVar[str] = "or"


class BitwiseXor(_Bitwise):
    kind: ClassVar[str] = "BitwiseXor"
    scalar: ClassVar[str] = "bitxor"
    logic: ClassVar[str] = "xor"


class BitwiseNot(Unary):
    kind: ClassVar[str] = "BitwiseNot"
    version: ClassVar[int] = 13
    scalar: ClassVar[str] = "bitnot"
    allowed = INTEGERS | BOOLEAN
    rule = "an integer type or boolean"

    def program(self, b: Builder, *x: Ref) -> Ref:
        return b.op("not" if x[0].dtype is DType.boolean else "bitnot", *x)


class BitwiseLeftShift(Binary):
    kind: ClassVar[str] = "BitwiseLeftShift"
    version: ClassVar[int] = 15
    scalar: ClassVar[str] = "shl"
    allowed = INTEGERS
    rule = "an integer type"


class BitwiseRightShift(Binary):
    kind: ClassVar[str] = "BitwiseRightShift"
    version: ClassVar[int] = 15
    scalar: ClassVar[str] = "shr"
    allowed = INTEGERS
    rule = "an integer type"


class _Comparison(Binary):
    """Base of comparisons, whose output is boolean. False is less than True."""

    evaluates_shapes: ClassVar[bool] = True
    allowed = NUMBERS | BOOLEAN | {DType.string}
    rule = "numbers, booleans or strings"

    def output_dtype(self, *dtypes: DType | None) -> DType:
        return DType.boolean

    def program(self, b: Builder, *x: Ref) -> Ref:
        if x[0].dtype is DType.boolean and self.scalar not in ("eq", "ne"):
            x = tuple(b.cast(v, DType.u8) for v in x)
        return b.op(self.scalar, *x)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        a, b = (np.asarray(v) for v in arrays)
        if a.dtype.kind in "OUST" and any(isinstance(v, str) for v in chain(a.flat, b.flat)):
            compare = _ON_STRINGS[self.scalar]
            shape = joined_shape(a.shape, b.shape)
            (found,) = map_blocks(
                lambda pair: [np.asarray(compare(*(v.astype("U") for v in pair)))], [a, b], shape
            )
            return (found,)
        return super().evaluate(*arrays)


_ON_STRINGS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


class Equal(_Comparison):
    kind: ClassVar[str] = "Equal"
    scalar: ClassVar[str] = "eq"


class NotEqual(_Comparison):
    kind: ClassVar[str] = "NotEqual"
    scalar: ClassVar[str] = "ne"


class Less(_Comparison):
    kind: ClassVar[str] = "Less"
    scalar: ClassVar[str] = "lt"


class LessEqual(_Comparison):
    kind: ClassVar[str] = "LessEqual"
    scalar: ClassVar[str] = "le"


class Greater(_Comparison):
    kind: ClassVar[str] = "Greater"
    scalar: ClassVar[str] = "gt"


class GreaterEqual(_Comparison):
    kind: ClassVar[str] = "GreaterEqual"
    scalar: ClassVar[str] = "ge"


class _Logical(Binary):
    evaluates_shapes: ClassVar[bool] = True
    allowed = BOOLEAN
    rule = "boolean"


class LogicalAnd(_Logical):
    kind: ClassVar[str] = "LogicalAnd"
    scalar: ClassVar[str] = "and"

    def find_constant_result(self, facts: Sequence[Fact | None]) -> bool | None:
        return _find_absorbing(facts, False)


class LogicalOr(_Logical):
    kind: ClassVar[str] = "LogicalOr"
    scalar: ClassVar[str] = "or"

    def find_constant_result(self, facts: Sequence[Fact | None]) -> bool | None:
        return _find_absorbing(facts, True)


def _find_absorbing(facts: Sequence[Fact | None], absorbing: bool) -> bool | None:
    """The value `absorbing` where all elements of a known input are it."""
    known = [f.value for f in facts if f is not None and f.value is not None]
    return absorbing if any(v.size and np.all(v == absorbing) for v in known) else None


class LogicalXor(_Logical):
    kind: ClassVar[str] = "LogicalXor"
    scalar: ClassVar[str] = "xor"


class LogicalNot(Unary):
    kind: ClassVar[str] = "LogicalNot"
    scalar: ClassVar[str] = "not"
    evaluates_shapes: ClassVar[bool] = True
    allowed = BOOLEAN
    rule = "boolean"
