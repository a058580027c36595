"""What the generator of matrix products may rely on."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtype import DType
from ..packing.panel_params import (
    BYTES,
    CONVERTIBLE,
    cell_depth,
    cell_type,
    compressed_layout,
    factor_types,
    panel_width,
)
from ..specs.base import Operand
from ..specs.gemm import Compressed, GemmSpec
from ..target import Target
from .scalar_program import broken, stored, types_of, verify_program


def verify_gemm(s: GemmSpec, target: Target, where: str) -> None:
    """VerificationError where types, layouts or programs are none that lowering writes."""
    _splits(s, where)
    if s.compressed is not None:
        _compressed(s, s.compressed, target, where)
        return
    if s.packed is not None and s.packed.nr != (nr := panel_width(target, s.acc.bits)):
        raise broken("packed panels have another width", where, s.packed.nr, nr)
    kind = cell_type(s)
    if s.packed is not None and s.packed.kr != (kr := cell_depth(target, kind)):
        raise broken("packed panels have cells of another depth", where, s.packed.kr, kr)
    if s.packed is not None and s.packed.column_sums != (kind is DType.i8):
        raise broken("packed panels have sums, or lack them", where, s.packed, s.b.dtype)
    _casts(s, where)
    fit_factors(factor_types(s), s.acc, where)
    _bytes(s, where)
    if s.compute_dtype is not None:
        fit_rounded(s.compute_dtype, s.acc, where)
        left, right = factor_types(s)
        fit_one_of(left, (DType.bf16, DType.f32), where)
        packed = s.packed is not None
        fit_one_of(right, (DType.bf16,) if packed else (DType.bf16, DType.f32), where)
    results = verify_program(s.epilogue, [s.acc, *types_of(s.epilogue_operands)], where)
    stored(results, [s.out.dtype], where)


def _compressed(s: GemmSpec, c: Compressed, target: Target, where: str) -> None:
    """Integers of at most 8 bits in the panels that kernels expand; sums of f32."""
    if s.zero_points:
        raise broken(
            "zero points of bytes besides compressed weights", where, len(s.zero_points), 0
        )
    assert isinstance(s.k, int) and isinstance(s.n, int)
    layout = compressed_layout(s.k, s.n, s.b.dtype, c.group, target)
    if layout is None or s.packed != layout:
        raise broken("compressed weights have another layout", where, s.packed, layout)
    for o in (s.b, *s.scaling()):
        if any(o.strides) or o.offset != 0:
            raise broken("compressed weights are not a single matrix", where, o.strides, 0)
    if c.scale.dtype not in (DType.f32, DType.f16, DType.bf16):
        raise broken("scales of another type", where, c.scale.dtype, "f32, f16 or bf16")
    if c.normal and c.scale.dtype is DType.f32:
        raise broken("f32 scales are called normal", where, c.scale.dtype, "f16 or bf16")
    if isinstance(c.zero_point, Operand):
        if c.zero_point.dtype not in (DType.u8, DType.i8):
            raise broken("zeros of another type", where, c.zero_point.dtype, "u8 or i8")
    elif not -256 < c.zero_point < 256:
        raise broken("a zero that is not a value of the weights", where, c.zero_point, "-255..255")
    if s.acc is not DType.f32 or s.compute_dtype not in (None, DType.bf16):
        raise broken("compressed weights are multiplied as f32", where, s.acc, DType.f32)
    _casts(s, where)
    left = factor_types(s)[0]
    fit_factors([left], s.acc, where)
    if s.compute_dtype is not None and left is DType.f16:
        raise broken("a product's types do not fit", where, left, "bf16 or f32")
    results = verify_program(s.epilogue, [s.acc, *types_of(s.epilogue_operands)], where)
    stored(results, [s.out.dtype], where)


def _casts(s: GemmSpec, where: str) -> None:
    """Integers and floats of whole bytes are converted, to floats, and no packed constant."""
    for of, cast in ((s.a, s.a_cast), (s.b, s.b_cast)):
        fits = cast is None or (cast.is_float and of.dtype in CONVERTIBLE)
        if not fits:
            raise broken("a product converts what no kernel converts", where, of.dtype, cast)
    if s.b_cast is not None and s.packed is not None:
        raise broken("a product converts a packed constant", where, s.b_cast, None)


def _splits(s: GemmSpec, where: str) -> None:
    """Sizes of blocks divide; RegionLayoutTables holds their product against the axis."""
    for size, split in s.splits():
        if any(isinstance(x, int) and x < 1 for x in split):
            raise broken("an axis is split into nothing", where, split, size)
    apart = s.a_m_split is not None or s.a_k_split is not None
    if apart and not (isinstance(s.n, int) and s.n > 1):
        raise broken("a product with one column walks its rows by two strides", where, s.n, None)


def fit_factors(types: Sequence[DType], acc: DType, where: str) -> None:
    """Elements can be widened to the accumulator's type."""
    for t in types:
        fits = t.is_float is acc.is_float and t.bits <= acc.bits
        if not fits or not (t.is_float or t.is_int):
            raise broken("a product's types do not fit", where, t, acc)


def fit_rounded(factors: DType, acc: DType, where: str) -> None:
    """Factors are rounded to bf16 only, in f32."""
    if factors is not DType.bf16 or acc is not DType.f32:
        raise broken("a product rounds its factors to another type", where, factors, DType.bf16)


def fit_one_of(dtype: DType, allowed: Sequence[DType], where: str) -> None:
    """An operand has one of a few types."""
    if dtype not in allowed:
        expected = " or ".join(map(str, allowed))
        raise broken("a product's types do not fit", where, dtype, expected)


def _bytes(s: GemmSpec, where: str) -> None:
    """Bytes are multiplied by bytes, summed in i32, and only they have zero points."""
    left, right = factor_types(s)
    either = left in BYTES or right in BYTES
    if either or s.zero_points:
        both = left in BYTES and right in BYTES
        if not both or s.acc is not DType.i32 or s.compute_dtype is not None:
            got = f"{left} by {right} in {s.acc}"
            raise broken("a product's types do not fit", where, got, "u8 or i8, in i32")
    for zero, of in ((s.a_zero_point, s.a), (s.b_zero_point, s.b)):
        if zero is not None and zero.dtype is not of.dtype:
            raise broken("a zero point is not of its operand's type", where, zero.dtype, of.dtype)
