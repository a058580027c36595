"""`import irc.compat.onnxruntime as ort`: InferenceSession on irc.

Inputs are strict in element type, as onnxruntime's are; symbolic sizes keep their names. Options
that tune onnxruntime are accepted and ignored, except the number of threads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..api import Model, PortInfo, compile_model, read_model
from ..ir.errors import InputError

_TYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float",
    "f64": "double",
    "boolean": "bool",
    "string": "string",
    **{f"{s}{n}": f"{'u' * (s == 'u')}int{n}" for s in "iu" for n in (4, 8, 16, 32, 64)},
}


class GraphOptimizationLevel(IntEnum):
    """Accepted and ignored."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted and ignored."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """`intra_op_num_threads` (0: all CPUs that may be used) is what irc heeds; anything else may
    be set."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.log_severity_level = 2
        self._entries: dict[str, str] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Kept, and ignored."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """What was added."""
        return self._entries[key]


class RunOptions:
    """Accepted and ignored."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output: `type` as "tensor(float)"; `shape` with ints, names of symbols, and None
    for a size without a name."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What is known of the model."""

    graph_name: str
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A model ready to run: of a path (.onnx; also .xml and .irc), or the bytes of an ONNX model.

    `net` is the irc.CompiledModel behind it.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **ignored: Any,
    ) -> None:
        threads = sess_options.intra_op_num_threads if sess_options is not None else 0
        source: Any = path_or_bytes
        compiled = isinstance(source, str | os.PathLike) and str(source).endswith(".irc")
        model: Model | None = None if compiled else read_model(source)
        self.net = compile_model(source if model is None else model, num_threads=threads or None)
        self._options = sess_options or SessionOptions()
        self._inputs = [_describe(p) for p in self.net.inputs]
        self._outputs = [_describe(p) for p in self.net.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs with these names (None or none: all), in that order."""
        made = self.net(dict(input_feed))
        return [made[n] for n in output_names] if output_names else list(made)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: initializers are constants."""
        return []

    def get_providers(self) -> list[str]:
        """The CPU."""
        return get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The CPU has none."""
        return {"CPUExecutionProvider": {}}

    def get_session_options(self) -> SessionOptions:
        """As given."""
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        """The graph's name."""
        return ModelMetadata(self.net.plan.name, {})

    def io_binding(self) -> IOBinding:
        """Inputs and outputs bound by name."""
        return IOBinding(self)

    def run_with_iobinding(self, binding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound."""
        binding.results = self.run(binding.names, binding.feed)


class IOBinding:
    """Inputs and outputs on the CPU."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self.feed: dict[str, Any] = {}
        self.names: list[str] = []
        self.results: list[Any] = []

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """The array is read at each run."""
        self.feed[name] = array

    def bind_output(self, name: str, device_type: str = "cpu", *ignored: Any) -> None:
        """Ask for an output."""
        if device_type != "cpu":
            raise InputError("irc runs on CPUs", where=name, got=device_type, expected="cpu")
        self.names.append(name)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run."""
        return self.results


def get_available_providers() -> list[str]:
    """The CPU."""
    return ["CPUExecutionProvider"]


def get_device() -> str:
    """The CPU."""
    return "CPU"


def _describe(port: PortInfo) -> NodeArg:
    if port.dtype in _TYPES:
        kind = f"tensor({_TYPES[port.dtype]})"
    else:
        kind = re.sub(r"\b([a-z]+\d*)\[[^]]*\]", lambda m: f"tensor({_name(m)})", port.dtype)
        kind = re.sub(r"\bmap\(([a-z]+\d*), ", lambda m: f"map({_name(m)},", kind)
    shape = [
        d if isinstance(d, int) or not _is_made_up(port, d) else None for d in port.shape or ()
    ]
    return NodeArg(port.name, kind, shape)


def _name(match: re.Match[str]) -> str:
    return _TYPES.get(match[1], match[1])


def _is_made_up(port: PortInfo, symbol: str) -> bool:
    """Whether irc named the size itself, after the input and the axis."""
    return not symbol.isidentifier() or bool(re.fullmatch(rf"{re.escape(port.name)}_\d+", symbol))
