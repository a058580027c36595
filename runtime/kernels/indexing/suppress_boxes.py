"""Non-maximum suppression: a task is a class of an image.

Candidates wait in a heap of keys: the score, as an integer of the same order, above the complement
of the box's number. Each one that leaves it is compared with all boxes that are kept, a vector of
them at a time: by corners that are rounded to f32, which keeps their order, and where these touch,
by its overlaps in f64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....plan.specs.base import Operand
from ....plan.specs.suppress_boxes import SuppressBoxesSpec
from ....plan.target import Target
from ...llvmir.builder import Module, StackVariable
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel, share
from ...llvmir.values import F32, F64, I1, I32, I64, Value, integer, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import (
    Lane,
    RuntimeSizes,
    address_of,
    base_pointer,
    emit_vectors,
    masked_load,
)
from ..emit.tail_mask import TailMask, tail_mask

_LOW_BITS = (1 << 32) - 1


def _round_down(number: float) -> float:
    """The largest number of f32 that is not above one of f64: the same f32 exceed both."""
    with np.errstate(over="ignore"):  # to infinity, which is the answer below all numbers of f32
        rounded = np.float32(number)
    below = float(rounded) <= number  # in f64
    return float(rounded if below else np.nextafter(rounded, np.float32(-np.inf)))


def generate(spec: SuppressBoxesSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a suppression."""
    module = Module(target)
    buffers = [READ, READ, *[WRITE] * spec.output_count()]
    entry = open_kernel(module, symbol, buffers, spec.runtime_dims)
    _Suppression(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


class _Suppression:
    def __init__(self, spec: SuppressBoxesSpec, entry: OpenKernel) -> None:
        self.spec, self.entry, f = spec, entry, entry.function
        self.f, self.sizes = f, RuntimeSizes(f, entry.dims)
        self.count, self.kept = (self.sizes.value(n) for n in (spec.count, spec.kept))
        operands = zip(entry.buffers, spec.operands(), strict=True)
        bases = [base_pointer(f, self.sizes, p, o) for p, o in operands]
        self.boxes, self.scores, self.indices, self.counts, self.keys, *self.memory = bases
        self.lanes, self.wide_lanes = f.target.lanes(32), f.target.lanes(64)

    def run(self) -> None:
        f, spec, entry = self.f, self.spec, self.entry
        classes = self.sizes.value(spec.classes)
        rows = f.mul(self.sizes.value(spec.images), classes)
        lo, hi = share(f, rows, entry.worker, entry.workers)
        with f.range(lo, hi, unroll=1, outer=True) as row:
            n = f.udiv(row, classes)
            c = f.sub(row, f.mul(n, classes))
            found = self.choose(n, c)
            with f.range(found, self.kept, unroll=1) as k:
                f.store(f.as_value(-1, I64), self.address(self.indices, spec.indices, n, c, k))
            f.store(found, self.address(self.counts, spec.counts, n, c))

    def address(self, base: Value, operand: Operand, *positions: Value) -> Value:
        element = memory_type(operand.dtype)
        return address_of(self.sizes, base, operand.strides, *positions, element=element)

    def choose(self, n: Value, c: Value) -> Value:
        """Keep the boxes of a class; how many they are."""
        f, spec = self.f, self.spec
        keys = self.address(self.keys, spec.keys, n, c)
        corners, bounds = (
            [self.address(base, operand, n, c, integer(side)) for side in range(4)]
            for base, operand in zip(self.memory, (spec.corners, spec.bounds), strict=True)
        )
        waiting, kept = f.var(I64, self.list_candidates(n, c, keys)), f.var(I64, 0)
        half = f.lshr(waiting.get(), 1)
        with f.range(0, half, unroll=1) as i:
            self.sift_down(keys, f.sub(f.sub(half, 1), i), waiting.get())

        def goes_on() -> Value:
            some = f.icmp("sgt", waiting.get(), 0)
            return f.and_(some, f.icmp("slt", kept.get(), self.kept))

        with f.while_(goes_on):
            best, last = f.load(I64, keys), f.sub(waiting.get(), 1)
            waiting.set(last)
            f.store(f.load(I64, f.at(keys, last, I64)), keys)
            self.sift_down(keys, integer(0), last)
            box = f.sub(_LOW_BITS, f.and_(best, _LOW_BITS))
            own = self.load_corners(n, box)
            overlaps = self.overlaps_any(own, corners, bounds, kept.get())
            with f.if_(f.not_(overlaps)):
                at = kept.get()
                f.store(box, self.address(self.indices, spec.indices, n, c, at))
                for value, row, rounded in zip(own, corners, bounds, strict=True):
                    f.store(value, f.at(row, at, F64))
                    f.store(f.cast(value, F32), f.at(rounded, at, F32))
                kept.set(f.add(at, 1))
        return kept.get()

    # -- candidates in a heap ---------------------------------------------------------------------

    def list_candidates(self, n: Value, c: Value, keys: Value) -> Value:
        """Store the keys of boxes with finite scores above the threshold; how many they are."""
        f, spec = self.f, self.spec
        found, lanes = f.var(I64, 0), f.target.lanes(32)
        scores = Lane(f, self.sizes, spec.scores.dtype, spec.scores.strides[2], lanes)
        row = self.address(self.scores, spec.scores, n, c)
        scores.begin(row)
        least = _round_down(spec.score_threshold)
        for first, (tail,) in emit_vectors(f, self.count, lanes, 1):
            above = f.fcmp("ogt", scores.load(first, tail), least)
            # Few boxes of most classes have a score that counts.
            with f.if_(self.holds_any(above)):
                end = f.smin(f.add(first, lanes), self.count)
                with f.range(first, end, unroll=1) as b:
                    score = f.load(F32, f.at(row, f.mul(b, scores.step), F32))
                    self.add_candidate(keys, found, b, score, least)
        return found.get()

    def add_candidate(
        self, keys: Value, found: StackVariable, box: Value, score: Value, least: float
    ) -> None:
        """Store the key of a box behind those that are found, if its score counts."""
        f = self.f
        above = f.fcmp("ogt", score, least)
        with f.if_(f.and_(above, f.fcmp("olt", score, float("inf")))):
            # 0 is added to make one zero of two, which are equal.
            bits = f.bitcast(f.fadd(score, 0.0), I32)
            flipped = f.and_(f.ashr(bits, 31), 0x7FFFFFFF)
            high = f.shl(f.cast(f.xor(bits, flipped), I64), 32)
            key = f.or_(high, f.sub(_LOW_BITS, box))
            f.store(key, f.at(keys, found.get(), I64))
            found.set(f.add(found.get(), 1))

    def holds_any(self, mask: Value) -> Value:
        """Whether a lane of a mask is set."""
        return self.f.icmp("ne", self.f.bitcast(mask, f"i{mask.lanes}"), 0)

    def sift_down(self, keys: Value, start: Value, end: Value) -> None:
        """Move the key at `start` down the heap of `end` keys until none below it is larger."""
        f = self.f
        moved = f.load(I64, f.at(keys, start, I64))
        at, child = f.var(I64, start), f.var(I64, f.add(f.mul(start, 2), 1))
        goes_on = f.var(I1, f.icmp("slt", child.get(), end))
        with f.while_(goes_on.get):
            left = child.get()
            right = f.smin(f.add(left, 1), f.sub(end, 1))
            pair = [f.load(I64, f.at(keys, i, I64)) for i in (left, right)]
            larger = f.select(f.icmp("sgt", pair[1], pair[0]), right, left)
            key = f.smax(pair[0], pair[1])
            with f.if_(f.icmp("sgt", key, moved)) as branch:
                f.store(key, f.at(keys, at.get(), I64))
                at.set(larger)
                child.set(f.add(f.mul(larger, 2), 1))
                goes_on.set(f.icmp("slt", child.get(), end))
                branch.else_()
                goes_on.set(integer(0, I1))
        with f.if_(f.icmp("slt", start, end)):
            f.store(moved, f.at(keys, at.get(), I64))

    # -- overlaps ---------------------------------------------------------------------------------

    def load_corners(self, n: Value, box: Value) -> list[Value]:
        """Low y, low x, high y and high x of a box, in f64."""
        f, spec = self.f, self.spec
        given = [
            f.cast(f.load(F32, self.address(self.boxes, spec.boxes, n, box, integer(i))), F64)
            for i in range(4)
        ]
        if not spec.is_centered:
            low = [f.minimum(given[i], given[i + 2]) for i in (0, 1)]
            return [*low, *(f.maximum(given[i], given[i + 2]) for i in (0, 1))]
        x, y, width, height = given
        half = f.fmul(height, 0.5), f.fmul(width, 0.5)
        low = [f.fsub(y, half[0]), f.fsub(x, half[1])]
        return [*low, f.fadd(y, half[0]), f.fadd(x, half[1])]

    def overlaps_any(
        self,
        own: Sequence[Value],
        corners: Sequence[Value],
        bounds: Sequence[Value],
        kept: Value,
    ) -> Value:
        """Whether a box overlaps one of the `kept` boxes by more than the threshold."""
        f = self.f
        first, found = f.var(I64, 0), f.var(I1, integer(0, I1))
        rounded = [f.splat(f.cast(value, F32), self.lanes) for value in own]
        exact = [f.splat(value, self.wide_lanes) for value in own]

        def goes_on() -> Value:
            return f.and_(f.icmp("slt", first.get(), kept), f.not_(found.get()))

        def compare(at: Value, end: Value) -> None:
            with f.range(at, end, self.wide_lanes, unroll=1) as start:
                for tail in self.vectors(f.sub(end, start), self.wide_lanes):
                    overlaps = self.overlaps_vector(exact, corners, start, tail)
                    found.set(f.or_(found.get(), overlaps))

        with f.while_(goes_on):
            at = first.get()
            for tail in self.vectors(f.sub(kept, at), self.lanes):
                touches = self.touches_vector(rounded, bounds, at, tail)
                with f.if_(self.holds_any(touches)):
                    compare(at, f.smin(f.add(at, self.lanes), kept))
            first.set(f.add(at, self.lanes))
        return found.get()

    def vectors(self, left: Value, lanes: int) -> Iterator[TailMask | None]:
        """Write what follows for a whole vector, and for `left` elements where they are fewer."""
        f = self.f
        with f.if_(f.icmp("sge", left, lanes)) as branch:
            yield None
            branch.else_()
            yield tail_mask(f, lanes, left)

    def touches_vector(
        self, box: Sequence[Value], bounds: Sequence[Value], at: Value, tail: TailMask | None
    ) -> Value:
        """Which of the boxes from `at` on may have a point in common with a box."""
        f, type_ = self.f, vec(F32, self.lanes)
        others = [masked_load(f, type_, f.at(row, at, F32), tail) for row in bounds]
        found = [f.fcmp("ole", box[i], others[i + 2]) for i in (0, 1)]
        found += [f.fcmp("ole", others[i], box[i + 2]) for i in (0, 1)]
        return f.and_(f.and_(found[0], found[1]), f.and_(found[2], found[3]))

    def overlaps_vector(
        self, box: Sequence[Value], corners: Sequence[Value], at: Value, tail: TailMask | None
    ) -> Value:
        """Whether the overlap with one of the boxes from `at` on exceeds the threshold."""
        f, type_ = self.f, vec(F64, self.wide_lanes)
        others = [masked_load(f, type_, f.at(row, at, F64), tail) for row in corners]
        low = [f.maximum(others[i], box[i]) for i in (0, 1)]
        high = [f.minimum(others[i], box[i]) for i in (2, 3)]
        sides = [f.maximum(f.fsub(h, lo), 0.0) for lo, h in zip(low, high, strict=True)]
        shared = f.fmul(sides[0], sides[1])
        area, own = (f.fmul(f.fsub(b[2], b[0]), f.fsub(b[3], b[1])) for b in (others, box))
        union = f.fsub(f.fadd(area, own), shared)
        # Nothing is shared with what a tail lacks, nor with boxes without an area.
        return self.holds_any(f.fcmp("ogt", f.fdiv(shared, union), self.spec.iou_threshold))
