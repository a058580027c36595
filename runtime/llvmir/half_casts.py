"""Casts of a Function that convert from and to f16 and bf16 as well."""

from __future__ import annotations

from .arith import Arith
from .half_conversions import bf16_from_f32, f16_from_f32, f32_from_f16, f32_rounded_to_odd
from .values import F16, F32, F64, Value, bits_of, is_float


def _is_half(type_: str) -> bool:
    return is_float(type_) and bits_of(type_) == 16


class HalfCasts(Arith):
    def cast(self, a: Value, element: str, *, signed_: bool = True) -> Value:
        """Convert every lane to another element type.

        Integers: widened by their sign or zeros, narrowed modulo 2**bits. Float to integer:
        toward zero, saturating, NaN -> 0. Integer or float to float: nearest even, f16 and bf16
        too, denormals kept, on every instruction set. `signed_` is the signedness of the integer
        side.
        """
        if a.element == element:
            return a
        if _is_half(a.type):
            return self.cast(f32_from_f16(self, a), element, signed_=signed_)
        if not _is_half(element):
            return super().cast(a, element, signed_=signed_)
        if not is_float(a.type):
            # f16: what f32 can't hold exactly is infinite anyway. bf16: through f64, exact up to
            # 32 bits; wider integers beyond 2**53 round twice.
            through = F32 if element == F16 or bits_of(a.type) <= 16 else F64
            return self.cast(super().cast(a, through, signed_=signed_), element)
        single = a if a.element == F32 else f32_rounded_to_odd(self, a)
        return f16_from_f32(self, single) if element == F16 else bf16_from_f32(self, single)
