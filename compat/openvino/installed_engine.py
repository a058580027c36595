"""`install("openvino")` where OpenVINO is installed: it reads and edits models, irc runs them.

OpenVINO's objects stay its own (models, types, tensors, passes, frontends); what compiles and runs
models is replaced in its module. A model that irc does not support is compiled by OpenVINO.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ...ir.errors import UnsupportedOperationError
from ..stand_ins import record_session
from .compiled_model import CompiledModel
from .core import Core
from .request_queue import AsyncInferQueue
from .requests import InferRequest


def replace_names(engine: ModuleType) -> dict[str, Any]:
    """Put irc's classes into OpenVINO's module; what they replace, by name."""
    real_core = engine.Core

    class EngineCore(Core):
        """OpenVINO's Core, whose compiled models are irc's."""

        def __init__(self, xml_config_file: str = "") -> None:
            super().__init__()
            self._real: Any = real_core()

        def read_model(self, model: Any, *others: Any, **named: Any) -> Any:
            """OpenVINO's own Model."""
            return self._real.read_model(model, *others, **named)

        def compile_model(
            self,
            model: Any,
            device_name: Any = "CPU",
            config: Mapping[str, Any] | None = None,
            weights: Any = None,
        ) -> Any:
            """irc's CompiledModel, or OpenVINO's of a model that irc does not support."""
            if isinstance(device_name, Mapping):
                device_name, config = "CPU", device_name
            try:
                made = super().compile_model(model, device_name, config, weights)
            except UnsupportedOperationError as error:
                record_session(_name_of(model), "openvino", str(error))
                given = model if weights is None else self._real.read_model(model, weights)
                settings = {**self._properties, **(config or {})}
                return self._real.compile_model(given, device_name, settings)
            record_session(_name_of(model), "irc")
            return made

        def query_model(self, *given: Any, **named: Any) -> Any:
            """OpenVINO's answer: the model is its own."""
            return self._real.query_model(*given, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["_real"], name)

    def compile_model(
        model: Any, device_name: Any = "CPU", config: Mapping[str, Any] | None = None
    ) -> Any:
        """Core().compile_model"""
        return EngineCore().compile_model(model, device_name, config)

    EngineCore.__name__ = EngineCore.__qualname__ = "Core"
    replacements = {
        "Core": EngineCore,
        "compile_model": compile_model,
        "CompiledModel": CompiledModel,
        "InferRequest": InferRequest,
        "AsyncInferQueue": AsyncInferQueue,
    }
    replaced = {name: getattr(engine, name) for name in replacements}
    restore_names(engine, replacements)
    return replaced


def restore_names(engine: ModuleType, names: Mapping[str, Any]) -> None:
    """Put these into OpenVINO's module."""
    for name, value in names.items():
        setattr(engine, name, value)


def _name_of(model: Any) -> str:
    if isinstance(model, str | os.PathLike):
        return str(os.fspath(model))[:200]
    named = getattr(model, "get_friendly_name", None)
    return str(named()) if named is not None else type(model).__name__
