"""One worker among several that share a port: how it reads the metrics of the others.

Every worker listens on a socket file of the group's folder, which only this user can open. To each
connection it writes its metrics as JSON and closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
from prometheus_client.core import Metric

ANSWER_SECONDS = 1.0  # a worker that takes longer is left out


@dataclass(frozen=True)
class WorkerGroup:
    """Worker `number` of `count`; folder: the directory of the workers' socket files."""

    number: int
    count: int
    folder: str

    def socket_path(self, number: int) -> Path:
        """The socket file of a worker."""
        return Path(self.folder) / f"{number}.sock"

    async def gather(self, own: Sequence[Metric]) -> tuple[list[Metric], int]:
        """The metrics of all workers that answer, each sample with the label `worker`, and the
        number of these workers. own: those of this worker."""
        others = [n for n in range(self.count) if n != self.number]
        answers = await asyncio.gather(*(self._read(n) for n in others))
        found = {metric.name: _copy_metric(metric) for metric in own}
        _add_samples(found, dump_metrics(own), self.number)
        for number, answer in zip(others, answers, strict=True):
            if answer is not None:
                _add_samples(found, answer, number)
        return list(found.values()), 1 + sum(answer is not None for answer in answers)

    async def _read(self, number: int) -> bytes | None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket_path(number))
                try:
                    return await reader.read(-1) or None
                finally:
                    writer.close()
        return None


def dump_metrics(metrics: Sequence[Metric]) -> bytes:
    """Names and samples as JSON."""
    samples = [
        [metric.name, [[s.name, s.labels, s.value] for s in metric.samples]] for metric in metrics
    ]
    return orjson.dumps(samples)


def _copy_metric(metric: Metric) -> Metric:
    return Metric(metric.name, metric.documentation, metric.type)


def _add_samples(found: dict[str, Metric], dumped: bytes, worker: int) -> None:
    for name, samples in orjson.loads(dumped):
        if name in found:
            for sample, labels, value in samples:
                found[name].add_sample(sample, {**labels, "worker": str(worker)}, value)


@asynccontextmanager
async def sharing_metrics(
    group: WorkerGroup, collect: Callable[[], list[Metric]]
) -> AsyncIterator[None]:
    """Give this worker's metrics to the other workers."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(dump_metrics(collect()))
            await writer.drain()
            writer.close()

    path = group.socket_path(group.number)
    path.unlink(missing_ok=True)  # of a worker that was killed
    async with await asyncio.start_unix_server(answer, path):
        yield
