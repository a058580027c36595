"""`import irc_compiler.compat.openvino as ov`: Core, models and requests on irc.

Arrays of another element type are cast, Tensors are not, as in OpenVINO (openvino_inputs.py). irc
follows INFERENCE_NUM_THREADS and INFERENCE_PRECISION_HINT ("f32" or "bf16"); a property that
requests something else warns once. Without the hint a float32 model computes in float32, where
OpenVINO may choose bf16.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .. import api
from ..api import CompiledModel as Net
from ..compiler.shape_analysis.override_inputs import fix_shapes
from ..ir.errors import UsageError
from .nearest import NamesNearest, module_attributes
from .openvino_info import OVAny, get_info, has_info, with_info
from .openvino_ports import (
    ConstOutput,
    Dimension,
    PartialShape,
    Shape,
    Type,
    find_port,
)
from .openvino_requests import AsyncInferQueue, InferRequest, OVDict, Tensor
from .warn import warn_once

__all__ = [
    "AsyncInferQueue",
    "CompiledModel",
    "ConstOutput",
    "Core",
    "Dimension",
    "InferRequest",
    "Model",
    "OVAny",
    "OVDict",
    "PartialShape",
    "Shape",
    "Tensor",
    "Type",
    "compile_model",
    "convert_model",
    "read_model",
    "save_model",
]


class _Ports(NamesNearest):
    """Inputs and outputs, and finding one of them."""

    def __init__(self, inputs: Sequence[api.PortInfo], outputs: Sequence[api.PortInfo]) -> None:
        self.inputs = [ConstOutput(p, n) for n, p in enumerate(inputs)]
        self.outputs = [ConstOutput(p, n) for n, p in enumerate(outputs)]

    def input(self, key: Any = None) -> ConstOutput:
        """An input by name or position, or the only one."""
        return find_port(self.inputs, key)

    def output(self, key: Any = None) -> ConstOutput:
        """An output by name or position, or the only one."""
        return find_port(self.outputs, key)


class Model(_Ports):
    """A model as read; `model` is the irc.Model behind it."""

    def __init__(self, model: api.Model) -> None:
        self.model = model
        super().__init__(model.inputs, model.outputs)

    def reshape(self, shapes: Any) -> None:
        """Other input shapes: of the only input, or by name, position or port. -1 and None leave a
        size as it is."""
        if not isinstance(shapes, Mapping):
            shapes = {None: shapes}
        wanted: dict[str, list[int | None]] = {}
        for key, shape in shapes.items():
            sizes = [d if isinstance(d, int) and d >= 0 else _size(d) for d in shape]
            wanted[self.input(key).get_any_name()] = sizes
        self.__init__(api.Model(fix_shapes(self.model.graph.copy(), wanted)))

    @property
    def rt_info(self) -> dict[str, Any]:
        """Metadata as a tree; `metadata_props` of ONNX are its section "framework"."""
        return get_info(self.model.rt_info, None)

    def get_rt_info(self, path: str | Sequence[str] | None = None) -> Any:
        """All of it, or the entry at a path of keys."""
        return get_info(self.model.rt_info, path)

    def has_rt_info(self, path: str | Sequence[str]) -> bool:
        """Whether there is an entry at a path of keys."""
        return has_info(self.model.rt_info, path)

    def set_rt_info(self, value: Any, path: str | Sequence[str]) -> None:
        """Store text at a path of keys; `save_model` writes it."""
        self.model.graph.rt_info = self.model.rt_info = with_info(self.model.rt_info, value, path)

    def is_dynamic(self) -> bool:
        """Whether any input has an unknown size."""
        return any(p.partial_shape.is_dynamic for p in self.inputs)

    def get_friendly_name(self) -> str:
        """The model's name."""
        return self.model.name

    friendly_name = property(get_friendly_name)
    name = property(get_friendly_name)


def _size(dim: Any) -> int | None:
    if isinstance(dim, Dimension) and dim.is_static:
        return dim.get_length()
    return None


class CompiledModel(_Ports):
    """A model ready to run; `net` is the irc.CompiledModel behind it."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self._own: InferRequest | None = None
        super().__init__(net.inputs, net.outputs)

    def create_infer_request(self) -> InferRequest:
        """A request with tensors of its own."""
        return InferRequest(self.net, self.inputs, self.outputs)

    def infer_new_request(self, inputs: Any = None) -> OVDict:
        """Run once in a new request."""
        return self.create_infer_request().infer(inputs, share_inputs=True)

    def __call__(self, inputs: Any = None, **options: Any) -> OVDict:
        """Run; results by output, name or position. As in OpenVINO, the calls of a model with
        variables are runs of one request."""
        if not self.net.plan.variables:
            return self.infer_new_request(inputs)
        if self._own is None:
            self._own = self.create_infer_request()
        return self._own.infer(inputs, share_inputs=True)

    def get_property(self, name: str) -> Any:
        """Of the few that have a meaning here."""
        known = {
            "NETWORK_NAME": self.net.plan.name,
            "INFERENCE_NUM_THREADS": self.net.stats().threads,
            "INFERENCE_PRECISION_HINT": self.net.plan.precision,
            "OPTIMAL_NUMBER_OF_INFER_REQUESTS": 1,
            "EXECUTION_DEVICES": ["CPU"],
        }
        if name not in known:
            raise UsageError("no such property", got=name, expected=", ".join(known))
        return known[name]


# Properties that irc follows, or whose values (None: any) request what irc does anyway.
_HEEDED: Mapping[str, tuple[str, ...] | None] = {
    "INFERENCE_NUM_THREADS": None,
    "INFERENCE_PRECISION_HINT": ("f32", "bf16", "float", "float32", "bfloat16", "", "dynamic"),
    "PERFORMANCE_HINT": ("LATENCY", ""),
    "NUM_STREAMS": ("1", "AUTO", "-1"),
    "EXECUTION_MODE_HINT": ("ACCURACY",),
    "LOG_LEVEL": None,
    "CACHE_DIR": ("",),
    "PERF_COUNT": ("NO", "False", "0"),
    "CPU_DENORMALS_OPTIMIZATION": None,
}
# Values of CPU_DENORMALS_OPTIMIZATION, and compile_model's option `denormals` that they mean.
_DENORMALS: Mapping[str, Literal["flush", "keep"]] = {
    "YES": "flush",
    "True": "flush",
    "NO": "keep",
    "False": "keep",
}


def _warn_of_unheeded(properties: Mapping[str, Any]) -> None:
    for name, value in properties.items():
        allowed = _HEEDED.get(str(name), ())
        text = str(value).rsplit(".", 1)[-1].strip("<>' ").removeprefix("Type: '")
        if allowed is not None and text not in allowed:
            warn_once(f"the property {name}={text}", "irc does not follow it")


class Core(NamesNearest):
    """Reads and compiles models for the CPU."""

    available_devices = ["CPU"]

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}

    def read_model(self, model: Any, weights: Any = None) -> Model:
        """A model from .xml (with its .bin), .onnx, or the bytes of either."""
        return Model(api.read_model(model, weights or None))

    def compile_model(
        self, model: Any, device_name: Any = "CPU", config: Mapping[str, Any] | None = None
    ) -> CompiledModel:
        """Compile a Model or a file for the CPU (or AUTO)."""
        if isinstance(device_name, Mapping):  # the device may be left out
            device_name, config = "CPU", device_name
        if str(device_name).split(":")[0] not in ("CPU", "AUTO"):
            raise UsageError("irc compiles for the CPU", got=device_name, expected="CPU or AUTO")
        chosen = {**self._properties, **(config or {})}
        _warn_of_unheeded(chosen)
        hint = str(chosen.get("INFERENCE_PRECISION_HINT", "f32"))
        return CompiledModel(
            api.compile_model(
                model.model if isinstance(model, Model) else model,
                precision="bf16" if "bf" in hint else "f32",
                num_threads=int(chosen.get("INFERENCE_NUM_THREADS") or 0) or None,
                denormals=_DENORMALS.get(str(chosen.get("CPU_DENORMALS_OPTIMIZATION"))),
            )
        )

    def set_property(self, *device_and_properties: Any) -> None:
        """`(properties)` or `(device, properties)`, for models compiled from now on."""
        self._properties.update(device_and_properties[-1])

    def get_property(self, device: str, name: str) -> Any:
        """What was set."""
        return self._properties[name]


def read_model(model: Any, weights: Any = None) -> Model:
    """Core().read_model"""
    return Core().read_model(model, weights)


def convert_model(model: Any) -> Model:
    """An ONNX file or onnx.ModelProto."""
    return Core().read_model(model)


def compile_model(
    model: Any, device_name: Any = "CPU", config: Mapping[str, Any] | None = None
) -> CompiledModel:
    """Core().compile_model"""
    return Core().compile_model(model, device_name, config)


def save_model(
    model: Model, output_model: str | os.PathLike[str], compress_to_fp16: bool = True
) -> None:
    """Write .xml and .bin; as in OpenVINO, in half precision by default."""
    api.save_model(model.model, output_model, compress_to_fp16=compress_to_fp16)


__getattr__ = module_attributes(__name__, globals())
