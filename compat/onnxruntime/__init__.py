"""`import irc_compiler.compat.onnxruntime as ort`: onnxruntime's Python API on irc.

Inputs are strict in element type, as onnxruntime's are; symbolic sizes keep their names. An option
that asks for something that irc does not do warns once, by name.
"""

from __future__ import annotations

from ...ir.errors import UsageError
from ...ir.ops.random_seed import set_seed
from ..nearest import module_attributes
from ..warn import warn_once
from . import capi
from .binding import IOBinding
from .errors import InvalidArgument, join_error
from .session import InferenceSession
from .settings import (
    CPU,
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
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "capi",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]

# The release of onnxruntime whose API this follows: scripts compare it.
__version__ = "1.20.0"


def get_available_providers() -> list[str]:
    """The CPU."""
    return [CPU]


def get_all_providers() -> list[str]:
    """The CPU."""
    return [CPU]


def get_device() -> str:
    """The CPU."""
    return "CPU"


def get_version_string() -> str:
    """`__version__`."""
    return __version__


def get_build_info() -> str:
    """That this is irc."""
    return f"irc, with the API of onnxruntime {__version__}"


def disable_telemetry_events() -> None:
    """Nothing to do: irc sends nothing."""


def enable_telemetry_events() -> None:
    """Without effect, with a warning: irc sends nothing."""
    warn_once("enable_telemetry_events", "irc sends nothing")


def set_default_logger_severity(severity: int) -> None:
    """Checked, no more: irc writes no log."""
    if severity not in range(5):
        error = UsageError("unknown severity", got=severity, expected="0 (verbose) to 4 (fatal)")
        raise join_error(error, InvalidArgument, RuntimeError)


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing to do: irc writes no log."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Without effect, with a warning."""
    warn_once("set_global_thread_pool_sizes", "set SessionOptions.intra_op_num_threads")


__getattr__ = module_attributes(__name__, globals())
