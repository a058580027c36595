"""Sessions: a program made callable from any thread, and bound calls with fixed buffers.

`run` borrows a context from a pool. A shape that was seen costs nothing, a new one evaluates size
expressions and plans the arena: no pass, no LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.errors import ExecutionError, InputError, memory_errors
from ...ir.limits.host_memory import default_max_memory
from ...ir.limits.memory_budget import Budget, active_budget, use_budget
from ..driver import thread_pool as pools
from ..jit.program import CompiledPlan
from ..machine.cpus import cores_differ
from .array_interop import import_array
from .bound_call import BoundCall, R
from .execution_context import ExecutionContext
from .input_check import InputCheck, fixed_dtype
from .output_buffers import check_apart, check_output
from .profile import StepTime
from .region_instance import RegionInstance
from .region_program import Evaluate, Limits
from .region_runner import RegionWalk
from .region_set import MAX_CACHED_SHAPES, RegionSet, lru_put
from .stats import Stats
from .variables import VariableStore

Array = npt.NDArray[Any]


class Session:
    """A program with its options, callable from any number of threads.

    num_threads: None for the CPUs this process may use. max_memory: bytes of arena and outputs.
    evaluate: runs operations that have no kernel (default: the op's own evaluate).
    parts_per_thread: of large steps (default: 1, and more where cores are of several speeds).
    inner: a body's session, whose runs are part of a call and share its memory budget.
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
        parts_per_thread: int | None = None,
        inner: bool = False,
    ) -> None:
        if num_threads is not None and num_threads < 1:
            raise InputError("num_threads must be at least 1", got=num_threads)
        threads = num_threads if num_threads is not None else pools.default_threads()
        threads = min(threads, pools.MAX_WORKERS) if program.driver.threads else 1
        limit = default_max_memory() if max_memory is None else max_memory
        self.program, self.inner = program, inner
        if parts_per_thread is None:
            parts_per_thread = pools.UNEQUAL_PARTS_PER_THREAD if cores_differ() else 1
        parts = threads * parts_per_thread
        self.limits = Limits(threads, parts, limit, share_work, wake_work, max(1, meet_work))
        pool_address = pools.get_thread_pool(program.driver).address if threads > 1 else 0
        works = {"share_work": share_work, "wake_work": wake_work, "meet_work": meet_work}
        limits = {"num_threads": threads, "max_memory": limit, **works}
        limits["parts_per_thread"] = parts_per_thread
        bodies = [
            [Session(body, evaluate=evaluate, inner=True, **limits).run for body in bodies]
            for bodies in program.bodies
        ]
        self.regions = RegionSet(program, self.limits, evaluate, pool_address, bodies)
        plan = program.plan
        self._pool: list[ExecutionContext] = []
        self._check = InputCheck(plan.inputs)
        self._admitted: dict[tuple[Any, ...], None] = {}
        self._order = self._find_order()
        self._straight = self._order is not None and all(
            order == list(range(len(ports)))
            for order, ports in zip(self._order, (plan.inputs, plan.outputs), strict=True)
        )
        self._closed = False

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
        if not self.regions.compiled[0].native or region.terminal is not None:
            return None
        if any(fixed_dtype(p.type) is None for p in plan.inputs):
            return None
        if not made.keys() >= set(wanted) or len(set(wanted)) < len(wanted):
            return None
        if not given.keys() >= set(region.inputs):
            return None
        return [given[s] for s in region.inputs], [made[s] for s in wanted]

    def run(
        self,
        inputs: Sequence[Any],
        state: VariableStore | None = None,
        *,
        out: Sequence[Array | None] | None = None,
        times: list[StepTime] | None = None,
    ) -> list[Any]:
        """The outputs, fresh: they alias neither inputs nor each other, and nothing is kept.

        inputs: one value per plan input, in order. state: the variables' values, which are others
        afterwards (None: a state of its own, so that the variables have their initial values).
        out: per output, an array for the result or None for a fresh one. An array must have its
        output's type and shape and be writeable; any strides will do. It may share memory with an
        input, not with another output. If one does not fit, none is written. times: takes the
        seconds of each step, which is then run on its own.
        InputError, ExecutionError, MemoryLimitError.
        """
        context = self._take_context()
        try:
            if context.repeat is not None and out is None and times is None:
                made = context.repeat(inputs)
                if made is None:
                    made = context.repeat_earlier(inputs)
                if made is not None:
                    return made
            return self._run(context, inputs, state, out, times)
        except BaseException as error:
            context.reset_after(error)
            with memory_errors():
                raise
        finally:
            if not self._closed:
                self._pool.append(context)

    def _require_open(self) -> None:
        if self._closed:
            raise ExecutionError("the model is closed", fix="compile or load it again")

    def _take_context(self) -> ExecutionContext:
        """A context that no other thread uses. It goes back into the pool."""
        try:
            return self._pool.pop()
        except IndexError:  # testing first would let another thread take it in between
            with memory_errors():
                return ExecutionContext(self.regions)

    def _run(
        self,
        context: ExecutionContext,
        inputs: Sequence[Any],
        state: VariableStore | None,
        out: Sequence[Array | None] | None,
        times: list[StepTime] | None,
    ) -> list[Any]:
        ports = self.program.plan.outputs
        if out is not None:
            if len(out) != len(ports):
                raise InputError(
                    "another number of output arrays than outputs",
                    got=len(out),
                    expected=len(ports),
                )
            check_apart([p.name for p in ports], out)
        self._require_open()
        inputs = import_array(self.program.plan.inputs, inputs)
        if self._order is None or times is not None:
            results = self._run_regions(context, inputs, state, times)
            return results if out is None else self._copy_into(out, results)
        instance, arrays, into = self._choose_instance(context, inputs, out)
        if self.inner:
            active_budget(self.limits.max_memory).require(instance.layout.need, "a body")
        made = instance.run(arrays, into)
        if self._straight and not self.inner:
            context.repeat_binding(instance.repeatable)
        return self._put_in_order(made)

    def _put_in_order(self, made: list[Any]) -> list[Any]:
        """The region's outputs as the plan's."""
        return made if self._order is None or self._straight else [made[n] for n in self._order[1]]

    def _copy_into(self, out: Sequence[Array | None], results: list[Any]) -> list[Any]:
        """The results, in the arrays that were given for them."""
        for port, made, mine in zip(self.program.plan.outputs, results, out, strict=True):
            if mine is not None:
                made = np.asarray(made)
                check_output(port.name, made.dtype, made.shape, mine)
        for n, mine in enumerate(out):
            if mine is not None:
                mine[...] = results[n]
                results[n] = mine
        return results

    def _choose_instance(
        self,
        context: ExecutionContext,
        inputs: Sequence[Any],
        out: Sequence[Array | None] | None = None,
    ) -> tuple[RegionInstance, Sequence[Array], Sequence[Array | None]]:
        """The one region of kernels, its inputs, and the arrays for its outputs, all checked."""
        assert self._order is not None
        self._admit(inputs)
        pick, order = self._order
        arrays = inputs if self._straight else [inputs[n] for n in pick]
        instance = context.instance(0, tuple([a.shape for a in arrays]))
        into: list[Array | None] = []
        if out is not None:
            into = [None] * len(instance.layout.outputs)
            for port, n, mine in zip(self.program.plan.outputs, order, out, strict=True):
                check_output(port.name, *instance.result_type(n), mine)
                into[n] = mine
        return instance, arrays, into

    def _admit(self, inputs: Sequence[Any]) -> None:
        """Check the inputs: at a glance where such arrays were seen, else by name."""
        try:
            given = tuple([(type(a), a.shape, a.dtype) for a in inputs])
            if given in self._admitted:
                return
        except (AttributeError, TypeError):
            given = None  # what is not an array has no shape, and the checks say so
        self._check(inputs)
        if given is not None:
            lru_put(self._admitted, given, None, MAX_CACHED_SHAPES)

    def _run_regions(
        self,
        context: ExecutionContext,
        inputs: Sequence[Any],
        state: VariableStore | None = None,
        times: list[StepTime] | None = None,
    ) -> list[Any]:
        """The outputs of any plan, region after region."""
        limit = self.limits.max_memory
        budget = active_budget(limit) if self.inner else Budget(limit)
        with use_budget(budget), budget.charge_temporarily():
            self._admit(inputs)
            state = VariableStore(self.program.plan, lasts=False) if state is None else state
            return RegionWalk(context, budget, state, times).run(inputs)

    def bind(
        self, inputs: Sequence[Any], show: Callable[[list[Any]], R] | None = None
    ) -> BoundCall[R]:
        """A call with fixed buffers: it reads what the arrays hold then, and overwrites its
        outputs. The arrays are kept (and read in place where contiguous), never written to."""
        self._require_open()
        with memory_errors():
            arrays = list(import_array(self.program.plan.inputs, inputs, live=True))
            context = ExecutionContext(self.regions)
            if self._order is None:
                run = partial(self._run_regions, context, arrays)
                return BoundCall(context, run(), run, show)
            instance, arrays, _ = self._choose_instance(context, arrays)
            bound = instance.bind(arrays, lasts=True)
            return BoundCall(context, self._put_in_order(bound.outputs), bound, show)

    def profile(self, inputs: Sequence[Any]) -> list[StepTime]:
        """One run, step by step, each timed (about 0.5 us of Python in each). In memory that calls
        have touched: the steps that first write to pages of a fresh arena pay for them."""
        times = list[StepTime]()
        self.run(inputs, times=times)
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
            shapes=len(self.regions.layouts),
        )

    def close(self) -> None:
        """Give memory back; later calls raise ExecutionError. Calls that run go on."""
        self._closed = True
        self._pool.clear()
        self._admitted.clear()
        self.regions.layouts.clear()
