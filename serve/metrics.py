"""Prometheus metrics of the models, under irc's names or those of Triton's or OVMS's dashboards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .inference import Engine
from .model_registry import VersionState
from .statistics import Histogram, Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Value = Callable[[VersionState], float]


@dataclass(frozen=True)
class Entry:
    """One metric: a number of a model version, a histogram, or failures by cause. scale: from
    seconds or rows to the metric's unit."""

    name: str
    help: str
    kind: str  # counter, gauge, histogram, causes (counters by cause), plain (no type)
    read: Callable[[VersionState], object]
    scale: float = 1.0


def _successes(v: VersionState) -> float:
    return v.statistics.successes


def _depth(v: VersionState) -> float:
    return v.served.queue.depth if v.served is not None else 0


def _running(v: VersionState) -> float:
    return v.served.queue.running if v.served is not None else 0


def _memory(v: VersionState) -> float:
    return v.served.memory_bytes if v.served is not None else 0


def _load_seconds(v: VersionState) -> float:
    return v.served.loaded.seconds if v.served is not None else 0.0


def _statistic(read: Callable[[Statistics], object]) -> Callable[[VersionState], object]:
    return lambda v: read(v.statistics)


_QUEUE, _COMPUTE = _statistic(lambda s: s.queue), _statistic(lambda s: s.compute)
_REQUEST, _ROWS = _statistic(lambda s: s.request), _statistic(lambda s: s.batch_rows)
_CAUSES = _statistic(lambda s: s.failures)


def _microseconds(read: Callable[[Statistics], float]) -> Value:
    return lambda v: read(v.statistics) * 1e6


TABLES: dict[str, tuple[Entry, ...]] = {
    "irc": (
        Entry("irc_requests", "Answered requests", "counter", _successes),
        Entry("irc_request_failures", "Failed requests by cause", "causes", _CAUSES),
        Entry("irc_request_seconds", "Time of a request", "histogram", _REQUEST),
        Entry("irc_queue_seconds", "Time in the queue", "histogram", _QUEUE),
        Entry("irc_compute_seconds", "Time of an execution", "histogram", _COMPUTE),
        Entry("irc_batch_rows", "Rows of an execution", "histogram", _ROWS),
        Entry(
            "irc_prompt_tokens",
            "Tokens of prompts",
            "counter",
            _statistic(lambda s: s.prompt_tokens),
        ),
        Entry(
            "irc_generated_tokens",
            "Tokens of generated texts",
            "counter",
            _statistic(lambda s: s.generated_tokens),
        ),
        Entry("irc_queue_depth", "Requests that wait", "gauge", _depth),
        Entry("irc_requests_running", "Requests that run", "gauge", _running),
        Entry("irc_model_memory_bytes", "Constants and arenas", "gauge", _memory),
        Entry("irc_model_load_seconds", "Time to read and compile", "gauge", _load_seconds),
    ),
    "triton": (
        Entry("nv_inference_request_success", "Successful requests", "plain", _successes),
        Entry("nv_inference_request_failure", "Failed requests", "causes", _CAUSES),
        Entry(
            "nv_inference_count",
            "Rows that were computed",
            "plain",
            _statistic(lambda s: s.rows),
        ),
        Entry(
            "nv_inference_exec_count",
            "Executions of the model",
            "plain",
            _statistic(lambda s: s.executions),
        ),
        Entry(
            "nv_inference_request_duration_us",
            "Cumulative time of requests",
            "plain",
            _microseconds(lambda s: s.request.sum),
        ),
        Entry(
            "nv_inference_queue_duration_us",
            "Cumulative time in the queue",
            "plain",
            _microseconds(lambda s: s.queue.sum),
        ),
        Entry(
            "nv_inference_compute_input_duration_us",
            "Cumulative time of joining inputs",
            "plain",
            _microseconds(lambda s: s.input_seconds),
        ),
        Entry(
            "nv_inference_compute_infer_duration_us",
            "Cumulative time of executions",
            "plain",
            _microseconds(lambda s: s.compute.sum),
        ),
        Entry(
            "nv_inference_compute_output_duration_us",
            "Cumulative time of dividing outputs",
            "plain",
            _microseconds(lambda s: s.output_seconds),
        ),
        Entry("nv_inference_pending_request_count", "Requests that wait", "plain", _depth),
        Entry("nv_model_load_seconds", "Time to read and compile", "plain", _load_seconds),
        Entry("nv_model_memory_bytes", "Constants and arenas", "plain", _memory),
    ),
    "ovms": (
        Entry("ovms_requests_success", "Successful requests", "plain", _successes),
        Entry("ovms_requests_fail", "Failed requests", "causes", _CAUSES),
        Entry("ovms_request_time_us", "Time of a request", "histogram", _REQUEST, 1e6),
        Entry("ovms_inference_time_us", "Time of an execution", "histogram", _COMPUTE, 1e6),
        Entry("ovms_wait_for_infer_req_time_us", "Time in the queue", "histogram", _QUEUE, 1e6),
        Entry("ovms_current_requests", "Requests that wait", "plain", _depth),
        Entry("ovms_infer_req_active", "Requests that run", "plain", _running),
    ),
}
# The label of a model's name and of a cause, by table.
LABELS = {
    "irc": ("model", "cause"),
    "triton": ("model", "reason"),
    "ovms": ("name", "reason"),
}


class _Collected(Collector):
    """prometheus_client's interface around metrics that were read."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


class Metrics:
    """Renders the metrics of an engine; they are read from its statistics at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._table = TABLES[engine.settings.metric_names]
        self._labels = LABELS[engine.settings.metric_names]

    async def render(self) -> bytes:
        """The page at /metrics: of this process, or of all workers that share the port."""
        found, group = self.collect(), self._engine.settings.group
        if group is not None:
            found, answered = await group.gather(found)
            workers = Metric("irc_workers", "Workers that this page includes", "gauge")
            workers.add_sample("irc_workers", {}, answered)
            found.append(workers)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(found))
        return generate_latest(registry)

    def collect(self) -> list[Metric]:
        """The metrics of this process."""
        return list(self._read_entries())

    def _read_entries(self) -> Iterator[Metric]:
        for entry in self._table:
            # Triton's and OVMS's counters lack the suffix _total, which "counter" would add.
            kind = {"causes": "counter", "plain": "unknown"}.get(entry.kind, entry.kind)
            if entry.kind == "causes" and self._engine.settings.metric_names != "irc":
                kind = "unknown"
            metric = Metric(entry.name, entry.help, kind)
            for name, model in self._engine.registry.models.items():
                for number, state in model.versions.items():
                    labels = {self._labels[0]: name, "version": str(number)}
                    with state.statistics.lock:
                        self._add(metric, kind, entry, labels, entry.read(state))
            yield metric

    def _add(
        self, metric: Metric, kind: str, entry: Entry, labels: dict[str, str], value: object
    ) -> None:
        suffix = "_total" if kind == "counter" else ""
        if isinstance(value, Histogram):
            for bound, count in value.buckets():
                scaled = bound if bound == "+Inf" else f"{float(bound) * entry.scale:g}"
                metric.add_sample(f"{entry.name}_bucket", {**labels, "le": scaled}, count)
            metric.add_sample(f"{entry.name}_count", labels, value.count)
            metric.add_sample(f"{entry.name}_sum", labels, value.sum * entry.scale)
        elif isinstance(value, dict):
            for cause, count in value.items():
                metric.add_sample(entry.name + suffix, {**labels, self._labels[1]: cause}, count)
        elif isinstance(value, int | float):
            metric.add_sample(entry.name + suffix, labels, value)
