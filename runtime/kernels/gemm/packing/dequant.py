"""Compressed right operands: small integers that become floats right before they are multiplied.

A cell is 32 bits that hold neighbours of one column along K: four bytes, or eight 4-bit values.
A vector of cells is expanded lane by lane, without widening moves: a value at bit p of a cell,
cut out and put under the exponent of 2^(23 - p), is the float 2^(23 - p) + q; a subtraction, exact,
leaves q less its zero. So a value costs an `and` with an `xor` (one instruction on AVX-512), a
subtraction, and the multiplication by its scale, which alone rounds. An offset is added with that
multiplication where the processor does both at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....plan.packing.layouts import PackedLayout
from .....plan.specs.base import Operand
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import ELEMENT, F32, I8, Value, number, vec

# Bits of a cell, the lower half of which lies under an exponent.
CELL_BITS: Final = 32
_HALF_CELL_BITS: Final = 16
# f32 has 13 bits more than f16, and 16 more than bf16.
SPLIT: Final = {DType.f16: 2.0**13 + 1, DType.bf16: 2.0**16 + 1}


@dataclass(frozen=True)
class Scaling:
    """What one vector of columns is expanded with in one group.

    scale, centre: by the bit at which a value is in its half of a cell. With an empty `centre` the
    integer there, which is the value times a power of two, is converted and multiplied by `scale`;
    else `centre` is subtracted from the float 2^(23 - p) + q first.
    """

    scale: dict[int, Value]
    centre: dict[int, Value]
    # The scale times SPLIT, where weights are rounded to its type by arithmetic.
    split: Value | None = None
    # What is added to the product, with one rounding for both.
    offset: Value | None = None


@dataclass(frozen=True)
class GroupFactors:
    """Scales of a vector of columns in one group, and their zeros and offsets, where there are."""

    scale: Value
    zero: Value | None
    offset: Value | None


class Dequantizer:
    """Writes expansions of a product's right operand, `lanes` columns at a time.

    fused: whether the processor multiplies and adds with one rounding. kr: values of a cell; group:
    rows of K that share their scales; row, panel: bytes of one row of cells and of one panel.
    """

    def __init__(self, spec: GemmSpec, lanes: int, *, fused: bool) -> None:
        assert spec.compressed is not None and spec.packed is not None
        assert isinstance(spec.k, int)
        self.spec, self.compressed, self.lanes = spec, spec.compressed, lanes
        self.dtype, self.nr, self.k = spec.b.dtype, spec.packed.nr, spec.k
        self.kr, self.group = CELL_BITS // self.dtype.bits, min(self.compressed.group, spec.k)
        self.row = self.nr * CELL_BITS // 8
        self.panel = PackedLayout.of(spec.packed, spec.k, self.nr).nbytes(self.dtype.bits)
        c = self.compressed
        self._bias = 1 << self.dtype.bits - 1 if self.dtype.is_signed else 0
        self._zero_point = c.zero_point if isinstance(c.zero_point, int) else 0
        # Whether something is subtracted from values as they are stored.
        self._subtracts = isinstance(c.zero_point, Operand) or self._bias + self._zero_point != 0
        self.converts = self._adds_zero_points(fused)

    def _adds_zero_points(self, fused: bool) -> bool:
        """Whether (q - zero) * scale has the bits of q * scale + (-zero * scale), which takes an
        instruction less: the second product must be exact, and the sum be rounded once."""
        c, zero = self.compressed, self._bias + self._zero_point
        if c.offset is not None:
            return not self._subtracts
        if c.rounded and c.scale.dtype is not DType.f32:
            return False
        if not self._subtracts:
            return True
        narrow = c.scale.dtype is not DType.f32
        power = isinstance(c.zero_point, int) and abs(zero).bit_count() == 1
        return fused and (narrow or power)

    def load_scaling(
        self, f: Function, pointers: Sequence[Value], panel: Value, group: Value, column: Value
    ) -> Scaling:
        """Of the columns of a panel from `column` on; pointers: to all scales, and zeros or
        offsets."""
        c, bias = self.compressed, self._bias
        found = self.load_factors(f, pointers, panel, group, column, bias)
        scale, offset = found.scale, found.offset
        zero = f.as_value(0.0, scale.type) if found.zero is None else found.zero
        positions = range(0, _HALF_CELL_BITS, self.dtype.bits)
        if self.converts:
            if self._subtracts:
                offset = f.fneg(f.fmul(scale, zero))
            return Scaling({p: f.fmul(scale, 2.0**-p) for p in positions}, {}, offset=offset)
        centre = {p: f.fadd(zero, 2.0 ** (23 - p)) for p in positions}
        split = f.fmul(scale, SPLIT[c.scale.dtype]) if c.normal and c.rounded else None
        return Scaling(dict.fromkeys(positions, scale), centre, split, offset)

    def load_factors(
        self,
        f: Function,
        pointers: Sequence[Value],
        panel: Value,
        group: Value,
        column: Value,
        shift: int,
    ) -> GroupFactors:
        """The same as the model has them, for values that are read `shift` larger."""
        c = self.compressed
        row = f.add(f.mul(panel, self.spec.groups()), group)
        at = f.add(f.mul(row, self.nr), column)
        scale = _load_floats(f, pointers[0], at, c.scale.dtype, self.lanes)
        zero = offset = None
        if isinstance(c.zero_point, Operand):
            own = _load_floats(f, pointers[1], at, c.zero_point.dtype, self.lanes)
            zero = f.fadd(own, float(shift)) if shift else own
        elif c.zero_point + shift:
            zero = number(float(c.zero_point + shift), vec(F32, self.lanes))
        if c.offset is not None:
            offset = _load_floats(f, pointers[-1], at, c.offset.dtype, self.lanes)
        return GroupFactors(scale, zero, offset)

    def halves(self, f: Function, cells: Value) -> tuple[Value, Value]:
        """The cells, and their upper halves where the lower ones were."""
        return cells, f.lshr(cells, _HALF_CELL_BITS)

    def value(self, f: Function, halves: tuple[Value, Value], s: Scaling, j: int) -> Value:
        """Value `j` along K of each lane's cell, in f32."""
        bits = self.dtype.bits
        half, shift = divmod(j * bits, _HALF_CELL_BITS)
        word = f.and_(halves[half], ((1 << bits) - 1) << shift)
        # A sign that is flipped counts from 0.
        sign = 1 << (shift + bits - 1) if self.dtype.is_signed else 0
        scale = s.scale[shift]
        if self.converts:
            q = f.cast(f.xor(word, sign), F32)
        else:
            word = f.xor(word, (127 + 23 - shift) << 23 | sign)
            q = f.fsub(f.bitcast(word, vec(F32, self.lanes)), s.centre[shift])
        if s.offset is not None:
            return f.fma(q, scale, s.offset)
        if self.converts or not self.compressed.rounded:
            return f.fmul(q, scale)
        if s.split is None:
            return self._round_to_scale_type(f, f.fmul(q, scale))
        # Veltkamp's splitting: c - (c - x) with c = x * (2^13 + 1) is x rounded to 11 bits (2^16: 8
        # of them), here to nearest even, as tests see for all x that there are; x itself is never
        # needed.
        c = f.fmul(q, s.split)
        return f.fsub(c, f.fma(f.fneg(q), scale, c))

    def _round_to_scale_type(self, f: Function, x: Value) -> Value:
        """To the scales' type."""
        dtype = self.compressed.scale.dtype
        return x if dtype is DType.f32 else f.cast(f.cast(x, ELEMENT[dtype.value]), F32)


def walked_type(operand: Operand) -> str:
    """What an operand's strides count. Those of compressed weights are 0."""
    return ELEMENT.get(operand.dtype.value, I8)


def _load_floats(f: Function, base: Value, at: Value, dtype: DType, lanes: int) -> Value:
    element = ELEMENT[dtype.value]
    x = f.load(vec(element, lanes), f.at(base, at, element))
    return f.cast(x, F32, signed_=dtype.is_signed)
