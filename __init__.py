"""irc: a graph compiler for inference on CPUs.

    import irc
    net = irc.compile_model("model.onnx")      # .onnx, .xml or .irc
    y = net({"x": x})

`irc.ops` builds graphs in Python, `irc.onnx_backend` is ONNX's Backend interface; both are loaded
when first asked for. Importing irc loads neither onnx nor LLVM.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from . import api as _api
from .api import BoundCall, CompiledModel, Model, Outputs, PortInfo
from .ir.errors import (
    ArtifactError,
    Error,
    ExecutionError,
    InputError,
    MemoryLimitError,
    ModelFormatError,
    ShapeError,
    UnsupportedOperationError,
    UsageError,
    VerificationError,
)

if TYPE_CHECKING:
    from . import onnx_backend as onnx_backend
    from . import ops as ops
    from .predictor import Predictor as Predictor

__version__ = "0.1.0"

read_model = _api.read_model
save_model = _api.save_model
compile_model = _api.compile_model

__all__ = [
    "ArtifactError",
    "BoundCall",
    "CompiledModel",
    "Error",
    "ExecutionError",
    "InputError",
    "MemoryLimitError",
    "Model",
    "ModelFormatError",
    "Outputs",
    "PortInfo",
    "Predictor",
    "ShapeError",
    "UnsupportedOperationError",
    "UsageError",
    "VerificationError",
    "compile_model",
    "onnx_backend",
    "ops",
    "read_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name in ("ops", "onnx_backend"):
        return _importlib.import_module(f".{name}", __name__)
    if name == "Predictor":
        return _importlib.import_module(".predictor", __name__).Predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
