"""Transposing copies: an elementwise program whose one input is contiguous along another axis
than the output. Square tiles are loaded by rows, transposed in registers and stored by rows.

A tile that would stick out is moved back inside instead: its overlap is written twice with the
same values, by one worker or two. Where an axis is shorter than a tile, elements go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.specs import ElementwiseSpec, Size
from ...ir.target import Target
from ..codegen.emit import Function
from ..codegen.kernel import share
from ..codegen.values import Value, bits_of, vec
from .convert import from_memory, memory_type, to_memory
from .scalar import emit_program
from .walk import Rows, Sizes, Space

# Tiles along the output's contiguous axis that one task takes.
_TASK = 16


def transposed_axis(spec: ElementwiseSpec, space: Space) -> int | None:
    """The axis along which the one input is contiguous while the output is along the last."""
    if len(spec.inputs) != 1 or len(spec.outs) != 1 or len(space.axes) < 2:
        return None
    source, out = space.strides
    if out[-1] != 1 or source[-1] in (0, 1) or any(i.op in _GUARDED for i in spec.program.instrs):
        return None
    found = [i for i, s in enumerate(source[:-1]) if s == 1]
    return found[0] if found else None


_GUARDED = frozenset("div mod floormod".split())


def tile_side(target: Target, bits: int) -> int:
    """Rows of a tile, and its columns: a register of 4-byte elements and wider; of narrower ones
    no more rows than there are registers to hold them."""
    return min(target.lanes(bits), 16, target.registers)


@dataclass(frozen=True)
class Plane:
    """The two axes of a transposition: input contiguous along q, output along p."""

    p: Value
    q: Value
    source_step: Value  # of p in the input
    out_step: Value  # of q in the output


def emit_transpose(
    f: Function,
    spec: ElementwiseSpec,
    sizes: Sizes,
    space: Space,
    axis: int,
    pointers: Sequence[Value],
    worker: Value,
    workers: Value,
) -> None:
    """This worker's share of the transposition."""
    source, out = spec.inputs[0], spec.outs[0]
    element = memory_type(source.dtype)
    side = tile_side(f.target, max(bits_of(element), bits_of(memory_type(out.dtype))))
    side = min(side, tile_side(f.target, bits_of(element)))
    rest = [i for i in range(len(space.axes) - 1) if i != axis]
    outer: list[Size] = [space.axes[i] for i in rest]
    rows = Rows(
        f,
        sizes,
        outer,
        pointers,
        [source.dtype, out.dtype],
        [[s[i] for i in rest] for s in space.strides],
    )
    plane = Plane(
        sizes.value(space.axes[-1]),
        sizes.value(space.axes[axis]),
        sizes.value(space.strides[0][-1]),
        sizes.value(space.strides[1][axis]),
    )
    tiles_q = f.ceil_div(plane.q, side)
    chunks_p = f.ceil_div(plane.p, side * _TASK)
    per_row = f.mul(tiles_q, chunks_p)
    lo, hi = share(f, f.mul(sizes.product(outer), per_row), worker, workers)
    tile = _Tile(f, spec, plane, side)
    fits = f.icmp("sge", f.smin(plane.p, plane.q), side)
    with f.if_(f.icmp("slt", lo, hi)):
        with f.range(lo, hi, unroll=1) as task:
            row = f.udiv(task, per_row)
            inside = f.sub(task, f.mul(row, per_row))
            q = f.udiv(inside, chunks_p)
            chunk = f.sub(inside, f.mul(q, chunks_p))
            rows.seek(row)
            at = rows.pointers()
            q0, p0 = f.mul(q, side), f.mul(chunk, side * _TASK)
            p1 = f.smin(f.add(p0, side * _TASK), plane.p)
            with f.if_(fits) as branch:
                inside_q = f.smin(q0, f.sub(plane.q, side))
                with f.range(p0, p1, side, unroll=1) as p:
                    tile.move(at, f.smin(p, f.sub(plane.p, side)), inside_q)
                branch.else_()
                q1 = f.smin(f.add(q0, side), plane.q)
                tile.single(at, p0, p1, q0, q1)


class _Tile:
    def __init__(self, f: Function, spec: ElementwiseSpec, plane: Plane, side: int) -> None:
        self.f, self.spec, self.plane, self.side = f, spec, plane, side
        self.source = memory_type(spec.inputs[0].dtype)
        self.out = memory_type(spec.outs[0].dtype)
        self.bits = f"i{bits_of(self.source)}"

    def move(self, at: Sequence[Value], p: Value, q: Value) -> None:
        """The whole tile at (p, q)."""
        f, side = self.f, self.side
        begin = f.at(at[0], f.add(f.mul(p, self.plane.source_step), q), self.source)
        lines = [
            f.load(vec(self.bits, side), f.at(begin, self._times(i, "source"), self.source))
            for i in range(side)
        ]
        to = f.at(at[1], f.add(f.mul(q, self.plane.out_step), p), self.out)
        for i, line in enumerate(transpose(f, lines)):
            self.store(line, f.at(to, self._times(i, "out"), self.out))

    def _times(self, i: int, which: str) -> Value:
        step = self.plane.source_step if which == "source" else self.plane.out_step
        return self.f.mul(step, i)

    def store(self, bits: Value, to: Value) -> None:
        f, spec = self.f, self.spec
        dtype = spec.inputs[0].dtype
        value = from_memory(f, f.bitcast(bits, vec(self.source, bits.lanes)), dtype)
        (result,) = emit_program(f, spec.program, [value], lanes=bits.lanes)
        f.store(to_memory(f, result, spec.outs[0].dtype), to)

    def single(self, at: Sequence[Value], p0: Value, p1: Value, q0: Value, q1: Value) -> None:
        """Elements [p0, p1) x [q0, q1) one by one."""
        f, plane = self.f, self.plane
        with f.range(q0, q1, unroll=1) as q:
            with f.range(p0, p1, unroll=1) as p:
                place = f.add(f.mul(p, plane.source_step), q)
                bits = f.load(self.bits, f.at(at[0], place, self.source))
                to = f.at(at[1], f.add(f.mul(q, plane.out_step), p), self.out)
                self.store(bits, to)


def transpose(f: Function, lines: Sequence[Value]) -> list[Value]:
    """n vectors of n lanes (n a power of two), transposed by instructions of 128-bit lanes.

    First w x w blocks inside the 128-bit lanes (w elements each) by rounds of unpacking row i
    with row i + w/2, then the 128-bit lanes themselves between the blocks.
    """
    n = len(lines)
    w = min(n, 128 // bits_of(lines[0].type))
    groups = n // w
    rows = list(lines)
    stages = w.bit_length() - 1
    for _ in range(stages):
        turned: list[Value] = []
        for block in range(groups):
            for i in range(w // 2):
                a, b = rows[block * w + i], rows[block * w + i + w // 2]
                turned += [_unpack(f, a, b, w, 0), _unpack(f, a, b, w, 1)]
        rows = turned
    found: list[Value | None] = [None] * n
    for j in range(w):
        for g, line in enumerate(_turn_lanes(f, [rows[k * w + j] for k in range(groups)], w)):
            found[g * w + j] = line
    return [line for line in found if line is not None]


def _unpack(f: Function, a: Value, b: Value, w: int, high: int) -> Value:
    """In each group of w lanes: the low (high) halves of a and b, interleaved."""
    n = a.lanes
    picks: list[int] = []
    for start in range(0, n, w):
        for i in range(w // 2):
            at = start + high * (w // 2) + i
            picks += [at, n + at]
    return f.shuffle(a, b, picks)


def _turn_lanes(f: Function, lines: Sequence[Value], w: int) -> list[Value]:
    """A square of groups of w lanes, transposed: rounds of even groups, odd groups of a pair."""
    n = len(lines)
    if n == 1:
        return list(lines)
    even = [_pick_groups(f, lines[i], lines[i + 1], w, 0) for i in range(0, n, 2)]
    odd = [_pick_groups(f, lines[i], lines[i + 1], w, 1) for i in range(0, n, 2)]
    if n == 2:
        return [even[0], odd[0]]
    # Each half now holds one line per pair: (a0 a2 b0 b2), (c0 c2 d0 d2).
    return [
        _pick_groups(f, even[0], even[1], w, 0),
        _pick_groups(f, odd[0], odd[1], w, 0),
        _pick_groups(f, even[0], even[1], w, 1),
        _pick_groups(f, odd[0], odd[1], w, 1),
    ]


def _pick_groups(f: Function, a: Value, b: Value, w: int, odd: int) -> Value:
    n = a.lanes
    starts = range(odd * w, n, 2 * w)
    picks = [base + s + i for base in (0, n) for s in starts for i in range(w)]
    return f.shuffle(a, b, picks)
