"""Infer requests of OpenVINO's Python API: synchronous and asynchronous runs, and their times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from enum import Enum
from typing import Any

from ...api import CompiledModel as Net
from ...api import infer_request as irc_request
from ...ir.errors import UsageError
from ..nearest import NamesNearest
from .input_values import check_tensor_type, convert_input
from .ports import ConstOutput, find_port, name_of_port
from .tensors import OVDict, Tensor, as_tensor


class ProfilingInfo(NamesNearest):
    """The time of one step of a run."""

    class Status(Enum):
        """Whether a step ran."""

        NOT_RUN = 0
        OPTIMIZED_OUT = 1
        EXECUTED = 2

    def __init__(self, name: str, kind: str, seconds: float, native: bool) -> None:
        self.node_name, self.node_type = name, kind
        self.exec_type = "native" if native else "numpy"
        self.real_time = self.cpu_time = timedelta(seconds=seconds)
        self.status = self.Status.EXECUTED


class VariableState(NamesNearest):
    """One variable of a request."""

    def __init__(self, variable: irc_request.VariableState) -> None:
        self._variable = variable

    @property
    def name(self) -> str:
        """Its `variable_id`."""
        return self._variable.name

    @property
    def state(self) -> Tensor:
        """A copy of its value; setting it copies, too."""
        return Tensor(self._variable.state, shared_memory=True)

    @state.setter
    def state(self, value: Tensor) -> None:
        self._variable.state = value.data

    def reset(self) -> None:
        """It takes its initial value in the next run."""
        self._variable.reset()


class InferRequest(NamesNearest):
    """One inference at a time, with tensors of its own."""

    def __init__(
        self,
        net: Net,
        inputs: Sequence[ConstOutput],
        outputs: Sequence[ConstOutput],
        compiled: Any = None,
    ) -> None:
        self._net, self._compiled = net, compiled
        self._request = net.create_infer_request()
        self.model_inputs, self.model_outputs = inputs, outputs
        self._in: list[Tensor | None] = [None] * len(inputs)
        self._out: list[Tensor | None] = [None] * len(outputs)
        self._given = [False] * len(outputs)
        self._callback: tuple[Callable[[Any], Any], Any] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0
        self._running: Future[None] | None = None
        self._milliseconds = 0.0
        self.userdata: Any = None
        self.release: Callable[[], None] | None = None  # a queue's, after each asynchronous run

    def infer(self, inputs: Any = None, share_inputs: bool = False, **options: Any) -> OVDict:
        """Run on these inputs (an array, a list, or a mapping by name, position or port), or on
        those set before."""
        for at, value in self._order_inputs(inputs):
            self._in[at] = Tensor(value, shared_memory=share_inputs)
        out = [t.data if t and g else None for t, g in zip(self._out, self._given, strict=True)]
        values = [
            self._find_or_create_tensor(self._in, self.model_inputs, n).data
            for n in range(len(self._in))
        ]
        start = time.perf_counter()
        made = self._request.infer(values, out=out if any(self._given) else None)
        self._milliseconds = (time.perf_counter() - start) * 1000
        for n, array in enumerate(made):
            if not self._given[n]:
                self._out[n] = Tensor(array, shared_memory=True)
        return self.results

    __call__ = infer

    def query_state(self) -> list[VariableState]:
        """The model's variables, as this request holds them."""
        return [VariableState(v) for v in self._request.query_state()]

    def reset_state(self) -> None:
        """All variables take their initial values in the next run."""
        self._request.reset_state()

    def _order_inputs(self, inputs: Any) -> Iterator[tuple[int, Any]]:
        if inputs is None:
            return
        if isinstance(inputs, Mapping):
            items = [(find_port(self.model_inputs, k).index, v) for k, v in inputs.items()]
        else:
            listed = isinstance(inputs, list | tuple) and not self._is_one_array(inputs)
            items = list(enumerate(inputs if listed else [inputs]))
        if len(items) > len(self._in):
            raise UsageError("too many inputs", got=len(items), expected=len(self._in))
        for at, value in items:
            port, value = self.model_inputs[at], as_tensor(value)
            if isinstance(value, Tensor):
                check_tensor_type(port, value)
                yield at, value.data
            else:
                yield at, convert_input(port, value)

    def _is_one_array(self, inputs: Sequence[Any]) -> bool:
        """Whether numbers are listed, which are the only input's elements, not one input each."""
        numbers = all(isinstance(v, bool | int | float) for v in inputs)
        return len(self._in) == 1 and len(self.model_inputs[0].partial_shape) > 0 and numbers

    @staticmethod
    def _find_or_create_tensor(
        tensors: list[Tensor | None], ports: Sequence[ConstOutput], at: int
    ) -> Tensor:
        found = tensors[at]
        if found is None:
            shape = [0 if d.is_dynamic else d.get_length() for d in ports[at].partial_shape]
            found = tensors[at] = Tensor(ports[at].element_type, shape)
        return found

    @property
    def results(self) -> OVDict:
        """The outputs of the last run."""
        arrays = [t.data for t in self.output_tensors]
        return OVDict(self.model_outputs, arrays)

    def set_tensor(self, port: Any, tensor: Tensor) -> None:
        """Set an input or output by name or port."""
        port = self._own_port(port)
        for ports, put in (
            (self.model_inputs, self.set_input_tensor),
            (self.model_outputs, self.set_output_tensor),
        ):
            if port in ports or any(isinstance(port, str) and p.has_name(port) for p in ports):
                put(find_port(ports, port).index, tensor)
                return
        known = [p.any_name for p in (*self.model_inputs, *self.model_outputs) if p.names]
        raise UsageError("no such input or output", got=port, expected=", ".join(known))

    def _own_port(self, port: Any) -> Any:
        """The name of another model's port, as of the Model that was compiled; others as given."""
        known = (*self.model_inputs, *self.model_outputs)
        return name_of_port(port) if port not in known else port

    def get_tensor(self, port: Any) -> Tensor:
        """An input or output tensor by name or port."""
        port = self._own_port(port)
        if port in self.model_inputs or any(
            isinstance(port, str) and p.has_name(port) for p in self.model_inputs
        ):
            return self.get_input_tensor(find_port(self.model_inputs, port).index)
        return self.get_output_tensor(find_port(self.model_outputs, port).index)

    def set_input_tensor(self, index: Any, tensor: Tensor | None = None) -> None:
        """`(index, tensor)`, or `(tensor)` for the only input."""
        at, given = (0, index) if tensor is None else (int(index), tensor)
        given = as_tensor(given)
        check_tensor_type(self.model_inputs[at], given)
        self._in[at] = given

    def set_output_tensor(self, index: Any, tensor: Tensor | None = None) -> None:
        """`(index, tensor)`, or `(tensor)` for the only output; runs write into it."""
        at, given = (0, index) if tensor is None else (int(index), tensor)
        self._out[at], self._given[at] = as_tensor(given), True

    def get_input_tensor(self, index: int = 0) -> Tensor:
        """An input's tensor, whose `data` may be written."""
        return self._find_or_create_tensor(self._in, self.model_inputs, index)

    def get_output_tensor(self, index: int = 0) -> Tensor:
        """An output's tensor after a run."""
        return self._find_or_create_tensor(self._out, self.model_outputs, index)

    def set_input_tensors(self, tensors: Mapping[Any, Tensor] | Sequence[Tensor]) -> None:
        """Set several inputs."""
        self.set_tensors(tensors if isinstance(tensors, Mapping) else dict(enumerate(tensors)))

    def set_output_tensors(self, tensors: Mapping[Any, Tensor]) -> None:
        """Set several outputs, by position, name or port."""
        for key, tensor in tensors.items():
            self.set_output_tensor(find_port(self.model_outputs, key).index, tensor)

    def set_tensors(self, tensors: Mapping[Any, Tensor]) -> None:
        """Set several inputs or outputs, by name or port; by position, inputs."""
        for key, tensor in tensors.items():
            if isinstance(key, int):
                self.set_input_tensor(key, tensor)
            else:
                self.set_tensor(key, tensor)

    @property
    def input_tensors(self) -> list[Tensor]:
        """All input tensors."""
        return [self.get_input_tensor(n) for n in range(len(self._in))]

    @property
    def output_tensors(self) -> list[Tensor]:
        """All output tensors."""
        return [self.get_output_tensor(n) for n in range(len(self._out))]

    inputs, outputs = input_tensors, output_tensors

    def set_callback(self, callback: Callable[[Any], Any], userdata: Any = None) -> None:
        """Call `callback(userdata)` after each asynchronous run."""
        self._callback = (callback, userdata)

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Run in the request's own thread; `wait` for it."""
        self.wait()
        self.userdata = userdata
        values = list(self._order_inputs(inputs))
        for at, value in values:
            self._in[at] = Tensor(value, shared_memory=share_inputs)
        # The thread of a pool does not exist in a forked child.
        if self._pool is None or self._pool_process != os.getpid():
            self._pool, self._pool_process = ThreadPoolExecutor(1, "irc-infer-request"), os.getpid()
        self._running = self._pool.submit(self._run_and_notify)

    def _run_and_notify(self) -> None:
        try:
            self.infer()
            if self._callback is not None:
                self._callback[0](self._callback[1])
        finally:
            if self.release is not None:
                self.release()

    def wait(self) -> None:
        """Wait for the asynchronous run; raises what it raised."""
        running, self._running = self._running, None
        if running is not None and not running.cancelled():
            running.result()

    def wait_for(self, timeout: int) -> bool:
        """Wait for at most that many milliseconds; whether it is done."""
        if self._running is not None and wait([self._running], timeout / 1000).not_done:
            return False
        self.wait()
        return True

    def cancel(self) -> None:
        """Do not begin an asynchronous run that has not begun; one that has begun ends as usual."""
        if self._running is not None and self._running.cancel() and self.release is not None:
            self.release()

    @property
    def latency(self) -> float:
        """Milliseconds of the last run."""
        return self._milliseconds

    def get_profiling_info(self) -> list[ProfilingInfo]:
        """The steps and their times, of one more run on the same inputs from the initial state."""
        if not self._milliseconds:
            raise UsageError("the request has not run", fix="call infer first")
        times = self._net.profile([t.data for t in self.input_tensors])
        return [ProfilingInfo(t.name, t.kind, t.seconds, t.native) for t in times]

    profiling_info = property(get_profiling_info)

    def get_compiled_model(self) -> Any:
        """The compiled model that made the request."""
        return self._compiled
