"""Arithmetic words of a Function: integers (folded where known), floats, comparisons, casts.

Every operand may be a Python number: it takes the other operand's type (i64 where both are
numbers). Floats get no fast-math flags: nothing is reordered or fused behind the writer's back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from .values import (
    F32,
    F64,
    I1,
    LLVM_F16,
    Value,
    bits_of,
    element_of,
    integer,
    is_float,
    vec,
)
from .vectors import Vectors

Number = Value | int | float

_INT_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}


class Arith(Vectors):
    # -- integers -----------------------------------------------------------------------------

    def _integers(self, opcode: str, a: Number, b: Number) -> Value:
        x, y = self.pair(a, b)
        if x.known is not None and y.known is not None:
            n = self._fold(opcode, x.known, y.known, bits_of(x.type))
            if n is not None:
                return integer(n, x.type)
        return self.op(x.type, f"{opcode} {x}, {y.text}")

    @staticmethod
    def _fold(opcode: str, a: int, b: int, bits: int) -> int | None:
        if opcode in _INT_FOLD:
            return _INT_FOLD[opcode](a, b)
        mask = (1 << bits) - 1
        if opcode in ("udiv", "urem", "sdiv", "srem"):
            if b == 0:
                return None
            if opcode[0] == "u":
                quotient, rest = divmod(a & mask, b & mask)
            else:
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                rest = a - b * quotient
            return quotient if opcode.endswith("div") else rest
        if not 0 <= b < bits:
            return None
        return {"shl": a << b, "lshr": (a & mask) >> b, "ashr": a >> b}[opcode]

    def add(self, a: Number, b: Number) -> Value:
        """a + b of integers, modulo 2**bits."""
        x, y = self.pair(a, b)
        if x.known == 0:
            return y
        return x if y.known == 0 else self._integers("add", x, y)

    def sub(self, a: Number, b: Number) -> Value:
        """a - b of integers, modulo 2**bits."""
        x, y = self.pair(a, b)
        return x if y.known == 0 else self._integers("sub", x, y)

    def mul(self, a: Number, b: Number) -> Value:
        """a * b of integers, modulo 2**bits."""
        x, y = self.pair(a, b)
        if x.known == 1 or y.known == 0:
            return y
        return x if y.known == 1 or x.known == 0 else self._integers("mul", x, y)

    def udiv(self, a: Number, b: Number) -> Value:
        """Unsigned a / b; b must not be 0."""
        x, y = self.pair(a, b)
        return x if y.known == 1 else self._integers("udiv", x, y)

    def urem(self, a: Number, b: Number) -> Value:
        """Unsigned a % b; b must not be 0."""
        return self._integers("urem", a, b)

    def sdiv(self, a: Number, b: Number) -> Value:
        """Signed a / b toward zero; b must not be 0, nor MIN / -1."""
        x, y = self.pair(a, b)
        return x if y.known == 1 else self._integers("sdiv", x, y)

    def srem(self, a: Number, b: Number) -> Value:
        """Signed remainder with a's sign; b must not be 0, nor MIN % -1."""
        return self._integers("srem", a, b)

    def ceil_div(self, a: Number, b: Number) -> Value:
        """Unsigned (a + b - 1) / b."""
        return self.udiv(self.add(a, self.sub(b, 1)), b)

    def round_down(self, a: Value, step: int) -> Value:
        """The largest multiple of `step` that is at most a, unsigned; a itself where it is one."""
        return a if a.is_multiple(step) else self.mul(self.udiv(a, step), step)

    def shl(self, a: Number, b: Number) -> Value:
        return self._integers("shl", a, b)

    def lshr(self, a: Number, b: Number) -> Value:
        return self._integers("lshr", a, b)

    def ashr(self, a: Number, b: Number) -> Value:
        return self._integers("ashr", a, b)

    def and_(self, a: Number, b: Number) -> Value:
        return self._integers("and", a, b)

    def or_(self, a: Number, b: Number) -> Value:
        return self._integers("or", a, b)

    def xor(self, a: Number, b: Number) -> Value:
        return self._integers("xor", a, b)

    def not_(self, a: Value) -> Value:
        return self.xor(a, -1)

    def smin(self, a: Number, b: Number) -> Value:
        """Signed minimum; folds."""
        return self._choose("smin", min, a, b)

    def smax(self, a: Number, b: Number) -> Value:
        """Signed maximum; folds."""
        return self._choose("smax", max, a, b)

    def _choose(self, name: str, fold: Callable[[int, int], int], a: Number, b: Number) -> Value:
        x, y = self.pair(a, b)
        if x.known is not None and y.known is not None:
            return integer(fold(x.known, y.known), x.type)
        return self.intrinsic(name, x, y)

    # -- floats -------------------------------------------------------------------------------

    def _floats(self, opcode: str, a: Number, b: Number, flags: str) -> Value:
        x, y = self.pair(a, b)
        return self.op(x.type, f"{opcode} {flags}{' ' if flags else ''}{x}, {y.text}")

    def fadd(self, a: Number, b: Number, flags: str = "") -> Value:
        return self._floats("fadd", a, b, flags)

    def fsub(self, a: Number, b: Number, flags: str = "") -> Value:
        return self._floats("fsub", a, b, flags)

    def fmul(self, a: Number, b: Number, flags: str = "") -> Value:
        return self._floats("fmul", a, b, flags)

    def fdiv(self, a: Number, b: Number, flags: str = "") -> Value:
        return self._floats("fdiv", a, b, flags)

    def fneg(self, a: Value) -> Value:
        """Flips the sign bit, also of zeros and NaN."""
        return self.op(a.type, f"fneg {a}")

    def fabs(self, a: Value) -> Value:
        return self.intrinsic("fabs", a)

    def copysign(self, magnitude: Number, sign: Value) -> Value:
        return self.intrinsic("copysign", self.as_value(magnitude, sign.type), sign)

    def fma(self, a: Number, b: Number, c: Number) -> Value:
        """a * b + c: rounded once where the Target has FMA, else twice. Never a library call, but
        of LLVM's own f16 where the Target has no arithmetic of f16."""
        type_ = next(x.type for x in (a, b, c) if isinstance(x, Value))
        x, y, z = (self.as_value(v, type_) for v in (a, b, c))
        if self.target.fma and element_of(type_) in (F32, F64, LLVM_F16):
            return self.intrinsic("fma", x, y, z)
        return self.fadd(self.fmul(x, y), z)

    def sqrt(self, a: Value) -> Value:
        """Correctly rounded; NaN below zero, -0 for -0."""
        return self.intrinsic("sqrt", a)

    def maximum(self, a: Number, b: Number) -> Value:
        """NaN if either is (the promised Max, Relu, ReduceMax); maximum(-0, +0) is +0."""
        return self.intrinsic("maximum", *self.pair(a, b))

    def minimum(self, a: Number, b: Number) -> Value:
        """NaN if either is; minimum(-0, +0) is -0."""
        return self.intrinsic("minimum", *self.pair(a, b))

    def max_or(self, a: Number, b: Number) -> Value:
        """a > b ? a : b, one instruction: b where either is NaN or both are zeros."""
        x, y = self.pair(a, b)
        return self.select(self.fcmp("ogt", x, y), x, y)

    def min_or(self, a: Number, b: Number) -> Value:
        """a < b ? a : b, one instruction: b where either is NaN or both are zeros."""
        x, y = self.pair(a, b)
        return self.select(self.fcmp("olt", x, y), x, y)

    def clamp(self, x: Value, lo: Number, hi: Number) -> Value:
        """x limited to [lo, hi]; NaN stays NaN (two instructions)."""
        return self.max_or(lo, self.min_or(hi, x))

    # -- comparisons --------------------------------------------------------------------------

    def icmp(self, predicate: str, a: Number, b: Number) -> Value:
        """predicate: eq ne slt sle sgt sge ult ule ugt uge."""
        x, y = self.pair(a, b)
        if x.known is not None and y.known is not None:
            if predicate in _COMPARE:
                return integer(_COMPARE[predicate](x.known, y.known), I1)
            mask = (1 << bits_of(x.type)) - 1
            known = _COMPARE["s" + predicate[1:]](x.known & mask, y.known & mask)
            return integer(known, I1)
        if x.text == y.text and x.lanes == 1:
            return integer(predicate in ("eq", "sle", "sge", "ule", "uge"), I1)
        return self.op(vec(I1, x.lanes), f"icmp {predicate} {x}, {y.text}")

    def fcmp(self, predicate: str, a: Number, b: Number) -> Value:
        """predicate: oeq ogt oge olt ole one ord (false on NaN), ueq ugt ... une uno (true)."""
        x, y = self.pair(a, b)
        return self.op(vec(I1, x.lanes), f"fcmp {predicate} {x}, {y.text}")

    def select(self, condition: Value, a: Number, b: Number) -> Value:
        """a where the condition holds, else b; an i1 condition may choose whole vectors."""
        x, y = self.pair(a, b)
        if condition.known is not None:
            return x if condition.known else y
        return self.op(x.type, f"select {condition}, {x}, {y}")

    # -- casts --------------------------------------------------------------------------------

    def cast(self, a: Value, element: str, *, signed_: bool = True) -> Value:
        """Convert every lane to another element type; f16 and bf16 are for HalfCasts.

        Integers: widened by their sign or zeros, narrowed modulo 2**bits. Float to integer:
        toward zero, saturating, NaN -> 0. Integer or float to float: nearest even. `signed_` is
        the signedness of the integer side.
        """
        if a.element == element:
            return a
        to = vec(element, a.lanes)
        if is_float(element):
            if is_float(a.type):
                return self.op(to, f"{'fpext' if element == F64 else 'fptrunc'} {a} to {to}")
            sign = "si" if signed_ and a.element != I1 else "ui"
            return self.op(to, f"{sign}tofp {a} to {to}")
        if a.known is not None:
            n = a.known if signed_ and a.type != I1 else a.known & ((1 << bits_of(a.type)) - 1)
            return integer(n, to)
        if is_float(a.type):
            name = "fptosi.sat" if signed_ else "fptoui.sat"
            return self.intrinsic(name, a, returns=to, by_result=True)
        if bits_of(element) < bits_of(a.type):
            return self.op(to, f"trunc {a} to {to}")
        return self.op(to, f"{'sext' if signed_ and a.element != I1 else 'zext'} {a} to {to}")
