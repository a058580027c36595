"""Transposing kernels: elementwise programs some of whose inputs are contiguous along another axis
than the outputs. Square tiles of those inputs are loaded by rows and transposed in registers.

A tile that would stick out is moved back inside. A program of one input then writes the overlap
twice, with the same values; one of several inputs, which may be updating an input in place, masks
the overlap off. Where an axis is shorter than a tile, elements go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Operand, Size
from ....plan.specs.elementwise import ElementwiseSpec
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.kernel_entry import share
from ...llvmir.values import I1, I64, Value, bits_of, bytes_of, constants, integer, vec
from ..emit.casts import from_memory, memory_type, to_memory
from ..emit.scalar_program import emit_program
from ..emit.strided_loops import RowCursor, RuntimeSizes, Space, has_masks
from ..emit.transpose_registers import transpose_registers

# Tiles along the outputs' contiguous axis that one task takes.
_TILES_PER_TASK = 16
_GUARDED = frozenset("div mod floormod".split())
# Programs of more instructions than this are written once per tile, in a loop, not once per row.
_MAX_UNROLLED_INSTRUCTIONS = 4


def transposed_axis(spec: ElementwiseSpec, space: Space, target: Target) -> int | None:
    """The axis along which some inputs are contiguous while all else is along the last axis.

    None where the program is better walked in plain vectors.
    """
    count = len(spec.inputs)
    ins, outs = space.strides[:count], space.strides[count:]
    if len(space.axes) < 2 or any(s[-1] != 1 for s in outs):
        return None
    if any(i.op in _GUARDED for i in spec.program.instrs):
        return None
    strided = [s for s in ins if s[-1] not in (0, 1)]
    for axis in range(len(space.axes) - 1):
        if strided and all(s[axis] == 1 for s in strided):
            return axis if _is_single(spec) or _can_mask(spec, target) else None
    return None


def fits_tile(spec: ElementwiseSpec, space: Space, axis: int, target: Target) -> bool | None:
    """Whether both axes of a transposition are as long as a tile; None where that is not known."""
    sizes = [s for s in (space.axes[axis], space.axes[-1]) if isinstance(s, int)]
    return min(sizes) >= tile_side(spec, target) if len(sizes) == 2 else None


def _is_single(spec: ElementwiseSpec) -> bool:
    return len(spec.inputs) == len(spec.outs) == 1


def _can_mask(spec: ElementwiseSpec, target: Target) -> bool:
    side = tile_side(spec, target)
    return all(has_masks(target, vec(memory_type(o.dtype), side)) for o in spec.outs)


def tile_side(spec: ElementwiseSpec, target: Target) -> int:
    """Rows of a tile, and its columns: a register of the widest elements; of narrow ones no more
    rows than there are registers to hold them."""
    widest = max(bits_of(memory_type(o.dtype)) for o in spec.operands())
    return min(target.lanes(widest), 16)


@dataclass(frozen=True)
class Plane:
    """The two axes of a transposition: outputs contiguous along p, `turned` inputs along q; each
    operand's steps (in elements) along both."""

    p: Value
    q: Value
    steps_p: tuple[Value, ...]
    steps_q: tuple[Value, ...]
    turned: tuple[bool, ...]


def emit_transpose(
    f: Function,
    spec: ElementwiseSpec,
    sizes: RuntimeSizes,
    space: Space,
    axis: int,
    pointers: Sequence[Value],
    worker: Value,
    workers: Value,
    fits: bool | None,
) -> None:
    """This worker's share of the transposition. fits: whether both axes are as long as a tile; None
    where that is not known."""
    operands = spec.operands()
    side = tile_side(spec, f.target)
    rest = [i for i in range(len(space.axes) - 1) if i != axis]
    outer: list[Size] = [space.axes[i] for i in rest]
    strides = [[s[i] for i in rest] for s in space.strides]
    rows = RowCursor(f, sizes, outer, pointers, [o.dtype for o in operands], strides)
    plane = Plane(
        sizes.value(space.axes[-1]),
        sizes.value(space.axes[axis]),
        tuple(sizes.value(s[-1]) for s in space.strides),
        tuple(sizes.value(s[axis]) for s in space.strides),
        tuple(s[-1] not in (0, 1) for s in space.strides),
    )
    tiles_q = f.ceil_div(plane.q, side)
    chunks_p = f.ceil_div(plane.p, side * _TILES_PER_TASK)
    per_row = f.mul(tiles_q, chunks_p)
    lo, hi = share(f, f.mul(sizes.product(outer), per_row), worker, workers)
    with f.if_(f.icmp("slt", lo, hi)):
        with f.range(lo, hi, unroll=1) as task:
            row = f.udiv(task, per_row)
            inside = f.sub(task, f.mul(row, per_row))
            q = f.udiv(inside, chunks_p)
            chunk = f.sub(inside, f.mul(q, chunks_p))
            rows.seek(row)
            tile = _Tile(f, spec, plane, side, rows.pointers())
            q0, p0 = f.mul(q, side), f.mul(chunk, side * _TILES_PER_TASK)
            p1 = f.smin(f.add(p0, side * _TILES_PER_TASK), plane.p)
            long = f.icmp("sge", f.smin(plane.p, plane.q), side)
            with f.if_(long if fits is None else integer(fits, I1)) as branch:
                tile.strip(p0, p1, q0)
                branch.else_()
                tile.single(p0, p1, q0, f.smin(f.add(q0, side), plane.q))


class _Tile:
    def __init__(
        self, f: Function, spec: ElementwiseSpec, plane: Plane, side: int, at: list[Value]
    ) -> None:
        self.f, self.spec, self.plane, self.side, self.at = f, spec, plane, side, at
        self.operands = spec.operands()
        self.inputs = len(spec.inputs)

    def strip(self, p0: Value, p1: Value, q0: Value) -> None:
        """Tiles at q0 from p0 to p1."""
        f, side, plane = self.f, self.side, self.plane
        last_p, last_q = f.sub(plane.p, side), f.sub(plane.q, side)
        q = f.smin(q0, last_q)
        with f.range(p0, p1, side, unroll=1) as at:
            p = f.smin(at, last_p)
            moved = f.or_(f.icmp("ne", p, at), f.icmp("ne", q, q0))
            with f.if_(integer(0, "i1") if _is_single(self.spec) else moved) as branch:
                self.move(p, q, (f.sub(at, p), f.sub(q0, q)))
                branch.else_()
                self.move(p, q, None)

    def address(self, k: int, p: Value, q: Value) -> Value:
        """Operand k's element at (p, q)."""
        f, plane = self.f, self.plane
        offset = f.add(f.mul(p, plane.steps_p[k]), f.mul(q, plane.steps_q[k]))
        return f.at(self.at[k], offset, memory_type(self.operands[k].dtype))

    def move(self, p: Value, q: Value, skip: tuple[Value, Value] | None) -> None:
        """The tile at (p, q) without its first `skip` columns and rows."""
        f, side = self.f, self.side
        lines = {k: self.turn(k, p, q) for k in range(self.inputs) if self.plane.turned[k]}
        keep: Value | None = None
        if skip is not None:
            ramp = constants(range(side), I64)
            keep = f.icmp("sge", ramp, f.splat(skip[0], side))
        if len(self.spec.program.instrs) <= _MAX_UNROLLED_INSTRUCTIONS and skip is None:
            for i in range(side):
                self.line(p, f.add(q, i), {k: v[i] for k, v in lines.items()}, None)
            return
        # Lines wait in memory, so that the program is written once.
        waiting = {k: self.spill(v) for k, v in lines.items()}
        with f.range(skip[1] if skip is not None else 0, side, unroll=1) as i:
            found = {
                k: f.load(v[0].type, f.offset(buffer, f.mul(i, bytes_of(v[0].type))))
                for (k, buffer), v in zip(waiting.items(), lines.values(), strict=True)
            }
            self.line(p, f.add(q, i), found, keep)

    def spill(self, lines: Sequence[Value]) -> Value:
        f, size = self.f, bytes_of(lines[0].type)
        buffer = f.stack(size * len(lines))
        for i, line in enumerate(lines):
            f.store(line, f.offset(buffer, i * size))
        return buffer

    def turn(self, k: int, p: Value, q: Value) -> list[Value]:
        """Input k's tile as one vector along p per q; bits of the elements."""
        f, side = self.f, self.side
        element = memory_type(self.operands[k].dtype)
        type_ = vec(f"i{bits_of(element)}", side)
        at, rows = self.address(k, p, q), list[Value]()
        for _ in range(side):
            rows.append(f.load(type_, at))
            at = f.at(at, self.plane.steps_p[k], element)
        return transpose_registers(f, rows)

    def line(self, p: Value, q: Value, lines: dict[int, Value], keep: Value | None) -> None:
        """The program along p at one q, stored where `keep` says."""
        f, side = self.f, self.side
        values: list[Value] = []
        for k, operand in enumerate(self.spec.inputs):
            element = memory_type(operand.dtype)
            if k in lines:
                value = f.bitcast(lines[k], vec(element, side))
            elif self.plane.steps_p[k].known == 0:
                value = f.splat(f.load(element, self.address(k, p, q)), side)
            else:
                value = f.load(vec(element, side), self.address(k, p, q))
            values.append(from_memory(f, value, operand.dtype))
        results = emit_program(f, self.spec.program, values, lanes=side)
        for k, (operand, result) in enumerate(zip(self.spec.outs, results, strict=True)):
            value, to = to_memory(f, result, operand.dtype), self.address(self.inputs + k, p, q)
            if keep is None:
                f.store(value, to)
            else:
                self.store_kept(operand, value, to, keep)

    def store_kept(self, operand: Operand, value: Value, to: Value, keep: Value) -> None:
        f = self.f
        bits = bits_of(memory_type(operand.dtype))  # 16-bit masks need integers
        f.store_masked(f.bitcast(value, vec(f"i{bits}", value.lanes)), to, keep)

    def single(self, p0: Value, p1: Value, q0: Value, q1: Value) -> None:
        """Elements [p0, p1) x [q0, q1) one by one."""
        f = self.f
        one = _Tile(f, self.spec, self.plane, 1, self.at)
        with f.range(q0, q1, unroll=1) as q:
            with f.range(p0, p1, unroll=1) as p:
                lines = {k: one.bits(k, p, q) for k in range(self.inputs) if self.plane.turned[k]}
                one.line(p, q, lines, None)

    def bits(self, k: int, p: Value, q: Value) -> Value:
        """One element of input k."""
        element = memory_type(self.operands[k].dtype)
        return self.f.load(f"i{bits_of(element)}", self.address(k, p, q))
