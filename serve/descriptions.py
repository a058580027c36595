"""Server and model metadata, configuration, statistics and index, as the protocol's JSON objects.

gRPC's messages have the same fields; rpc/ fills them from these objects.
"""

from __future__ import annotations

import os
from typing import Any

from .. import __version__
from .inference import Engine
from .model_registry import ModelRegistry
from .served_model import ModelPort, ServedModel
from .statistics import Statistics

SERVER_NAME = "irc"
PLATFORM = "irc"
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
EXTENSIONS_WITH_UNLOAD = (
    *EXTENSIONS[:3],
    "model_repository(unload_dependents)",
    "sequence",
    "statistics",
)


def describe_server(engine: Engine) -> dict[str, Any]:
    """Server metadata."""
    names = EXTENSIONS_WITH_UNLOAD if engine.settings.allow_load else (*EXTENSIONS, "sequence")
    return {"name": SERVER_NAME, "version": __version__, "extensions": list(names)}


def describe_model(registry: ModelRegistry, model: ServedModel) -> dict[str, Any]:
    """Model metadata."""
    versions = sorted(registry.models[model.name].served_versions())
    return {
        "name": model.name,
        "versions": [str(v) for v in versions],
        "platform": PLATFORM,
        "inputs": [_describe_port(p) for p in model.inputs.values()],
        "outputs": [_describe_port(p) for p in model.outputs.values()],
    }


def _describe_port(port: ModelPort) -> dict[str, Any]:
    return {"name": port.name, "datatype": port.datatype, "shape": list(port.shape or (-1,))}


def describe_config(model: ServedModel) -> dict[str, Any]:
    """The configuration in the fields of Triton's model configuration."""
    batching = model.loaded.batching
    first = 0 if batching is None else 1

    def port(p: ModelPort) -> dict[str, Any]:
        type_ = "TYPE_STRING" if p.datatype == "BYTES" else f"TYPE_{p.datatype}"
        return {"name": p.name, "data_type": type_, "dims": list((p.shape or (-1,))[first:])}

    found: dict[str, Any] = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 0 if batching is None else batching.max_size,
        "input": [port(p) for p in model.inputs.values()],
        "output": [port(p) for p in model.outputs.values()],
        "instance_group": [{"name": model.name, "kind": "KIND_CPU", "count": model.instances}],
    }
    if batching is not None:
        found["dynamic_batching"] = {
            "preferred_batch_size": list(batching.preferred_sizes),
            "max_queue_delay_microseconds": batching.max_delay_us,
        }
    return found


def describe_statistics(model: ServedModel) -> dict[str, Any]:
    """The statistics extension's object of one version."""
    statistics = model.statistics
    with statistics.lock:
        return _statistics(model, statistics)


def _statistics(model: ServedModel, s: Statistics) -> dict[str, Any]:
    failed = sum(s.failures.values())
    return {
        "name": model.name,
        "version": str(model.version),
        "last_inference": int(s.last_request * 1000),
        "inference_count": s.rows,
        "execution_count": s.executions,
        "inference_stats": {
            "success": _duration(s.successes, s.request.sum),
            "fail": _duration(failed, s.failure_seconds),
            "queue": _duration(s.queue.count, s.queue.sum),
            "compute_input": _duration(s.executions, s.input_seconds),
            "compute_infer": _duration(s.executions, s.compute.sum),
            "compute_output": _duration(s.executions, s.output_seconds),
            "cache_hit": _duration(0, 0.0),
            "cache_miss": _duration(0, 0.0),
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _duration(batch.count, 0.0),
                "compute_infer": _duration(batch.count, batch.seconds),
                "compute_output": _duration(batch.count, 0.0),
            }
            for rows, batch in sorted(s.batches.items())
        ],
        "memory_usage": [{"type": "CPU", "id": 0, "byte_size": model.memory_bytes}],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": int(seconds * 1e9)}


def describe_index(registry: ModelRegistry, *, ready: bool = False) -> list[dict[str, str]]:
    """The repository's index: each version's state and, where it has one, a reason."""
    return [
        {"name": name, "version": str(number), "state": state.state, "reason": state.reason}
        for name, model in sorted(registry.models.items())
        for number, state in sorted(model.versions.items())
        if state.state == "READY" or not ready
    ]


def describe_status(engine: Engine) -> dict[str, Any]:
    """What the status page shows."""
    models = list[dict[str, Any]]()
    for name, model in sorted(engine.registry.models.items()):
        for number, state in sorted(model.versions.items()):
            entry: dict[str, Any] = {
                "name": name,
                "version": number,
                "state": state.state,
                "reason": state.reason,
            }
            statistics, served = state.statistics, state.served
            with statistics.lock:
                entry["successes"] = statistics.successes
                entry["failures"] = sum(statistics.failures.values())
                entry["recent"] = [[t, s * 1000] for t, s in statistics.recent]
            if served is not None:
                entry["queue"] = served.queue.depth
                entry["running"] = served.queue.running
                entry["memory"] = served.memory_bytes
                entry["batching"] = _describe_batching(served)
            models.append(entry)
    found: dict[str, Any] = {"ready": engine.ready, "version": __version__, "models": models}
    if (group := engine.settings.group) is not None:
        found |= {"worker": group.number, "workers": group.count, "process": os.getpid()}
    return found


def _describe_batching(model: ServedModel) -> str:
    batching, equality = model.loaded.batching, model.queue.equality
    if batching is None or equality is None:
        return f"off: {model.loaded.not_batched}"
    text = f"sizes {', '.join(map(str, batching.sizes))}"
    if different := equality.different_sizes():
        text += f"; not {', '.join(map(str, different))}, which would change bits"
    return text
