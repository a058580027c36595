"""ONNX's Backend interface over a function that compiles a model. Loaded on demand only.

Source: onnx/backend/base.py, which documents the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from onnx import IR_VERSION, ModelProto, NodeProto, TypeProto, defs, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ....ir.errors import Error, UsageError

Compile = Callable[..., Any]


class IrcBackendRep(BackendRep):
    """A compiled model; `net` is the irc.CompiledModel."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as a tuple with names. `inputs`: one array, a list in order, or a mapping.

        InputError for a missing, unknown or unfitting input, ExecutionError where a step fails.
        """
        listed = isinstance(inputs, Mapping | list | tuple)
        found = self.net(inputs if listed else [inputs])
        names = [port.name for port in self.net.outputs]
        return namedtupledict("Outputs", names)(*found)


class IrcBackendBase(Backend):
    """The interface; `compile_model` is irc's."""

    compile_model: ClassVar[Compile]

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether irc can compile the model for the device."""
        try:
            cls.prepare(model, device, **kwargs)
        except Error:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> IrcBackendRep:
        """Compile a model. Keywords are those of irc.compile_model; errors are irc's."""
        if not cls.supports_device(device):
            raise UsageError("irc runs on CPUs only", got=device, expected="CPU")
        return IrcBackendRep(cls.compile_model(model, **kwargs))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile and run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays. `opset_version`: of its operator set, by default the newest.

        Inputs are taken in order by the node's non-empty names; a sequence is a list of arrays.
        """
        version = kwargs.pop("opset_version", None) or _newest_version(node.domain)
        names = list(dict.fromkeys(name for name in node.input if name))
        values = _in_order(names, inputs)
        if len(values) != len(names):
            raise UsageError("another number of inputs", got=len(values), expected=len(names))
        graph = helper.make_graph(
            [node],
            node.op_type or "node",
            [helper.make_value_info(n, _type_of(v, n)) for n, v in zip(names, values, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        model.ir_version = min(model.ir_version, IR_VERSION)
        return cls.run_model(model, values, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU, with or without a number."""
        return device.partition(":")[0].upper() == "CPU"


def make_backend(compile_model: Compile) -> type[IrcBackendBase]:
    """The interface over `compile_model`."""
    return type("IrcBackend", (IrcBackendBase,), {"compile_model": staticmethod(compile_model)})


def _newest_version(domain: str) -> int:
    """The newest version of an operator set that the onnx package knows, or 1."""
    known = [s.since_version for s in defs.get_all_schemas() if s.domain == domain]
    return defs.onnx_opset_version() if domain in ("", "ai.onnx") else max(known, default=1)


def _in_order(names: Sequence[str], inputs: Any) -> list[Any]:
    if isinstance(inputs, Mapping):
        named = cast("Mapping[str, Any]", inputs)
        return [named[name] for name in names]
    return list(cast("Sequence[Any]", inputs)) if isinstance(inputs, list | tuple) else [inputs]


def _type_of(value: Any, name: str) -> TypeProto:
    if isinstance(value, list | tuple):
        if not value:
            raise UsageError("an empty sequence does not define its element type", where=name)
        return helper.make_sequence_type_proto(_type_of(cast("Sequence[Any]", value)[0], name))
    array = np.asarray(value)
    kind = np.dtype(object) if array.dtype.kind in "UST" else array.dtype
    rank: list[str | int | None] = [None] * array.ndim
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(kind), rank)
