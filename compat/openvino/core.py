"""OpenVINO's Core: reads and compiles models for the CPU."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import api
from ...compiler.frontends.openvino_objects import is_openvino_model, read_with_openvino
from ...ir.errors import UsageError
from ..freed_memory import keep_freed_memory
from ..nearest import NamesNearest
from .compiled_model import CompiledModel, import_model
from .model import Model
from .properties_of import compile_options, describe_device, merge_properties
from .tensors import Tensor

VERSION = "2026.4.1"
_OWN_SUFFIXES = (".xml", ".onnx")


class Version(NamesNearest):
    """Which release of OpenVINO the stand-in follows."""

    build_number = f"{VERSION}-irc"
    description = "irc_compiler.compat.openvino"
    major, minor, patch = map(int, VERSION.split("."))


class Core(NamesNearest):
    """Reads and compiles models for the CPU."""

    def __init__(self, xml_config_file: str = "") -> None:
        self._properties: dict[str, Any] = {}

    @property
    def available_devices(self) -> list[str]:
        """The devices: the CPU."""
        return ["CPU"]

    def get_available_devices(self) -> list[str]:
        """The devices: the CPU."""
        return ["CPU"]

    def get_versions(self, device_name: str) -> dict[str, Version]:
        """The release that the stand-in follows, by device."""
        _check_device(device_name)
        return {"CPU": Version()}

    def read_model(self, model: Any, weights: Any = None, config: Any = None) -> Model:
        """A model from .xml (with its .bin), .onnx, or the bytes of either; with OpenVINO itself
        installed, from every format that its frontends read."""
        if isinstance(model, io.BytesIO):
            model = model.getvalue()
        if isinstance(weights, Tensor):
            weights = weights.data.tobytes()
        if isinstance(model, str) and model.lstrip().startswith("<"):
            model = model.encode()
        is_path = isinstance(model, str | os.PathLike)
        if is_path and Path(model).suffix.lower() not in _OWN_SUFFIXES:
            return Model.of(api.read_model(read_with_openvino(model)))
        if is_path and not weights:
            return Model.from_file(model)
        return Model.of(api.read_model(model, weights or None))

    def compile_model(
        self,
        model: Any,
        device_name: Any = "CPU",
        config: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> CompiledModel:
        """Compile a Model or a file for the CPU (or AUTO)."""
        if isinstance(device_name, Mapping):  # the device may be left out
            device_name, config = "CPU", device_name
        _check_device(device_name)
        properties = merge_properties(self._properties, config)
        options = compile_options(properties)
        keep_freed_memory()  # the program's arrays have their pages next to the engine, too
        if isinstance(model, Model):
            source = model.unread_path or model.model
        elif is_openvino_model(model):
            source = model
        elif isinstance(model, str | os.PathLike):
            suffix = Path(model).suffix.lower()
            # A path that irc reads itself is given as it is: the weights need not be kept.
            source = model if suffix in _OWN_SUFFIXES else Core.read_model(self, model).model
        else:
            source = Core.read_model(self, model, weights).model
        return CompiledModel(api.compile_model(source, **options), properties)

    def import_model(
        self, model_stream: Any, device_name: str = "CPU", config: Mapping[str, Any] | None = None
    ) -> CompiledModel:
        """A compiled model that `export_model` wrote. Machine code in it is never run."""
        _check_device(device_name)
        properties = merge_properties(self._properties, config)
        options = compile_options(properties)
        threads, performance = options["num_threads"], options["performance"]
        return import_model(model_stream, properties, threads, performance)

    def query_model(
        self, model: Model, device_name: str = "CPU", config: Any = None
    ) -> dict[str, str]:
        """The device of each operation: the CPU, as irc reads no others."""
        _check_device(device_name)
        return {op.get_friendly_name(): "CPU" for op in model.get_ops()}

    def set_property(self, *device_and_properties: Any) -> None:
        """`(properties)` or `(device, properties)`, for models compiled from now on."""
        self._properties = merge_properties(self._properties, device_and_properties[-1])

    def get_property(self, *device_and_property: Any) -> Any:
        """`(device, property)` or `(property)`: what was set, or the default."""
        known = describe_device(self._properties)
        name = str(device_and_property[-1])
        if name not in known:
            raise UsageError("no such property", got=name, expected=", ".join(known))
        return known[name]

    def add_extension(self, *extensions: Any) -> None:
        """Refused: irc takes operations of one's own as Python classes."""
        raise UsageError(
            "OpenVINO's extensions are native libraries for OpenVINO",
            got=extensions,
            fix="irc_compiler.read_model(path, extensions=[...]) takes operations in Python",
        )

    def __repr__(self) -> str:
        return "<Core: available plugins[CPU]>"


def _check_device(device_name: Any) -> None:
    if str(device_name).split(":")[0].split(".")[0] not in ("CPU", "AUTO"):
        raise UsageError("irc compiles for the CPU", got=device_name, expected="CPU or AUTO")
