"""A region's sizes for one set of input shapes, and the checks that need them.

`RegionLayoutTables` turns a region into index arrays once; `sizes(env)` then evaluates every size
expression and checks, without a Python loop over steps, that sizes are not negative, that parts
lie inside their whole, that no operand of any step leaves its buffer for any sign of its strides,
and that a step overwrites what it reads only where its kernel may. About 0.5 ms for 400 steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.dims import Dim, compile_dims
from ...ir.errors import MemoryLimitError, VerificationError
from ..plan import (
    ARENA,
    LOOP,
    Constant,
    ControlStep,
    HostStep,
    KernelStep,
    NativeStep,
    Region,
)
from ..specs.base import RuntimeDim, Size, Spec
from ..specs.gemm import GemmSpec
from .operand_bounds import MAX_BYTES, MAX_SIZE, beyond_machines, operand_terms, packed_elements
from .plan import buffer_roots, has_same_access, may_alias_output
from .region_sizes import Ints, RegionSizes
from .runtime_checks import SizeChecks
from .step_bounds import MAX_BROADCAST_REDUCTION, StepBounds
from .strided_access import StridedAccess, are_distinct, lie_apart


class RegionLayoutTables:
    """Index arrays of one region whose plan passed verify_plan.

    operand_buffer, operand_start: buffer numbers of all native steps' operands, one after the
    other, and where each native step begins; step_dims, step_dims_start: the same for run-time
    sizes, as positions in RegionSizes.values. `kernels` are the native steps' numbers. root: per
    buffer. moves: per buffer that moves, its number, its loop's step and the operands that move.
    """

    def __init__(self, region: Region, constants: Sequence[Constant]) -> None:
        self.region, self.constants = region, constants
        self._positions: dict[Dim, int] = {}
        self.kernels = [n for n, s in enumerate(region.steps) if not isinstance(s, HostStep)]
        steps: list[NativeStep] = [s for s in region.steps if not isinstance(s, HostStep)]
        self.root = _ints(buffer_roots(region))
        dims = [self._position(d) for d in region.dims]
        self.operand_buffer = _ints([b for s in steps for b in s.buffers])
        self.operand_start = _starts([len(s.buffers) for s in steps])
        self.step_dims = _ints([dims[d] for s in steps for d in s.dims])
        self.step_dims_start = _starts([len(s.dims) for s in steps])
        works = [s.work if isinstance(s, KernelStep) else 0 for s in steps]
        self._work = _ints([self._position(w) for w in works])
        # The loops a native step stands in, as positions of their trips.
        self._times = self._repeated(region, dims)
        self._checks = SizeChecks(region, dims, self.kernels)
        self._lay_out_buffers(region, constants)
        self._lay_out_operands(steps, dims)
        self._lay_out_moves(region, dims)
        self._bounds = StepBounds(steps, self.operand_start, dims, self._size)
        self._evaluate = compile_dims(list(self._positions))

    def _position(self, d: Dim) -> int:
        return self._positions.setdefault(d, len(self._positions))

    def _lay_out_buffers(self, region: Region, constants: Sequence[Constant]) -> None:
        one = self._position(1)
        shapes = [[self._position(d) for d in b.shape] for b in region.buffers]
        self._shapes = shapes
        self._shape_terms = _ints([p for s in shapes for p in [one, *s]])
        self._shape_starts = _starts([1 + len(s) for s in shapes])[:-1]
        self.itemsize = _ints([b.dtype.numpy.itemsize for b in region.buffers])
        # Packed constants are padded: their number of elements is not a product of their shape.
        self._packed = {
            i: packed_elements(constants[b.index])
            for i, b in enumerate(region.buffers)
            if b.kind == "constant" and constants[b.index].layout is not None
        }
        # Parts in an order in which each follows the whole it lies inside.
        self._parts: list[tuple[int, int, int]] = []
        done = {i for i, b in enumerate(region.buffers) if b.inside is None}
        for i in range(len(region.buffers)):
            chain: list[int] = []
            at: int | None = i
            while at is not None and at not in done:
                chain.append(at)
                at = region.buffers[at].inside
            for part in reversed(chain):
                b = region.buffers[part]
                assert b.inside is not None
                done.add(part)
                self._parts.append((part, b.inside, self._position(b.inside_offset)))

    def _lay_out_moves(self, region: Region, dims: list[int]) -> None:
        # The operands that move with each moving buffer.
        moving: dict[int, list[int]] = {
            b: [] for b, buffer in enumerate(region.buffers) if buffer.loop is not None
        }
        for operand, buffer in enumerate(self.operand_buffer.tolist() if moving else ()):
            at: int | None = buffer
            while at is not None:
                if at in moving:
                    moving[at].append(operand)
                at = region.buffers[at].inside
        self.moves: list[tuple[int, int, list[int]]] = []
        # Per moving buffer: positions of its stride and of its loop's trips.
        self._strides: dict[int, tuple[int, int]] = {}
        for b, mine in moving.items():
            buffer = region.buffers[b]
            loop = None if buffer.loop is None else region.steps[buffer.loop]
            assert isinstance(loop, ControlStep) and loop.trips is not None
            assert buffer.loop is not None
            self.moves.append((b, buffer.loop, mine))
            self._strides[b] = self._position(buffer.stride), dims[loop.trips]

    def _repeated(self, region: Region, dims: list[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for n, step in enumerate(region.steps):
            if isinstance(step, ControlStep) and step.kind == LOOP and step.trips is not None:
                first, end = bisect_right(self.kernels, n), bisect_left(self.kernels, step.target)
                for row in range(first, end):
                    found.setdefault(row, []).append(dims[step.trips])
        return found

    def trips(self, sizes: RegionSizes, loop: int) -> int:
        """The most iterations that the loop which begins at this step has."""
        step = self.region.steps[loop]
        assert isinstance(step, ControlStep) and step.trips is not None
        return int(sizes.values[self._positions[self.region.dims[step.trips]]])

    def step_sizes(self, sizes: RegionSizes, n: int) -> list[int]:
        """The run-time sizes of step n."""
        step = self.region.steps[n]
        assert not isinstance(step, HostStep)
        return [int(sizes.values[self._positions[self.region.dims[d]]]) for d in step.dims]

    def terms(self, sizes: RegionSizes) -> tuple[Ints, Ints, Ints]:
        """Sizes and strides of all operands' axes, and where each operand's begin."""
        return sizes.values[self._term_size], sizes.values[self._term_stride], self._term_start

    def stride_bytes(self, sizes: RegionSizes, b: int) -> int:
        """How far a moving buffer moves with an iteration."""
        return int(sizes.values[self._strides[b][0]]) * int(self.itemsize[b])

    def total_work(self, sizes: RegionSizes) -> Ints:
        """Work per native step in all iterations of the loops around it, as far as int64 goes."""
        work = sizes.work.astype(np.float64)
        for row, trips in self._times.items():
            for position in trips:
                work[row] *= max(0, int(sizes.values[position]))
        return np.minimum(work, float(MAX_BYTES)).astype(np.int64)

    def _lay_out_operands(self, steps: list[NativeStep], dims: list[int]) -> None:
        sizes: list[int] = []
        strides: list[int] = []
        offsets: list[int] = []
        counts: list[int] = []
        # Pairs of operands (written, other) of one step that are in one root buffer.
        self._pairs: list[tuple[int, int, bool]] = []
        # Positions of (an axis, its blocks, their size), and the operand to name.
        splits: list[tuple[int, int, int, int]] = []
        one, zero = self._position(1), self._position(0)
        terms: dict[Spec, list[tuple[list[Size], list[Size], Size]]] = {}
        for step in steps:
            if isinstance(step, ControlStep):
                # Control flow touches the first element.
                for _ in step.buffers:
                    sizes += [one, one]
                    strides += [zero, zero]
                    offsets.append(zero)
                    counts.append(2)
                continue
            if step.spec not in terms:
                terms[step.spec] = operand_terms(step.spec)
            table = [dims[d] for d in step.dims]
            if isinstance(step.spec, GemmSpec):
                for axis, split in step.spec.splits():
                    parts = [self._size(s, table) for s in (axis, *split)]
                    splits.append((parts[0], parts[1], parts[2], len(counts)))
            for walk, stride, offset in terms[step.spec]:
                sizes += [one, *(self._size(s, table) for s in walk)]
                strides += [zero, *(self._size(s, table) for s in stride)]
                offsets.append(self._size(offset, table))
                counts.append(1 + len(walk))
        for n, step in enumerate(steps):
            if isinstance(step, KernelStep):
                self._find_pairs(step, int(self.operand_start[n]))
        self._term_size, self._term_stride = _ints(sizes), _ints(strides)
        self._term_start = _starts(counts)[:-1]
        self._offset = _ints(offsets)
        outputs = [s.spec.output_count() if isinstance(s, KernelStep) else 0 for s in steps]
        self._written_start = self.operand_start[1:] - _ints(outputs)
        self._splits = np.array(splits, np.int64).reshape(-1, 4)

    def _size(self, size: Size, table: list[int]) -> int:
        return table[size.index] if isinstance(size, RuntimeDim) else self._position(size)

    def _find_pairs(self, step: KernelStep, at: int) -> None:
        roots = [int(self.root[b]) for b in step.buffers]
        count = len(roots)
        if len(set(roots)) == count:
            return
        operands = step.spec.operands()
        for w in range(count - step.spec.output_count(), count):
            for r in range(w):
                if roots[r] == roots[w]:
                    written = r >= count - step.spec.output_count()
                    may = not written and may_alias_output(step.spec, r)
                    may = may and has_same_access(operands[r], operands[w])
                    self._pairs.append((at + w, at + r, may))

    def shape(self, sizes: RegionSizes, b: int) -> tuple[int, ...]:
        """Buffer b's shape."""
        return tuple(int(sizes.values[p]) for p in self._shapes[b])

    def dims(self, sizes: RegionSizes) -> Ints:
        """The run-time sizes of all kernel steps, one after the other."""
        return sizes.values[self.step_dims]

    def sizes(self, env: Mapping[str, int]) -> RegionSizes:
        """Evaluate and verify. VerificationError, ShapeError (a symbol's bounds, a division by
        zero) or MemoryLimitError (more bytes than any machine has)."""
        numbers = self._evaluate(env)
        if numbers and not -MAX_SIZE < min(numbers) <= max(numbers) < MAX_SIZE:
            raise beyond_machines(numbers, list(self._positions), self._where())
        barred = self._checks.failing(numbers)
        values = np.array(numbers, np.int64)
        terms = values[self._shape_terms]
        if len(terms) and terms.min() < 0:
            b = int(np.searchsorted(self._shape_starts, int(terms.argmin()), side="right")) - 1
            raise VerificationError(
                "a buffer has a negative size", where=self._buffer(b), got=int(terms.min())
            )
        elements = np.ones(0, np.int64)
        if len(terms):
            rough = np.multiply.reduceat(terms.astype(np.float64), self._shape_starts)
            worst = int((rough * self.itemsize).argmax())
            if float(rough[worst]) * int(self.itemsize[worst]) >= MAX_BYTES:
                raise MemoryLimitError(
                    "a buffer is larger than any machine's memory",
                    where=self._buffer(worst),
                    got=f"about {rough[worst]:.3g} elements",
                    fix="check the input shapes",
                )
            elements = np.multiply.reduceat(terms, self._shape_starts)
            for b, count in self._packed.items():
                elements[b] = count
        nbytes = elements * self.itemsize
        sizes = RegionSizes(
            values, elements, nbytes, self._inner(values, nbytes), values[self._work], barred
        )
        self._check_operands(sizes)
        return sizes

    def _inner(self, values: Ints, nbytes: Ints) -> Ints:
        inner = np.zeros(len(nbytes), np.int64)
        for child, parent, offset in self._parts:
            size = int(self.itemsize[child])
            begin = int(values[offset]) * size
            low, high = self._reach(values, child, begin, begin + int(nbytes[child]))
            if size != self.itemsize[parent] and (begin or child in self._strides):
                raise VerificationError(
                    "a buffer is at an offset inside one of another element size",
                    where=self._buffer(child),
                )
            moves = self._strides.get(child)  # where it is empty, no iteration sees any of it
            seen = moves is None or (int(values[moves[1]]) > 0 and nbytes[child] > 0)
            if seen and (low < 0 or high > int(nbytes[parent])):
                raise VerificationError(
                    "a buffer leaves the one it lies inside",
                    where=self._buffer(child),
                    got=f"bytes {low}..{high}",
                    expected=f"0..{int(nbytes[parent])}",
                )
            inner[child] = inner[parent] + begin
        return inner

    def _reach(self, values: Ints, b: int, low: int, high: int) -> tuple[int, int]:
        """The bytes between `low` and `high` that buffer b has in any iteration."""
        if b not in self._strides:
            return low, high
        stride, trips = (int(values[p]) for p in self._strides[b])
        far = stride * int(self.itemsize[b]) * (max(trips, 1) - 1)
        return low + min(far, 0), high + max(far, 0)

    def _check_operands(self, sizes: RegionSizes) -> None:
        if not len(self._offset):
            return
        size, stride = sizes.values[self._term_size], sizes.values[self._term_stride]
        if size.min() < 0:
            operand = int(np.searchsorted(self._term_start, int(size.argmin()), "right")) - 1
            raise VerificationError(
                "a step counts a negative number of elements",
                where=self._operand(operand),
                got=int(size.min()),
            )
        whole, blocks, each = (sizes.values[p] for p in self._splits.T[:3])
        wrong = (whole != blocks * each) | (blocks.astype(np.float64) * each > MAX_SIZE)
        if wrong.any():
            n = int(wrong.argmax())
            raise VerificationError(
                "the parts of an axis are not the whole",
                where=self._operand(int(self._splits[n, 3])),
                got=f"{blocks[n]} by {each[n]}",
                expected=int(whole[n]),
            )
        empty = np.minimum.reduceat(size, self._term_start) == 0
        endless = empty & self._loops_long(size)
        for row in self.rows_not_run(sizes):
            empty[self.operand_start[row] : self.operand_start[row + 1]] = True
            endless[self.operand_start[row] : self.operand_start[row + 1]] = False
        if endless.any():
            raise MemoryLimitError(
                "a step without elements has axes too large to loop over",
                where=self._operand(int(endless.argmax())),
                expected=f"at most {MAX_BROADCAST_REDUCTION} iterations",
                fix="use smaller sizes on the axes next to the empty one",
            )
        rough = (size - 1.0) * stride
        if not float(np.abs(rough).max()) < MAX_BYTES:
            # An empty walk touches nothing whatever its strides are.
            rough[np.repeat(empty, np.diff(np.append(self._term_start, len(size))))] = 0
            worst = int(np.abs(rough).argmax())
            if abs(float(rough[worst])) >= MAX_BYTES:
                operand = int(np.searchsorted(self._term_start, worst, "right")) - 1
                raise VerificationError("a step leaves its buffer", where=self._operand(operand))
        span = (size - 1) * stride
        offset = sizes.values[self._offset]
        low = offset + np.add.reduceat(np.minimum(span, 0), self._term_start)
        high = offset + np.add.reduceat(np.maximum(span, 0), self._term_start)
        bad = ~empty & ((low < 0) | (high >= sizes.elements[self.operand_buffer]))
        if bad.any():
            n = int(bad.argmax())
            b = int(self.operand_buffer[n])
            raise VerificationError(
                "a step leaves its buffer",
                where=self._operand(n),
                got=f"elements {int(low[n])}..{int(high[n])} of {self._buffer(b)}",
                expected=f"0..{int(sizes.elements[b]) - 1}",
            )
        idle = self._write_nothing(empty)
        distinct = are_distinct(size, stride, self._term_start) | empty
        self._bounds.check(sizes.values, idle, distinct, sizes.elements[self.operand_buffer])
        for w, r, may in self._pairs:
            if empty[w] or empty[r]:
                continue
            at, of = (self._bytes(sizes, n, int(low[n]), int(high[n])) for n in (w, r))
            meet = at[0] < of[1] and of[0] < at[1] and not (may and at == of)
            if meet and not lie_apart(self.walk(sizes, w), self.walk(sizes, r)):
                raise VerificationError(
                    "a step overwrites what it reads, or writes it twice",
                    where=self._operand(w),
                    got=f"bytes {at} and {of} of one buffer",
                )

    def _loops_long(self, size: Ints) -> Any:
        """Per operand, whether loops over its axes, an empty one inside, take too many iterations:
        a kernel has loops also around an axis of size 0."""
        loops = np.multiply.reduceat(np.maximum(size, 1).astype(np.float64), self._term_start)
        return loops > MAX_BROADCAST_REDUCTION

    def rows_not_run(self, sizes: RegionSizes) -> set[int]:
        """Native steps in loops without iterations, and behind checks that fail."""
        found = {r for check in sizes.barred for r in self._checks.guarded(check)}
        trips = self._times.items()
        return found | {row for row, at in trips if min(int(sizes.values[p]) for p in at) <= 0}

    def _write_nothing(self, empty: Any) -> Any:
        """Per native step, whether all that it writes is empty."""
        full = np.append(0, np.cumsum(~empty))
        return full[self.operand_start[1:]] == full[self._written_start]

    def walk(self, sizes: RegionSizes, n: int) -> StridedAccess:
        """The walk of operand n."""
        following = self._term_start[n + 1 : n + 2]
        begin, end = self._term_start[n], following[0] if len(following) else None
        size, stride = (sizes.values[t[begin:end]] for t in (self._term_size, self._term_stride))
        terms = zip(size.tolist(), stride.tolist(), strict=True)
        return StridedAccess(
            int(self.operand_buffer[n]), int(sizes.values[self._offset[n]]), tuple(terms)
        )

    def _bytes(self, sizes: RegionSizes, n: int, low: int, high: int) -> tuple[int, int]:
        b = self.operand_buffer[n]
        size, inner = int(self.itemsize[b]), int(sizes.inner[b])
        return inner + low * size, inner + (high + 1) * size

    def arena_roots(self) -> list[int]:
        """The ARENA buffers that lie inside no other: what memory is placed for."""
        buffers = self.region.buffers
        return [i for i, b in enumerate(buffers) if b.kind == ARENA and b.inside is None]

    def _buffer(self, b: int) -> str:
        return f"buffer {b} ({self.region.buffers[b].name or 'unnamed'})"

    def _operand(self, n: int) -> str:
        k = int(np.searchsorted(self.operand_start, n, "right")) - 1
        number = self.kernels[k]
        name = self.region.steps[number].name or "unnamed"
        return f"step {number} ({name}), operand {n - int(self.operand_start[k])}"

    def _where(self) -> str:
        return f"region with {len(self.region.steps)} steps"


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def _starts(counts: Sequence[int]) -> Ints:
    """[0, c0, c0+c1, ...]."""
    out: Any = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out
