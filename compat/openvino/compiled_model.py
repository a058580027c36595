"""OpenVINO's CompiledModel on irc's."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ... import api
from ...api import CompiledModel as Net
from ...api.model_source import Performance
from ...ir.errors import UsageError
from .model import Model
from .ports import ConstOutput, HasPorts
from .properties_of import describe_model
from .requests import InferRequest, VariableState
from .tensors import OVDict


class CompiledModel(HasPorts):
    """A model ready to run; `net` is the irc.CompiledModel behind it."""

    def __init__(self, net: Net, properties: Mapping[str, Any] | None = None) -> None:
        self.net, self._properties = net, dict(properties or {})
        self._own: InferRequest | None = None
        inputs, outputs = net.plan.inputs, net.plan.outputs
        self.inputs = [ConstOutput(p.name, p.names, p.type, n) for n, p in enumerate(inputs)]
        self.outputs = [ConstOutput(p.name, p.names, p.type, n) for n, p in enumerate(outputs)]

    def create_infer_request(self) -> InferRequest:
        """A request with tensors of its own."""
        return InferRequest(self.net, self.inputs, self.outputs, self)

    def infer_new_request(self, inputs: Any = None) -> OVDict:
        """Run once in a new request."""
        return self.create_infer_request().infer(inputs, share_inputs=True)

    def __call__(self, inputs: Any = None, **options: Any) -> OVDict:
        """Run; results by output, name or position. As in OpenVINO, the calls of a model with
        variables are runs of one request."""
        if not self.net.plan.variables:
            return self.infer_new_request(inputs)
        return self._own_request().infer(inputs, share_inputs=True)

    def _own_request(self) -> InferRequest:
        if self._own is None:
            self._own = self.create_infer_request()
        return self._own

    def query_state(self) -> list[VariableState]:
        """The variables of the request that calls of the model run in."""
        return self._own_request().query_state()

    def reset_state(self) -> None:
        """The variables of that request take their initial values in the next run."""
        self._own_request().reset_state()

    def export_model(self, model_stream: io.BytesIO | None = None) -> bytes | None:
        """The model as one .irc: bytes, or written to a stream, for `Core.import_model`."""
        stream = io.BytesIO() if model_stream is None else model_stream
        self.net._write(stream)
        if model_stream is None:
            return stream.getvalue()
        stream.seek(0)
        return None

    def get_runtime_model(self) -> Model:
        """The optimised graph."""
        return Model(api.Model(self.net.graph))

    def get_property(self, property: str) -> Any:
        """What it was compiled with, and facts about it. UsageError for an unknown one."""
        known = describe_model(self.net, self._properties)
        if str(property) not in known:
            raise UsageError("no such property", got=property, expected=", ".join(known))
        return known[str(property)]

    def set_property(self, *properties: Any) -> None:
        """Refused: a compiled model keeps its properties."""
        raise UsageError(
            "a compiled model's properties cannot be changed",
            got=properties,
            fix="pass them to compile_model",
        )

    def release_memory(self) -> None:
        """Nothing: irc frees a model's buffers with the model (`net.close()`)."""

    def __repr__(self) -> str:
        ports = [*map(repr, self.inputs), "]", "outputs[", *map(repr, self.outputs)]
        return "\n".join(["<CompiledModel:", "inputs[", *ports, "]>"])


def import_model(
    content: Any, properties: Mapping[str, Any], threads: int | None, performance: Performance
) -> CompiledModel:
    """What `export_model` wrote: bytes, a stream or a Tensor."""
    if hasattr(content, "read"):
        content = content.read()
    elif hasattr(content, "data") and not isinstance(content, memoryview):
        content = content.data.tobytes()
    net = Net.load(bytes(content), num_threads=threads, performance=performance)
    return CompiledModel(net, properties)
