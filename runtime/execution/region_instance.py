"""A region at addresses: the tables that the driver walks, for one context and shape.

Between native stretches of a region stand its host steps, evaluated on views of the buffers.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.errors import Error, ExecutionError
from ...ir.limits.memory_budget import active_budget
from ...ir.types import coerce_to_dtype
from ...plan.plan import ARENA, CONSTANT, INPUT, OUTPUT, HostStep
from ...plan.specs.base import STATUS_TEXT
from ..driver import abi as words
from ..driver.float_mode import has_denormal_flags
from ..driver.thread_pool import KEEP_GIL_BELOW, get_thread_pool
from ..machine.memory_planner import address_of, aligned_empty
from .host_steps import evaluate_op
from .region_program import CompiledRegion, ShapeInstance

Array = npt.NDArray[Any]
ndarray, empty = np.ndarray, np.empty

# Up to this size it is quicker to copy an input or output than to look up its address and write it
# into the tables (docs/dev/tuning/small-tensors.md).
MAX_COPIED_BYTES: Final = 16 << 10


@dataclass(frozen=True, eq=False)
class Workspace:
    """A context's memory: the arena, SMALL bytes per input and output of any region, the workers'
    scratch areas (`stride` bytes each); and the pool's address, 0 for none."""

    arena: Array
    small: Array
    scratch: Array
    stride: int
    pool: int


class RegionInstance:
    """A region at addresses: its tables, for one context and one set of shapes.

    Not for two threads at once, nor for two frames of one workspace.
    """

    def __init__(self, code: CompiledRegion, layout: ShapeInstance, space: Workspace) -> None:
        self.code, self.layout, self.space = code, layout, space
        tables, region = code.tables, code.region
        self._base = np.zeros(len(region.buffers), np.int64)
        for b, array in code.constants.items():
            self._base[b] = address_of(array)
        self.pointers = np.zeros(len(tables.operand_buffer), np.int64)
        self.dims = tables.dims(layout.sizes)
        n = len(code.addresses)
        self.table = np.zeros((n, words.STEP_WORDS), np.int64)
        self.table[:, 0] = code.addresses
        self.table[list(layout.sizes.failing_asserts), 0] = words.NOWHERE
        self.table[:, 1] = address_of(self.pointers) + 8 * tables.operand_start[:n]
        self.table[:, 2] = address_of(self.dims) + 8 * tables.step_dims_start[:n]
        self.table[:, 3] = layout.flags
        self.blocks = code.control.blocks(layout.sizes, self.pointers)
        for row, block in self.blocks:
            self.table[row, 0] = address_of(block)
        self._inner = layout.sizes.root_offsets[tables.operand_buffer]
        inner = self._inner
        self._where = {
            b: list(zip(at, inner[at].tolist(), strict=True)) for b, at in code.positions.items()
        }
        driver = code.program.driver
        hold = layout.work < KEEP_GIL_BELOW and not layout.shares
        self.native = driver.run_held if hold else driver.run
        self.stretches: list[NativeSegment | int] = [
            NativeSegment(self, s, space.pool if layout.shares else 0)
            if isinstance(s, range)
            else s
            for s in code.segments
        ]
        self._in: list[Any] = [None] * len(region.inputs)
        self._out: list[Any] = [None] * len(region.outputs)
        self._own: list[tuple[int, Array]] = []  # small inputs: number, our copy
        self._far: list[int] = []  # inputs used in place
        self._make: list[tuple[int, tuple[int, ...], Any]] = []  # outputs made afresh
        self._small_out: list[tuple[int, Array]] = []
        self._base[code.arena] = address_of(space.arena) + layout.placement.offsets
        self.pointers[:] = self._base[tables.root[tables.operand_buffer]] + self._inner
        self._prepare_buffers()

    def reset(self) -> None:
        """Put addresses back that a loop had moved when a kernel in it failed."""
        tables = self.code.tables
        self.pointers[:] = self._base[tables.root[tables.operand_buffer]] + self._inner

    def after_fork(self) -> None:
        """In a child: the thread that was inside at the fork, if one was, is not there."""
        for stretch in self.stretches:
            if isinstance(stretch, NativeSegment):
                stretch.call[words.CALL_BUSY] = 0
        self.reset()

    def _prepare_buffers(self) -> None:
        dtypes, sizes = self.code.dtypes, self.layout.sizes
        for n, b in enumerate(self.code.places[INPUT]):
            if b < 0:
                continue
            if sizes.nbytes[b] <= MAX_COPIED_BYTES:
                self._in[n] = self._small_array(n, self.layout.inputs[n], dtypes[b])
                self._own.append((n, self._in[n]))
                self._point(b, self._in[n])
            else:
                self._far.append(n)
        for n, b in enumerate(self.code.places[OUTPUT]):
            shape, dtype = self.layout.outputs[n], dtypes[b]
            if sizes.nbytes[b] <= MAX_COPIED_BYTES:
                self._out[n] = self._small_array(len(self._in) + n, shape, dtype)
                self._small_out.append((n, self._out[n]))
                self._point(b, self._out[n])
            else:
                self._make.append((n, shape, dtype))
        self._set_up_quick()

    def _small_array(self, n: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Our array for the n-th small input or output: the context's, shared by its frames."""
        size = math.prod(shape) * dtype.itemsize
        return (
            self.space.small[n * MAX_COPIED_BYTES : n * MAX_COPIED_BYTES + size]
            .view(dtype)
            .reshape(shape)
        )

    def _set_up_quick(self) -> None:
        """The way without a detour, if the region is one stretch of kernels that reads all its
        inputs: per input our copy (or None), shape, type, addresses; per output the same."""
        self.quick: list[tuple[Array | None, tuple[int, ...], Any, list[tuple[int, int]]]] = []
        self._results: list[tuple[Array | None, tuple[int, ...], Any, list[tuple[int, int]]]] = []
        first = self.stretches[0] if len(self.stretches) == 1 else None
        if not isinstance(first, NativeSegment) or -1 in self.code.places[INPUT]:
            return
        if self.layout.unwritten:
            return
        self._only = first
        dtypes, layout = self.code.dtypes, self.layout
        for kind, ours, shapes, entries in (
            (INPUT, self._in, layout.inputs, self.quick),
            (OUTPUT, self._out, layout.outputs, self._results),
        ):
            for b, mine, shape in zip(self.code.places[kind], ours, shapes, strict=True):
                entries.append((mine, shape, dtypes[b], self._where[b]))

    def _point(self, b: int, array: Array) -> None:
        """Input or output buffer b is `array` from now on."""
        address = self._base[b] = address_of(array)
        pointers = self.pointers
        for position, inner in self._where[b]:
            pointers[position] = address + inner

    def run_fast(self, arrays: Sequence[Any]) -> list[Array] | None:
        """`run` for contiguous arrays of exactly these types and shapes; None for any other."""
        quick, pointers = self.quick, self.pointers
        if len(arrays) != len(quick):
            return None
        for array, (mine, shape, dtype, where) in zip(arrays, quick, strict=False):
            if type(array) is not ndarray or array.shape != shape or array.dtype is not dtype:
                return None
            if mine is not None:
                mine[...] = array
                continue
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned):
                return None
            address = address_of(array)
            for position, inner in where:
                pointers[position] = address + inner
        outputs: list[Array] = []
        for mine, shape, dtype, where in self._results:
            if mine is None:
                mine = empty(shape, dtype)
                address = address_of(mine)
                for position, inner in where:
                    pointers[position] = address + inner
            outputs.append(mine)
        stretch = self._only
        status = stretch.native(stretch.argument)
        if status:
            stretch.resume(status)
        for n, mine in self._small_out:
            outputs[n] = mine.copy()
        return outputs

    def run(
        self,
        arrays: Sequence[Array],
        walk: Callable[[], None] | None = None,
        into: Sequence[Array | None] = (),
    ) -> list[Array]:
        """The region's outputs, fresh. Shapes and types were checked; any strides will do.

        walk: another way through the steps than `self.walk` (profiling). into: per output, None or
        an array to use: of its shape and type, contiguous, aligned, apart from all other arrays.
        """
        keep: list[Array] = []
        self._require_copies(arrays)
        for n, mine in self._own:
            mine[...] = arrays[n]
        for n in self._far:
            array = arrays[n]
            if not is_plain(array):
                array = as_contiguous(array)
            keep.append(array)
            self._in[n] = array
            self._point(self.code.places[INPUT][n], array)
        for n, shape, dtype in self._make:
            mine = into[n] if into else None
            made = self._out[n] = np.empty(shape, dtype) if mine is None else mine
            self._point(self.code.places[OUTPUT][n], made)
        self._clear_unwritten()
        for copy in self.code.prefix_copies:
            copy.skip_in_place(self.dims, self._in[copy.input], self._out[copy.output])
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
            if into and (given := into[n]) is not None:
                given[...] = mine
                outputs[n] = given
        return outputs

    def _clear_unwritten(self) -> None:
        """Fill with zeros what the plan may read, or return, without having written it."""
        unwritten = self.layout.unwritten
        for n, b in enumerate(self.code.places[OUTPUT]):
            if b in unwritten:
                self._out[n].fill(0)
        if not unwritten.isdisjoint(self.code.arena.tolist()):
            self.space.arena[: self.layout.placement.peak] = 0

    def _require_copies(self, arrays: Sequence[Array]) -> None:
        """MemoryLimitError where inputs that kernels cannot read in place do not fit: a view
        without memory of its own may be copied into any number of bytes."""
        copied = sum(arrays[n].nbytes for n in self._far if not is_plain(arrays[n]))
        if copied:
            limit = self.code.limits.max_memory
            active_budget(limit).require(
                self.layout.need + copied,
                "buffers, and copies of inputs that are not contiguous",
                f"region {self.code.number}",
            )

    def result_type(self, n: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of the region's n-th output."""
        return self.code.dtypes[self.code.places[OUTPUT][n]], self.layout.outputs[n]

    def fix(self, arrays: Sequence[Array]) -> tuple[list[tuple[Array, Array]], list[Array]]:
        """For a bound call: use these inputs in place and keep the outputs.

        Returns (our copy, input) pairs to be copied before each call, and the outputs.
        """
        copies: list[tuple[Array, Array]] = []
        self._require_copies(arrays)
        for n, b in enumerate(self.code.places[INPUT]):
            if b < 0:
                continue
            array = arrays[n]
            if not is_plain(array):
                mine = np.empty(self.layout.inputs[n], array.dtype.newbyteorder("="))
                copies.append((mine, array))
                array = mine
            self._in[n] = array
            self._point(b, array)
        for n, shape, dtype in self._make:
            self._out[n] = aligned_empty(shape, dtype)
            self._point(self.code.places[OUTPUT][n], self._out[n])
        self._clear_unwritten()
        return copies, self._out

    def walk(self) -> None:
        """All steps on the current inputs and outputs. ExecutionError."""
        for stretch in self.stretches:
            if isinstance(stretch, NativeSegment):
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
            dtype = self.code.region.buffers[b].dtype
            array = np.asarray(coerce_to_dtype(result, dtype, saturates=step.op.saturates))
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
        shape, dtype = code.tables.shape(sizes, b), code.dtypes[b]
        if buffer.kind == CONSTANT:
            return code.constants[root].view()
        begin, size = int(sizes.root_offsets[b]), int(sizes.nbytes[b])
        if buffer.kind == ARENA:
            at = int(np.flatnonzero(code.arena == root)[0])
            begin += int(self.layout.placement.offsets[at])
            whole = self.space.arena
        else:
            whole = (self._in if buffer.kind == INPUT else self._out)[buffer.index]
            if root == b:
                return whole
            whole = whole.reshape(-1).view(np.uint8)
        return whole[begin : begin + size].view(dtype).reshape(shape)


class NativeSegment:
    """A run of kernel steps: one call into the driver."""

    def __init__(self, frame: RegionInstance, kernels: range, team: int) -> None:
        self._frame, self.kernels = frame, kernels
        limits = frame.code.limits
        self.call = np.zeros(words.CALL_WORDS, np.int64)
        self.call[words.CALL_STEPS] = address_of(frame.table) + 8 * words.STEP_WORDS * kernels[0]
        self.call[words.CALL_COUNT] = len(kernels)
        self.call[words.CALL_SCRATCH] = address_of(frame.space.scratch)
        self.call[words.CALL_STRIDE] = frame.space.stride
        self.call[words.CALL_PARTS] = limits.threads if team else 1
        self.call[words.CALL_POOL] = team
        self.call[words.CALL_WAKE] = int(frame.layout.wake)
        self.native = self._run_polling if frame.layout.polls else frame.native
        self.argument = ctypes.c_void_p(address_of(self.call))

    def _run_polling(self, argument: ctypes.c_void_p) -> int:
        """`native` of a call that runs long: in the main thread, which alone runs handlers of
        signals, it raises what they raise."""
        driver = self._frame.code.program.driver
        if threading.current_thread() is not threading.main_thread():
            return driver.run(argument)
        try:
            return driver.run_polling(argument)
        except BaseException:
            self._frame.reset()
            raise

    def run(self) -> None:
        """ExecutionError, naming the step, where a kernel gives a status."""
        status = self.native(self.argument)
        if status:
            self.resume(status)

    def met_denormals(self) -> bool:
        """Did the caller's part of the last run read a denormal or round to one? x86-64 only."""
        return has_denormal_flags(int(self.call[words.CALL_MODE]), self._frame.code.program.target)

    def resume(self, status: int) -> None:
        """What to do about a result other than 0: start the pool and run, or raise."""
        while status == words.NEEDS_WORKERS:
            program = self._frame.code.program
            get_thread_pool(program.driver).grow(int(self.call[words.CALL_PARTS]) - 1)
            status = self.native(self.argument)
        if status == words.BUSY:
            raise ExecutionError(
                "a bound call is running in another thread",
                fix="bind once per thread, or call the model itself: that may run in any thread",
            )
        if status:
            self._frame.reset()
            raise self._failure(status)

    def _failure(self, status: int) -> Error:
        frame, row = self._frame, self.kernels[int(self.call[words.CALL_STEP])]
        if status == words.ASSERT_FAILED:
            return frame.layout.sizes.failing_asserts[row]()
        number = frame.code.tables.kernels[row]
        step = frame.code.region.steps[number]
        part = int(self.call[words.CALL_PART])
        element = int(frame.space.scratch[part * frame.space.stride :][:8].view(np.int64)[0])
        sources = f" (from {', '.join(step.sources)})" if step.sources else ""
        return ExecutionError(
            STATUS_TEXT.get(status, f"a kernel gave status {status}"),
            where=f"step {number}, {step.name or 'unnamed'}{sources}",
            got=f"element {element}",
        )

    def single(self, n: int) -> NativeSegment:
        """The n-th of these steps alone, for profiling."""
        return self.part(n, n + 1)

    def part(self, first: int, last: int) -> NativeSegment:
        """The steps from the first-th up to the last-th."""
        return NativeSegment(self._frame, self.kernels[first:last], int(self.call[words.CALL_POOL]))


def is_plain(array: Array) -> bool:
    """Can kernels read the array in place?"""
    flags = array.flags
    return flags.c_contiguous and flags.aligned and array.dtype.isnative


def as_contiguous(array: Array) -> Array:
    """The same values contiguous, aligned and in native byte order: a copy where needed."""
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
