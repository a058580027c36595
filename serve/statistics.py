"""Counters and histograms of one model version, written by its queue and read by the statistics
endpoints, the metrics and the status page."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field

# Upper bounds of the buckets, in seconds and in rows.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
RECENT = 240  # requests on the status page's plot


class Histogram:
    """Counts of values up to each bound, cumulative only when read."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, count of values up to it), as Prometheus writes them."""
        total, found = 0, list[tuple[str, float]]()
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(bound), total))
        return found


@dataclass
class BatchCount:
    """Executions of one batch size and their seconds."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class Statistics:
    """What happened to the requests of one model version. Times are seconds."""

    successes: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    failure_seconds: float = 0.0
    rows: int = 0
    executions: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    last_request: float = 0.0
    input_seconds: float = 0.0
    output_seconds: float = 0.0
    request: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    queue: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    compute: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    batch_rows: Histogram = field(default_factory=lambda: Histogram(ROWS))
    batches: dict[int, BatchCount] = field(default_factory=dict[int, BatchCount])
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record_execution(self, rows: int, seconds: float) -> None:
        """One call of the model."""
        with self.lock:
            self.executions += 1
            self.rows += rows
            self.compute.observe(seconds)
            self.batch_rows.observe(rows)
            batch = self.batches.setdefault(rows, BatchCount())
            batch.count += 1
            batch.seconds += seconds

    def record_success(self, seconds: float, queued: float) -> None:
        """One answered request."""
        now = time.time()
        with self.lock:
            self.successes += 1
            self.last_request = now
            self.request.observe(seconds)
            self.queue.observe(queued)
            self.recent.append((now, seconds))

    def record_tokens(self, prompt: int, generated: int) -> None:
        """Tokens of one answered request of a language model."""
        with self.lock:
            self.prompt_tokens += prompt
            self.generated_tokens += generated

    def record_failure(self, cause: str, seconds: float) -> None:
        """One request that was not answered."""
        with self.lock:
            self.failures[cause] += 1
            self.failure_seconds += seconds

    def record_codec(self, input_seconds: float, output_seconds: float) -> None:
        """Time to join inputs and to divide outputs of one execution."""
        with self.lock:
            self.input_seconds += input_seconds
            self.output_seconds += output_seconds
