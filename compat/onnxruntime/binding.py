"""IOBinding: inputs and outputs of a session bound by name, outputs also to a buffer's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ir.errors import InputError
from ..nearest import NamesNearest
from .errors import RUNNING, InvalidArgument, join_error, raise_as, wrong_argument
from .values import OrtValue, array_at, require_cpu

if TYPE_CHECKING:
    from .settings import RunOptions
    from .types import NodeArg


class BindableSession(Protocol):
    """A session, as far as a binding uses it."""

    def get_inputs(self) -> list[NodeArg]: ...
    def get_outputs(self) -> list[NodeArg]: ...
    def has_unknown_rank(self, output: str) -> bool: ...
    def call(
        self, feed: Mapping[str, Any], run_options: RunOptions | None = None, out: Any = None
    ) -> Any: ...


class IOBinding(NamesNearest):
    """Inputs and outputs on the CPU. A run reads bound arrays as they are then, and writes the
    results into the buffers that outputs are bound to."""

    def __init__(self, session: BindableSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        # Outputs in the order of binding; None where irc allocates the array.
        self._outputs: dict[str, np.ndarray[Any, Any] | None] = {}
        self._results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array, which each run reads."""
        _port(name, self._session.get_inputs(), "input")
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Any,
        buffer_ptr: int,
    ) -> None:
        """Bind an input to a buffer, which the caller keeps."""
        require_cpu(device_type, name)
        _port(name, self._session.get_inputs(), "input")
        self._inputs[name] = array_at(buffer_ptr, element_type, shape, f"input {name!r}")

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to an OrtValue."""
        _port(name, self._session.get_inputs(), "input")
        self._inputs[name] = ortvalue.get_value()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output. With `buffer_ptr`, runs write the result there; the caller keeps the
        buffer, whose type and shape must be the result's."""
        require_cpu(device_type, name)
        port = _port(name, self._session.get_outputs(), "output")
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            error = InputError(
                "a buffer needs element_type and shape",
                where=f"output {name!r}",
                expected="both, of the result",
            )
            raise join_error(error, InvalidArgument, ValueError)
        array = array_at(buffer_ptr, element_type, shape, f"output {name!r}")
        self._bind_array(port, OrtValue(array))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to an OrtValue's memory."""
        self._bind_array(_port(name, self._session.get_outputs(), "output"), ortvalue)

    def _bind_array(self, port: NodeArg, value: OrtValue) -> None:
        fits = value.data_type() == port.type and len(value.shape()) == len(port.shape)
        for size, declared in zip(value.shape(), port.shape, strict=False):
            fits = fits and (not isinstance(declared, int) or declared == size)
        if not fits and not self._session.has_unknown_rank(port.name):
            raise wrong_argument(
                f"the buffer for output {port.name!r} does not fit",
                got=f"{value.data_type()} {value.shape()}",
                expected=f"{port.type} {port.shape}",
            )
        self._outputs[port.name] = value.numpy()

    def run(self, run_options: RunOptions | None = None) -> None:
        """Run on what is bound (`InferenceSession.run_with_iobinding`)."""
        if not self._outputs:
            raise wrong_argument("no output is bound", expected="binding.bind_output(name)")
        with raise_as(RUNNING, RuntimeError):
            made = self._session.call(self._inputs, run_options, dict(self._outputs))
            self._results = [made[name] for name in self._outputs]

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order of binding."""
        return [OrtValue(v if isinstance(v, list | dict) else np.asarray(v)) for v in self._results]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """The same as `get_outputs`: a vector is a list."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays of their own."""
        return [v.copy() if isinstance(v, np.ndarray) else v for v in self._results]

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on a CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for on a CPU."""

    def clear_binding_inputs(self) -> None:
        """Unbind all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbind all outputs."""
        self._outputs.clear()
        self._results = []


def _port(name: str, ports: list[NodeArg], kind: str) -> NodeArg:
    for port in ports:
        if port.name == name:
            return port
    known = ", ".join(p.name for p in ports)
    raise wrong_argument(f"unknown {kind}", got=repr(name), expected=known)
