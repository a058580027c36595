"""Properties of devices, requests to compile and compiled models: which irc follows, and facts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from ...api import CompiledModel as Net
from ...api.model_source import Performance
from ...ir.errors import UsageError
from ..warn import warn_once
from .properties import log
from .properties.device import Type as DeviceType
from .properties.hint import ExecutionMode, PerformanceMode, SchedulingCoreType
from .types import Type

# Properties that irc follows, or whose values (None: any) request what irc does anyway.
_HEEDED: Mapping[str, tuple[str, ...] | None] = {
    "INFERENCE_NUM_THREADS": None,
    "INFERENCE_PRECISION_HINT": (
        *("f32", "bf16", "f16", "float", "float32", "bfloat16", "float16", "", "dynamic"),
    ),
    "PERFORMANCE_HINT": ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT", ""),
    "PERFORMANCE_HINT_NUM_REQUESTS": None,
    "NUM_STREAMS": ("1", "AUTO", "-1"),
    "EXECUTION_MODE_HINT": ("ACCURACY", "PERFORMANCE"),
    "MODEL_PRIORITY": None,
    "LOG_LEVEL": None,
    "CACHE_DIR": ("",),
    "PERF_COUNT": None,
    "ENABLE_MMAP": None,
    "ENABLE_CPU_PINNING": None,
    "ENABLE_HYPER_THREADING": None,
    "DEVICE_ID": ("",),
    "CPU_DENORMALS_OPTIMIZATION": None,
}
# Values of CPU_DENORMALS_OPTIMIZATION, and compile_model's option `denormals` that they mean.
_DENORMALS: Mapping[str, Literal["flush", "keep"]] = {
    "YES": "flush",
    "True": "flush",
    "NO": "keep",
    "False": "keep",
}


def merge_properties(*given: Any) -> dict[str, Any]:
    """Properties of mappings and (name, value) pairs, by name; later ones count."""
    merged: dict[str, Any] = {}
    for one in given:
        if one is None:
            continue
        if isinstance(one, tuple):
            merged[str(one[0])] = one[1]
        elif isinstance(one, Mapping):
            merged.update({str(name): value for name, value in one.items()})
        else:
            raise UsageError("properties are not a mapping", got=repr(one)[:80],
                             expected='{"INFERENCE_NUM_THREADS": 4}')  # fmt: skip
    return merged


def warn_of_unheeded(properties: Mapping[str, Any]) -> None:
    """Warn once about each property that irc does not follow."""
    for name, value in properties.items():
        allowed = _HEEDED.get(name, ())
        text = _text_of(value)
        if allowed is not None and text not in allowed:
            warn_once(f"the property {name}={text}", "irc does not follow it")


def _text_of(value: Any) -> str:
    if isinstance(value, Type):
        return value.get_type_name()
    return str(value).rsplit(".", 1)[-1].strip("<>' ").removeprefix("Type: '")


def compile_options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of irc.compile_model that properties mean."""
    warn_of_unheeded(properties)
    hint = _text_of(properties.get("INFERENCE_PRECISION_HINT", "f32"))
    return {
        "precision": "bf16" if "bf" in hint else "f16" if "16" in hint else "f32",
        "num_threads": int(properties.get("INFERENCE_NUM_THREADS") or 0) or None,
        "denormals": _DENORMALS.get(str(properties.get("CPU_DENORMALS_OPTIMIZATION"))),
        "performance": _performance(properties),
    }


def _performance(properties: Mapping[str, Any]) -> Performance:
    many = "THROUGHPUT" in _text_of(properties.get("PERFORMANCE_HINT", ""))
    return "throughput" if many else "latency"


def describe_device(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Every property of the CPU: what was set, else its default."""
    facts: dict[str, Any] = {
        "AVAILABLE_DEVICES": [""],
        "RANGE_FOR_ASYNC_INFER_REQUESTS": (1, 1, 1),
        "RANGE_FOR_STREAMS": (1, 1),
        "EXECUTION_DEVICES": ["CPU"],
        "FULL_DEVICE_NAME": _device_name(),
        "OPTIMIZATION_CAPABILITIES": ["FP32", "BF16", "INT8", "EXPORT_IMPORT"],
        "DEVICE_TYPE": DeviceType.INTEGRATED,
        "DEVICE_ARCHITECTURE": "intel64" if platform.machine() == "x86_64" else platform.machine(),
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": 0,
        "PERF_COUNT": False,
        "INFERENCE_PRECISION_HINT": Type.f32,
        "PERFORMANCE_HINT": PerformanceMode.LATENCY,
        "PERFORMANCE_HINT_NUM_REQUESTS": 0,
        "EXECUTION_MODE_HINT": ExecutionMode.PERFORMANCE,
        "ENABLE_CPU_PINNING": True,
        "ENABLE_HYPER_THREADING": True,
        "SCHEDULING_CORE_TYPE": SchedulingCoreType.ANY_CORE,
        "LOG_LEVEL": log.Level.NO,
        "CPU_DENORMALS_OPTIMIZATION": False,
        "CACHE_DIR": "",
    }
    known = {**facts, **properties}
    return {**known, "SUPPORTED_PROPERTIES": _list_properties(facts)}


def describe_model(net: Net, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Every property of a compiled model."""
    facts = {
        "NETWORK_NAME": net.plan.name,
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS": net.calls_at_a_time,
        "NUM_STREAMS": net.calls_at_a_time,
        "INFERENCE_NUM_THREADS": net.stats().threads * net.calls_at_a_time,
        "PERF_COUNT": False,
        "INFERENCE_PRECISION_HINT": getattr(Type, net.plan.precision),
        "PERFORMANCE_HINT": PerformanceMode[_performance(properties).upper()],
        "EXECUTION_MODE_HINT": ExecutionMode.PERFORMANCE,
        "EXECUTION_DEVICES": ["CPU"],
        "CPU_DENORMALS_OPTIMIZATION": net.plan.denormals.flush,
        "LOADED_FROM_CACHE": False,
    }
    set_before = {k: v for k, v in properties.items() if k not in facts}
    return {**facts, **set_before, "SUPPORTED_PROPERTIES": _list_properties(facts)}


_READ_WRITE = frozenset({"NUM_STREAMS", "LOG_LEVEL", "CACHE_DIR", "PERF_COUNT"})


def _list_properties(facts: Mapping[str, Any]) -> dict[str, str]:
    names = (*facts, "SUPPORTED_PROPERTIES")
    return {n: "RW" if n in _HEEDED or n in _READ_WRITE else "RO" for n in names}


@cache
def _device_name() -> str:
    """The processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
