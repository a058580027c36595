"""The queue of one model: bounded, with deadlines, cancellation, and worker threads that batch.

All methods but the worker's run on the event loop's thread. A call is waiting, running or over;
only a waiting one can be cancelled, and a cancelled one gives its place back at once. Answers reach
the event loop once per execution.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .batch_equality import BatchEquality, RowShapes
from .errors import DeadlineError, OverloadError, UnavailableError
from .settings import Batching
from .short_calls import ShortCalls
from .statistics import Statistics
from .thread_shares import share_threads

Array = npt.NDArray[Any]
Run = Callable[[Sequence[Array]], Sequence[Array]]
RunWithThreads = Callable[[int, Sequence[Array]], Sequence[Array]]

# A batch of fewer calls is not divided among threads: rows then gain more from one another.
_MIN_CALLS_OF_BATCH: Final = 4
# Calls of a model that run at a time at most, each in a Python thread.
_MAX_CALLS_AT_A_TIME: Final = 16


class QueuedCall:
    """One request of a model. run: what executes it. shapes: those of a row where it can join a
    batch, else None. queued: seconds that it waited, once it runs."""

    __slots__ = ("answer", "inputs", "queued", "rows", "run", "shapes", "since", "timer")

    def __init__(
        self, run: Run, inputs: Sequence[Array], shapes: RowShapes | None, rows: int
    ) -> None:
        self.run, self.inputs, self.shapes, self.rows = run, inputs, shapes, rows
        self.answer: asyncio.Future[Sequence[Array]] = asyncio.get_running_loop().create_future()
        self.since, self.queued = time.perf_counter(), 0.0
        self.timer: asyncio.TimerHandle | None = None


Outcome = tuple[QueuedCall, Sequence[Array] | None, BaseException | None]


class RequestQueue:
    """Runs calls on `instances` threads, in order, joined to batches where bits stay the same.

    run: uses all of the model's threads. shared: what runs calls with fewer of its `threads`, as
    several wait; None: each call uses all.
    """

    def __init__(
        self,
        name: str,
        run: Run,
        statistics: Statistics,
        *,
        instances: int,
        size: int,
        batching: Batching | None,
        short: ShortCalls | None = None,
        threads: int = 1,
        shared: RunWithThreads | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._shared, self._all_threads, self._used_threads = shared, threads, 0
        if shared is not None:
            instances = max(instances, min(threads, _MAX_CALLS_AT_A_TIME))
        self._executing, self._at_a_time = 0, instances
        self._run, self._size, self._batching = run, size, batching
        self._short = short if batching is None else None
        self.equality = BatchEquality(run) if batching is not None else None
        self._sizes = batching.sizes if batching is not None else ()
        self._statistics = statistics
        self._waiting: dict[QueuedCall, None] = {}
        self._changed = threading.Condition()
        self._gathering = threading.Lock()  # one worker waits for a batch at a time
        self._closed = False
        self.running = 0
        # Not joined through asyncio's executor: the event loop's end would wait for the join, past
        # any limit of close().
        self._ended, self._live_threads = asyncio.Event(), instances
        self._threads = [
            threading.Thread(target=self._work, name=f"serve-{name}-{n}", daemon=True)
            for n in range(instances)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def depth(self) -> int:
        """Calls that wait."""
        return len(self._waiting)

    def submit(self, call: QueuedCall, timeout: float | None = None) -> None:
        """Add a call; its answer is set later. OverloadError at once if the queue is full. A short
        call runs here if no other one waits or runs."""
        with self._changed:
            if self._closed:
                raise UnavailableError("the model is being unloaded", fix="send it again")
            idle = not self._waiting and self.running == 0
            if idle and self._short is not None and self._short.are_short(call.inputs):
                self.running += 1
                self._answer([self._run_alone(call, self._run)])
                return
            if len(self._waiting) >= self._size:
                raise OverloadError(
                    "the model's queue is full",
                    got=f"{len(self._waiting)} requests are waiting",
                    fix="send it again later",
                )
            self._waiting[call] = None
            self._changed.notify()
        if timeout is not None:
            call.timer = self._loop.call_later(timeout, self._expire, call)

    def forget(self, call: QueuedCall) -> bool:
        """Drop a call whose client has gone. False if it does not wait: it runs, or is over."""
        with self._changed:
            if call not in self._waiting:
                return False
            del self._waiting[call]
        if call.timer is not None:
            call.timer.cancel()
        call.answer.cancel()
        return True

    def _expire(self, call: QueuedCall) -> None:
        with self._changed:
            if call not in self._waiting:
                return
            del self._waiting[call]
        if not call.answer.done():
            error = DeadlineError("the request's timeout passed while it waited in the queue")
            call.answer.set_exception(error)

    async def close(self) -> None:
        """Take no more calls, answer those that wait, end the threads. Cancelled, it leaves threads
        that are inside a call."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        await self._ended.wait()

    def _work(self) -> None:
        while chosen := self._next_calls():
            calls, threads = chosen
            run = self._run
            if self._shared is not None and threads < self._all_threads:
                run = partial(self._shared, threads)
            self._execute(calls, run)
            with self._changed:
                self._executing -= 1
                self._used_threads -= threads
                self._changed.notify_all()
        with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for us
            self._loop.call_soon_threadsafe(self._count_ended_thread)

    def _count_ended_thread(self) -> None:
        self._live_threads -= 1
        if self._live_threads == 0:
            self._ended.set()

    def _next_calls(self) -> tuple[list[QueuedCall], int] | None:
        """The calls of the next execution, and how many threads it has; None once the queue is
        closed and empty."""
        with self._gathering, self._changed:
            while True:
                while not self._can_begin():
                    if self._closed and not self._waiting:
                        return None
                    self._changed.wait()
                first = next(iter(self._waiting))
                calls = self._joinable(first)
                if first.shapes is None or self._batching is None or self._closed:
                    break
                left = first.since + self._batching.max_delay_us / 1e6 - time.perf_counter()
                rows = sum(c.rows for c in calls)
                if left <= 0 or rows in self._stops or rows >= self._batching.max_size:
                    break
                self._changed.wait(left)
            count, threads = self._share(first, len(calls))
            chosen = self._fitting(calls[:count])
            now = time.perf_counter()
            for call in chosen:
                del self._waiting[call]
                call.queued = now - call.since
            self.running += len(chosen)
            self._executing += 1
            self._used_threads += threads
        return chosen, threads

    def _can_begin(self) -> bool:
        """Whether a call waits and there are threads for it."""
        if not self._waiting or self._shared is None:
            return bool(self._waiting)
        first = next(iter(self._waiting))
        free = self._all_threads - self._used_threads
        return free == self._all_threads if first.run != self._run else free > 0

    def _share(self, first: QueuedCall, joinable: int) -> tuple[int, int]:
        """How many of the calls that can join the first one it may join, and their threads."""
        if self._shared is None or first.run != self._run:
            return joinable, self._all_threads
        free, batches = self._all_threads - self._used_threads, len(self._waiting)
        if joinable > 1:
            batches = max(1, joinable // _MIN_CALLS_OF_BATCH)
        batches = min(free, batches, self._at_a_time - self._executing)
        return -(-joinable // batches), share_threads(self._all_threads, free, batches)

    @property
    def _stops(self) -> Sequence[int]:
        """The sizes at which a batch runs without waiting for more."""
        batching = self._batching
        if batching is None:
            return ()
        return batching.preferred_sizes or (batching.max_size,)

    def _joinable(self, first: QueuedCall) -> list[QueuedCall]:
        """The waiting calls that fit a batch with the first, in order, up to the largest size."""
        if first.shapes is None or self._batching is None:
            return [first]
        calls, rows = list[QueuedCall](), 0
        for call in self._waiting:
            if call.shapes == first.shapes:
                if calls and rows + call.rows > self._batching.max_size:
                    break
                calls.append(call)
                rows += call.rows
        return calls

    def _fitting(self, calls: list[QueuedCall]) -> list[QueuedCall]:
        """The longest prefix whose number of rows is an admissible size; else the first call."""
        best, rows = 1, 0
        for count, call in enumerate(calls, 1):
            rows += call.rows
            if rows in self._sizes and count > 1:
                best = count
        return calls[:best]

    def _execute(self, calls: list[QueuedCall], run: Run) -> None:
        """Run calls as a batch or one by one. run: in place of the model's."""
        batch = len(calls) > 1 and self._may_join(calls)
        if batch is True:
            self._deliver(self._run_batch(calls, run))
            return
        for call in calls:
            self._deliver([self._run_alone(call, run)])
        if batch is None:
            self._check(calls)

    def _may_join(self, calls: list[QueuedCall]) -> bool | None:
        """Whether these calls' batch has the bits of lone calls. None: to be checked."""
        shapes, equality = calls[0].shapes, self.equality
        assert shapes is not None and equality is not None
        sizes = {sum(c.rows for c in calls), *(c.rows for c in calls)}
        known = [equality.lookup(shapes, size) for size in sizes]
        return False if False in known else None if None in known else True

    def _check(self, calls: list[QueuedCall]) -> None:
        shapes, equality = calls[0].shapes, self.equality
        assert shapes is not None and equality is not None
        rows = [np.concatenate(arrays) for arrays in zip(*(c.inputs for c in calls), strict=True)]
        for size in sorted({sum(c.rows for c in calls), *(c.rows for c in calls)}):
            if equality.lookup(shapes, size) is None:
                check_size(equality, shapes, size, rows)

    def _run_alone(self, call: QueuedCall, run: Run) -> Outcome:
        start, cpu_start = time.perf_counter(), time.thread_time()
        try:
            outputs = (run if call.run == self._run else call.run)(call.inputs)
        except BaseException as error:
            return call, None, error
        self._statistics.record_execution(call.rows, time.perf_counter() - start)
        if self._short is not None:
            self._short.record(call.inputs, time.thread_time() - cpu_start)
        return call, outputs, None

    def _run_batch(self, calls: list[QueuedCall], run: Run) -> list[Outcome]:
        start = time.perf_counter()
        joined = [np.concatenate(arrays) for arrays in zip(*(c.inputs for c in calls), strict=True)]
        begun = time.perf_counter()
        try:
            outputs = run(joined)
        except BaseException:  # one request's fault must not reach the others
            return [self._run_alone(call, run) for call in calls]
        ended, at, found = time.perf_counter(), 0, list[Outcome]()
        for call in calls:
            part = slice(at, at + call.rows)
            # Copies: a view would keep the whole batch while one client reads slowly.
            found.append((call, [output[part].copy() for output in outputs], None))
            at += call.rows
        self._statistics.record_execution(at, ended - begun)
        self._statistics.record_codec(begun - start, time.perf_counter() - ended)
        return found

    def _deliver(self, outcomes: list[Outcome]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for us
            self._loop.call_soon_threadsafe(self._answer, outcomes)

    def _answer(self, outcomes: list[Outcome]) -> None:
        for call, outputs, error in outcomes:
            self.running -= 1
            if call.timer is not None:
                call.timer.cancel()
            if call.answer.done():  # its client has gone
                continue
            if error is None and outputs is not None:
                call.answer.set_result(outputs)
            else:
                call.answer.set_exception(error or RuntimeError("no outputs"))


def check_size(
    equality: BatchEquality, shapes: RowShapes, size: int, rows: Sequence[Array]
) -> None:
    """Check a batch size; one whose check fails, such as at a limit of memory, is not used."""
    try:
        equality.check(shapes, size, rows)
    except Exception:
        equality.refuse(shapes, size)
