"""Dot products of four bytes per 32-bit lane, summed in i32: the instruction per Target.

The left factor is a weight, the right one an activation of -127 to 127. No form saturates:
vpmaddubsw adds two products in 16 bits, at most 2 x 128 x 127, and sums of 4-bit weights stay in 16
bits for `MAX_NARROW_DOTS` of them (15 x 127 x 2 x 8 < 2^15).
"""

from __future__ import annotations

from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import cell_depth
from ....plan.target import Isa, Target
from ...llvmir.builder import Function
from ...llvmir.values import I8, I16, I32, Value, vec
from .dot_units import UNITS, DotUnit, find_unit

# Dot products of 4-bit weights that are summed in 16 bits before they are widened.
MAX_NARROW_DOTS: Final = 8

_MULTIPLY_BYTES: Final[dict[Isa, str]] = {
    "avx512": "llvm.x86.avx512.pmaddubs.w.512",
    "avx2": "llvm.x86.avx2.pmadd.ub.sw",
}


@dataclass(frozen=True)
class ByteDots:
    """Writes dot products for vectors of `lanes` sums."""

    target: Target
    lanes: int

    @property
    def takes_unsigned(self) -> bool:
        """Whether 8-bit weights are u8, and not i8."""
        return self._unit is not None and self._unit.left is DType.u8

    @property
    def sums_in_16_bits(self) -> bool:
        """Whether dot products of 4-bit weights are summed in 16 bits first (`add_narrow`)."""
        return self._unit is None and self.target.isa in _MULTIPLY_BYTES

    def flipped_bits(self, weights: DType) -> int:
        """Bits of cells that are flipped, so that values have the sign that is multiplied."""
        if weights.bits == 4:
            return 0x88888888 if weights.is_signed else 0
        return 0x80808080 if weights.is_signed == self.takes_unsigned else 0

    def shift(self, weights: DType) -> int:
        """What flipping these bits adds to values."""
        half = 1 << weights.bits - 1
        if not self.flipped_bits(weights):
            return 0
        return half if weights.is_signed else -half

    @property
    def _unit(self) -> DotUnit | None:
        """What multiplies cells of four bytes (VNNI, DotProd), where the Target has it."""
        depth = cell_depth(self.target, DType.i8)
        return find_unit(self.target, DType.i8, depth, self.lanes) if depth == 4 else None

    def add_narrow(self, f: Function, total: Value, weights: Value, x: Value) -> Value:
        """total + the products of 4-bit weights, one to a byte, in pairs: two i16 per lane."""
        return f.add(total, self._multiply_bytes(f, weights, x))

    def widen(self, f: Function, narrow: Value) -> Value:
        """The sum of each lane's two i16, as i32."""
        return self._add_pairs(f, narrow, f.as_value(1, narrow.type))

    def add(self, f: Function, total: Value, weights: Value, x: Value, *, small: bool) -> Value:
        """total + the dot products of each lane's four bytes. small: weights are 0 to 15."""
        if unit := self._unit:
            pair = [f.bitcast(v, unit.factors) for v in (weights, x)]
            return f.call(unit.intrinsic, total.type, total, *pair)
        if self.target.isa == "avx2" and not small:
            # The product of |w| and x with the sign of w: the left factor must be unsigned.
            kind = vec(I8, 4 * self.lanes)
            w = f.bitcast(weights, kind)
            size = f.intrinsic("abs", w, f.as_value(0, "i1"))
            signed = f.call("llvm.x86.avx2.psign.b", kind, f.bitcast(x, kind), w)
            return f.add(total, self.widen(f, self._multiply_bytes(f, size, signed)))
        if self.target.isa == "neon":
            for shift in (24, 16, 8, 0):
                a, b = (f.ashr(f.shl(v, shift), 24) for v in (weights, x))
                total = f.add(total, f.mul(a, b))
            return total
        kind = vec(I16, 2 * self.lanes)
        a, b = (f.bitcast(v, kind) for v in (weights, x))
        for even in (True, False):
            parts = [f.ashr(f.shl(v, 8) if even else v, 8) for v in (a, b)]
            total = f.add(total, self._add_pairs(f, *parts))
        return total

    def _multiply_bytes(self, f: Function, unsigned: Value, signed: Value) -> Value:
        kind = vec(I8, 4 * self.lanes)
        pair = [f.bitcast(v, kind) for v in (unsigned, signed)]
        return f.call(_MULTIPLY_BYTES[self.target.isa], vec(I16, 2 * self.lanes), *pair)

    def _add_pairs(self, f: Function, a: Value, b: Value) -> Value:
        unit = UNITS[DType.i8, 2, self.lanes]
        return f.call(unit.intrinsic, vec(I32, self.lanes), a, b)
