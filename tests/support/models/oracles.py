"""Runs a model in onnxruntime or OpenVINO: what irc's outputs are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from .exact_int8 import OPENVINO_CONFIG

Arrays = Mapping[str, NDArray[Any]]
Source = onnx.ModelProto | bytes | str | Path


def run_onnxruntime(
    model: Source, inputs: Arrays, *, threads: int = 1, optimize: bool = False
) -> dict[str, NDArray[Any]]:
    """Outputs by name. Without `optimize` the operations run as they are written."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = _serialized(model) if isinstance(model, onnx.ModelProto) else model
    source = str(source) if isinstance(source, Path) else source
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    outputs = session.run(None, dict(inputs))
    return {
        port.name: np.asarray(y) for port, y in zip(session.get_outputs(), outputs, strict=True)
    }


def run_openvino(model: Source, inputs: Arrays, *, threads: int = 1) -> dict[str, NDArray[Any]]:
    """Outputs by name, or by "0", "1", ... where a port has no name; products in float32.

    A path may be an .xml or an .onnx file. Inputs are given by tensor name or, where the port has
    no name, by the name of the Parameter.
    """
    import openvino as ov

    core = ov.Core()
    if isinstance(model, onnx.ModelProto | bytes):
        source = core.read_model(
            _serialized(model) if isinstance(model, onnx.ModelProto) else model
        )
    else:
        source = core.read_model(str(model))
    # The CPU plugin computes in bfloat16 by default where the machine has matrix units.
    properties = OPENVINO_CONFIG | {"INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(source, "CPU", properties)
    feeds: dict[int, NDArray[Any]] = {}
    for number, port in enumerate(source.inputs):
        known = port.names | {port.node.friendly_name}
        feeds[number] = next(array for name, array in inputs.items() if name in known)
    results = compiled(feeds)
    names = [min(port.names, default=str(i)) for i, port in enumerate(source.outputs)]
    return {name: np.array(results[i]) for i, name in enumerate(names)}


def random_inputs(
    model: onnx.ModelProto, *, seed: int = 0, integers: bool = False, **dims: int
) -> dict[str, NDArray[Any]]:
    """Inputs of a model's declared types; `dims` gives its symbols' sizes (`N=3`).

    Floats are normal, or small integers with `integers=True`: sums of their products are then exact
    in any order. Integers are 0 or 1, which are valid indices of any axis longer than one.
    """
    rng = np.random.default_rng(seed)
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs: dict[str, NDArray[Any]] = {}
    for port in model.graph.input:
        if port.name in initialized:
            continue
        tensor = port.type.tensor_type
        shape = [dims[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind in "biu":
            array = rng.integers(0, 2, size=shape)
        elif integers:
            array = rng.integers(-4, 5, size=shape)
        else:
            array = rng.standard_normal(shape)
        inputs[port.name] = np.asarray(array).astype(dtype)
    return inputs


def _serialized(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString()
