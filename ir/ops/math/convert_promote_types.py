"""The common element type of two values: ConvertPromoteTypes."""

from __future__ import annotations

from typing import ClassVar

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from .convert import convert_array

_BY_BITS = {4: DType.i4, 8: DType.i8, 16: DType.i16, 32: DType.i32, 64: DType.i64}
_FLOAT8 = frozenset([DType.f8e4m3, DType.f8e5m2])
_FLOAT16 = frozenset([DType.f16, DType.bf16])


@dataclass(frozen=True)
class ConvertPromoteTypes(Op):
    """Both inputs as one element type that holds them.

    Of a float and an integer the float; of signed and unsigned integers a signed one of twice the
    unsigned one's bits; `u64_integer_promotion_target` for u64 and a signed integer. Without
    `promote_unsafe` a type that may lose values is refused. `pytorch_scalar_promotion`: a scalar
    takes the other one's type where both are floats or both are integers.
    """

    kind: ClassVar[str] = "ConvertPromoteTypes"
    version: ClassVar[int] = 14
    inputs: ClassVar[tuple[Port, ...]] = (Port("input_0"), Port("input_1"))
    outputs: ClassVar[tuple[Port, ...]] = (Port("output_0"), Port("output_1"))
    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DType = DType.f32

    def infer(self, first: Fact, second: Fact) -> tuple[Type, ...]:
        a, b = first.tensor, second.tensor
        common = self.common_type(a, b)
        return (TensorType(common, a.shape), TensorType(common, b.shape))

    def evaluate(self, first: Array, second: Array) -> tuple[Array, ...]:
        a, b = (TensorType(DType.from_numpy(x.dtype), x.shape) for x in (first, second))
        common = self.common_type(a, b)
        return convert_array(first, common), convert_array(second, common)

    def common_type(self, a: TensorType, b: TensorType) -> DType:
        """The element type of both outputs. ShapeError where the rules allow none."""
        one, two = a.dtype, b.dtype
        if DType.dynamic in (one, two):
            return DType.dynamic
        if one is two or two is DType.boolean:
            return one
        if one is DType.boolean:
            return two
        for dtype in (one, two):
            if not dtype.is_float and not dtype.is_int:
                raise self._promotion_error(a, b, "an element type is not a number")
        if one.is_float != two.is_float:
            real, integer = (one, two) if one.is_float else (two, one)
            if not self.promote_unsafe and real.bits < 2 * integer.bits:
                raise self._promotion_error(a, b, "the float may not hold the integer")
            return real
        if self.pytorch_scalar_promotion and (a.rank == 0) != (b.rank == 0):
            return self._type_of_tensor(a, b)
        if one.is_signed != two.is_signed:
            return self._type_of_signs(a, b)
        if one.bits != two.bits:
            return one if one.bits > two.bits else two
        if self.promote_unsafe and frozenset((one, two)) == _FLOAT8:
            return DType.f16
        if self.promote_unsafe and frozenset((one, two)) == _FLOAT16:
            return DType.f32
        raise self._promotion_error(a, b, "no element type holds both safely")

    def _type_of_tensor(self, a: TensorType, b: TensorType) -> DType:
        to, scalar = (b.dtype, a.dtype) if a.rank == 0 else (a.dtype, b.dtype)
        same = to.is_signed == scalar.is_signed and to.bits >= scalar.bits
        wider = to.is_signed and not scalar.is_signed and 2 * to.bits >= scalar.bits
        if not (self.promote_unsafe or same or wider):
            raise self._promotion_error(a, b, "the tensor's element type may not hold the scalar")
        return to

    def _type_of_signs(self, a: TensorType, b: TensorType) -> DType:
        signed, unsigned = (a.dtype, b.dtype) if a.dtype.is_signed else (b.dtype, a.dtype)
        if unsigned.bits <= 32 and (self.promote_unsafe or 2 * unsigned.bits <= signed.bits):
            return _BY_BITS[max(2 * unsigned.bits, signed.bits)]
        if not self.promote_unsafe:
            raise self._promotion_error(a, b, "no signed integer holds the unsigned one safely")
        return self.u64_integer_promotion_target

    def _promotion_error(self, a: TensorType, b: TensorType, what: str) -> ShapeError:
        return ShapeError(
            f"ConvertPromoteTypes cannot promote these types: {what}",
            got=f"{a.dtype} and {b.dtype}",
            fix=None if self.promote_unsafe else "set promote_unsafe, or insert a Convert",
        )
