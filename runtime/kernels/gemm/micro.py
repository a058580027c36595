"""The register tile: rows x columns of one product, summed along K in vector registers.

One generator serves every element type and instruction set: a tile is `rows * vectors` variables
that LLVM keeps in registers, and per step of K one load per vector of B, one broadcast per row of
A, and one multiply-add for each pair. What differs between machines is data (Tiling, Target, the
units of runtime/kernels/emit/register_tile.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....ir.dtype import DType
from ....plan.specs.base import Size
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module, StackVariable
from ...llvmir.values import ELEMENT, I1, I64, PTR, Value, bits_of, integer, vec
from ..emit.casts import cast, from_memory
from ..emit.register_tile import TileFrame, unrolled_loop
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import tail_mask
from . import amx
from . import bf16_rounding as rounding
from .epilogue import finish_registers
from .epilogue_overlap import DeferredEpilogue
from .packing.dequant import Dequantizer
from .tiling import Tiling
from .zero_point_schedule import TERMS, correct, corrections


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
        self.corrections = corrections(spec, self.unit)
        self.finishes: DeferredEpilogue | None = None
        self._tiles: dict[TileShape, Function] = {}

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

    def b_access(self) -> Access:
        t, spec = self.tiling, self.spec
        if spec.packed and not t.pack_b:
            assert isinstance(spec.k, int)
            if t.expands:
                e = Dequantizer(spec, self.lanes)
                return Access(DType.i32, e.panel // 4, e.row // 4)
            stored = self.b_cell if self.unit else spec.b.dtype
            depth = -(-spec.k // t.kr) + (32 // stored.bits if spec.packed.column_sums else 0)
            return Access(stored, depth * t.nr, t.nr)
        if t.pack_b:
            return Access(self.b_cell, t.kc * t.nr, t.nr)
        return Access(spec.b.dtype, t.nr, spec.b.strides[-2])

    # -- tiles --------------------------------------------------------------------------------

    def tile(self, shape: TileShape) -> Function:
        """The function of a tile, made at first use. Arguments:

        frame, a, b (the tile's first elements), m, n (its place in the product), cols (columns
        left, for an edge), k (steps in this block), first (the sums start here), buffer (where
        they go, unless registers are finished), soon, pace (what to fetch: address at the first
        step, bytes per step), and, where it finishes sums that are corrected, the terms of its
        rows and columns (zero_point_schedule.py).
        """
        if shape not in self._tiles:
            make = amx.tile_function if self.tiling.tile else GemmContext._make_tile
            self._tiles[shape] = make(self, shape)
        return self._tiles[shape]

    def _make_tile(self, shape: TileShape) -> Function:
        t = self.tiling
        edge = "edge_" if shape.edge else ""
        f = self.module.function(
            self.module.unique(f"tile_{edge}{shape.rows}x{shape.panels}x{shape.vectors}"),
            [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
            + [(I64, "m"), (I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first")]
            + [("ptr noalias", "buffer"), (PTR, "soon"), (I64, "pace")]
            + (TERMS if self.corrections and not t.buffered else []),
            attributes="nounwind noinline",
            linkage="internal",
        )
        columns = [
            p * t.nr + v * t.lanes for p in range(shape.panels) for v in range(shape.vectors)
        ]
        sums = [[f.var(self.vector, 0) for _ in columns] for _ in range(shape.rows)]
        places = [
            [f.at(f.params["buffer"], i * t.width + c, self.acc) for c in columns]
            for i in range(shape.rows)
        ]
        slots = [
            (s, place)
            for row, row_places in zip(sums, places, strict=True)
            for s, place in zip(row, row_places, strict=True)
        ]
        if t.blocked:
            with f.if_(f.xor(f.params["first"], 1)):
                for s, place in slots:
                    s.set(f.load(self.vector, place, self.align))
        if self.corrections and not t.buffered:
            correct(self, f, columns, sums)
        with rounding.flush_to_zero(f, self.spec.compute_dtype is not None and not self.unit):
            self._accumulate(f, shape, columns, sums)
            for s, place in slots if t.buffered else ():
                f.store(s.get(), place, self.align)
        if not t.buffered:
            values = [[s.get() for s in row] for row in sums]
            finish_registers(self, f, columns, values, edge=shape.edge)
        return f

    def _accumulate(
        self, f: Function, shape: TileShape, columns: Sequence[int], sums: list[list[StackVariable]]
    ) -> None:
        t, p = self.tiling, f.params
        if t.expands:
            from .packing.dequant_panels import accumulate_cells

            accumulate_cells(self, f, shape, columns, sums)
            return
        a, b = self.a_access(in_place=shape.in_place), self.b_access()
        a_type, b_type = ELEMENT[a.dtype.value], ELEMENT[b.dtype.value]
        a_cell = ELEMENT[(a.cell or a.dtype).value]
        across, panel = (self.size(f, p["frame"], x.across) for x in (a, b))
        a_step, b_step = (self.size(f, p["frame"], x.step) for x in (a, b))
        parts = None
        if shape.edge and not (self.spec.packed or t.pack_b):
            parts = [tail_mask(f, t.lanes, f.sub(p["cols"], c)) for c in columns]
        b_vector = vec(b_type, t.lanes)

        def step(k: Value) -> None:
            self._fetch(f, shape, k, f.mul(panel, bits_of(b_type) // 8))
            row = f.at(p["b"], f.mul(k, b_step), b_type)
            right: list[Value] = []
            for q, c in enumerate(columns):
                which, within = divmod(c, t.nr)
                place = f.at(row, f.add(f.mul(panel, which), within), b_type)
                x = masked_load(f, b_vector, place, parts[q] if parts else None)
                right.append(self.widen(f, x, self.spec.b.dtype))
            column = f.at(p["a"], f.mul(k, a_step), a_type)

            def load_a(i: int) -> Value:
                place = f.at(column, f.mul(across, i), a_type)
                x = f.load(a_cell, place, bits_of(a_type) // 8)
                return self.widen(f, x, self.spec.a.dtype)

            self.add_products(f, sums, load_a, right)

        known = isinstance(self.spec.k, int) and not t.blocked
        depth = integer(t.kc if self.spec.k else 0) if known else p["k"]
        unrolled_loop(f, depth, t.unroll, step)

    def _fetch(self, f: Function, shape: TileShape, k: Value, panel_bytes: Value) -> None:
        """Ask for lines of B that will be needed later: into L1 if soon by this tile itself, into
        L2 if by the tiles of the next panel."""
        t, p = self.tiling, f.params
        for which in range(shape.panels if t.fetch else 0):
            at = f.offset(p["soon"], f.add(f.mul(k, p["pace"]), f.mul(panel_bytes, which)))
            for line in range(t.fetch):
                f.prefetch(f.offset(at, 64 * line), locality=3 if t.streams or t.guarded else 2)
