"""Tensors, infer requests and their queue, as in OpenVINO's Python API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..api import CompiledModel as Net
from ..api import infer_request as irc_request
from ..ir.errors import UsageError, memory_errors
from .nearest import NamesNearest
from .openvino_inputs import check_tensor_type, convert_input
from .openvino_ports import ConstOutput, Shape, Type, find_port


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    """An array of zeros. UsageError for sizes that no array has, MemoryLimitError for too many."""
    with memory_errors():
        try:
            return np.zeros(tuple(shape), dtype)
        except ValueError as error:
            raise UsageError(
                "a tensor of this shape can't be made",
                got=f"{np.dtype(dtype).name}{list(shape)}: {error}",
                expected="sizes from 0 on whose product an array may have",
                fix="set a smaller shape, or pass an array",
            ) from error


class Tensor(NamesNearest):
    """An array; of an array (copied unless `shared_memory`), or of a type and a shape."""

    def __init__(self, first: Any, shape: Any = None, shared_memory: bool = False) -> None:
        if isinstance(first, Type):
            self.data = _zeros(shape, first.to_dtype())
        else:
            self.data = np.asarray(first) if shared_memory else np.array(first)

    @property
    def shape(self) -> Shape:
        """Its shape; setting another one makes another array."""
        return Shape(self.data.shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        if tuple(shape) != self.data.shape:
            self.data = _zeros(shape, self.data.dtype)

    def get_shape(self) -> Shape:
        """Its shape."""
        return self.shape

    @property
    def element_type(self) -> Type:
        """Its element type."""
        return Type(self.data.dtype)

    def get_element_type(self) -> Type:
        """Its element type."""
        return self.element_type

    def get_size(self) -> int:
        """Elements."""
        return self.data.size

    def get_byte_size(self) -> int:
        """Bytes."""
        return self.data.nbytes

    size = property(get_size)
    byte_size = property(get_byte_size)


class OVDict(Mapping[ConstOutput, Any]):
    """Results by output, name or position."""

    def __init__(self, ports: Sequence[ConstOutput], arrays: Sequence[Any]) -> None:
        self._ports, self._arrays = ports, list(arrays)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._arrays[find_port(self._ports, key).index]
        except UsageError as error:
            raise KeyError(key) from error

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def names(self) -> tuple[set[str], ...]:
        """The names of each output."""
        return tuple(p.get_names() for p in self._ports)

    def to_dict(self) -> dict[ConstOutput, Any]:
        """A plain dict."""
        return dict(self.items())

    def to_tuple(self) -> tuple[Any, ...]:
        """The arrays in order."""
        return tuple(self._arrays)


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

    def __init__(self, net: Net, inputs: list[ConstOutput], outputs: list[ConstOutput]) -> None:
        self._request = net.create_infer_request()
        self.model_inputs, self.model_outputs = inputs, outputs
        self._in: list[Tensor | None] = [None] * len(inputs)
        self._out: list[Tensor | None] = [None] * len(outputs)
        self._given = [False] * len(outputs)
        self._callback: tuple[Callable[[Any], Any], Any] | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
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
        made = self._request.infer(values, out=out if any(self._given) else None)
        for n, array in enumerate(made):
            if not self._given[n]:
                self._out[n] = Tensor(array, shared_memory=True)
        return self.results

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
            port = self.model_inputs[at]
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
        tensors: list[Tensor | None], ports: list[ConstOutput], at: int
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
        for ports, put in (
            (self.model_inputs, self.set_input_tensor),
            (self.model_outputs, self.set_output_tensor),
        ):
            if port in ports or any(isinstance(port, str) and p.answers_to(port) for p in ports):
                put(find_port(ports, port).index, tensor)
                return
        known = [p.any_name for p in (*self.model_inputs, *self.model_outputs) if p.names]
        raise UsageError("no such input or output", got=port, expected=", ".join(known))

    def get_tensor(self, port: Any) -> Tensor:
        """An input or output tensor by name or port."""
        if port in self.model_inputs or any(
            isinstance(port, str) and p.answers_to(port) for p in self.model_inputs
        ):
            return self.get_input_tensor(find_port(self.model_inputs, port).index)
        return self.get_output_tensor(find_port(self.model_outputs, port).index)

    def set_input_tensor(self, index: Any, tensor: Tensor | None = None) -> None:
        """`(index, tensor)`, or `(tensor)` for the only input."""
        at, given = (0, index) if tensor is None else (int(index), tensor)
        check_tensor_type(self.model_inputs[at], given)
        self._in[at] = given

    def set_output_tensor(self, index: Any, tensor: Tensor | None = None) -> None:
        """`(index, tensor)`, or `(tensor)` for the only output; runs write into it."""
        at, given = (0, index) if tensor is None else (int(index), tensor)
        self._out[at], self._given[at] = given, True

    def get_input_tensor(self, index: int = 0) -> Tensor:
        """An input's tensor, whose `data` may be written."""
        return self._find_or_create_tensor(self._in, self.model_inputs, index)

    def get_output_tensor(self, index: int = 0) -> Tensor:
        """An output's tensor after a run."""
        return self._find_or_create_tensor(self._out, self.model_outputs, index)

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

    def start_async(self, inputs: Any = None, userdata: Any = None, **options: Any) -> None:
        """Run in another thread; `wait` for it."""
        self.wait()
        self.userdata, self._error = userdata, None
        self._thread = threading.Thread(target=self._run_and_notify, args=(inputs,), daemon=True)
        self._thread.start()

    def _run_and_notify(self, inputs: Any) -> None:
        try:
            self.infer(inputs)
            if self._callback is not None:
                self._callback[0](self._callback[1])
        except BaseException as error:  # raised again by wait()
            self._error = error
        finally:
            if self.release is not None:
                self.release()

    def wait(self) -> None:
        """Wait for the asynchronous run; raises what it raised."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait_for(self, timeout: int) -> bool:
        """Wait for at most that many milliseconds; whether it is done."""
        if self._thread is not None:
            self._thread.join(timeout / 1000)
            if self._thread.is_alive():
                return False
        self.wait()
        return True


class AsyncInferQueue(NamesNearest):
    """Requests that take turns, one thread each; a callback gets `(request, userdata)`."""

    def __init__(self, compiled: Any, jobs: int = 0) -> None:
        self._requests = [compiled.create_infer_request() for _ in range(jobs or 2)]
        self._idle: SimpleQueue[InferRequest] = SimpleQueue()
        for request in self._requests:
            request.release = partial(self._idle.put, request)
            self._idle.put(request)
        self._callback: Callable[[InferRequest, Any], Any] | None = None

    def set_callback(self, callback: Callable[[InferRequest, Any], Any]) -> None:
        """Called after each run, in its thread."""
        self._callback = callback

    def start_async(self, inputs: Any = None, userdata: Any = None, **options: Any) -> None:
        """Run in a free request, waiting for one."""
        request = self._idle.get()
        callback = self._callback
        if callback is not None:
            request.set_callback(partial(callback, request), userdata)
        request.start_async(inputs, userdata)

    def wait_all(self) -> None:
        """Wait for all; raises what a run or a callback raised."""
        for request in self._requests:
            request.wait()

    def is_ready(self) -> bool:
        """Whether a request is free."""
        return not self._idle.empty()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, index: int) -> InferRequest:
        return self._requests[index]
