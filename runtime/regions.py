"""One region made runnable: layouts per shape, frames per context and shape.

A Layout is what a region's sizes decide (verified sizes, where arena buffers lie, which steps are
shared); all contexts use it. A Frame is a layout at addresses: the tables the driver walks, for
one context. Between native stretches of a region stand its host steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..ir.errors import Error, ExecutionError
from ..ir.op import Op
from ..ir.plan import ARENA, CONSTANT, INPUT, OUTPUT, HostStep, KernelStep
from ..ir.region_sizes import Ints, RegionSizes
from ..ir.specs import STATUS_TEXT
from . import driver as native
from .memory import Placement, check_limit, live_peak, place
from .program import Program
from .threads import HOLD_WORK

Array = npt.NDArray[Any]
Evaluate = Callable[[Op, list[Any]], Sequence[Any]]

# Up to this size it is quicker to copy an input or output (to 0.3 us from the first cache) than
# to look up its address and write it into the tables (0.6 us in Python).
SMALL: Final = 16 << 10
# A placement is used again for smaller sizes while its peak stays within this of the least
# possible, or within _SMALL_ARENA bytes; then growing sizes rarely need a new one.
_SLACK: Final = 1.1
_SMALL_ARENA: Final = 4 << 20


@dataclass(frozen=True)
class Limits:
    """What a session sets: parts a step is cut into at most, thresholds, bytes."""

    threads: int
    max_memory: int
    share_work: int
    wake_work: int


@dataclass(frozen=True, eq=False)
class Layout:
    """A region for one set of input shapes. flags: per kernel step. work: of all kernel steps."""

    sizes: RegionSizes
    placement: Placement
    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]]
    flags: Ints
    work: int
    wake: bool

    @property
    def shares(self) -> bool:
        return bool(self.flags.any())


class RegionCode:
    """What of a region is the same for all shapes."""

    def __init__(
        self, program: Program, number: int, limits: Limits, evaluate: Evaluate | None
    ) -> None:
        self.program, self.number, self.limits = program, number, limits
        self.evaluate = evaluate
        self.region = program.plan.regions[number]
        self.tables = tables = program.tables[number]
        steps = [s for s in self.region.steps if isinstance(s, KernelStep)]
        kernels = [program.kernels[s.spec] for s in steps]
        self.addresses = np.array([k.address for k in kernels], np.int64)
        self.scratch = max((k.scratch for k in kernels), default=64)
        buffers = self.region.buffers
        roots = tables.root[tables.operand_buffer]
        self.places: dict[str, list[int]] = {INPUT: [], OUTPUT: []}
        for kind, slots in ((INPUT, self.region.inputs), (OUTPUT, self.region.outputs)):
            found = {
                b.index: i for i, b in enumerate(buffers) if b.kind == kind and b.inside is None
            }
            self.places[kind] = [found.get(n, -1) for n in range(len(slots))]
        # Where in the list of all operands each input's and output's address stands.
        self.positions = {
            b: np.flatnonzero(roots == b) for kind in self.places for b in self.places[kind]
        }
        self.constants = {
            i: program.constants[b.index] for i, b in enumerate(buffers) if b.kind == CONSTANT
        }
        arena = tables.arena_roots()
        self.arena = np.array(arena, np.int64)
        self._first = np.array([buffers[i].first for i in arena], np.int64)
        self._last = np.array([buffers[i].last for i in arena], np.int64)
        self._placement: Placement | None = None
        self.segments = _segments(self.region.steps)

    @property
    def native(self) -> bool:
        """Is the whole region one stretch of kernels?"""
        return len(self.segments) == 1 and isinstance(self.segments[0], range)

    def layout(self, shapes: Sequence[tuple[int, ...]]) -> Layout:
        """Sizes evaluated and verified, buffers placed. Raises what RegionTables.sizes raises;
        MemoryLimitError before anything is allocated."""
        env = {s.symbol: shapes[s.input][s.axis] for s in self.region.symbols}
        sizes = self.tables.sizes(env)
        outputs = [self.tables.shape(sizes, b) for b in self.places[OUTPUT]]
        inputs = [
            self.tables.shape(sizes, b) if b >= 0 else tuple(shapes[n])
            for n, b in enumerate(self.places[INPUT])
        ]
        placement = self._place(sizes)
        self._check_memory(sizes, placement)
        parts = self.limits.threads
        flags = np.where(sizes.work >= self.limits.share_work, native.SHARED, 0)
        flags = flags if parts > 1 else np.zeros_like(flags)
        shared = int(sizes.work[flags != 0].sum())
        wake = shared >= self.limits.wake_work
        return Layout(sizes, placement, inputs, outputs, flags, int(sizes.work.sum()), wake)

    def _place(self, sizes: RegionSizes) -> Placement:
        need = sizes.nbytes[self.arena]
        least = live_peak(need, self._first, self._last)
        allowed = max(least * _SLACK, _SMALL_ARENA)
        found = self._placement
        if found is not None and found.fits(need) and found.peak <= allowed:
            return found
        made = None
        if found is not None:
            # A second shape: more will come, and they tend to grow.
            grown = need * 2 if least * 2 <= _SMALL_ARENA else need + (need >> 4)
            made = place(grown, self._first, self._last)
        if made is None or made.peak > allowed:
            made = place(need, self._first, self._last)
        self._placement = made
        return made

    def _check_memory(self, sizes: RegionSizes, placement: Placement) -> None:
        outputs = [b for b in self.places[OUTPUT] if b >= 0]
        need = placement.peak + int(sizes.nbytes[outputs].sum())
        if need <= self.limits.max_memory:
            return
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


class Frame:
    """A region at addresses: its tables, for one context and one set of shapes.

    Not for two threads at once. `arena`, `scratch`: address-stable arrays of the context.
    """

    def __init__(
        self, code: RegionCode, layout: Layout, arena: Array, scratch: Array, stride: int, gang: int
    ) -> None:
        self.code, self.layout = code, layout
        tables, region = code.tables, code.region
        self._base = np.zeros(len(region.buffers), np.int64)
        for b, array in code.constants.items():
            self._base[b] = address_of(array)
        self.pointers = np.zeros(len(tables.operand_buffer), np.int64)
        self.dims = tables.dims(layout.sizes)
        n = len(code.addresses)
        self.table = np.zeros((n, native.STEP_WORDS), np.int64)
        self.table[:, 0] = code.addresses
        self.table[:, 1] = address_of(self.pointers) + 8 * tables.operand_start[:n]
        self.table[:, 2] = address_of(self.dims) + 8 * tables.step_dims_start[:n]
        self.table[:, 3] = layout.flags
        self._inner = layout.sizes.inner[tables.operand_buffer]
        self._scratch, self._stride = scratch, stride
        driver = code.program.driver
        hold = layout.work < HOLD_WORK and not layout.shares
        self.native = driver.run_held if hold else driver.run
        self.stretches: list[Stretch | int] = [
            Stretch(self, s, gang if layout.shares else 0) if isinstance(s, range) else s
            for s in code.segments
        ]
        self._in: list[Any] = [None] * len(region.inputs)
        self._out: list[Any] = [None] * len(region.outputs)
        self._own: list[tuple[int, Array]] = []  # small inputs: number, our copy
        self._far: list[int] = []  # inputs used in place
        self._make: list[tuple[int, tuple[int, ...], Any]] = []  # outputs made afresh
        self._small_out: list[tuple[int, Array]] = []
        self.rebase(arena)
        self._set_up()

    def _set_up(self) -> None:
        buffers, sizes = self.code.region.buffers, self.layout.sizes
        for n, b in enumerate(self.code.places[INPUT]):
            if b < 0:
                continue
            if sizes.nbytes[b] <= SMALL:
                self._in[n] = np.empty(self.layout.inputs[n], buffers[b].dtype.numpy)
                self._own.append((n, self._in[n]))
                self._point(b, self._in[n])
            else:
                self._far.append(n)
        for n, b in enumerate(self.code.places[OUTPUT]):
            shape, dtype = self.layout.outputs[n], buffers[b].dtype.numpy
            if sizes.nbytes[b] <= SMALL:
                self._out[n] = np.empty(shape, dtype)
                self._small_out.append((n, self._out[n]))
                self._point(b, self._out[n])
            else:
                self._make.append((n, shape, dtype))

    def rebase(self, arena: Array) -> None:
        """The context's arena is another one now."""
        self.arena = arena
        code, tables = self.code, self.code.tables
        self._base[code.arena] = address_of(arena) + self.layout.placement.offsets
        self.pointers[:] = self._base[tables.root[tables.operand_buffer]] + self._inner

    def _point(self, b: int, array: Array) -> None:
        """Input or output buffer b is `array` from now on."""
        address = self._base[b] = address_of(array)
        where = self.code.positions[b]
        self.pointers[where] = self._inner[where] + address

    def run(self, arrays: Sequence[Array], walk: Callable[[], None] | None = None) -> list[Array]:
        """The region's outputs, fresh. Shapes and types were checked; any strides will do.

        walk: another way through the steps than `self.walk` (profiling).
        """
        keep: list[Array] = []
        for n, mine in self._own:
            mine[...] = arrays[n]
        for n in self._far:
            array = arrays[n]
            if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
                array = plain(array)
            keep.append(array)
            self._in[n] = array
            self._point(self.code.places[INPUT][n], array)
        for n, shape, dtype in self._make:
            made = self._out[n] = np.empty(shape, dtype)
            self._point(self.code.places[OUTPUT][n], made)
        try:
            (walk or self.walk)()
            outputs = self._out.copy()
        finally:
            for n in self._far:
                self._in[n] = None
            for n, _, _ in self._make:
                self._out[n] = None
        for n, mine in self._small_out:
            outputs[n] = mine.copy()
        return outputs

    def fix(self, arrays: Sequence[Array]) -> tuple[list[tuple[Array, Array]], list[Array]]:
        """For a bound call: use these inputs in place and keep the outputs.

        Returns (our copy, input) pairs to be copied before each call, and the outputs.
        """
        copies: list[tuple[Array, Array]] = []
        for n, b in enumerate(self.code.places[INPUT]):
            if b < 0:
                continue
            array = arrays[n]
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
                mine = np.empty(self.layout.inputs[n], array.dtype.newbyteorder("="))
                copies.append((mine, array))
                array = mine
            self._in[n] = array
            self._point(b, array)
        for n, shape, dtype in self._make:
            self._out[n] = np.empty(shape, dtype)
            self._point(self.code.places[OUTPUT][n], self._out[n])
        return copies, self._out

    def walk(self) -> None:
        """All steps on the current inputs and outputs. ExecutionError."""
        for stretch in self.stretches:
            if isinstance(stretch, Stretch):
                stretch.run()
            else:
                self.host(stretch)

    def host(self, number: int) -> None:
        step = self.code.region.steps[number]
        assert isinstance(step, HostStep)
        values = [None if b is None else self.view(b) for b in step.inputs]
        results = evaluate_op(step.op, values, step.name, len(step.outputs), self.code.evaluate)
        for b, result in zip(step.outputs, results, strict=True):
            mine = self.view(b)
            array = np.asarray(result)
            if array.dtype != mine.dtype or array.shape != mine.shape:
                raise ExecutionError(
                    "an operation gave another type or shape than the plan says",
                    where=f"{step.op.kind} {step.name}",
                    got=f"{array.dtype}{list(array.shape)}",
                    expected=f"{mine.dtype}{list(mine.shape)}",
                )
            mine[...] = array

    def view(self, b: int) -> Array:
        """Buffer b as an array."""
        code, sizes = self.code, self.layout.sizes
        root = int(code.tables.root[b])
        buffer = code.region.buffers[root]
        shape, dtype = code.tables.shape(sizes, b), code.region.buffers[b].dtype.numpy
        if buffer.kind == CONSTANT:
            return code.constants[root].view()
        begin, size = int(sizes.inner[b]), int(sizes.nbytes[b])
        if buffer.kind == ARENA:
            at = int(np.flatnonzero(code.arena == root)[0])
            begin += int(self.layout.placement.offsets[at])
            whole = self.arena
        else:
            whole = (self._in if buffer.kind == INPUT else self._out)[buffer.index]
            if root == b:
                return whole
            whole = whole.reshape(-1).view(np.uint8)
        return whole[begin : begin + size].view(dtype).reshape(shape)


class Stretch:
    """A run of kernel steps: one call into the driver."""

    def __init__(self, frame: Frame, kernels: range, gang: int) -> None:
        self._frame, self.kernels = frame, kernels
        limits = frame.code.limits
        self.call = np.zeros(native.CALL_WORDS, np.int64)
        self.call[native.CALL_STEPS] = address_of(frame.table) + 8 * native.STEP_WORDS * kernels[0]
        self.call[native.CALL_COUNT] = len(kernels)
        self.call[native.CALL_SCRATCH] = address_of(frame._scratch)
        self.call[native.CALL_STRIDE] = frame._stride
        self.call[native.CALL_PARTS] = limits.threads if gang else 1
        self.call[native.CALL_GANG] = gang
        self.call[native.CALL_WAKE] = int(frame.layout.wake)
        self.native = frame.native
        self.argument = ctypes.c_void_p(address_of(self.call))

    def run(self) -> None:
        """ExecutionError, naming the step, where a kernel gives a status."""
        status = self.native(self.argument)
        if status:
            self.resume(status)

    def resume(self, status: int) -> None:
        """What to do about a result other than 0: start the gang and run, or raise."""
        while status == native.WANTS_GANG:
            from .threads import gang

            program = self._frame.code.program
            gang(program.driver).grow(int(self.call[native.CALL_PARTS]) - 1)
            status = self.native(self.argument)
        if status == native.BUSY:
            raise ExecutionError(
                "a bound call is running in another thread",
                fix="bind once per thread, or call the model itself: that may run in any thread",
            )
        if status:
            raise self._failure(status)

    def _failure(self, status: int) -> ExecutionError:
        frame = self._frame
        number = frame.code.tables.kernels[self.kernels[int(self.call[native.CALL_STEP])]]
        step = frame.code.region.steps[number]
        part = int(self.call[native.CALL_PART])
        element = int(frame._scratch[part * frame._stride :][:8].view(np.int64)[0])
        sources = f" (from {', '.join(step.sources)})" if step.sources else ""
        return ExecutionError(
            STATUS_TEXT.get(status, f"a kernel gave status {status}"),
            where=f"step {number}, {step.name or 'unnamed'}{sources}",
            got=f"element {element}",
        )

    def single(self, n: int) -> Stretch:
        """The n-th of these steps alone, for profiling."""
        return Stretch(self._frame, self.kernels[n : n + 1], int(self.call[native.CALL_GANG]))


def evaluate_op(
    op: Op, values: list[Any], name: str, count: int, evaluate: Evaluate | None
) -> Sequence[Any]:
    """The op's outputs in Python; errors are given the step's name."""
    where = f"{op.kind} {name}".strip()
    try:
        if evaluate is not None:
            results = evaluate(op, values)
        else:
            results = op.evaluate(*op.slots(values))
    except Error as e:
        e.where = e.where or where
        raise
    except Exception as e:
        raise ExecutionError(
            "an operation failed", where=where, got=f"{type(e).__name__}: {e}"[:500]
        ) from e
    if len(results) < count:
        raise ExecutionError("an operation gave too few outputs", where=where, got=len(results))
    return results[:count]


def plain(array: Array) -> Array:
    """The same values contiguous, aligned and in native byte order: a copy where needed."""
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def address_of(array: Array) -> int:
    """The address of the first element."""
    return array.__array_interface__["data"][0]
