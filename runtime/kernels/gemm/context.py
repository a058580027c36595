"""What all parts of one product's kernel share: spec, schedule, frame, and how tiles walk operands.

It imports no other part of the family but its data, so that every part can import it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeGuard

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.layouts import PackedLayout
from ....plan.specs.base import Size
from ....plan.specs.convolution import ConvSpec
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import F16, I64, Value, integer
from ..emit.casts import cast, from_memory
from ..emit.dot_units import BLOCK_UNITS, BlockUnit, find_unit
from ..emit.register_tile import KernelContext
from . import bf16_rounding as rounding
from .packing.dequant import Dequantizer
from .schedule import (
    Bf16x3Schedule,
    DequantSchedule,
    F16Schedule,
    GemmSchedule,
    Int8AmxSchedule,
    Int8Schedule,
    WideningSchedule,
)
from .zero_point_corrections import Corrections, find_corrections


@dataclass(frozen=True)
class TileShape:
    """A register tile: `panels` panels of `vectors` registers side by side. An `edge` tile may
    have fewer columns than it computes: it takes their number and masks what lies beyond. One
    `in_place` reads A unpacked although other tiles read a copy."""

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


def _is_number(stride: Size) -> TypeGuard[int]:
    """Whether a stride is known, and neither 0 nor 1, which decide what code is written."""
    return isinstance(stride, int) and stride not in (0, 1)


@dataclass(frozen=True, eq=False)
class GemmContext(KernelContext):
    """What all parts of one kernel share: the spec, its schedule, and the frame of a matrix.
    windows: the convolution whose windows are the rows of A, which is not in memory then."""

    spec: GemmSpec
    schedule: GemmSchedule
    windows: ConvSpec | None = None

    @staticmethod
    def of(
        spec: GemmSpec,
        target: Target,
        module: Module,
        schedule: GemmSchedule,
        windows: ConvSpec | None = None,
    ) -> GemmContext:
        unit = find_unit(target, spec.cell_dtype(), schedule.kr, schedule.lanes)
        return GemmContext(spec, target, module, schedule.lanes, unit, schedule, windows)

    @cached_property
    def block_unit(self) -> BlockUnit | None:
        """What multiplies 2 x 2 blocks of cells, where panels are packed for it: those of constants
        that are not expanded."""
        packed = self.spec.packed
        if packed is None or self.unit is None or self.spec.compressed is not None:
            return None
        return BLOCK_UNITS[self.unit.factors] if packed.kr == 2 * self.schedule.kr else None

    @property
    def align(self) -> int:
        """Bytes of a register."""
        return self.lanes * self.bytes

    @cached_property
    def _scaling(self) -> range:
        """Where the frame has the addresses of a compressed operand's scales, and zeros."""
        end = self.bases + self.spec.runtime_dims
        return range(end, end + len(self.spec.scaling()))

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """Where the frame has the addresses of zero points, extras, scales and zeros, and out."""
        extras = len(self.spec.epilogue_operands)
        zeros = range(len(self.walked_operands), self.bases)
        return (*zeros, *range(extras), *self._scaling, extras)

    @cached_property
    def adds_in_f16(self) -> bool:
        """Whether sums of a few products are f16 numbers."""
        return isinstance(self.schedule, F16Schedule)

    @cached_property
    def cell(self) -> DType:
        """The type of a cell of a packed copy; f16 numbers of A are stored twice, as 32 bits are
        copied to all lanes by the load itself."""
        return DType.i32 if self.unit or self.adds_in_f16 else self.spec.acc

    @cached_property
    def b_cell(self) -> DType:
        """The same of B: two bytes stay bytes."""
        if self.adds_in_f16:
            return DType.f16
        pairs = self.spec.cell_dtype() is DType.i8 and self.schedule.kr == 2
        return DType.i16 if pairs else self.cell

    @cached_property
    def corrections(self) -> Corrections:
        """Which zero points and shifts sums are corrected for."""
        return find_corrections(self.spec, self.unit)

    @property
    def frame_bytes(self) -> int:
        """With the strides of `set_row_strides` behind what a compressed operand has."""
        return super().frame_bytes + 8 * (len(self._scaling) + len(self.walked_operands))

    def set_row_strides(self, f: Function, frame: Value) -> None:
        """Store the strides of extras and out along rows in the frame, where functions that kernels
        share read them."""
        for i, o in enumerate(self.walked_operands):
            if _is_number(o.strides[-2]):
                self.set_base(f, frame, self._scaling.stop + i, integer(o.strides[-2]))

    def load_row_stride(self, f: Function, frame: Value, operand: int) -> Value:
        """The stride of extra `operand`, or of out, from the frame, but for 0 and 1."""
        stride = self.walked_operands[operand].strides[-2]
        if not _is_number(stride):
            return self.size(f, frame, stride)
        return f.load(I64, f.offset(frame, 8 * (self._scaling.stop + operand)))

    def scaling_pointers(self, f: Function, frame: Value) -> list[Value]:
        """The addresses of a compressed operand's scales, and zeros."""
        return [self.base(f, frame, i) for i in self._scaling]

    def factor(self, f: Function, value: Value, dtype: DType, to: DType | None) -> Value:
        """A value of an operand's type, which may be converted to another first, as a factor of
        the accumulator's type."""
        wide = self.cast_operand(f, value, dtype, to)
        if self.spec.compute_dtype is DType.f16:
            return f.cast(f.cast(wide, F16), self.acc)
        return wide if self.spec.compute_dtype is None else rounding.round_to_bf16(f, wide)

    def cast_operand(self, f: Function, value: Value, dtype: DType, to: DType | None) -> Value:
        """The same before it is rounded."""
        if to is not None:
            value, dtype = cast(f, from_memory(f, value, dtype), dtype, to), to
        return f.cast(value, self.acc, signed_=dtype.is_signed)

    # -- operands as tiles see them -----------------------------------------------------------

    def a_access(self, *, in_place: bool) -> Access:
        t, a = self.schedule, self.spec.a
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
        return PackedLayout.of(spec.packed, spec.k, self.schedule.nr)

    @property
    def widens_panels(self) -> bool:
        """Whether tiles read half floats of B where they were widened to f32."""
        return isinstance(self.schedule, WideningSchedule)

    def tile_b_access(self) -> Access:
        """How a tile walks the panel that it multiplies, which may be widened in scratch."""
        if self.widens_panels:
            return Access(self.spec.acc, 0, self.schedule.nr)
        return self.b_access()

    def b_access(self) -> Access:
        t, spec = self.schedule, self.spec
        if spec.packed and not t.pack_b:
            assert isinstance(spec.k, int)
            if isinstance(t, DequantSchedule | Int8Schedule | Int8AmxSchedule):
                e = Dequantizer(spec, self.lanes, fused=self.target.fma)
                return Access(DType.i32, e.panel // 4, e.row // 4)
            if isinstance(t, Bf16x3Schedule):
                e = Dequantizer(spec, self.lanes, fused=self.target.fma)
                return Access(DType.i8, e.panel, 0)  # it finds the rows of K itself
            stored = self.b_cell if self.unit else spec.b.dtype
            panel = self.packed_b().panel_size * spec.b.dtype.bits // stored.bits
            return Access(stored, panel, t.nr)
        if t.pack_b:
            return Access(self.b_cell, t.kc * t.nr, t.nr)
        return Access(spec.b.dtype, t.nr, spec.b.strides[-2])
