"""A region at addresses, and bound to arrays: the tables that the driver walks, for one context and
shape, and what is copied into and out of the buffers of a run.

Host steps run between the native segments of a region, on views of the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.errors import ExecutionError
from ...ir.lazy_dataclass import dataclass
from ...ir.limits.memory_budget import active_budget
from ...ir.types import coerce_to_dtype
from ...plan.plan import ARENA, CONSTANT, INPUT, OUTPUT, HostStep
from ..driver import abi as words
from ..driver.thread_pool import KEEP_GIL_BELOW
from ..machine.memory_planner import address_of, aligned_empty
from .array_interop import is_plain
from .host_steps import evaluate_op
from .native_segment import NativeSegment, Workspace
from .output_buffers import MemoryExtents
from .region_program import CompiledRegion, ShapeInstance, Where

Array = npt.NDArray[Any]
ndarray, empty = np.ndarray, np.empty

# Up to this size it is quicker to copy an input or output than to look up its address and write it
# into the tables (docs/dev/tuning/small-tensors.md).
MAX_COPIED_BYTES: Final = 16 << 10


@dataclass(frozen=True, eq=False)
class SmallCopies:
    """A run that copies small arrays around one native segment. inputs: the array that each is
    copied into, or None, where no step reads it; shape and type. outputs: what is copied out."""

    segment: NativeSegment
    inputs: Sequence[tuple[Array | None, tuple[int, ...], np.dtype[Any]]]
    outputs: Sequence[Array]


class RegionInstance:
    """A region at addresses: its tables, for one context and one set of shapes.

    Not for two threads at once, nor for two instances of one workspace. Its tables hold the
    addresses of one binding, the last.
    """

    def __init__(self, code: CompiledRegion, layout: ShapeInstance, space: Workspace) -> None:
        self.code, self.layout, self.space = code, layout, space
        tables = code.tables
        self._base = code.constant_addresses.copy()
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
        self._inner, self.where = code.find_operands(layout.sizes.root_offsets)
        driver = code.program.driver
        self.native = driver.run_held if _holds_lock(layout) else driver.run
        self.segments: list[NativeSegment | int] = [
            NativeSegment(self, s, space.pool if layout.shares else 0)
            if isinstance(s, range)
            else s
            for s in code.segments
        ]
        only = self.segments[0] if len(self.segments) == 1 else None
        self.only = only if isinstance(only, NativeSegment) else None  # if there is no other
        self._base[code.arena] = address_of(space.arena) + layout.placement.offsets
        self.reset()
        # Our arrays for inputs and outputs that are small; None for the others.
        self.small_inputs = self._make_small(INPUT, layout.inputs, 0)
        self.small_outputs = self._make_small(OUTPUT, layout.outputs, len(layout.inputs))
        self.repeatable: BoundRegion | None = None  # the last binding that repeats

    def reset(self) -> None:
        """Put addresses back that a loop had moved when a kernel in it failed."""
        tables = self.code.tables
        self.pointers[:] = self._base[tables.root[tables.operand_buffer]] + self._inner

    def skip_prefix_copies(self) -> None:
        """Of the arrays that the tables point at now, copy no input to an output at its address."""
        elements = self.layout.sizes.elements
        self.code.prefix_copies.skip_in_place(self.dims, self.pointers, self._inner, elements)

    def appends_in_place(self) -> bool:
        """Does each output that begins with a copy of an input begin where that input does?"""
        return bool(self.code.prefix_copies.find_in_place(self.pointers, self._inner).all())

    def after_fork(self) -> None:
        """In a child: the thread that was inside at the fork, if one was, is not there."""
        for segment in self.segments:
            if isinstance(segment, NativeSegment):
                segment.call[words.CALL_BUSY] = 0
        self.reset()

    def result_type(self, n: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of the region's n-th output."""
        return self.code.dtypes[self.code.port_buffers[OUTPUT][n]], self.layout.outputs[n]

    def run(
        self,
        arrays: Sequence[Array],
        out: Sequence[Array | None] = (),
        walk: Callable[[BoundRegion], None] | None = None,
    ) -> list[Any]:
        """The outputs for these inputs, in fresh arrays or those of `out` (as of `bind`).

        walk: another way through the steps than `BoundRegion.walk` (profiling). ExecutionError.
        """
        known = self.repeatable if walk is None and all(given is None for given in out) else None
        if known is not None and (made := known.run(arrays)) is not None:
            return made
        arrays = [np.asarray(a) for a in arrays]
        bound = self.bind(arrays, out)
        if bound.repeats:
            self.repeatable = bound
        made = bound.run(arrays, walk)
        assert made is not None
        return made

    def bind(
        self, arrays: Sequence[Array], out: Sequence[Array | None] = (), *, lasts: bool = False
    ) -> BoundRegion:
        """What is copied in and out for inputs such as these, and what kernels read and write in
        place. Types were checked; any strides, alignment and byte order will do.

        An input is copied if kernels cannot read it in place, or if that is quicker than to look up
        its address. out: per output, None or an array of its type and shape for its result, apart
        from those of the others; kernels write it in place unless it has strides or may share
        memory with an input. lasts: for a BoundCall, whose runs are all on what these inputs hold
        then: kernels read them in place where they can, and write the same outputs each time. The
        instance takes no other binding afterwards.
        ExecutionError where a shape is another; MemoryLimitError where copies do not fit.
        """
        return BoundRegion(self, arrays, out, lasts)

    def resize(self, layout: ShapeInstance) -> bool:
        """Take a layout for other sizes that leaves each buffer where it is. False, with nothing
        changed, where it moves one, or where steps would run in another way."""
        old, sizes = self.layout, layout.sizes
        if self.only is None or self.blocks or layout.placement is not old.placement:
            return False
        if layout.unwritten or sizes.failing_asserts or old.sizes.failing_asserts:
            return False
        if layout.polls != old.polls or layout.shares != old.shares:
            return False
        if _holds_lock(layout) != _holds_lock(old):
            return False
        if self.code.find_operands(sizes.root_offsets)[0] is not self._inner:
            return False
        inputs = self._resize_small(INPUT, layout)
        outputs = self._resize_small(OUTPUT, layout)
        if inputs is None or outputs is None:
            return False
        self.layout, self.small_inputs, self.small_outputs = layout, inputs, outputs
        self.dims[:] = self.code.tables.dims(sizes)
        self.table[:, 3] = layout.flags
        self.only.call[words.CALL_WAKE] = int(layout.wake)
        return True

    def _make_small(
        self, kind: str, shapes: Sequence[tuple[int, ...]], first: int
    ) -> list[Array | None]:
        """Arrays for the small inputs or outputs, in memory that the context's instances share."""
        made: list[Array | None] = [None] * len(shapes)
        buffers = self.code.port_buffers[kind]
        sizes = self.layout.sizes.nbytes[buffers].tolist()
        for n, (b, shape, size) in enumerate(zip(buffers, shapes, sizes, strict=True)):
            if b >= 0 and size <= MAX_COPIED_BYTES:
                made[n] = array = self._view_small(first + n, b, shape)
                self.point(b, array)
        return made

    def _view_small(self, port: int, b: int, shape: tuple[int, ...]) -> Array:
        """The array of a small input or output, the port-th of both, which is buffer b."""
        dtype, begin = self.code.dtypes[b], port * MAX_COPIED_BYTES
        memory = self.space.small[begin : begin + math.prod(shape) * dtype.itemsize]
        return memory.view(dtype).reshape(shape)

    def _resize_small(self, kind: str, layout: ShapeInstance) -> list[Array | None] | None:
        """The small inputs or outputs for a layout; None where others would be small."""
        if kind == INPUT:
            old, new, made, first = self.layout.inputs, layout.inputs, self.small_inputs[:], 0
        else:
            old, new, made = self.layout.outputs, layout.outputs, self.small_outputs[:]
            first = len(layout.inputs)
        buffers = self.code.port_buffers[kind]
        are_small = (layout.sizes.nbytes[buffers] <= MAX_COPIED_BYTES).tolist()
        for n, (b, is_small) in enumerate(zip(buffers, are_small, strict=True)):
            if b < 0:
                continue
            if is_small != (made[n] is not None):
                return None
            if is_small and old[n] != new[n]:
                made[n] = self._view_small(first + n, b, new[n])
        return made

    def point(self, b: int, array: Array) -> None:
        """Input or output buffer b is `array` from now on."""
        address = self._base[b] = address_of(array)
        pointers = self.pointers
        for position, inner in self.where[b]:
            pointers[position] = address + inner


def _holds_lock(layout: ShapeInstance) -> bool:
    """Is a run so short that it keeps the interpreter's lock?"""
    return layout.work < KEEP_GIL_BELOW and not layout.shares


class BoundRegion:
    """A region whose inputs and outputs have their ways in and out (`RegionInstance.bind`).

    outputs: per output, the array that kernels write, or None, where each run makes one. repeats:
    whether it may serve other calls: it holds no arrays of the caller and no large copies.
    """

    def __init__(
        self,
        instance: RegionInstance,
        arrays: Sequence[Array],
        out: Sequence[Array | None],
        lasts: bool,
    ) -> None:
        self.instance, self._pointers, self._lasts = instance, instance.pointers, lasts
        self._unwritten = instance.layout.unwritten
        # The kernels that are all of a run, where nothing else happens before or between them.
        self._prefix_copies = instance.code.prefix_copies
        self._direct = None if self._unwritten or self._prefix_copies else instance.only
        self.repeats = not lasts and instance.only is not None
        # Kernels read them in place whenever a binding that lasts runs.
        self._kept = arrays if lasts else ()
        # What steps in Python read and write as views, while a run lasts.
        self._read: Sequence[Array] = ()
        self._written: list[Any] = []
        # Per input: the array that it is copied into, or None, where kernels read it in place; its
        # shape and type; the positions of its addresses, or None, where no step reads it.
        self._inputs: list[tuple[Array | None, tuple[int, ...], np.dtype[Any], Where | None]] = []
        self.outputs: list[Any] = []
        self._fresh: list[tuple[int, tuple[int, ...], np.dtype[Any], Where]] = []
        # Outputs that are copied into fresh arrays, and those into arrays of the caller.
        self._small: list[tuple[int, Array]] = []
        self._given: list[tuple[int, Array]] = []
        self._copied_bytes = 0
        self._extents: MemoryExtents | None = None  # of the inputs, once an output is given
        for n, (b, array) in enumerate(zip(instance.code.port_buffers[INPUT], arrays, strict=True)):
            self._bind_input(n, b, array)
        for n, b in enumerate(instance.code.port_buffers[OUTPUT]):
            self._bind_output(n, b, out[n] if out else None, arrays)
        if lasts:
            self._clear_unwritten(self.outputs)
            self._skip_prefix_copies()

    def _bind_input(self, n: int, b: int, array: Array) -> None:
        instance = self.instance
        shape, copy = instance.layout.inputs[n], instance.small_inputs[n]
        if array.shape != shape:
            raise ExecutionError(
                "a value has another shape than the plan expects",
                where=f"region {instance.code.number}, input {n}",
                got=list(array.shape),
                expected=list(shape),
            )
        if b >= 0 and (copy is None or self._lasts):
            if is_plain(array):
                copy = None
                instance.point(b, array)
            elif copy is None:
                copy = self._make_copy(array)
                instance.point(b, copy)
        self._inputs.append((copy, shape, array.dtype, instance.where[b] if b >= 0 else None))

    def _make_copy(self, array: Array) -> Array:
        """Memory for a large input that kernels cannot read in place. MemoryLimitError: a view
        without memory of its own may be copied into any number of bytes."""
        code, need = self.instance.code, self.instance.layout.need
        self.repeats = False
        self._copied_bytes += array.nbytes
        active_budget(code.limits.max_memory).require(
            need + self._copied_bytes,
            "buffers, and copies of inputs that are not contiguous",
            f"region {code.number}",
        )
        return np.empty(array.shape, array.dtype.newbyteorder("="))

    def _bind_output(self, n: int, b: int, given: Array | None, arrays: Sequence[Array]) -> None:
        instance = self.instance
        (dtype, shape), made = instance.result_type(n), instance.small_outputs[n]
        self.repeats &= given is None
        if made is not None:
            if given is None and not self._lasts:
                self._small.append((n, made))
        elif self._lasts:
            made = aligned_empty(shape, dtype)
            instance.point(b, made)
        elif given is not None and is_plain(given) and self._is_apart(n, given, arrays):
            made, given = given, None
            instance.point(b, made)
        else:
            self._fresh.append((n, shape, dtype, instance.where[b]))
        if given is not None:
            self._given.append((n, given))
            self._direct = None
        self.outputs.append(made)

    def _is_apart(self, n: int, given: Array, arrays: Sequence[Array]) -> bool:
        """Does memory for output n hold no input, but the one that the region appends to where it
        begins?"""
        if self._extents is None:
            self._extents = MemoryExtents(arrays)
        source = self.instance.code.prefix_copies.appended.get(n)
        return self._extents.is_apart(given, source)

    def list_small_copies(self) -> SmallCopies | None:
        """What a run copies, if small arrays and one native segment are all of it."""
        in_place = any(copy is None and where is not None for copy, _, _, where in self._inputs)
        if self._direct is None or in_place or len(self._small) != len(self.outputs):
            return None
        inputs = [(copy, shape, dtype) for copy, shape, dtype, _ in self._inputs]
        return SmallCopies(self._direct, inputs, [array for _, array in self._small])

    def list_copies(self) -> list[tuple[Array, Array]]:
        """Of a binding that lasts: the copies to make before each run, each with its input."""
        pairs = zip(self._inputs, self._kept, strict=True)
        return [(copy, array) for (copy, *_), array in pairs if copy is not None]

    def run(
        self, arrays: Sequence[Any], walk: Callable[[BoundRegion], None] | None = None
    ) -> list[Any] | None:
        """The outputs for these inputs; None, unless each has the type, shape and layout of the one
        that was bound. (`RegionInstance.run`)"""
        inputs, pointers = self._inputs, self._pointers
        if len(arrays) != len(inputs):
            return None
        for array, (copy, shape, dtype, where) in zip(arrays, inputs, strict=False):
            if type(array) is not ndarray or array.shape != shape or array.dtype is not dtype:
                return None
            if copy is not None:
                copy[...] = array
            elif where is not None:
                flags = array.flags
                if not (flags.c_contiguous and flags.aligned):
                    return None
                address = address_of(array)
                for position, inner in where:
                    pointers[position] = address + inner
        written = self.outputs[:]
        for n, shape, dtype, where in self._fresh:
            written[n] = made = empty(shape, dtype)
            address = address_of(made)
            for position, inner in where:
                pointers[position] = address + inner
        direct = self._direct
        if direct is None or walk is not None:
            self._run_steps(arrays, written, walk or BoundRegion.walk)
        else:
            status = direct.native(direct.argument)
            if status:
                direct.resume(status)
        for n, made in self._small:
            written[n] = made.copy()
        return written

    def _run_steps(
        self, arrays: Sequence[Array], written: list[Any], walk: Callable[[BoundRegion], None]
    ) -> None:
        """What is more than kernels: clear outputs, run steps in Python or timed ones, and copy
        results into given arrays."""
        if self.instance.only is None:
            self._read, self._written = arrays, written
        self._clear_unwritten(written)
        self._skip_prefix_copies()
        walk(self)
        for n, given in self._given:
            given[...] = written[n]
            written[n] = given

    def _clear_unwritten(self, written: Sequence[Any]) -> None:
        """Fill with zeros what the plan may read, or return, without having written it."""
        instance, unwritten = self.instance, self._unwritten
        if not unwritten:
            return
        for n, b in enumerate(instance.code.port_buffers[OUTPUT]):
            if b in unwritten:
                written[n].fill(0)
        if not unwritten.isdisjoint(instance.code.arena.tolist()):
            instance.space.arena[: instance.layout.placement.peak] = 0

    def _skip_prefix_copies(self) -> None:
        """Copy nothing from an input to an output that begins at its address."""
        if self._prefix_copies:
            self.instance.skip_prefix_copies()

    def walk(self) -> None:
        """All steps on the current inputs and outputs. ExecutionError."""
        for segment in self.instance.segments:
            if isinstance(segment, NativeSegment):
                segment.run()
            else:
                self.run_host(segment)

    def run_host(self, number: int) -> None:
        """Step `number` of the region, in Python, on views of the buffers."""
        code = self.instance.code
        step = code.region.steps[number]
        assert isinstance(step, HostStep)
        values = [None if b is None else self._view(b) for b in step.inputs]
        results = evaluate_op(step.op, values, step.name, len(step.outputs), code.evaluate)
        for b, result in zip(step.outputs, results, strict=True):
            mine = self._view(b)
            dtype = code.region.buffers[b].dtype
            array = np.asarray(coerce_to_dtype(result, dtype, saturates=step.op.saturates))
            if array.dtype != mine.dtype or array.shape != mine.shape:
                raise ExecutionError(
                    "an operation gave another type or shape than the plan says",
                    where=f"{step.op.kind} {step.name}",
                    got=f"{array.dtype}{list(array.shape)}",
                    expected=f"{mine.dtype}{list(mine.shape)}",
                )
            mine[...] = array

    def _view(self, b: int) -> Array:
        """Buffer b as an array."""
        code, layout = self.instance.code, self.instance.layout
        root = int(code.tables.root[b])
        buffer = code.region.buffers[root]
        shape, dtype = code.tables.shape(layout.sizes, b), code.dtypes[b]
        if buffer.kind == CONSTANT:
            return code.constants[root].view()
        begin, size = int(layout.sizes.root_offsets[b]), int(layout.sizes.nbytes[b])
        if buffer.kind == ARENA:
            at = int(np.flatnonzero(code.arena == root)[0])
            begin += int(layout.placement.offsets[at])
            memory = self.instance.space.arena
        else:
            if buffer.kind == OUTPUT:
                memory = self._written[buffer.index]
            elif (memory := self._inputs[buffer.index][0]) is None:
                memory = self._read[buffer.index]
            if root == b:
                return memory
            memory = memory.reshape(-1).view(np.uint8)
        return memory[begin : begin + size].view(dtype).reshape(shape)
