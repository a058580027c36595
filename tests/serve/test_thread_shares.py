"""Calls share a model's threads: one alone has all of them, several at a time fewer each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.serve.request_queue import QueuedCall, RequestQueue
from irc_compiler.serve.settings import Batching
from irc_compiler.serve.statistics import Statistics
from irc_compiler.serve.thread_shares import ThreadShares, share_threads
from support.serving import affine


class HeldModel:
    """y = 2x with four threads; each execution waits for a permit. executions: (threads, rows)."""

    def __init__(self) -> None:
        self.executions = list[tuple[int, int]]()
        self.permits = threading.Semaphore(0)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run_with(4, inputs)

    def run_with(self, threads: int, inputs: Sequence[Any]) -> list[Any]:
        self.executions.append((threads, len(inputs[0])))
        assert self.permits.acquire(timeout=60)
        return [inputs[0] * 2]

    def run_exclusively(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run_with(0, inputs)


def run(
    test: Callable[[HeldModel, RequestQueue], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def main() -> None:
        model = HeldModel()
        how = {"instances": 1, "size": 100, "batching": None, "threads": 4, **options}
        queue = RequestQueue("m", model, Statistics(), shared=model.run_with, **how)
        try:
            await asyncio.wait_for(test(model, queue), 60)
        finally:
            model.permits.release(1000)
            await queue.close()

    asyncio.run(main())


def submit(model: HeldModel, queue: RequestQueue, count: int = 1) -> list[QueuedCall]:
    found = list[QueuedCall]()
    for _ in range(count):
        x = np.ones((1, 4), np.float32)
        found.append(QueuedCall(model, [x], ((4,),), 1))
        queue.submit(found[-1])
    return found


async def reach(model: HeldModel, *expected: tuple[int, int]) -> None:
    """Wait until so many executions have begun, and a little longer for one too many."""
    while len(model.executions) < len(expected):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert model.executions == list(expected)


def test_calls_that_wait_share_the_threads() -> None:
    async def test(model: HeldModel, queue: RequestQueue) -> None:
        calls = submit(model, queue)
        await reach(model, (4, 1))
        calls += submit(model, queue, 2)
        await reach(model, (4, 1))  # nothing is free
        model.permits.release()
        await reach(model, (4, 1), (2, 1), (2, 1))
        calls += submit(model, queue, 3)
        model.permits.release()
        await reach(model, (4, 1), (2, 1), (2, 1), (1, 1), (1, 1))
        model.permits.release(10)
        await asyncio.gather(*(one.answer for one in calls))
        while queue._used_threads:
            await asyncio.sleep(0.001)
        submit(model, queue)
        await asyncio.sleep(0.01)
        assert model.executions[-1] == (4, 1)  # alone again

    run(test)


def test_a_model_has_a_bounded_number_of_calls_at_a_time() -> None:
    """On a machine with many cores they have several threads each."""

    async def test(model: HeldModel, queue: RequestQueue) -> None:
        assert len(queue._threads) == 16
        calls = submit(model, queue)
        await reach(model, (4, 1))
        calls += submit(model, queue, 40)
        model.permits.release()
        await reach(model, (4, 1), *[(4, 1)] * 16)
        model.permits.release(100)
        await asyncio.gather(*(one.answer for one in calls))

    run(test, threads=64)


def test_batches_share_the_threads() -> None:
    """Waiting calls are divided into batches of at least four."""

    async def test(model: HeldModel, queue: RequestQueue) -> None:
        assert queue.equality is not None
        model.permits.release(100)
        for size in (2, 4, 8):
            queue.equality.check(((4,),), size, [np.ones((1, 4), np.float32)])
        while model.permits.acquire(blocking=False):
            pass
        model.executions.clear()
        calls = submit(model, queue)
        await reach(model, (4, 1))
        calls += submit(model, queue, 8)
        model.permits.release()
        await reach(model, (4, 1), (2, 4), (2, 4))
        model.permits.release(2)
        await asyncio.gather(*(one.answer for one in calls))

    run(test, batching=Batching(8, max_delay_us=1))


def test_a_call_that_cannot_share_runs_alone() -> None:
    """Such as one of a sequence, which has memory of its own."""

    async def test(model: HeldModel, queue: RequestQueue) -> None:
        submit(model, queue, 3)
        x = np.ones((1, 4), np.float32)
        queue.submit(QueuedCall(model.run_exclusively, [x], None, 1))
        submit(model, queue)
        await asyncio.sleep(0.01)
        while model.executions[-1][0] != 0:
            model.permits.release()
            await asyncio.sleep(0.005)
        assert queue.running == 1 and queue.depth == 1

    run(test)


@pytest.mark.parametrize(
    ("total", "free", "calls", "expected"),
    [(1, 1, 1, 1), (4, 4, 1, 4), (4, 4, 2, 2), (4, 4, 3, 1), (4, 2, 1, 2), (6, 6, 2, 3)]
    + [(6, 3, 1, 3), (6, 2, 1, 1), (7, 7, 2, 3), (64, 64, 5, 8), (2, 2, 9, 1)],
)
def test_threads_are_halved(total: int, free: int, calls: int, expected: int) -> None:
    assert share_threads(total, free, calls) == expected


def test_answers_have_the_bits_of_a_call_with_all_threads() -> None:
    net = irc.compile_model(affine(0.3), num_threads=2)
    shares = ThreadShares(net, None)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    assert shares.arena_bytes == 0
    (whole,), (alone,) = net([x]), shares.run(1, [x])
    assert alone.tobytes() == whole.tobytes()
    assert shares.run(1, [x])[0].tobytes() == whole.tobytes() and len(shares._sessions) == 1
    shares.close()
    with pytest.raises(ExecutionError, match="closed"):
        shares.run(1, [x])
