"""Metrics of several workers on one page, each sample with its worker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from irc_compiler.serve.workers.worker_group import WorkerGroup, sharing_metrics
from prometheus_client.core import Metric


def requests(count: int) -> list[Metric]:
    metric = Metric("irc_requests", "Answered requests", "counter")
    metric.add_sample("irc_requests_total", {"model": "m"}, count)
    return [metric]


def test_metrics_of_workers_are_kept_apart(tmp_path: Path) -> None:
    """Worker 2 was killed and left its socket file; worker 3 has not started."""

    async def gather() -> tuple[list[Metric], int]:
        groups = [WorkerGroup(n, 4, str(tmp_path)) for n in range(4)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(sharing_metrics(groups[2], lambda: requests(9)))
        groups[2].socket_path(2).touch()
        async with sharing_metrics(groups[1], lambda: requests(7)):
            return await groups[0].gather(requests(5))

    (metric,), answered = asyncio.run(gather())
    found = {s.labels["worker"]: s.value for s in metric.samples}
    assert (found, answered) == ({"0": 5, "1": 7}, 2)
    assert (metric.name, metric.type) == ("irc_requests", "counter")


def test_a_restarted_worker_replaces_its_socket_file(tmp_path: Path) -> None:
    async def gather() -> int:
        groups = [WorkerGroup(n, 2, str(tmp_path)) for n in range(2)]
        groups[1].socket_path(1).touch()
        async with sharing_metrics(groups[1], lambda: requests(1)):
            return (await groups[0].gather([]))[1]

    assert asyncio.run(gather()) == 2
