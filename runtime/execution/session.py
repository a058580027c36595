"""Sessions: a program made callable from any thread, and bound calls with fixed buffers.

`run` borrows a context from a pool. A shape that was seen costs nothing, a new one evaluates size
expressions and places the arena: no pass, no LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.errors import Error, ExecutionError, InputError, ShapeError, memory_errors
from ...ir.limits.host_memory import default_max_memory
from ...ir.limits.memory_budget import Budget, active_budget, use_budget
from ...plan.verify.variables import initialised_after
from ..driver import thread_pool as pools
from ..jit.program import CompiledPlan
from .array_interop import import_array
from .bound_call import BoundCall, R
from .execution_context import ExecutionContext, Shapes, lru_put
from .input_check import InputCheck, fixed_dtype
from .output_buffers import check_apart, check_output, written_at_once
from .profile import StepTime
from .region_instance import RegionInstance
from .region_program import CompiledRegion, Evaluate, Limits, ShapeInstance
from .region_runner import RegionWalk
from .stats import Stats
from .variables import VariableStore

Array = npt.NDArray[Any]

# Shapes whose layouts a session keeps (the oldest goes).
_MAX_CACHED_SHAPES: Final = 128


class Session:
    """A program with its options, callable from any number of threads.

    num_threads: None for the CPUs this process may use. max_memory: bytes of arena and outputs.
    evaluate: runs operations that have no kernel (default: the op's own evaluate). inner: a body's
    session, whose runs are part of a call and share its memory budget.
    """

    def __init__(
        self,
        program: CompiledPlan,
        *,
        num_threads: int | None = None,
        max_memory: int | None = None,
        evaluate: Evaluate | None = None,
        share_work: int = pools.SHARE_WORK,
        wake_work: int = pools.WAKE_WORK,
        meet_work: int = pools.BARRIER_GRAIN,
        inner: bool = False,
    ) -> None:
        if num_threads is not None and num_threads < 1:
            raise InputError("num_threads must be at least 1", got=num_threads)
        threads = num_threads if num_threads is not None else pools.default_threads()
        threads = min(threads, pools.MAX_WORKERS) if program.driver.threads else 1
        limit = default_max_memory() if max_memory is None else max_memory
        self.program, self.evaluate = program, evaluate
        self.limits = Limits(threads, limit, share_work, wake_work, max(1, meet_work))
        plan = program.plan
        self.codes = [
            CompiledRegion(program, n, self.limits, evaluate) for n in range(len(plan.regions))
        ]
        works = {"share_work": share_work, "wake_work": wake_work, "meet_work": meet_work}
        self.bodies = [
            [
                Session(
                    body,
                    num_threads=threads,
                    max_memory=limit,
                    evaluate=evaluate,
                    inner=True,
                    **works,
                )
                for body in inner
            ]
            for inner in program.bodies
        ]
        self.pool_address = pools.get_thread_pool(program.driver).address if threads > 1 else 0
        self.static = not any(r.symbols for r in plan.regions)
        self._pool: list[ExecutionContext] = []
        self._layouts: dict[tuple[int, Shapes], ShapeInstance] = {}
        self._dtypes = [fixed_dtype(p.type) for p in plan.inputs]
        self._check = InputCheck(plan.inputs)
        self._admitted: dict[Shapes, None] = {}
        self.order = self._find_order()
        self.straight = self.order is not None and all(
            order == list(range(len(ports)))
            for order, ports in zip(self.order, (plan.inputs, plan.outputs), strict=True)
        )
        self.constant_slots = [(s, program.constants[c]) for s, c in plan.constant_slots]
        self.last_use = self._find_last_uses()
        self.initialised = initialised_after(plan)
        self.hosted = bool(plan.host_steps())
        self._closed = False
        self.inner = inner

    @property
    def num_threads(self) -> int:
        """Threads a call may use."""
        return self.limits.threads

    def _find_order(self) -> tuple[list[int], list[int]] | None:
        """If the plan is one region of kernels: which plan input each region input is, and which
        region output each plan output is. None for any other plan."""
        plan = self.program.plan
        if len(plan.regions) != 1 or plan.variables:
            return None
        region = plan.regions[0]
        given = {p.slot: n for n, p in enumerate(plan.inputs)}
        made = {slot: n for n, slot in enumerate(region.outputs)}
        wanted = [p.slot for p in plan.outputs]
        if not self.codes[0].native or region.terminal is not None or None in self._dtypes:
            return None
        if not made.keys() >= set(wanted) or len(set(wanted)) < len(wanted):
            return None
        if not given.keys() >= set(region.inputs):
            return None
        return [given[s] for s in region.inputs], [made[s] for s in wanted]

    def _find_last_uses(self) -> list[list[int]]:
        """Per region, the slots whose last use it is."""
        plan = self.program.plan
        kept = {p.slot for p in plan.outputs}
        kept |= {s for v in plan.variables for s in (v.slot, v.after, v.initial) if s is not None}
        found: list[list[int]] = []
        for region in reversed(plan.regions):
            used = {*region.inputs, *region.outputs}
            if region.terminal is not None:
                used |= {s for s in region.terminal.inputs if s is not None}
                used |= set(region.terminal.outputs)
            found.append(sorted(used - kept))
            kept |= used
        return found[::-1]

    def layout(self, number: int, shapes: Shapes) -> ShapeInstance:
        """The region's layout for these input shapes, kept for the next time."""
        key = (number, shapes)
        found = self._layouts.get(key)
        if found is None:
            try:
                found = self.codes[number].layout(shapes)
            except ShapeError as e:
                raise self._refusal(number, shapes, e) from e
            lru_put(self._layouts, key, found, _MAX_CACHED_SHAPES)
        return found

    def _refusal(self, number: int, shapes: Shapes, e: ShapeError) -> Error:
        """A size expression that has no value for these shapes: the caller's inputs, if the
        region reads the model's inputs, else what an operation made of them."""
        plan = self.program.plan
        names = {p.slot: p.name for p in (*plan.inputs, *plan.variables)}
        slots = plan.regions[number].inputs
        given = [
            f"{names.get(s, f'value {s}')} {list(a)}" for s, a in zip(slots, shapes, strict=True)
        ]
        kind = InputError if all(s in names for s in slots) else ExecutionError
        return kind(
            "the model can't run at these shapes",
            where=e.where or f"region {number}",
            got=f"{', '.join(given)}: {e.what}" + (f" ({e.got})" if e.got is not None else ""),
            expected=e.expected,
        )

    def run_into(
        self, inputs: Sequence[Any], out: Sequence[Array | None], state: VariableStore | None = None
    ) -> list[Any]:
        """`run`, with the results in these arrays where one is given (None: a fresh one).

        An array must have its output's type and shape and be writeable; any strides will do. It may
        share memory with an input, not with another output. If one does not fit, none is written.
        """
        ports = self.program.plan.outputs
        if len(out) != len(ports):
            raise InputError(
                "another number of output arrays than outputs", got=len(out), expected=len(ports)
            )
        check_apart([p.name for p in ports], out)
        with memory_errors():
            return self._put_into(inputs, out, state)

    def _put_into(
        self, inputs: Sequence[Any], out: Sequence[Array | None], state: VariableStore | None
    ) -> list[Any]:
        ports = self.program.plan.outputs
        inputs = import_array(self.program.plan.inputs, inputs)
        if self.order is None:
            results = self.run(inputs, state)
            for port, made, mine in zip(ports, results, out, strict=True):
                if mine is not None:
                    made = np.asarray(made)
                    check_output(port.name, made.dtype, made.shape, mine)
        else:
            results = self._run_into(inputs, out)
        for n, mine in enumerate(out):
            if mine is not None and mine is not results[n]:
                mine[...] = results[n]
                results[n] = mine
        return results

    def _take(self) -> ExecutionContext:
        """A context that no other thread uses. It goes back into the pool."""
        try:
            return self._pool.pop()
        except IndexError:  # asking first would let another thread take it in between
            with memory_errors():
                return ExecutionContext(self)

    def _run_into(self, inputs: Sequence[Any], out: Sequence[Array | None]) -> list[Any]:
        """The results of one region of kernels, in these arrays where kernels may write there."""
        assert self.order is not None
        self.admit(inputs)
        pick, order = self.order
        arrays = [inputs[n] for n in pick]
        context = self._take()
        try:
            frame = context.frame(0, tuple([a.shape for a in arrays]))
            self.compare(0, frame, arrays)
            for port, n, mine in zip(self.program.plan.outputs, order, out, strict=True):
                check_output(port.name, *frame.result_type(n), mine)
            into: list[Array | None] = [None] * len(frame.layout.outputs)
            for n, mine in zip(order, written_at_once(out, inputs), strict=True):
                into[n] = mine
            made = frame.run(arrays, into=into)
            return [made[n] for n in order]
        except BaseException as error:
            context.reset_after(error)
            raise
        finally:
            if not self._closed:
                self._pool.append(context)

    def run(self, inputs: Sequence[Any], state: VariableStore | None = None) -> list[Any]:
        """The outputs, fresh: they alias neither inputs nor each other, and nothing is kept.

        inputs: one value per plan input, in order. state: the variables' values, which are others
        afterwards (None: a state of its own, so that the variables have their initial values).
        InputError, ExecutionError, MemoryLimitError.
        """
        context = self._take()
        try:
            if (last := context.last) is not None and last.quick:
                outputs = last.run_fast(inputs)
                if outputs is not None:
                    return outputs
            inputs = import_array(self.program.plan.inputs, inputs)
            if self.order is not None:
                return self._run_one(context, inputs)
            return self.run_regions(context, inputs, state=state)
        except BaseException as error:
            context.reset_after(error)
            with memory_errors():
                raise
        finally:
            if not self._closed:
                self._pool.append(context)

    def _run_one(self, context: ExecutionContext, inputs: Sequence[Any]) -> list[Any]:
        """`run` of a plan that is one region of kernels."""
        assert self.order is not None
        self.admit(inputs)
        pick, order = self.order
        arrays = inputs if self.straight else [inputs[n] for n in pick]
        frame = context.frame(0, tuple([a.shape for a in arrays]))
        self.compare(0, frame, arrays)
        if self.inner:
            active_budget(self.limits.max_memory).require(frame.layout.need, "a body")
        else:
            context.last = frame if self.straight else None
        outputs = frame.run(arrays)
        return outputs if self.straight else [outputs[n] for n in order]

    def admit(self, inputs: Sequence[Any]) -> None:
        """Check the inputs: at a glance where such shapes were seen, else by name."""
        try:
            shapes = tuple([a.shape for a in inputs])
            if shapes in self._admitted:
                for array, dtype in zip(inputs, self._dtypes, strict=True):
                    if type(array) is not np.ndarray or array.dtype is not dtype:
                        break
                else:
                    return
        except (AttributeError, TypeError):
            shapes = None  # what is not an array has no shape, and the checks say so
        if self._closed:
            raise ExecutionError("the model is closed", fix="compile or load it again")
        self._check(inputs)
        if shapes is not None and None not in self._dtypes:
            lru_put(self._admitted, shapes, None, _MAX_CACHED_SHAPES)

    def run_regions(
        self,
        context: ExecutionContext,
        inputs: Sequence[Any],
        times: list[StepTime] | None = None,
        state: VariableStore | None = None,
    ) -> list[Any]:
        """`run` of any plan, region after region. times: takes the seconds of each step."""
        limit = self.limits.max_memory
        budget = active_budget(limit) if self.inner else Budget(limit)
        with use_budget(budget), budget.charge_temporarily():
            self.admit(inputs)
            state = VariableStore(self.program.plan, lasts=False) if state is None else state
            return RegionWalk(self, context, budget, state, times).run(inputs)

    def compare(self, number: int, frame: RegionInstance, arrays: Sequence[Array]) -> None:
        """A value between regions has the shape the plan expects, or nothing may run."""
        for n, (array, wanted) in enumerate(zip(arrays, frame.layout.inputs, strict=True)):
            if array.shape != wanted:
                raise ExecutionError(
                    "a value has another shape than the plan expects",
                    where=f"region {number}, input {n}",
                    got=list(array.shape),
                    expected=list(wanted),
                )

    def bind(
        self, inputs: Sequence[Any], show: Callable[[list[Any]], R] | None = None
    ) -> BoundCall[R]:
        """A call with fixed buffers: it reads what the arrays hold then, and overwrites its
        outputs. The arrays are kept (and read in place where contiguous), never written to."""
        with memory_errors():
            return BoundCall(
                self, list(import_array(self.program.plan.inputs, inputs, live=True)), show
            )

    def profile(self, inputs: Sequence[Any]) -> list[StepTime]:
        """One run, step by step, each timed (about 0.5 us of Python in each). In memory that calls
        have touched: the steps that first write to pages of a fresh arena pay for them."""
        inputs = import_array(self.program.plan.inputs, inputs)
        context, times = self._take(), list[StepTime]()
        try:
            self.run_regions(context, inputs, times)
        except BaseException as error:
            context.reset_after(error)
            with memory_errors():
                raise
        finally:
            if not self._closed:
                self._pool.append(context)
        return times

    def stats(self) -> Stats:
        """What the session holds; contexts that are running now are not counted."""
        contexts = list(self._pool)
        return Stats(
            threads=self.num_threads,
            contexts=len(contexts),
            arena_bytes=sum(len(c.space.arena) for c in contexts),
            constant_bytes=self.program.constant_bytes,
            kernels=len(self.program.kernels),
            compiled=self.program.compiled,
            shapes=len(self._layouts),
        )

    def close(self) -> None:
        """Give memory back; later calls raise ExecutionError. Calls that run go on."""
        self._closed = True
        self._pool.clear()
        self._admitted.clear()
        self._layouts.clear()
