"""Sessions: a program made callable from any thread, and bound calls with fixed buffers.

A Context owns an arena, workers' scratch and the tables for the shapes it has seen; `run`
borrows one from a pool. A shape that was seen costs nothing, a new one evaluates size
expressions and places the arena: no pass, no LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..ir.errors import ExecutionError, InputError
from ..ir.types import TensorType
from . import threads as gangs
from .frames import Frame, Stretch, evaluate_op
from .inputs import check_inputs, same_dtype
from .memory import aligned_bytes, default_max_memory, round_up
from .profile import StepTime, timed_terminal, timed_walk
from .program import Program
from .regions import Evaluate, Layout, Limits, RegionCode
from .words import CALL_BUSY

Array = npt.NDArray[Any]
Shapes = tuple[tuple[int, ...], ...]

# Shapes whose layouts a session keeps, and whose tables a context keeps (the oldest goes).
_LAYOUTS: Final = 256
_FRAMES: Final = 64


class Context:
    """One run at a time: the arena, scratch, and frames per (region, shapes)."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arena: Array = aligned_bytes(0)
        # Workers' scratch areas must not share a cache line.
        self.stride = int(round_up(session.program.scratch)) + 64
        self.scratch = aligned_bytes(self.stride * session.limits.threads)
        self.frames: dict[tuple[int, Shapes], Frame] = {}
        self.last: Frame | None = None  # of the last simple run

    def frame(self, number: int, shapes: Shapes) -> Frame:
        """The region's tables for these shapes, with the arena large enough."""
        key = (number, shapes)
        found = self.frames.pop(key, None)
        if found is None:
            code = self.session.codes[number]
            layout = self.session.layout(number, shapes)
            self._reserve(layout)
            gang = self.session.gang_address
            found = Frame(code, layout, self.arena, self.scratch, self.stride, gang)
            while len(self.frames) >= _FRAMES:
                del self.frames[next(iter(self.frames))]
        self.frames[key] = found
        return found

    def _reserve(self, layout: Layout) -> None:
        need = layout.placement.peak
        if need > len(self.arena):
            # Pages that are never touched cost nothing: room for shapes that grow.
            room = need if self.session.static else need + (need >> 2)
            # Frames hold addresses in the old arena: with them it can go.
            self.frames.clear()
            self.last = None
            self.arena = aligned_bytes(min(room, max(need, self.session.limits.max_memory)))


class Session:
    """A program with its options, callable from any number of threads.

    num_threads: None for the CPUs this process may use. max_memory: bytes of arena and outputs.
    evaluate: runs operations that have no kernel (default: the op's own evaluate).
    """

    def __init__(
        self,
        program: Program,
        *,
        num_threads: int | None = None,
        max_memory: int | None = None,
        evaluate: Evaluate | None = None,
        share_work: int = gangs.SHARE_WORK,
        wake_work: int = gangs.WAKE_WORK,
    ) -> None:
        if num_threads is not None and num_threads < 1:
            raise InputError("num_threads must be at least 1", got=num_threads)
        threads = num_threads if num_threads is not None else gangs.default_threads()
        threads = min(threads, gangs.MAX_WORKERS) if program.driver.threads else 1
        limit = default_max_memory() if max_memory is None else max_memory
        self.program, self.evaluate = program, evaluate
        self.limits = Limits(threads, limit, share_work, wake_work)
        plan = program.plan
        self.codes = [
            RegionCode(program, n, self.limits, evaluate) for n in range(len(plan.regions))
        ]
        self.gang_address = gangs.gang(program.driver).address if threads > 1 else 0
        self.static = not any(r.symbols for r in plan.regions)
        self._pool: list[Context] = []
        self._layouts: dict[tuple[int, Shapes], Layout] = {}
        self._dtypes = [
            p.type.dtype.numpy if isinstance(p.type, TensorType) else None for p in plan.inputs
        ]
        self._simple = self._is_simple()
        self._constant_slots = [(s, program.constants[c]) for s, c in plan.constant_slots]
        self._last_use = self._find_last_uses()
        self._hosted = bool(plan.host_steps())
        self._closed = False

    @property
    def num_threads(self) -> int:
        """Threads a call may use."""
        return self.limits.threads

    def _is_simple(self) -> bool:
        """One region of kernels from the plan's inputs to its outputs, all tensors, in order."""
        plan = self.program.plan
        if len(plan.regions) != 1 or None in self._dtypes:
            return False
        region = plan.regions[0]
        return (
            self.codes[0].native
            and region.terminal is None
            and region.inputs == tuple(p.slot for p in plan.inputs)
            and region.outputs == tuple(p.slot for p in plan.outputs)
        )

    def _find_last_uses(self) -> list[list[int]]:
        """Per region, the slots that nobody needs after it."""
        plan = self.program.plan
        kept = {p.slot for p in plan.outputs}
        found: list[list[int]] = []
        for region in reversed(plan.regions):
            used = {*region.inputs, *region.outputs}
            if region.terminal is not None:
                used |= {s for s in region.terminal.inputs if s is not None}
                used |= set(region.terminal.outputs)
            found.append(sorted(used - kept))
            kept |= used
        return found[::-1]

    def layout(self, number: int, shapes: Shapes) -> Layout:
        """The region's layout for these input shapes, kept for the next time."""
        key = (number, shapes)
        found = self._layouts.get(key)
        if found is None:
            found = self.codes[number].layout(shapes)
            try:
                while len(self._layouts) >= _LAYOUTS:
                    self._layouts.pop(next(iter(self._layouts)), None)
            except (RuntimeError, StopIteration):  # another thread is at it
                pass
            self._layouts[key] = found
        return found

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, fresh: they alias neither inputs nor each other, and nothing is kept.

        inputs: one value per plan input, in order. InputError, ExecutionError, MemoryLimitError.
        """
        pool = self._pool
        try:
            context = pool.pop()
        except IndexError:
            context = Context(self)
        try:
            if (last := context.last) is not None and last.quick:
                outputs = last.run_quickly(inputs)
                if outputs is not None:
                    return outputs
            if self._simple:
                return self._frame(context, inputs).run(inputs)
            return self._run_regions(context, inputs)
        finally:
            if not self._closed:
                pool.append(context)

    def _frame(self, context: Context, inputs: Sequence[Any]) -> Frame:
        """The only region's frame for these inputs, which are checked."""
        try:
            shapes = tuple([a.shape for a in inputs])
            found = context.frames.get((0, shapes))
            if found is not None:
                for array, dtype in zip(inputs, self._dtypes, strict=True):
                    if type(array) is not np.ndarray or array.dtype is not dtype:
                        break
                else:
                    context.last = found
                    return found
        except (AttributeError, TypeError):
            pass  # the checks say it well
        shapes = self._check(inputs)
        frame = context.frame(0, shapes)
        self._compare(0, frame, inputs)
        context.last = frame
        return frame

    def _check(self, inputs: Sequence[Any]) -> Shapes:
        if self._closed:
            raise ExecutionError("the model is closed", fix="compile or load it again")
        check_inputs(self.program.plan.inputs, inputs)
        return tuple(getattr(a, "shape", ()) for a in inputs)

    def _run_regions(
        self, context: Context, inputs: Sequence[Any], times: list[StepTime] | None = None
    ) -> list[Any]:
        self._check(inputs)
        plan = self.program.plan
        slots: list[Any] = [None] * len(plan.slots)
        for port, value in zip(plan.inputs, inputs, strict=True):
            slots[port.slot] = value
        for slot, constant in self._constant_slots:
            slots[slot] = constant
        ours: set[int] = set()  # slots whose arrays were made by our own kernels
        driver = self.program.driver
        mode = driver.swap_mode(driver.default_mode) if self._hosted else 0
        try:
            for number, region in enumerate(plan.regions):
                arrays = [slots[s] for s in region.inputs]
                frame = context.frame(number, tuple(a.shape for a in arrays))
                self._compare(number, frame, arrays)
                walk = None if times is None else timed_walk(frame, times)
                for slot, made in zip(region.outputs, frame.run(arrays, walk), strict=True):
                    slots[slot] = made
                    ours.add(slot)
                if region.terminal is not None:
                    with timed_terminal(self.program.plan, number, times):
                        self._terminal(number, slots)
                for slot in self._last_use[number]:
                    slots[slot] = None
        finally:
            if self._hosted:
                driver.swap_mode(mode)
        results: list[Any] = []
        for port in plan.outputs:
            value = slots[port.slot]
            if isinstance(value, np.ndarray) and port.slot not in ours:
                value = value.copy()
            ours.discard(port.slot)
            results.append(value)
        return results

    def _compare(self, number: int, frame: Frame, arrays: Sequence[Array]) -> None:
        """A value between regions has the shape the plan expects, or nothing may run."""
        for n, (array, wanted) in enumerate(zip(arrays, frame.layout.inputs, strict=True)):
            if array.shape != wanted:
                raise ExecutionError(
                    "a value has another shape than the plan expects",
                    where=f"region {number}, input {n}",
                    got=list(array.shape),
                    expected=list(wanted),
                )

    def _terminal(self, number: int, slots: list[Any]) -> None:
        terminal = self.program.plan.regions[number].terminal
        assert terminal is not None
        values = [None if s is None else slots[s] for s in terminal.inputs]
        count = len(terminal.outputs)
        results = evaluate_op(terminal.op, values, terminal.name, count, self.evaluate)
        for slot, result in zip(terminal.outputs, results, strict=True):
            wanted = self.program.plan.slots[slot]
            if isinstance(wanted, TensorType):
                result = np.asarray(result)
                if not same_dtype(result.dtype, wanted.dtype):
                    raise ExecutionError(
                        "an operation gave another element type than the plan says",
                        where=f"{terminal.op.kind} {terminal.name}",
                        got=result.dtype,
                        expected=wanted,
                    )
            slots[slot] = result

    def bind(self, inputs: Sequence[Any]) -> BoundCall:
        """A call with fixed buffers: it reads what the arrays hold then, and overwrites its
        outputs. The arrays are kept (and read in place where contiguous), never written to."""
        return BoundCall(self, list(inputs))

    def profile(self, inputs: Sequence[Any]) -> list[StepTime]:
        """One run, step by step, each timed (about 0.5 us of Python in each)."""
        context, times = Context(self), list[StepTime]()
        self._run_regions(context, inputs, times)
        return times

    def close(self) -> None:
        """Give memory back; later calls raise ExecutionError. Calls that run go on."""
        self._closed = True
        self._pool.clear()
        self._layouts.clear()


class BoundCall:
    """`call()` runs on the bound inputs and returns `result` (the list of outputs; it may be
    replaced by any object that shows them). One thread at a time."""

    def __init__(self, session: Session, inputs: list[Any]) -> None:
        self._session, self._inputs = session, inputs
        self._context = Context(session)
        self._copies: list[tuple[Array, Array]] = []
        self._slow = True
        if session._simple:
            shapes = session._check(inputs)
            frame = self._context.frame(0, shapes)
            session._compare(0, frame, inputs)
            self._copies, self.outputs = frame.fix(inputs)
            self._frame = frame
            stretch = frame.stretches[0]
            assert isinstance(stretch, Stretch)
            self._stretch = stretch
            self._native, self._argument = stretch.native, stretch.argument
            self._slow = bool(self._copies)
            gangs.watch_forks(self)
        else:
            self.outputs = session._run_regions(self._context, inputs)
        self.result: Any = self.outputs

    def __call__(self) -> Any:
        if self._slow:
            return self._call_slowly()
        status = self._native(self._argument)
        if status:
            self._stretch.resume(status)
        return self.result

    def _call_slowly(self) -> Any:
        if self._copies:
            for mine, array in self._copies:
                mine[...] = array
            self._stretch.run()
            return self.result
        fresh = self._session._run_regions(self._context, self._inputs)
        for n, value in enumerate(fresh):
            old = self.outputs[n]
            if isinstance(old, np.ndarray) and old.shape == value.shape:
                old[...] = value
            else:
                self.outputs[n] = value
        return self.result

    def after_fork(self) -> None:
        """In a child no other thread is running this call."""
        self._stretch.call[CALL_BUSY] = 0
