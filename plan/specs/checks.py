"""Checks that the `verify` methods of several kernel families share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from .base import Operand

# Types that running sums, rankings and combining scatters compute in.
ORDERED: Final = frozenset({DType.f32, DType.f64, DType.i32, DType.i64})

# Types of floats and of integers that kernels load and store.
FLOATS: Final = frozenset({DType.f32, DType.f64, DType.f16, DType.bf16})
INTEGERS: Final = frozenset(
    {
        *(DType.i8, DType.i16, DType.i32, DType.i64),
        *(DType.u8, DType.u16, DType.u32, DType.u64),
    }
)


def spec_error(what: str, where: str, got: object, expected: object) -> VerificationError:
    """The error for a spec that no generator serves."""
    return VerificationError(what, where=where, got=str(got)[:200], expected=expected)


def types_of(operands: Sequence[Operand]) -> list[DType]:
    """The element types of operands."""
    return [o.dtype for o in operands]


def require_types(results: Sequence[DType], outs: Sequence[DType], where: str) -> None:
    """VerificationError where a result's type is not that of the output it is stored in."""
    if list(results) != list(outs):
        got, expected = (", ".join(map(str, t)) for t in (results, outs))
        raise spec_error("a kernel stores other types than its outputs have", where, got, expected)


def require_results(results: Sequence[DType], count: int, where: str) -> None:
    """VerificationError where a program has another number of results."""
    if len(results) != count:
        got = len(results)
        raise spec_error("a program has not as many results as it needs", where, got, count)


def require_floats(types: Sequence[DType], where: str) -> None:
    """VerificationError where a type is not a float."""
    if not all(t.is_float for t in types):
        got = ", ".join(map(str, types))
        raise spec_error("a kernel of floats has another type", where, got, "")


def require_widening(types: Sequence[DType], acc: DType, where: str) -> None:
    """VerificationError where elements cannot be widened to the accumulator's type."""
    for t in types:
        fits = t.is_float is acc.is_float and t.bits <= acc.bits
        if not fits or not (t.is_float or t.is_int):
            raise spec_error("a product's types do not fit", where, t, acc)


def require_bf16(compute_dtype: DType, acc: DType, where: str) -> None:
    """VerificationError where factors are rounded to another type than bf16, or not in f32."""
    if compute_dtype is not DType.bf16 or acc is not DType.f32:
        what = "a product rounds its factors to another type"
        raise spec_error(what, where, compute_dtype, DType.bf16)


def require_one_of(dtype: DType, allowed: Sequence[DType], where: str) -> None:
    """VerificationError where an operand has none of a few types."""
    if dtype not in allowed:
        expected = " or ".join(map(str, allowed))
        raise spec_error("a product's types do not fit", where, dtype, expected)
