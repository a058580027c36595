"""Functions of the module onnxruntime: versions, providers, devices, logging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.errors import UsageError
from ..warn import warn_once
from .errors import InvalidArgument, join_error
from .settings import CPU
from .values import OrtValue

# The release of onnxruntime whose API this follows: scripts compare it.
VERSION = "1.20.0"


def get_available_providers() -> list[str]:
    """The CPU."""
    return [CPU]


def get_all_providers() -> list[str]:
    """The CPU."""
    return [CPU]


def get_ep_devices() -> list[Any]:
    """None: there are no devices to choose among."""
    return []


def get_device() -> str:
    """The CPU."""
    return "CPU"


def get_version_string() -> str:
    """`VERSION`."""
    return VERSION


def get_build_info() -> str:
    """That this is irc."""
    return f"irc, with the API of onnxruntime {VERSION}"


def has_collective_ops() -> bool:
    """Never: a session runs in one process."""
    return False


def print_debug_info() -> None:
    """Print the version and the device."""
    print(f"{get_build_info()}; device: {get_device()}")


def preload_dlls(*given: Any, **named: Any) -> None:
    """Nothing to load: there are no CUDA libraries."""


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


def set_default_logger_callback(callback: Callable[..., Any] | None) -> None:
    """Nothing to do: irc writes no log, so nothing is called."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Without effect, with a warning."""
    warn_once("set_global_thread_pool_sizes", "set SessionOptions.intra_op_num_threads")


def create_and_register_allocator(*given: Any, **named: Any) -> None:
    """Without effect, with a warning."""
    warn_once("create_and_register_allocator", "irc plans one arena per call")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy tensors into others of the same types and sizes."""
    if len(src) != len(dst):
        error = UsageError("copy_tensors needs as many targets", got=len(dst), expected=len(src))
        raise join_error(error, InvalidArgument, RuntimeError)
    for one, other in zip(src, dst, strict=True):
        other.update_inplace(one)


FUNCTIONS: tuple[Callable[..., Any], ...] = (
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
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
)
