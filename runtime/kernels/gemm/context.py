"""What all parts of one product's kernel share: spec, tiling, frame, and how tiles walk operands.

It imports no other part of the family but its data, so that every part can import it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.dtype import DType
from ....plan.packing.layouts import PackedLayout
from ....plan.specs.base import Size
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import Value
from ..emit.casts import cast, from_memory
from ..emit.register_tile import TileFrame
from . import bf16_rounding as rounding
from .packing.dequant import Dequantizer
from .tiling_params import Tiling
from .zero_point_corrections import find_corrections


@dataclass(frozen=True)
class TileShape:
    """A register tile: `panels` panels of `vectors` registers side by side. An `edge` tile may
    have fewer columns than it computes: it takes their number and masks what lies beyond. One
    `in_place` reads A where it lies although other tiles read a copy."""

    rows: int
    vectors: int
    panels: int
    edge: bool
    in_place: bool = False


@dataclass(frozen=True)
class Access:
    """How a tile walks an operand, in elements of `dtype`. A: element (i, k) at i * `across` +
    k * `step`. B: element (k, column) at k * `step` + column, panels `across` apart. Packed cells
    are elements of type i32 or i16; `cell` is their type where other elements are read as cells."""

    dtype: DType
    across: Size
    step: Size
    cell: DType | None = None


class GemmContext(TileFrame):
    """What all parts of one kernel share: the spec, its tiling, and the frame of a matrix."""

    def __init__(self, spec: GemmSpec, target: Target, module: Module, tiling: Tiling) -> None:
        super().__init__(spec, target, module, tiling.lanes)
        self.spec, self.tiling = spec, tiling
        self.align = tiling.lanes * self.bytes
        self.choose_unit(spec.cell_dtype(), tiling.kr)
        # Where the frame has the addresses of zero points, extras, scales and zeros, and out.
        extras, end = len(spec.epilogue_operands), self.bases + spec.runtime_dims
        self._scaling = range(end, end + len(spec.scaling()))
        zeros = range(len(self.walked), self.bases)
        self.slots = (*zeros, *range(extras), *self._scaling, extras)
        # The types of packed copies: two bytes of B stay bytes.
        self.cell = DType.i32 if self.unit else spec.acc
        pairs = spec.cell_dtype() is DType.i8 and tiling.kr == 2
        self.b_cell = DType.i16 if pairs else self.cell
        self.corrections = find_corrections(spec, self.unit)

    @property
    def frame_bytes(self) -> int:
        return super().frame_bytes + 8 * len(self._scaling)

    def scaling_pointers(self, f: Function, frame: Value) -> list[Value]:
        """The addresses of a compressed operand's scales, and zeros."""
        return [self.base(f, frame, i) for i in self._scaling]

    def factor(self, f: Function, value: Value, dtype: DType, to: DType | None) -> Value:
        """A value of an operand's type, which may be converted to another first, as a factor of
        the accumulator's type."""
        wide = self.cast_operand(f, value, dtype, to)
        return wide if self.spec.compute_dtype is None else rounding.round_to_bf16(f, wide)

    def cast_operand(self, f: Function, value: Value, dtype: DType, to: DType | None) -> Value:
        """The same before it is rounded."""
        if to is not None:
            value, dtype = cast(f, from_memory(f, value, dtype), dtype, to), to
        return f.cast(value, self.acc, signed_=dtype.is_signed)

    # -- operands as tiles see them -----------------------------------------------------------

    def a_access(self, *, in_place: bool) -> Access:
        t, a = self.tiling, self.spec.a
        if t.pack_a == "rows" and not in_place:
            return Access(self.cell, t.a_row, 1)
        if t.pack_a == "columns" and not in_place:
            return Access(self.cell, 1, t.a_row)
        if self.unit:
            return Access(a.dtype, a.strides[-2], t.kr, self.cell)
        return Access(a.dtype, a.strides[-2], a.strides[-1])

    def packed_b(self) -> PackedLayout:
        """The layout of a panel of a constant B."""
        spec = self.spec
        assert spec.packed and isinstance(spec.k, int)
        return PackedLayout.of(spec.packed, spec.k, self.tiling.nr)

    def b_access(self) -> Access:
        t, spec = self.tiling, self.spec
        if spec.packed and not t.pack_b:
            assert isinstance(spec.k, int)
            if t.expands:
                e = Dequantizer(spec, self.lanes)
                return Access(DType.i32, e.panel // 4, e.row // 4)
            stored = self.b_cell if self.unit else spec.b.dtype
            panel = self.packed_b().panel_size * spec.b.dtype.bits // stored.bits
            return Access(stored, panel, t.nr)
        if t.pack_b:
            return Access(self.b_cell, t.kc * t.nr, t.nr)
        return Access(spec.b.dtype, t.nr, spec.b.strides[-2])
