"""Which buffers of a region are shown to be written, every element, before they are read.

A stored plan may write less than its outputs, whose memory would then be what the heap held. Most
buffers are written by one kernel whose walk visits as many distinct elements as the buffer has;
that is counted for all steps together. Pieces of the others (concatenations, paddings, scans) are
joined one by one, in the order of the steps. What is not shown here the runtime fills with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..plan import (
    ARENA,
    BRANCH,
    LOOP,
    LOOP_END,
    OUTPUT,
    ControlStep,
    HostStep,
    KernelStep,
    Region,
)
from ..specs.base import resolver
from .values import RegionLayoutTables, RegionSizes
from .written_bytes import WrittenBytes, fill_shape

_MADE: Final = (ARENA, OUTPUT)
_MAX_CACHED_FINDINGS: Final = 64
# Per step: (operand's number or -1 for the whole buffer, buffer).
_Accesses = list[tuple[int, int]]


class Coverage:
    """What of a region does not depend on sizes."""

    def __init__(self, tables: RegionLayoutTables) -> None:
        self.tables, self.region = tables, tables.region
        self.root = tables.root.tolist()
        self.reads, self.writes = _list_accesses(self.region, tables)
        made = [b.kind in _MADE and b.alias_of is None for b in self.region.buffers]
        self.made = [b for b, is_made in enumerate(made) if is_made]
        self.outputs = [b for b in self.made if self.region.buffers[b].kind == OUTPUT]
        # The buffers that move with each loop.
        self.moving: dict[int, list[int]] = {}
        for b, buffer in enumerate(self.region.buffers):
            if buffer.loop is not None:
                self.moving.setdefault(buffer.loop, []).append(b)
        single, rest = self._find_first_writers()
        self._rest = np.array(sorted(rest), np.int64)
        self._single = np.array(single, np.int64).reshape(-1, 3).T
        # Per root buffer, the steps that touch it, in order.
        self.has_control = any(isinstance(step, ControlStep) for step in self.region.steps)
        self.touching: dict[int, list[int]] = {}
        for n in range(len(self.region.steps)):
            for root in {self.root[b] for _, b in (*self.reads[n], *self.writes[n])}:
                self.touching.setdefault(root, []).append(n)
        self._found: dict[tuple[frozenset[int], bytes, bytes, bytes], frozenset[int]] = {}
        self._size_positions: dict[frozenset[int], tuple[Any, Any]] = {}
        rows = {number: row for row, number in enumerate(tables.kernels)}
        # Outputs whose beginning is a copy of an input: root, input, operand that writes the rest.
        appended = [
            (a.output, a.input, int(tables.operand_start[rows[a.rest]]) + a.operand)
            for a in tables.appended_outputs
            if a.is_read_later
        ]
        self._appended = np.array(appended, np.int64).reshape(-1, 3).T
        # The operands that are counted, and where those of single writers and of appended rests are
        # among them.
        self._counted, positions = np.unique(
            np.append(self._single[1], self._appended[2]), return_inverse=True
        )
        self._single_positions = positions[: self._single.shape[1]]
        self._rest_positions = positions[self._single.shape[1] :]
        self._axes, self._starts = tables.list_axes(self._counted)
        self._choosing = [
            (n, step)
            for n, step in enumerate(self.region.steps)
            if isinstance(step, KernelStep) and _may_write_less(step)
        ]

    def _find_first_writers(self) -> tuple[list[tuple[int, int, int]], set[int]]:
        """(root, operand, buffer) where a kernel outside control flow touches the root first, by
        writing; the roots for which that is not so."""
        inside = _steps_in_control(self.region)
        first: dict[int, tuple[int, int, int] | None] = {}
        for n in range(len(self.region.steps)):
            for _, b in self.reads[n]:
                first.setdefault(self.root[b], None)
            for operand, b in self.writes[n]:
                plain = n not in inside and operand >= 0
                first.setdefault(self.root[b], (self.root[b], operand, b) if plain else None)
        made = set(self.made)
        single = [f for r, f in first.items() if f is not None and r in made]
        return single, {r for r in made if first.get(r) is None}

    def unwritten(self, sizes: RegionSizes) -> frozenset[int]:
        """The root buffers, of outputs and of what is read, that are not shown to be written."""
        counted = self._count(sizes)
        root, _, b = self._single
        fills_root = (sizes.nbytes[b] == sizes.nbytes[root]) & (self.tables.itemsize[b] > 0)
        filled = (counted[self._single_positions] == sizes.elements[b]) & fills_root
        others = np.append(self._rest, root[~filled])
        rest = set(others[sizes.nbytes[others] > 0].tolist())
        root, source, _ = self._appended
        # The operand stays behind the copy and inside the buffer, and visits as many elements.
        behind = counted[self._rest_positions] == sizes.elements[root] - sizes.elements[source]
        rest.difference_update(root[behind].tolist())
        if not rest:
            return frozenset()
        if self.has_control or len(sizes.failing_asserts):
            return _Pieces(self, sizes, rest).find()
        # A new length of a cache leaves most of these steps' sizes as they were.
        key = frozenset(rest), *self._list_sizes(frozenset(rest), sizes)
        if key not in self._found:
            if len(self._found) >= _MAX_CACHED_FINDINGS:
                self._found.clear()
            self._found[key] = _Pieces(self, sizes, rest).find()
        return self._found[key]

    def _list_sizes(self, roots: frozenset[int], sizes: RegionSizes) -> tuple[bytes, bytes, bytes]:
        """The sizes that decide what steps that touch these buffers read and write of them: their
        run-time sizes, and sizes and offsets of the buffers."""
        tables = self.tables
        if roots not in self._size_positions:
            touching = {n for root in roots for n in self.touching.get(root, ())}
            dims: list[int] = []
            for n in sorted(touching):
                listed = [o for o, b in (*self.reads[n], *self.writes[n]) if self.root[b] in roots]
                dims += [p for o in listed if o >= 0 for p in tables.operand_positions(o)]
            for n, _ in self._choosing:
                dims += tables.step_size_positions(n) if n in touching else []
            buffers = [b for b, root in enumerate(self.root) if root in roots]
            shapes = [p for b in buffers for p in tables.shape_positions(b)]
            self._size_positions[roots] = np.array([*dims, *shapes], np.int64), np.array(buffers)
        positions, buffers = self._size_positions[roots]
        moved, size = sizes.root_offsets[buffers], sizes.nbytes[buffers]
        return sizes.values[positions].tobytes(), moved.tobytes(), size.tobytes()

    def _count(self, sizes: RegionSizes) -> Any:
        """Per operand that alone may fill a buffer, or the rest of one, how many distinct elements
        its walk visits; -1 where that is not known."""
        if not len(self._counted):
            return np.zeros(0)
        counts = np.multiply.reduceat(sizes.values[self._axes].astype(np.float64), self._starts)
        known = sizes.distinct[self._counted]
        if partial := self._list_partial(sizes):
            known = known & ~np.isin(self._counted, partial)
        return np.where(known, counts, -1.0)

    def _list_partial(self, sizes: RegionSizes) -> list[int]:
        """Operands of which the kernel writes what data or other sizes say."""
        found: list[int] = []
        for n, step in self._choosing:
            if _writes_less(step, self.tables.step_sizes(sizes, n)):
                found += [operand for operand, _ in self.writes[n]]
        return found


def _may_write_less(step: KernelStep) -> bool:
    """Whether for some sizes a kernel leaves elements of its outputs as they are."""
    return step.spec.overrides("writes_all") or step.spec.scatters()


def _writes_less(step: KernelStep, dims: Sequence[int]) -> bool:
    """Whether a kernel may leave elements of its outputs as they are."""
    return not step.spec.writes_all(resolver(dims))


class _Pieces:
    """One walk through the steps, in order, for some root buffers and one set of sizes.

    A buffer that moves with a loop is a space of its own while the loop runs; `WrittenBytes` of a
    space count from its buffer's start.
    """

    def __init__(self, coverage: Coverage, sizes: RegionSizes, roots: set[int]) -> None:
        self.of, self.sizes, self.roots = coverage, sizes, roots
        self.tables, self.steps = coverage.tables, coverage.region.steps
        self.buffers = coverage.region.buffers
        self.missing: set[int] = set()
        self.idle = {self.tables.kernels[row] for row in self.tables.rows_not_run(sizes)}

    def find(self) -> frozenset[int]:
        """The roots that are read, or left, with elements that are not written."""
        state = _State()
        if self.of.has_control:
            self.walk(0, len(self.steps), state)
        else:
            touching = (self.of.touching.get(root, ()) for root in self.roots)
            for n in sorted({n for steps in touching for n in steps}):
                self.touch(n, state)
        for root in self.roots.intersection(self.of.outputs):
            full_range = (0, (), int(self.sizes.nbytes[root]))
            if not (state.of(root).holds(*full_range) or self.is_filled(root, state)):
                self.missing.add(root)
        return frozenset(self.missing)

    def walk(self, n: int, end: int, state: _State) -> None:
        """Bring the state from before step `n` to before step `end`."""
        while n < end:
            step = self.steps[n]
            self.touch(n, state)
            if isinstance(step, ControlStep) and step.kind == LOOP:
                self.loop(n, step, state)
                n = step.target
            elif isinstance(step, ControlStep) and step.kind == BRANCH:
                skip = self.steps[step.target - 1]
                assert isinstance(skip, ControlStep)
                one, other = _State(state), _State(state)
                self.walk(n + 1, step.target - 1, one)
                self.walk(step.target, skip.target, other)
                state.take_common(one, other)
                n = skip.target - 1
            n += 1

    def loop(self, n: int, step: ControlStep, state: _State) -> None:
        """The state behind a loop: what all its iterations write, if it is sure to have them."""
        trips = self.tables.trips(self.sizes, n)
        if trips <= 0:
            return
        again = self.steps[step.target]
        assert isinstance(again, ControlStep)
        sure = step.count is step.condition is again.condition is None
        inner = _State(state)
        self.walk(n + 1, step.target, inner)
        self.touch(step.target, inner)
        if not sure:
            return
        for b in self.of.moving.get(n, ()):
            if b in inner.own:
                stride, around = self.tables.stride_bytes(self.sizes, b), self.space(b, outer=True)
                shift = int(self.sizes.root_offsets[b] - self.sizes.root_offsets[around])
                for start, terms, length in inner.own.pop(b).pieces():
                    inner.of(around).add(start + shift, (*terms, (trips, stride)), length)
        state.own.update(inner.own)

    def touch(self, n: int, state: _State) -> None:
        """What a step reads is written; what it writes is written from now on."""
        if n in self.idle:
            return
        for operand, b in self.of.reads[n]:
            if self.of.root[b] in self.roots and not self.is_written(operand, b, state):
                self.missing.add(self.of.root[b])
        step = self.steps[n]
        if isinstance(step, KernelStep) and _writes_less(
            step, self.tables.step_sizes(self.sizes, n)
        ):
            return
        for operand, b in self.of.writes[n]:
            if self.of.root[b] in self.roots:
                space = self.space(b)
                piece = self.piece(operand, b, space)
                if piece is not None:
                    state.of(space).add(*piece)

    def is_written(self, operand: int, b: int, state: _State) -> bool:
        space = self.space(b)
        piece = self.piece(operand, b, space)
        if piece is None:
            return True
        start, terms, length = piece
        while not state.of(space).holds(start, terms, length):
            if self.is_filled(space, state):
                return True
            loop = self.buffers[space].loop
            if loop is None:
                return False
            trips, stride = (
                self.tables.trips(self.sizes, loop),
                self.tables.stride_bytes(self.sizes, space),
            )
            around = self.space(space, outer=True)
            start += int(self.sizes.root_offsets[space] - self.sizes.root_offsets[around])
            terms, space = (*terms, (trips, stride)), around
        return True

    def is_filled(self, space: int, state: _State) -> bool:
        """Whether the pieces that are written are known to be the whole buffer; joins them."""
        written = state.of(space)
        shape = (*self.tables.shape(self.sizes, space), int(self.tables.itemsize[space]))
        if not fill_shape(list(written.pieces()), shape):
            return False
        written.add(0, (), int(self.sizes.nbytes[space]))
        return True

    def space(self, b: int, *, outer: bool = False) -> int:
        """The buffer that `b` aliases, or itself, that moves or aliases no other."""
        while True:
            buffer = self.buffers[b]
            if buffer.alias_of is None or (buffer.loop is not None and not outer):
                return b
            b, outer = buffer.alias_of, False

    def piece(
        self, operand: int, b: int, space: int
    ) -> tuple[int, tuple[tuple[int, int], ...], int] | None:
        """(start, terms, length) in bytes of what an operand walks; None for nothing."""
        begin = int(self.sizes.root_offsets[b] - self.sizes.root_offsets[space])
        if operand < 0:
            size = int(self.sizes.nbytes[b])
            return (begin, (), size) if size else None
        walk, item = self.tables.walk(self.sizes, operand), int(self.tables.itemsize[b])
        if any(size == 0 for size, _ in walk.terms):
            return None
        terms = tuple((size, stride * item) for size, stride in walk.terms)
        return begin + walk.offset * item, terms, item


class _State:
    """What is written of each space. Of a loop or a branch: what differs from the state around it,
    so that a region of many takes no copy of all that is written for each."""

    def __init__(self, around: _State | None = None) -> None:
        self.own: dict[int, WrittenBytes] = {}
        self.around = around

    def find(self, space: int) -> WrittenBytes | None:
        """What is written of a space, not to be changed; None if nothing was looked up in it."""
        at: _State | None = self
        while at is not None:
            if space in at.own:
                return at.own[space]
            at = at.around
        return None

    def of(self, space: int) -> WrittenBytes:
        """What is written of a space, to be changed."""
        if space not in self.own:
            found = self.find(space)
            self.own[space] = WrittenBytes() if found is None else found.copy()
        return self.own[space]

    def take_common(self, one: _State, other: _State) -> None:
        """Take what both ways of a branch write."""
        for space in one.own.keys() | other.own.keys():
            found, second = one.find(space), other.find(space)
            if found is not None and second is not None:
                self.own[space] = found.common(second)


def _list_accesses(
    region: Region, tables: RegionLayoutTables
) -> tuple[list[_Accesses], list[_Accesses]]:
    """What each step reads and writes."""
    starts = {n: int(tables.operand_start[row]) for row, n in enumerate(tables.kernels)}
    reads: list[_Accesses] = []
    writes: list[_Accesses] = []
    for n, step in enumerate(region.steps):
        if isinstance(step, KernelStep):
            listed = [(starts[n] + i, b) for i, b in enumerate(step.buffers)]
            count = step.spec.output_count()
            reads.append(listed[:-count])
            writes.append(listed[-count:])
        elif isinstance(step, HostStep):
            reads.append([(-1, b) for b in step.inputs if b is not None])
            writes.append([(-1, b) for b in step.outputs])
        else:
            listed = [(starts[n] + i, b) for i, b in enumerate(step.buffers)]
            index = step.kind in (LOOP, LOOP_END) and step.index is not None
            reads.append(listed[:-1] if index else listed)
            writes.append(listed[-1:] if index else [])
    return reads, writes


def _steps_in_control(region: Region) -> set[int]:
    found: set[int] = set()
    for n, step in enumerate(region.steps):
        if isinstance(step, ControlStep):
            found.update(range(min(n, step.target), max(n, step.target) + 1))
    return found
