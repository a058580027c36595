"""Short calls run on the event loop; only models of fixed time have any."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.serve.request_queue import QueuedCall, RequestQueue
from irc_compiler.serve.settings import Batching
from irc_compiler.serve.short_calls import MAX_SHAPES, NEEDED_CALLS, ShortCalls, has_fixed_time
from irc_compiler.serve.statistics import Statistics
from support.models.stateful import growing
from support.serving import affine, counting

X = np.ones((1, 4), np.float32)


def learn(short: ShortCalls, seconds: float = 0.0) -> None:
    for _ in range(NEEDED_CALLS):
        short.record([X], seconds)


@pytest.mark.parametrize("batching", [None, Batching(8)])
def test_a_short_call_changes_no_thread(batching: Batching | None) -> None:
    threads = list[int]()

    def model(inputs: Sequence[Any]) -> list[Any]:
        threads.append(threading.get_ident())
        return [inputs[0] * 2]

    async def ask(queue: RequestQueue) -> int:
        call = QueuedCall(model, [X], None, 1)
        queue.submit(call)
        (found,) = await call.answer
        np.testing.assert_array_equal(found, X * 2)
        return threads.pop()

    async def main() -> tuple[int, int, int, int]:
        short, statistics = ShortCalls(), Statistics()
        queue = RequestQueue(
            "m", model, statistics, instances=1, size=8, batching=batching, short=short
        )
        try:
            before = await ask(queue)
            learn(short)
            after = await ask(queue)
            short.record([X], 1.0)
            again = await ask(queue)
            assert (statistics.executions, queue.running) == (3, 0)
            return threading.get_ident(), before, after, again
        finally:
            await queue.close()

    loop, before, after, again = asyncio.run(main())
    assert loop not in (before, again)
    assert (after == loop) == (batching is None)


def test_a_failure_is_the_answer() -> None:
    def fail(_: Sequence[Any]) -> list[Any]:
        raise irc.ExecutionError("it fails")

    async def main() -> None:
        short = ShortCalls()
        queue = RequestQueue(
            "m", fail, Statistics(), instances=1, size=8, batching=None, short=short
        )
        learn(short)
        call = QueuedCall(fail, [X], None, 1)
        queue.submit(call)
        with pytest.raises(irc.ExecutionError, match="it fails"):
            await call.answer
        assert queue.running == 0
        await queue.close()

    asyncio.run(main())


def test_shapes_are_measured_apart_and_bounded() -> None:
    short = ShortCalls()
    learn(short)
    assert short.are_short([X]) and not short.are_short([X[:, :3]])
    for n in range(MAX_SHAPES):
        short.record([np.empty((n + 2, 4))], 0.0)
    assert not short.are_short([X])


def test_models_of_fixed_time(tmp_path: Path) -> None:
    """Not a loop, whose caller says how long it takes, and not a model with variables."""
    growing(tmp_path / "growing.xml")
    for model, fixed in ((affine(), True), (counting(), False), (tmp_path / "growing.xml", False)):
        with irc.compile_model(model) as net:
            assert has_fixed_time(net.plan) is fixed
