"""Whether operands stay inside their buffers, and buffers inside those that they alias.

Index arrays are made once per region; a check for one set of sizes has no loop over steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from ...ir.errors import MemoryLimitError, VerificationError
from ...ir.lazy_dataclass import dataclass
from ..packing.layouts import PackedLayout, panels
from ..plan import ControlStep, NativeStep, PlanConstant, Region
from ..specs.base import Size, Spec, access_terms
from .size_table import MAX_SIZE, Ints, RegionNames, SizeTable, to_ints, to_starts
from .step_bounds import MAX_BROADCAST_REDUCTION
from .strided_access import DistinctWalks, StridedAccess

# No address space is larger; below it int64 arithmetic on bytes cannot overflow.
MAX_BYTES = 1 << 47


def packed_elements(c: PlanConstant) -> int:
    """Elements of a constant in its layout. MemoryLimitError for more than any machine has."""
    if c.layout is None:
        count = math.prod(c.shape)
    else:
        matrices, k, n = panels(c.shape, c.layout, c.transposed)
        count = matrices * PackedLayout.of(c.layout, k, n).size
    if count >= MAX_BYTES:
        raise MemoryLimitError("a constant is larger than any machine's memory", got=c.shape)
    return count


class BufferBounds:
    """Sizes of a region's buffers, and where each begins in the buffer at the end of its chain of
    aliases. itemsize: bytes per element; packed: elements of packed constants; strides: of buffers
    that move with a loop, positions of the stride and of the loop's trips."""

    def __init__(
        self, region: Region, constants: Sequence[PlanConstant], table: SizeTable, dims: list[int]
    ) -> None:
        one = table.position(1)
        self._buffers = region.buffers
        self.shapes = [[table.position(d) for d in b.shape] for b in region.buffers]
        self.itemsize = to_ints([b.dtype.numpy.itemsize for b in region.buffers])
        # Layers have buffers of equal shapes: each is counted once. _first: a buffer of each;
        # _kinds: per buffer, which of them it is.
        found: dict[tuple[int, ...], int] = {}
        keys = [(size, *s) for size, s in zip(self.itemsize.tolist(), self.shapes, strict=True)]
        self._kinds = to_ints([found.setdefault(key, len(found)) for key in keys])
        self._first = np.unique(self._kinds, return_index=True)[1]
        self._terms = to_ints([p for _, *s in found for p in [one, *s]])
        self._starts = to_starts([len(key) for key in found])[:-1]
        self._sizes = to_ints([key[0] for key in found])
        # Packed constants are padded: their number of elements is not a product of their shape.
        self.packed = {
            i: packed_elements(constants[b.index])
            for i, b in enumerate(region.buffers)
            if b.kind == "constant" and constants[b.index].layout is not None
        }
        self._packed = np.array(list(self.packed.items()), np.int64).reshape(-1, 2).T
        self._parts = _order_parts(region, table)
        self.strides: dict[int, tuple[int, int]] = {}
        for b, buffer in enumerate(region.buffers):
            if buffer.loop is not None:
                loop = region.steps[buffer.loop]
                assert isinstance(loop, ControlStep) and loop.trips is not None
                self.strides[b] = table.position(buffer.stride), dims[loop.trips]

    def list_reached(self, sizes: Set[int]) -> set[int]:
        """The buffers whose shape, or place in their root, these sizes are part of."""
        found = {b for b, shape in enumerate(self.shapes) if not sizes.isdisjoint(shape)}
        moved: set[int] = set()
        for child, parent, offset in self._parts:
            if offset in sizes or parent in moved:
                moved.add(child)
        return found | moved

    def elements(self, values: Ints, names: RegionNames) -> Ints:
        """Elements per buffer. VerificationError for negative sizes, MemoryLimitError for more
        bytes than any machine has."""
        terms = values[self._terms]
        if not len(terms):
            return np.ones(0, np.int64)
        if terms.min() < 0:
            kind = int(np.searchsorted(self._starts, int(terms.argmin()), side="right")) - 1
            what = "a buffer has a negative size"
            where = names.buffer(int(self._first[kind]))
            raise VerificationError(what, where=where, got=int(terms.min()))
        rough = np.multiply.reduceat(terms.astype(np.float64), self._starts)
        worst = int((rough * self._sizes).argmax())
        if float(rough[worst]) * int(self._sizes[worst]) >= MAX_BYTES:
            raise MemoryLimitError(
                "a buffer is larger than any machine's memory",
                where=names.buffer(int(self._first[worst])),
                got=f"about {rough[worst]:.3g} elements",
                fix="check the input shapes",
            )
        elements = np.multiply.reduceat(terms, self._starts)[self._kinds]
        packed, counts = self._packed
        elements[packed] = counts
        return elements

    def root_offsets(self, values: Ints, nbytes: Ints, names: RegionNames) -> Ints:
        """Bytes from the start of each buffer's root to its own. VerificationError where a part
        leaves the buffer that it aliases."""
        found = np.zeros(len(nbytes), np.int64)
        for child, parent, offset in self._parts:
            size = int(self.itemsize[child])
            begin = int(values[offset]) * size
            low, high = self._reach(values, child, begin, begin + int(nbytes[child]))
            if size != self.itemsize[parent] and (begin or child in self.strides):
                raise VerificationError(
                    "a buffer is at an offset inside one of another element size",
                    where=names.buffer(child),
                )
            moves = self.strides.get(child)  # where it is empty, no iteration sees any of it
            seen = moves is None or (int(values[moves[1]]) > 0 and nbytes[child] > 0)
            if seen and (low < 0 or high > int(nbytes[parent])):
                raise VerificationError(
                    "a buffer exceeds the one that it aliases",
                    where=names.buffer(child),
                    got=f"bytes {low}..{high}",
                    expected=f"0..{int(nbytes[parent])}",
                )
            found[child] = found[parent] + begin
        return found

    def _reach(self, values: Ints, b: int, low: int, high: int) -> tuple[int, int]:
        """The bytes between `low` and `high` that buffer b has in any iteration."""
        if b not in self.strides:
            return low, high
        stride, trips = (int(values[p]) for p in self.strides[b])
        far = stride * int(self.itemsize[b]) * (max(trips, 1) - 1)
        return low + min(far, 0), high + max(far, 0)


def _order_parts(region: Region, table: SizeTable) -> list[tuple[int, int, int]]:
    """(part, buffer that it aliases, position of its offset), each behind what it aliases."""
    found: list[tuple[int, int, int]] = []
    done = {i for i, b in enumerate(region.buffers) if b.alias_of is None}
    for i in range(len(region.buffers)):
        chain: list[int] = []
        at: int | None = i
        while at is not None and at not in done:
            chain.append(at)
            at = region.buffers[at].alias_of
        for member in reversed(chain):
            b = region.buffers[member]
            assert b.alias_of is not None
            done.add(member)
            found.append((member, b.alias_of, table.position(b.alias_offset)))
    return found


@dataclass(frozen=True, eq=False)
class Extents:
    """Per operand: whether it has no elements, its first and last element in its buffer, and
    whether it is shown to walk no element twice."""

    empty: Any
    low: Ints
    high: Ints
    distinct: Any


class OperandBounds:
    """Iteration spaces, strides and offsets of all operands of a region's native steps.

    size, stride: positions for all axes of all operands, one operand after the other; start: where
    each operand's axes begin; buffer: per operand; starts: where each step's operands begin.
    """

    def __init__(
        self, steps: Sequence[NativeStep], table: SizeTable, dims: list[int], starts: Ints
    ) -> None:
        self.buffer = to_ints([b for s in steps for b in s.buffers])
        self.starts = starts
        one, zero = table.position(1), table.position(0)
        sizes: list[int] = []
        strides: list[int] = []
        offsets: list[int] = []
        counts: list[int] = []
        # Positions of (an axis, its blocks, their size), and the operand to name.
        splits: list[tuple[int, int, int, int]] = []
        known: dict[Spec, list[tuple[list[Size], list[Size], Size]]] = {}
        for step in steps:
            if isinstance(step, ControlStep):
                # Control flow touches the first element.
                sizes += [one, one] * len(step.buffers)
                strides += [zero, zero] * len(step.buffers)
                offsets += [zero] * len(step.buffers)
                counts += [2] * len(step.buffers)
                continue
            if step.spec not in known:
                known[step.spec] = access_terms(step.spec)
            of = [dims[d] for d in step.dims]
            for axis, split in step.spec.split_axes():
                extent, blocks, each = (table.size(s, of) for s in (axis, *split))
                splits.append((extent, blocks, each, len(counts)))
            for space, stride, offset in known[step.spec]:
                sizes += [one, *(table.size(s, of) for s in space)]
                strides += [zero, *(table.size(s, of) for s in stride)]
                offsets.append(table.size(offset, of))
                counts.append(1 + len(space))
        self.size, self.stride = to_ints(sizes), to_ints(strides)
        self.start = to_starts(counts)[:-1]
        self._offset = to_ints(offsets)
        self._splits = np.array(splits, np.int64).reshape(-1, 4)
        self._distinct = DistinctWalks(self.start, len(self.size))

    def find_distinct(self, values: Ints) -> Any:
        """Per operand, whether it is shown to walk no element twice."""
        if not len(self.start):
            return np.zeros(0, np.bool_)
        return self._distinct.find(values[self.size], values[self.stride])

    def list_axes(self, operands: Ints) -> tuple[Ints, Ints]:
        """Positions of the sizes of these operands' axes, and where each operand's begin."""
        starts = [*self.start.tolist(), len(self.size)]
        axes = [range(starts[n], starts[n + 1]) for n in operands.tolist()]
        listed = to_ints([at for along in axes for at in along])
        return self.size[listed], to_starts([len(along) for along in axes])[:-1]

    def walk(self, values: Ints, n: int) -> StridedAccess:
        """The elements of operand n."""
        following = self.start[n + 1 : n + 2]
        begin, end = self.start[n], following[0] if len(following) else None
        size, stride = (values[t[begin:end]] for t in (self.size, self.stride))
        terms = zip(size.tolist(), stride.tolist(), strict=True)
        return StridedAccess(int(self.buffer[n]), int(values[self._offset[n]]), tuple(terms))

    def positions(self, n: int) -> list[int]:
        """Where the sizes, strides and offset of operand n are."""
        end = self.start[n + 1] if n + 1 < len(self.start) else len(self.size)
        axes = slice(int(self.start[n]), int(end))
        return [*self.size[axes].tolist(), *self.stride[axes].tolist(), int(self._offset[n])]

    def check(
        self,
        values: Ints,
        elements: Ints,
        distinct: Any,
        rows_not_run: set[int],
        names: RegionNames,
    ) -> Extents | None:
        """VerificationError where an operand leaves its buffer, for any sign of its strides. None
        where there are no operands. elements: per buffer; distinct: of `find_distinct`."""
        if not len(self._offset):
            return None
        size, stride = values[self.size], values[self.stride]
        self._check_counts(values, size, names)
        empty = self._find_empty(size, rows_not_run, names)
        self._check_spans(size, stride, empty, names)
        span = (size - 1) * stride
        offset = values[self._offset]
        low = offset + np.add.reduceat(np.minimum(span, 0), self.start)
        high = offset + np.add.reduceat(np.maximum(span, 0), self.start)
        bad = ~empty & ((low < 0) | (high >= elements[self.buffer]))
        if bad.any():
            n = int(bad.argmax())
            b = int(self.buffer[n])
            raise VerificationError(
                "a step leaves its buffer",
                where=names.operand(n),
                got=f"elements {int(low[n])}..{int(high[n])} of {names.buffer(b)}",
                expected=f"0..{int(elements[b]) - 1}",
            )
        return Extents(empty, low, high, distinct | empty)

    def _check_counts(self, values: Ints, size: Ints, names: RegionNames) -> None:
        """Sizes are not negative, and the blocks of a split axis are the whole."""
        if size.min() < 0:
            operand = int(np.searchsorted(self.start, int(size.argmin()), "right")) - 1
            raise VerificationError(
                "a step counts a negative number of elements",
                where=names.operand(operand),
                got=int(size.min()),
            )
        extent, blocks, each = (values[p] for p in self._splits.T[:3])
        wrong = (extent != blocks * each) | (blocks.astype(np.float64) * each > MAX_SIZE)
        if wrong.any():
            n = int(wrong.argmax())
            raise VerificationError(
                "the parts of an axis are not the whole",
                where=names.operand(int(self._splits[n, 3])),
                got=f"{blocks[n]} by {each[n]}",
                expected=int(extent[n]),
            )

    def _find_empty(self, size: Ints, rows_not_run: set[int], names: RegionNames) -> Any:
        """Per operand, whether it has no elements or its step never runs.

        A kernel has loops also around an axis of size 0: MemoryLimitError where these take too many
        iterations.
        """
        empty = np.minimum.reduceat(size, self.start) == 0
        loops = np.multiply.reduceat(np.maximum(size, 1).astype(np.float64), self.start)
        endless = empty & (loops > MAX_BROADCAST_REDUCTION)
        for row in rows_not_run:
            empty[self.starts[row] : self.starts[row + 1]] = True
            endless[self.starts[row] : self.starts[row + 1]] = False
        if endless.any():
            raise MemoryLimitError(
                "a step without elements has axes too large to loop over",
                where=names.operand(int(endless.argmax())),
                expected=f"at most {MAX_BROADCAST_REDUCTION} iterations",
                fix="use smaller sizes on the axes next to the empty one",
            )
        return empty

    def _check_spans(self, size: Ints, stride: Ints, empty: Any, names: RegionNames) -> None:
        """Products of sizes and strides fit into int64."""
        rough = (size - 1.0) * stride
        if float(np.abs(rough).max()) < MAX_BYTES:
            return
        # An operand without elements touches nothing whatever its strides are.
        rough[np.repeat(empty, np.diff(np.append(self.start, len(size))))] = 0
        worst = int(np.abs(rough).argmax())
        if abs(float(rough[worst])) >= MAX_BYTES:
            operand = int(np.searchsorted(self.start, worst, "right")) - 1
            raise VerificationError("a step leaves its buffer", where=names.operand(operand))
