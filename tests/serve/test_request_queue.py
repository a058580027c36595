"""The queue: batches, overload, deadlines, cancellation, failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.serve.errors import DeadlineError, OverloadError, UnavailableError
from irc_compiler.serve.request_queue import QueuedCall, RequestQueue
from irc_compiler.serve.settings import Batching
from irc_compiler.serve.statistics import Statistics


class FakeModel:
    """y = 2x, which notes the rows of each execution and waits while it is held."""

    def __init__(self) -> None:
        self.sizes = list[int]()
        self.go = threading.Event()
        self.go.set()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        assert self.go.wait(60)
        self.sizes.append(len(inputs[0]))
        if (inputs[0] == 13).any():
            raise ExecutionError("thirteen", fix="another number")
        return [inputs[0] * 2]


def run(
    test: Callable[[FakeModel, RequestQueue, Statistics], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def main() -> None:
        model, statistics = FakeModel(), Statistics()
        how = {"instances": 1, "size": 100, "batching": None, **options}
        queue = RequestQueue("m", model, statistics, **how)
        try:
            await asyncio.wait_for(test(model, queue, statistics), 60)
        finally:
            model.go.set()
            await queue.close()

    asyncio.run(main())


def call(model: FakeModel, value: float, rows: int = 1, batch: bool = True) -> QueuedCall:
    x = np.full((rows, 4), value, np.float32)
    return QueuedCall(model, [x], ((4,),) if batch else None, rows)


def check(queue: RequestQueue, *sizes: int) -> None:
    assert queue.equality is not None
    for size in sizes:
        queue.equality.check(((4,),), size, [np.ones((1, 4), np.float32)])


def test_calls_are_joined_and_divided() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        check(queue, 2, 4, 8)
        model.sizes.clear()
        calls = [call(model, n, 1 + n % 2) for n in range(8)]  # 12 rows
        for one in calls:
            queue.submit(one)
        for n, one in enumerate(calls):
            (found,) = await one.answer
            np.testing.assert_array_equal(found, np.full((1 + n % 2, 4), 2 * n))
        assert sum(model.sizes) == 12 and set(model.sizes) <= {1, 2, 4, 8}
        assert max(model.sizes) > 2 and statistics.executions == len(model.sizes)
        assert statistics.rows == 12

    run(test, batching=Batching(8, max_delay_us=50_000))


def test_a_size_runs_alone_until_it_is_checked() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        for _ in range(2):
            calls = [call(model, n) for n in range(2)]
            for one in calls:
                queue.submit(one)
            await asyncio.gather(*(one.answer for one in calls))
        # Alone, the check (two alone and both together), then joined.
        assert model.sizes == [1, 1, 1, 1, 2, 2]

    run(test, batching=Batching(2, max_delay_us=10_000_000))


def test_other_shapes_do_not_join() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        check(queue, 2)
        model.sizes.clear()
        model.go.clear()
        blocker = call(model, 0, batch=False)
        queue.submit(blocker)
        calls = [QueuedCall(model, [np.ones((1, w), np.float32)], ((w,),), 1) for w in (4, 5, 4)]
        for one in calls:
            queue.submit(one)
        model.go.set()
        await asyncio.gather(*(one.answer for one in calls))
        assert model.sizes == [1, 2, 1]

    run(test, batching=Batching(2, max_delay_us=1000))


def test_a_full_queue_refuses_at_once() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        model.go.clear()
        running = call(model, 0)
        queue.submit(running)
        while queue.depth:
            await asyncio.sleep(0.001)
        waiting = [call(model, n) for n in range(2)]
        for one in waiting:
            queue.submit(one)
        with pytest.raises(OverloadError):
            queue.submit(call(model, 3))
        assert queue.forget(waiting[0]) and not queue.forget(running)
        queue.submit(call(model, 4))  # the one that went away made room
        model.go.set()
        await waiting[1].answer
        assert waiting[0].answer.cancelled()

    run(test, size=2)


def test_a_deadline_passes_while_a_call_waits() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        model.go.clear()
        running, late = call(model, 0), call(model, 1)
        queue.submit(running, timeout=0.01)
        while queue.depth:
            await asyncio.sleep(0.001)
        queue.submit(late, timeout=0.01)
        with pytest.raises(DeadlineError):
            await late.answer
        assert queue.depth == 0 and not running.answer.done()
        model.go.set()
        await running.answer  # what runs is finished
        assert model.sizes == [1]

    run(test)


def test_one_bad_call_of_a_batch_fails_alone() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        check(queue, 4)
        calls = [call(model, n) for n in (1, 13, 2, 3)]
        for one in calls:
            queue.submit(one)
        found = await asyncio.gather(*(one.answer for one in calls), return_exceptions=True)
        assert [isinstance(f, ExecutionError) for f in found] == [False, True, False, False]

    run(test, batching=Batching(4, max_delay_us=10_000_000, preferred_sizes=(4,)))


def test_closing_answers_what_waits() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        model.go.clear()
        calls = [call(model, n) for n in range(5)]
        for one in calls:
            queue.submit(one)
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError):
            queue.submit(call(model, 9))
        model.go.set()
        await closing
        await asyncio.gather(*(one.answer for one in calls))

    run(test, batching=Batching(64, max_delay_us=10_000_000))


def test_instances_run_side_by_side() -> None:
    async def test(model: FakeModel, queue: RequestQueue, statistics: Statistics) -> None:
        model.go.clear()
        calls = [call(model, n) for n in range(3)]
        for one in calls:
            queue.submit(one)
        while queue.depth:
            await asyncio.sleep(0.001)
        assert queue.running == 3
        model.go.set()
        await asyncio.gather(*(one.answer for one in calls))
        assert queue.running == 0

    run(test, instances=3)
