"""`import irc_compiler.compat.openvino as ov`: Core, models and requests on irc.

Arrays of another element type are cast, Tensors are not, as in OpenVINO (input_values.py). irc
follows INFERENCE_NUM_THREADS and INFERENCE_PRECISION_HINT ("f32", "bf16" or "f16"); a property that
requests something else warns once. Without the hint a float32 model computes in float32, where
OpenVINO may choose bf16.
"""

from __future__ import annotations

import sys

from ..nearest import module_attributes
from . import layout_helpers, opsets, preprocess, properties
from .compiled_model import CompiledModel
from .core import VERSION, Core, Version
from .model import Model
from .module_functions import (
    compile_model,
    convert_model,
    get_batch,
    get_version,
    read_model,
    save_model,
    serialize,
    set_batch,
    shutdown,
)
from .nodes import DiscreteTypeInfo, Node, Output
from .ports import ConstOutput
from .request_queue import AsyncInferQueue
from .requests import InferRequest, ProfilingInfo, VariableState
from .rt_info import OVAny
from .tensors import OVDict, Tensor
from .types import Dimension, Layout, PartialShape, Shape, Type

__all__ = [
    "AsyncInferQueue",
    "CompiledModel",
    "ConstOutput",
    "Core",
    "Dimension",
    "DiscreteTypeInfo",
    "InferRequest",
    "Layout",
    "Model",
    "Node",
    "OVAny",
    "OVDict",
    "Output",
    "PartialShape",
    "ProfilingInfo",
    "Shape",
    "Tensor",
    "Type",
    "VariableState",
    "Version",
    "compile_model",
    "convert_model",
    "get_batch",
    "get_version",
    "layout_helpers",
    "preprocess",
    "properties",
    "read_model",
    "runtime",
    "save_model",
    "serialize",
    "set_batch",
    "shutdown",
]

__version__ = VERSION
_OPSETS = opsets.make_modules(__name__)
globals().update(_OPSETS)
# Programs of releases before 2025 import openvino.runtime, which had the same names.
runtime = sys.modules[__name__]
sys.modules[f"{__name__}.runtime"] = runtime
for _name, _module in _OPSETS.items():
    sys.modules[f"{__name__}.runtime.{_name}"] = _module

__getattr__ = module_attributes(__name__, globals())
