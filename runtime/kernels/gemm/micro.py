"""The register tile: a function that computes rows x columns of one product, and its epilogue.

One generator serves every element type and instruction set: a tile is `rows * vectors` variables
that LLVM keeps in registers, and per step of K one load per vector of B, one broadcast per row of
A, and one multiply-add for each pair. What differs between machines is data (Tiling, Target).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....ir.dtype import DType
from ....ir.specs import GemmSpec, Size
from ....ir.target import Target
from ...codegen.emit import Function, Module
from ...codegen.values import ELEMENT, I1, I64, PTR, Value, bits_of, integer, is_float, vec
from ..walk import load_part, part_of
from .epilogue import Place, apply_epilogue
from .tiling import Tiling

Int = Value | int

# Bytes between what a streaming tile reads and what it fetches: about a memory latency's worth.
_AHEAD = 2048


@dataclass(frozen=True)
class Shape:
    """A register tile: `panels` panels of `vectors` registers side by side. An `edge` tile may
    have fewer columns than it computes: it takes their number and masks what lies beyond."""

    rows: int
    vectors: int
    panels: int
    edge: bool


@dataclass(frozen=True)
class Strip:
    """Where a tile finds A: element (row, k) at row * `row` + k * `step`, in elements of `dtype`.
    And B: element (k, column) at k * `step` + column, panels `panel` elements apart."""

    dtype: DType
    row: Size
    step: Size


class Context:
    """What all parts of one kernel share: the spec, its tiling, and the frame.

    The frame is a record on the stack with the addresses of extras and out for the matrix at hand,
    and with the run-time sizes: tile functions take it instead of a dozen arguments.
    """

    def __init__(self, spec: GemmSpec, target: Target, module: Module, tiling: Tiling) -> None:
        self.spec, self.target, self.module, self.tiling = spec, target, module, tiling
        self.acc = ELEMENT[spec.acc.value]
        self.vector = vec(self.acc, tiling.lanes)
        self.bytes = bits_of(self.acc) // 8
        self.align = tiling.lanes * self.bytes
        self.walked = (*spec.extras, spec.out)
        self._tiles: dict[Shape, Function] = {}

    # -- the frame ----------------------------------------------------------------------------

    @property
    def frame_bytes(self) -> int:
        return 8 * (len(self.walked) + self.spec.dim_args)

    def set_base(self, f: Function, frame: Value, index: int, pointer: Value) -> None:
        f.store(pointer, f.offset(frame, 8 * index), 8)

    def base(self, f: Function, frame: Value, index: int) -> Value:
        """The address of element (0, 0) of extra `index` (out comes last) in this matrix."""
        return f.load(PTR, f.offset(frame, 8 * index), 8)

    def set_dim(self, f: Function, frame: Value, index: int, value: Value) -> None:
        f.store(value, f.offset(frame, 8 * (len(self.walked) + index)), 8)

    def size(self, f: Function, frame: Value, size: Size) -> Value:
        if isinstance(size, int):
            return integer(size)
        return f.load(I64, f.offset(frame, 8 * (len(self.walked) + size.index)), 8)

    # -- arithmetic ---------------------------------------------------------------------------

    def widen(self, f: Function, value: Value, dtype: DType) -> Value:
        """A value of an operand's type as the accumulator's type."""
        return f.cast(value, self.acc, signed_=dtype.is_signed)

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """a * b + c; integers wrap."""
        return f.fma(a, b, c) if is_float(self.acc) else f.add(f.mul(a, b), c)

    # -- tiles --------------------------------------------------------------------------------

    def a_strip(self) -> Strip:
        t, a = self.tiling, self.spec.a
        if t.pack_a == "rows":
            return Strip(self.spec.acc, t.a_row, 1)
        if t.pack_a == "columns":
            return Strip(self.spec.acc, 1, t.a_row)
        return Strip(a.dtype, a.strides[-2], a.strides[-1])

    def b_panel(self) -> Strip:
        """`row` is the distance between panels."""
        t, spec = self.tiling, self.spec
        if spec.packed:
            assert isinstance(spec.k, int)
            return Strip(spec.b.dtype, spec.k * t.nr, t.nr)
        if t.pack_b:
            return Strip(spec.acc, t.kc * t.nr, t.nr)
        return Strip(spec.b.dtype, t.nr, spec.b.strides[-2])

    def tile(self, shape: Shape) -> Function:
        """The function of that tile, made at first use.

        Arguments: frame, a, b (addresses of the strip and of the panel), m, n (the tile's first
        row and column), rows, cols (what is left of them), k (depth), first, last (whether the
        sum starts and ends here), partial (where it is kept in between).
        """
        if shape not in self._tiles:
            self._tiles[shape] = self._make_tile(shape)
        return self._tiles[shape]

    def _make_tile(self, shape: Shape) -> Function:
        t = self.tiling
        f = self.module.function(
            self.module.unique(
                f"tile_{shape.rows}x{shape.panels}x{shape.vectors}{'e' if shape.edge else ''}"
            ),
            [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
            + [(I64, n) for n in ("m", "n", "rows", "cols", "k")]
            + [(I1, "first"), (I1, "last"), ("ptr noalias", "partial"), ("ptr", "soon"), (I64, "pace")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p = f.params
        columns = [
            panel * t.nr + v * t.lanes
            for panel in range(shape.panels)
            for v in range(shape.vectors)
        ]
        sums = [[f.var(self.vector) for _ in columns] for _ in range(shape.rows)]
        slots = [
            [
                f.offset(p["partial"], (i * len(columns) + q) * t.lanes * self.bytes)
                for q in range(len(columns))
            ]
            for i in range(shape.rows)
        ]
        self._start(f, sums, slots, p["first"])
        depth = self.spec.k if isinstance(self.spec.k, int) and not t.blocked else p["k"]
        self._accumulate(f, shape, columns, sums, depth)

        def finish() -> None:
            rows = p["rows"] if t.guarded else integer(shape.rows)
            cols = p["cols"] if shape.edge else None
            place = Place(p["frame"], p["m"], p["n"], rows, cols, tuple(columns))
            apply_epilogue(self, f, place, [[s.get() for s in row] for row in sums])

        if not t.blocked:
            finish()
            return f
        with f.if_(p["last"]) as branch:
            finish()
            branch.else_()
            for row, places in zip(sums, slots, strict=True):
                for s, place in zip(row, places, strict=True):
                    f.store(s.get(), place, self.align)
        return f

    def _start(self, f: Function, sums: list[list], slots: list[list[Value]], first: Value) -> None:
        if not self.tiling.blocked:
            for row in sums:
                for s in row:
                    s.set(0)
            return
        with f.if_(first) as branch:
            for row in sums:
                for s in row:
                    s.set(0)
            branch.else_()
            for row, places in zip(sums, slots, strict=True):
                for s, place in zip(row, places, strict=True):
                    s.set(f.load(self.vector, place, self.align))

    def _accumulate(
        self, f: Function, shape: Shape, columns: Sequence[int], sums: list[list], depth: Int
    ) -> None:
        t, p = self.tiling, f.params
        a, b = self.a_strip(), self.b_panel()
        a_row, a_step = (self.size(f, p["frame"], s) for s in (a.row, a.step))
        b_step = self.size(f, p["frame"], b.step)
        a_type, b_type = ELEMENT[a.dtype.value], ELEMENT[b.dtype.value]
        parts = None
        if shape.edge and not (self.spec.packed or t.pack_b):
            parts = [part_of(f, t.lanes, f.sub(p["cols"], c)) for c in columns]
        panel = self.size(f, p["frame"], b.row)

        def step(k: Value) -> None:
            if t.prefetch == "next":
                f.prefetch(f.offset(p["soon"], f.mul(k, p["pace"])), locality=2)
            row = f.at(p["b"], f.mul(k, b_step), b_type)
            bs: list[Value] = []
            for q, c in enumerate(columns):
                which, within = divmod(c, t.nr)
                place = f.at(row, f.add(f.mul(panel, which), within), b_type)
                if t.prefetch == "stream" and within * self.bytes % 64 == 0:
                    f.prefetch(f.offset(place, _AHEAD))
                kind = vec(b_type, t.lanes)
                x = load_part(f, kind, place, parts[q] if parts else None)
                bs.append(self.widen(f, x, b.dtype))
            column = f.at(p["a"], f.mul(k, a_step), a_type)
            for i, row_sums in enumerate(sums):
                x = f.load(a_type, f.at(column, f.mul(a_row, i), a_type))
                x = f.splat(self.widen(f, x, a.dtype), t.lanes)
                for b_value, s in zip(bs, row_sums, strict=True):
                    s.set(self.multiply_add(f, x, b_value, s.get()))

        count = f.as_value(depth, I64)
        whole = f.mul(f.udiv(count, t.unroll), t.unroll)
        with f.range(0, whole, t.unroll, unroll=1) as k:
            for u in range(t.unroll):
                step(f.add(k, u))
        if count.known is not None and whole.known is not None:
            for k in range(whole.known, count.known):
                step(integer(k))
        elif t.unroll > 1:
            with f.range(whole, count, unroll=1) as k:
                step(k)
