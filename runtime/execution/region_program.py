"""One region made runnable, without addresses: what holds for all shapes, and layouts per shape.

A Layout is what a region's sizes decide: verified sizes, where arena buffers lie, which steps are
shared. All contexts use it; region_instance.py puts it at addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...ir.lazy_dataclass import dataclass
from ...ir.op import Op
from ...plan.plan import CONSTANT, INPUT, OUTPUT, HostStep, KernelStep
from ...plan.specs.base import RuntimeDim, Size, Spec
from ...plan.verify.size_table import Ints
from ...plan.verify.values import RegionLayoutTables, RegionSizes
from ...plan.verify.written_coverage import Coverage
from ..driver.abi import FLUSH, MAX_PHASES, PARTS_SHIFT, PHASES_SHIFT, SHARED, WAKE
from ..driver.loop_tables import Control
from ..driver.signal_polling import cut_steps, loop_rows, polls
from ..jit.program import CompiledPlan
from ..machine.memory_planner import Placement, address_of, check_limit, live_peak, place_buffers
from .fused_tensor_sizes import FusedReductions
from .prefix_copies import PrefixCopies

Array = npt.NDArray[Any]
Evaluate = Callable[[Op, list[Any]], Sequence[Any]]
# Positions of a buffer's addresses among the pointers, and what is added to it at each.
Where: TypeAlias = list[tuple[int, int]]

# A placement is used again for smaller sizes while its peak stays within this of the least
# possible, or within _SMALL_ARENA bytes; then growing sizes rarely need a new one.
_MAX_ARENA_GROWTH: Final = 1.1
_SMALL_ARENA_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Limits:
    """What a session sets: threads of a call, thresholds, bytes. parts: of a step that is large
    enough for so many, which threads claim one by one; as many as threads, or a multiple."""

    threads: int
    parts: int
    max_memory: int
    share_work: int
    wake_work: int
    meet_work: int


@dataclass(frozen=True, eq=False)
class ShapeInstance:
    """A region for one set of input shapes. flags: per kernel step. work: of all kernel steps.
    unwritten: root buffers that are not shown to be written before they are read or returned."""

    sizes: RegionSizes
    placement: Placement
    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]]
    flags: Ints
    work: int
    wake: bool
    unwritten: frozenset[int]
    need: int  # bytes of arena and outputs
    polls: bool  # for signals

    @property
    def shares(self) -> bool:
        return bool((self.flags & SHARED).any())

    @property
    def nbytes(self) -> int:
        """Bytes that keeping this layout takes, about: what most layouts of a region share is not
        counted, numbers and shapes of Python are as long as an array of them."""
        sizes = self.sizes
        arrays = (sizes.values, sizes.elements, sizes.nbytes, sizes.work, self.flags)
        ports = len(self.inputs) + len(self.outputs)
        return sum(a.nbytes for a in arrays) + 32 * (len(sizes.numbers) + ports)


class CompiledRegion:
    """What of a region is the same for all shapes."""

    def __init__(
        self, program: CompiledPlan, number: int, limits: Limits, evaluate: Evaluate | None
    ) -> None:
        self.program, self.number, self.limits = program, number, limits
        self.evaluate = evaluate
        self.region = program.plan.regions[number]
        self.tables = tables = program.tables[number]
        self._coverage = Coverage(tables)
        steps = [s for s in self.region.steps if not isinstance(s, HostStep)]
        # Equal specs are mostly one object, whose hash takes longer than all else of a step.
        specs = {id(s.spec): s.spec for s in steps if isinstance(s, KernelStep)}
        kernels = {key: program.kernels[spec] for key, spec in specs.items()}
        flushes = {key: self._flush_flag(spec) for key, spec in specs.items()}
        self._steps, self._loops = steps, loop_rows(steps)
        self._fused = FusedReductions(steps)
        # Native steps that may have phases.
        self._phased = [
            (n, s.spec)
            for n, s in enumerate(steps)
            if isinstance(s, KernelStep) and type(s.spec).phases is not Spec.phases
        ]
        self.scratch = max((k.scratch for k in kernels.values()), default=64)
        self.control = Control(self.region, tables)
        # Word 0 and the fixed flags of each native step.
        rows = [
            (kernels[id(s.spec)].address, flushes[id(s.spec)])
            if isinstance(s, KernelStep)
            else self.control.row(n)
            for n, s in enumerate(steps)
        ]
        self.addresses = np.array([r[0] for r in rows], np.int64)
        self.flags = np.array([r[1] for r in rows], np.int64)
        buffers = self.region.buffers
        self.dtypes = [b.dtype.numpy for b in buffers]
        operands = _operands_by_root(tables.root[tables.operand_buffer])
        self.port_buffers: dict[str, list[int]] = {INPUT: [], OUTPUT: []}
        for kind, slots in ((INPUT, self.region.inputs), (OUTPUT, self.region.outputs)):
            found = {
                b.index: i for i, b in enumerate(buffers) if b.kind == kind and b.alias_of is None
            }
            self.port_buffers[kind] = [found.get(n, -1) for n in range(len(slots))]
        # Of the shapes that inputs and outputs have, one buffer each, and per input and output the
        # number of its shape: the variables of a language model have few.
        self._shaped_buffers, self._port_shapes = _list_shapes(tables, self.port_buffers)
        # Where in the list of all operands each input's and output's address is.
        self.positions = {
            b: list(operands.get(b, ()))
            for kind in self.port_buffers
            for b in self.port_buffers[kind]
        }
        self.port_operands = np.array([p for at in self.positions.values() for p in at], np.int64)
        self.constants = {
            i: program.constants[b.index] for i, b in enumerate(buffers) if b.kind == CONSTANT
        }
        # The address of each constant's buffer, 0 of the others.
        self.constant_addresses = np.zeros(len(buffers), np.int64)
        for i, array in self.constants.items():
            self.constant_addresses[i] = address_of(array)
        arena = tables.arena_roots()
        self.arena = np.array(arena, np.int64)
        self._first = np.array([buffers[i].first for i in arena], np.int64)
        self._last = np.array([buffers[i].last for i in arena], np.int64)
        self._placement: Placement | None = None
        # Offsets of buffers in their roots, and what follows from them.
        self._operands: tuple[Ints, Ints, dict[int, Where]] | None = None
        self.prefix_copies = PrefixCopies(tables, self.port_buffers)
        self.segments = _segments(self.region.steps)

    @property
    def native(self) -> bool:
        """Is the whole region one stretch of kernels?"""
        return len(self.segments) == 1 and isinstance(self.segments[0], range)

    def layout(self, shapes: Sequence[tuple[int, ...]]) -> ShapeInstance:
        """Sizes evaluated and verified, buffers placed. Raises what RegionLayoutTables.sizes
        raises; MemoryLimitError before anything is allocated."""
        env = {s.symbol: shapes[s.input][s.axis] for s in self.region.symbols}
        sizes = self.tables.sizes(env)
        made = [self.tables.shape(sizes, b) for b in self._shaped_buffers]
        outputs = [made[at] for at in self._port_shapes[OUTPUT]]
        inputs = [
            made[at] if at >= 0 else tuple(shapes[n])
            for n, at in enumerate(self._port_shapes[INPUT])
        ]
        placement = self._make_placement(sizes)
        need = self._check_memory(sizes, placement)
        parts = self.limits.threads
        flags = np.where(sizes.work >= self.limits.share_work, SHARED, 0)
        flags = flags if parts > 1 else np.zeros_like(flags)
        if self.limits.parts > parts > 1:
            many = (flags != 0) & (sizes.work >= self.limits.parts * self.limits.share_work)
            flags[many] |= self.limits.parts << PARTS_SHIFT
        for n, spec in self._phased:
            if flags[n]:
                flags[n] = self._flags_of_phases(n, spec, sizes)
        shared = np.flatnonzero(flags)
        work = self.tables.total_work(sizes)
        wake = len(shared) > 0 and int(work[shared].sum()) >= self.limits.wake_work
        if wake:
            # At the first chance, and again where workers may have slept during long other steps.
            flags[shared[0]] |= WAKE
            flags[(flags != 0) & (sizes.work >= self.limits.wake_work)] |= WAKE
        flags |= self.flags
        unwritten = self._coverage.unwritten(sizes)
        dims, starts = self.tables.dims(sizes), self.tables.step_dims_start
        trips = [int(dims[starts[n]]) for n in self._loops]
        if must_poll := polls(int(work.sum()), need, trips):
            cut_steps(flags, sizes, self._steps, lambda n: self._read_size(n, dims))
        return ShapeInstance(
            sizes,
            placement,
            inputs,
            outputs,
            flags,
            int(work.sum()),
            wake,
            unwritten,
            need,
            must_poll,
        )

    def find_operands(self, root_offsets: Ints) -> tuple[Ints, dict[int, Where]]:
        """Per operand, bytes from its root's start; per buffer of an input or an output, where its
        addresses are. Not to be changed: most shapes have the same."""
        known = self._operands
        if known is None or (
            known[0] is not root_offsets and not np.array_equal(known[0], root_offsets)
        ):
            inner = root_offsets[self.tables.operand_buffer]
            added = iter(inner[self.port_operands].tolist())
            where = {b: [(p, next(added)) for p in at] for b, at in self.positions.items()}
            self._operands = known = root_offsets, inner, where
        return known[1], known[2]

    def _flush_flag(self, spec: Spec) -> int:
        flushes = self.program.denormals.flush and not spec.distinguishes_denormals()
        return FLUSH if flushes else 0

    def _flags_of_phases(self, n: int, spec: Spec, sizes: RegionSizes) -> int:
        """SHARED, with phases where the step has them; 0 where they are too short to be shared."""
        at = self._read_size(n, self.tables.dims(sizes))
        phases = spec.phases(at, self.limits.threads)
        if phases == 0:
            return SHARED
        parts = min(self.limits.threads, int(sizes.work[n]) // (phases * self.limits.meet_work))
        if parts < 2 or phases > MAX_PHASES:
            return 0
        return SHARED | parts << PARTS_SHIFT | phases << PHASES_SHIFT

    def _read_size(self, n: int, dims: Ints) -> Callable[[Size], int]:
        """What gives the value of a size of native step n."""
        start = int(self.tables.step_dims_start[n])
        return lambda size: int(dims[start + size.index]) if isinstance(size, RuntimeDim) else size

    def _make_placement(self, sizes: RegionSizes) -> Placement:
        need = sizes.nbytes[self.arena]
        least = live_peak(need, self._first, self._last)
        allowed = max(least * _MAX_ARENA_GROWTH, _SMALL_ARENA_BYTES)
        found = self._placement
        if found is not None and found.fits(need) and found.peak <= allowed:
            return found
        made = None
        if found is not None:
            # A second shape: more will come, and they tend to grow.
            grown = need * 2 if least * 2 <= _SMALL_ARENA_BYTES else need + (need >> 4)
            made = place_buffers(grown, self._first, self._last)
        if made is None or made.peak > allowed:
            made = place_buffers(need, self._first, self._last)
        self._placement = made
        return made

    def _check_memory(self, sizes: RegionSizes, placement: Placement) -> int:
        """Bytes of arena and outputs. MemoryLimitError, also for a step that walks over more
        elements than fit: a tensor that is fused into its consumer counts as if it were stored."""
        outputs = [b for b in self.port_buffers[OUTPUT] if b >= 0]
        need = placement.peak + int(sizes.nbytes[outputs].sum())
        self._fused.require_memory(self.tables, sizes, self.limits.max_memory)
        if need <= self.limits.max_memory:
            return need
        mine = [*self.arena.tolist(), *outputs]
        mine.sort(key=lambda b: -int(sizes.nbytes[b]))
        named = [
            (
                f"{self.region.buffers[b].name or b} {list(self.tables.shape(sizes, b))}",
                int(sizes.nbytes[b]),
            )
            for b in mine
        ]
        check_limit(need, self.limits.max_memory, named, f"region {self.number}")
        return need


def _operands_by_root(roots: Ints) -> dict[int, list[int]]:
    """The numbers of operands, ascending, by their root buffer."""
    found: dict[int, list[int]] = {}
    for operand, root in enumerate(roots.tolist()):
        found.setdefault(root, []).append(operand)
    return found


def _list_shapes(
    tables: RegionLayoutTables, port_buffers: Mapping[str, Sequence[int]]
) -> tuple[list[int], dict[str, list[int]]]:
    """A buffer of each shape that ports have, and per port which of these shapes is its own; -1 for
    one without a buffer."""
    buffers: list[int] = []
    numbers: dict[tuple[int, ...], int] = {}
    found: dict[str, list[int]] = {}
    for kind, ports in port_buffers.items():
        found[kind] = []
        for b in ports:
            positions = tuple(tables.shape_positions(b)) if b >= 0 else ()
            if b >= 0 and positions not in numbers:
                numbers[positions] = len(buffers)
                buffers.append(b)
            found[kind].append(numbers[positions] if b >= 0 else -1)
    return buffers, found


def _segments(steps: Sequence[object]) -> list[range | int]:
    """Stretches of kernel steps (as ranges of kernel numbers), host steps (as step numbers)."""
    found: list[range | int] = []
    kernels = begin = 0
    for n, step in enumerate(steps):
        if isinstance(step, HostStep):
            if kernels > begin:
                found.append(range(begin, kernels))
            found.append(n)
            begin = kernels
        else:
            kernels += 1
    if kernels > begin:
        found.append(range(begin, kernels))
    return found
