"""SessionOptions and RunOptions: every attribute of onnxruntime's, and what irc does with it.

irc heeds `intra_op_num_threads`, free dimension overrides by name, and `terminate` before and
after a run. Log settings are kept; irc prints nothing. An attribute set to anything else that irc
does not do warns once, by name, when a session is made (docs of each in the tables below).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from ...ir.errors import UnsupportedOperationError, UsageError
from ..nearest import NamesNearest, raise_no_attribute
from ..warn import warn_once
from .errors import InvalidArgument, NotImplemented, join_error


class GraphOptimizationLevel(IntEnum):
    """irc's passes always run."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """irc computes one operation after the other, each with all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """irc chooses the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Settings(NamesNearest):
    """Attributes of a table, each with a type; unknown names and wrong types are errors."""

    _defaults: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.__dict__.update(self._defaults)
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if name not in self._defaults:
            raise_no_attribute(type(self).__name__, name, self._defaults)
        self.__dict__[name] = self._convert_value(name, value)

    def _convert_value(self, name: str, value: Any) -> Any:
        kind = type(self._defaults[name])
        if kind is bool and value in (0, 1):
            return bool(value)
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
        if issubclass(kind, IntEnum):
            if isinstance(value, kind):
                return value
            if is_integer and int(value) in [int(member) for member in kind]:
                return kind(int(value))
        elif kind is int and is_integer:
            return int(value)
        elif kind is str and isinstance(value, str | os.PathLike):
            return os.fspath(value)
        error = UsageError(
            f"{type(self).__name__}.{name} has the wrong type",
            got=f"{value!r:.80} ({type(value).__name__})",
            expected=kind.__name__,
        )
        raise join_error(error, InvalidArgument, TypeError)

    def _get_entry(self, key: str) -> str:
        if key not in self._entries:
            what = f"{type(self).__name__} does not have configuration with key: {key}"
            known = ", ".join(self._entries) or "a key that was added"
            raise join_error(UsageError(what, expected=known), InvalidArgument, RuntimeError)
        return self._entries[key]

    @property
    def entries(self) -> Mapping[str, str]:
        """The config entries that were added."""
        return self._entries

    def changed_settings(self) -> dict[str, Any]:
        """The attributes that have another value than by default."""
        return {n: v for n, d in self._defaults.items() if (v := getattr(self, n)) != d}

    def _warn(self, reasons: Mapping[str, str]) -> None:
        """Warn of attributes that have another value than by default."""
        for name, reason in reasons.items():
            if name in self.changed_settings():
                warn_once(f"{type(self).__name__}.{name}", reason)


# Attributes that irc does not follow, and why.
_SESSION_REASONS = {
    "enable_cpu_mem_arena": "irc always plans one arena for a call's tensors",
    "enable_mem_pattern": "irc always plans memory",
    "enable_mem_reuse": "irc always reuses memory",
    "enable_profiling": "measure with `irc profile`, or session.net.profile(inputs)",
    "execution_mode": "operations run one after the other, each with all threads",
    "execution_order": "irc chooses the order of operations",
    "graph_optimization_level": "irc's passes always run",
    "optimized_model_filepath": "write session.net.export('model.irc')",
    "use_per_session_threads": "sessions share one pool of threads",
}


# The config entry that says whether denormals are flushed to zero, and the option it means.
_DENORMAL_ENTRY = "session.set_denormal_as_zero"
_DENORMALS = {"1": "flush", "0": "keep"}
# Config entries whose value is what irc does anyway, and reasons for other values.
_FOLLOWED_ENTRIES = {
    "session.intra_op.allow_spinning": "1",
    "session.inter_op.allow_spinning": "0",
    "session.force_spinning_stop": "1",
    "session.disable_prepacking": "0",
    "session.disable_cpu_ep_fallback": "0",
    "session.use_env_allocators": "0",
}
_ENTRY_REASONS = {
    "session.intra_op.allow_spinning": "a thread spins for 80 microseconds before it sleeps",
    "session.intra_op_thread_affinities": "threads follow the CPUs that the process may use",
}


class SessionOptions(_Settings):
    """Options of a session (the module's docstring says what irc does with them)."""

    _defaults = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,  # onnxruntime uses them in ORT_PARALLEL only, which warns
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,  # irc always is: docs/numerics.md
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        self._overrides: dict[str, int] = {}

    @property
    def overrides(self) -> Mapping[str, int]:
        """Sizes by name, of `add_free_dimension_override_by_name`."""
        return self._overrides

    @property
    def denormals(self) -> str | None:
        """compile_model's option of this name, where a config entry sets it."""
        return _DENORMALS.get(self._entries.get(_DENORMAL_ENTRY, ""))

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Kept; a value that requests what irc does not do warns once by its key."""
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """What was added."""
        return self._get_entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix a symbolic size of the model's inputs."""
        if not hasattr(size, "__index__") or int(size) < 0:
            error = UsageError("a size is wrong", where=name, got=size, expected="0 or more")
            raise join_error(error, InvalidArgument, TypeError)
        self._overrides[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Without effect, with a warning."""
        warn_once(
            "SessionOptions.add_free_dimension_override_by_denotation",
            "denotations are not read; use add_free_dimension_override_by_name",
        )

    def register_custom_ops_library(self, path: Any) -> None:
        """Without effect, with a warning: a model that needs the library's operations is refused
        with a list of them."""
        warn_once(
            "SessionOptions.register_custom_ops_library",
            f"irc loads no operations from libraries ({path})",
        )

    def has_providers(self) -> bool:
        """Never."""
        return False

    def add_provider(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """The CPU is there already; another provider warns."""
        check_providers([(name, dict(options or {}))])

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            return _refuse_call(f"SessionOptions.{name}", _REFUSED[name])
        return super().__getattr__(name)

    def warn_of_unheeded(self) -> None:
        """Warn of what the options request and a session does not do."""
        self._warn(_SESSION_REASONS)
        for key, value in self._entries.items():
            followed = value in _DENORMALS if key == _DENORMAL_ENTRY else False
            if not followed and _FOLLOWED_ENTRIES.get(key) != value:
                reason = _ENTRY_REASONS.get(key, "irc has no such entry")
                warn_once(f"the session config entry {key!r}", reason)


# Calls without which a model would compute something else: errors, not warnings.
_REFUSED = {
    "add_initializer": "store the value in the model",
    "add_external_initializers": "load the model by its path, with its data next to it",
    "add_external_initializers_from_files_in_memory": "load the model by its path",
    "add_provider_for_devices": "leave it out: irc runs on the CPU",
    "set_provider_selection_policy": "leave it out: irc runs on the CPU",
    "set_provider_selection_policy_delegate": "leave it out: irc runs on the CPU",
    "set_load_cancellation_flag": "leave it out",
    "set_ep_context_data_read_func": "leave it out: irc has no execution provider contexts",
    "clear_ep_context_data_read_func": "leave it out: irc has no execution provider contexts",
    "add_active_adapter": "merge the adapter's weights into the model",
}


def _refuse_call(name: str, fix: str) -> Callable[..., Any]:
    def refuse(*given: Any, **named: Any) -> Any:
        error = UnsupportedOperationError(f"irc does not have {name}", fix=fix)
        raise join_error(error, NotImplemented)

    return refuse


class RunOptions(_Settings):
    """Options of a run."""

    _defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Kept; no entry has an effect, and each key warns once."""
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        """What was added."""
        return self._get_entry(key)

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            return _refuse_call(f"RunOptions.{name}", _REFUSED[name])
        return super().__getattr__(name)

    def warn_of_unheeded(self) -> None:
        """Warn of what the options request and a run does not do."""
        self._warn({"only_execute_path_to_fetches": "a run computes all outputs"})
        for key in self._entries:
            warn_once(f"the run config entry {key!r}", "irc has no config entries")


CPU = "CPUExecutionProvider"


def check_providers(providers: Any, options: Any = None) -> None:
    """Warn of providers other than the CPU and of provider options. InvalidArgument (a ValueError)
    for what is not a list of names, or of names with options."""
    if providers is None:
        return
    listed = None if isinstance(providers, str) or not _is_list(providers) else list(providers)
    if listed is not None and options is not None:
        same = _is_list(options) and len(options) == len(listed)
        listed = list(zip(listed, options, strict=True)) if same else None
    pairs = None if listed is None else [_provider(p) for p in listed]
    if pairs is None or None in pairs:
        error = UsageError(
            "providers must be a list",
            got=f"{providers!r:.80}",
            expected="names, or (name, options) pairs; provider_options as long as providers",
            fix=f"providers=[{CPU!r}]",
        )
        raise join_error(error, InvalidArgument, ValueError)
    for name, given in [p for p in pairs if p is not None]:
        if name != CPU:
            warn_once(f"the provider {name!r}", f"irc runs on the CPU ({CPU})")
            continue
        for key in given:
            warn_once(f"the option {key!r} of {CPU}", "irc's CPU has no options")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _provider(given: Any) -> tuple[str, Mapping[str, Any]] | None:
    if isinstance(given, str):
        return given, {}
    if _is_list(given) and len(given) == 2:
        name, options = given
        if isinstance(name, str) and isinstance(options, Mapping):
            return name, options
    return None
