"""openvino.properties.hint: what a program prefers."""

from __future__ import annotations

from enum import Enum

from .property_names import Property


class ExecutionMode(Enum):
    """Speed or precision."""

    PERFORMANCE = 1
    ACCURACY = 2


class ModelDistributionPolicy(Enum):
    """How a model is shared among devices."""

    TENSOR_PARALLEL = 0
    PIPELINE_PARALLEL = 1


class PerformanceMode(Enum):
    """Few or many requests at a time."""

    LATENCY = 1
    THROUGHPUT = 2
    CUMULATIVE_THROUGHPUT = 3


class Priority(Enum):
    """Which model runs first."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    DEFAULT = 1


class SchedulingCoreType(Enum):
    """On which cores a model runs."""

    ANY_CORE = 0
    PCORE_ONLY = 1
    ECORE_ONLY = 2


activations_scale_factor = Property("ACTIVATIONS_SCALE_FACTOR")
allow_auto_batching = Property("ALLOW_AUTO_BATCHING")
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE")
enable_cpu_pinning = Property("ENABLE_CPU_PINNING")
enable_cpu_reservation = Property("ENABLE_CPU_RESERVATION")
enable_hyper_threading = Property("ENABLE_HYPER_THREADING")
execution_mode = Property("EXECUTION_MODE_HINT")
inference_precision = Property("INFERENCE_PRECISION_HINT")
kv_cache_precision = Property("KV_CACHE_PRECISION")
model = Property("MODEL_PTR")
model_distribution_policy = Property("MODEL_DISTRIBUTION_POLICY")
model_priority = Property("MODEL_PRIORITY")
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS")
performance_mode = Property("PERFORMANCE_HINT")
scheduling_core_type = Property("SCHEDULING_CORE_TYPE")
