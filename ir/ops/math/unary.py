"""Elementwise mathematics of one input."""

from __future__ import annotations

from typing import Any, ClassVar

from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact
from ...scalar.builder import Builder, Ref
from ...types import Type
from .elementwise import FLOATS, FloatUnary, Unary


class Identity(Unary):
    """The input, of any type."""

    kind: ClassVar[str] = "Identity"
    version: ClassVar[int] = 16
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        assert facts[0] is not None
        return (facts[0].type,)

    def program(self, b: Builder, *x: Ref) -> Ref:
        return x[0]

    def evaluate(self, *arrays: Any) -> tuple[Any, ...]:
        return (arrays[0],)


class Abs(Unary):
    kind: ClassVar[str] = "Abs"
    scalar: ClassVar[str] = "abs"
    evaluates_shapes: ClassVar[bool] = True


class Negative(Unary):
    kind: ClassVar[str] = "Negative"
    scalar: ClassVar[str] = "neg"
    evaluates_shapes: ClassVar[bool] = True


class Sign(Unary):
    kind: ClassVar[str] = "Sign"
    scalar: ClassVar[str] = "sign"


class Ceiling(Unary):
    kind: ClassVar[str] = "Ceiling"
    scalar: ClassVar[str] = "ceil"
    evaluates_shapes: ClassVar[bool] = True

    def on_sizes(self, *arrays: Array) -> Array:
        return arrays[0]

    def program(self, b: Builder, *x: Ref) -> Ref:
        return b.op(self.scalar, *x) if x[0].dtype.is_float else x[0]


class Floor(Ceiling):
    kind: ClassVar[str] = "Floor"
    scalar: ClassVar[str] = "floor"


@dataclass(frozen=True)
class Round(Unary):
    kind: ClassVar[str] = "Round"
    version: ClassVar[int] = 5
    mode: str = "half_to_even"
    evaluates_shapes: ClassVar[bool] = True

    def on_sizes(self, *arrays: Array) -> Array:
        return arrays[0]

    def program(self, b: Builder, *x: Ref) -> Ref:
        if not x[0].dtype.is_float:
            return x[0]
        return b.op("round_even" if self.mode.lower() == "half_to_even" else "round_away", *x)


class Sqrt(FloatUnary):
    kind: ClassVar[str] = "Sqrt"
    scalar: ClassVar[str] = "sqrt"


class Exp(FloatUnary):
    kind: ClassVar[str] = "Exp"
    scalar: ClassVar[str] = "exp"


class Log(FloatUnary):
    kind: ClassVar[str] = "Log"
    scalar: ClassVar[str] = "log"


class Erf(FloatUnary):
    kind: ClassVar[str] = "Erf"
    scalar: ClassVar[str] = "erf"


class Sin(FloatUnary):
    kind: ClassVar[str] = "Sin"
    scalar: ClassVar[str] = "sin"


class Cos(FloatUnary):
    kind: ClassVar[str] = "Cos"
    scalar: ClassVar[str] = "cos"


class Tan(FloatUnary):
    kind: ClassVar[str] = "Tan"
    scalar: ClassVar[str] = "tan"


class Asin(FloatUnary):
    kind: ClassVar[str] = "Asin"
    scalar: ClassVar[str] = "asin"


class Acos(FloatUnary):
    kind: ClassVar[str] = "Acos"
    scalar: ClassVar[str] = "acos"


class Atan(FloatUnary):
    kind: ClassVar[str] = "Atan"
    scalar: ClassVar[str] = "atan"


class Sinh(FloatUnary):
    kind: ClassVar[str] = "Sinh"
    scalar: ClassVar[str] = "sinh"


class Cosh(FloatUnary):
    kind: ClassVar[str] = "Cosh"
    scalar: ClassVar[str] = "cosh"


class Asinh(FloatUnary):
    kind: ClassVar[str] = "Asinh"
    version: ClassVar[int] = 4
    scalar: ClassVar[str] = "asinh"


class Acosh(FloatUnary):
    kind: ClassVar[str] = "Acosh"
    version: ClassVar[int] = 4
    scalar: ClassVar[str] = "acosh"


class Atanh(FloatUnary):
    kind: ClassVar[str] = "Atanh"
    version: ClassVar[int] = 4
    scalar: ClassVar[str] = "atanh"


class _Predicate(Unary):
    version: ClassVar[int] = 10
    allowed = FLOATS
    rule = "a float type"

    def output_dtype(self, *dtypes: DType | None) -> DType:
        return DType.boolean


class IsNaN(_Predicate):
    kind: ClassVar[str] = "IsNaN"
    scalar: ClassVar[str] = "isnan"


@dataclass(frozen=True)
class IsInf(_Predicate):
    kind: ClassVar[str] = "IsInf"
    detect_negative: bool = True
    detect_positive: bool = True

    def program(self, b: Builder, *x: Ref) -> Ref:
        infinite, zero = b.op("isinf", *x), b.const(0, x[0].dtype)
        if self.detect_negative and self.detect_positive:
            return infinite
        if not self.detect_negative and not self.detect_positive:
            return b.const(False, DType.boolean)
        return b.op("and", infinite, b.op("gt" if self.detect_positive else "lt", x[0], zero))


class IsFinite(_Predicate):
    kind: ClassVar[str] = "IsFinite"

    def program(self, b: Builder, *x: Ref) -> Ref:
        return b.op("not", b.op("or", b.op("isnan", *x), b.op("isinf", *x)))
