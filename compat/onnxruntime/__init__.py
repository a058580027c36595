"""`import irc_compiler.compat.onnxruntime as ort`: onnxruntime's Python API on irc.

Inputs are strict in element type, as onnxruntime's are; symbolic sizes keep their names. An option
that requests something that irc does not do warns once, by name.
"""

from __future__ import annotations

from ...ir.random_seed import set_seed
from ..nearest import module_attributes
from . import capi
from .binding import IOBinding
from .devices import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfo,
    OrtMemType,
    SparseTensor,
)
from .module_functions import (
    VERSION,
    copy_tensors,
    create_and_register_allocator,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
)
from .session import InferenceSession
from .settings import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from .types import ModelMetadata, NodeArg
from .values import OrtDevice, OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "version",
]

__version__ = version = VERSION
package_name = "onnxruntime"
SessionIOBinding = IOBinding

__getattr__ = module_attributes(__name__, globals())
