"""onnxruntime and OpenVINO with exact products of u8 and i8 on every x86-64 processor.

Without VNNI both multiply u8 by i8 with `vpmaddubsw`, which saturates the sum of two products to 16
bits. They are oracles only if they take another way: onnxruntime multiplies u8 by u8 exactly, and
OpenVINO computes the dequantized values in float32 once its low-precision passes are off.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

OPENVINO_CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": False}

# Operator -> positions of the second operand and of its zero point, and of the first one's.
_POSITIONS = {
    "MatMulInteger": (1, 3, 2),
    "QLinearMatMul": (3, 5, 2),
    "QGemm": (3, 5, 2),
    "DynamicQuantizeMatMul": (1, 3, 0),
    "MatMulIntegerToFloat": (1, 5, 4),
    "QAttention": (1, 7, 6),
}


def products_saturate() -> bool:
    """Is this an x86-64 processor without VNNI, where some of OpenVINO's kernels saturate whatever
    its configuration says?"""
    if platform.machine() != "x86_64":
        return False
    return "vnni" not in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def create_session(model: onnx.ModelProto | bytes | str) -> Any:
    """An onnxruntime session whose integer products do not saturate."""
    if isinstance(model, str):
        model = onnx.load(model)
    elif isinstance(model, bytes):
        model = onnx.load_model_from_string(model)
    source = make_weights_unsigned(model).SerializeToString()
    # The option makes constant i8 weights u8, but no kernel takes i8 by u8. Products of i8 by
    # i8 are exact without it.
    for precision in ("1", "0"):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.x64quantprecision", precision)
        try:
            return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except NoKernel:
            continue
    raise AssertionError("onnxruntime has no kernel for the model")


def make_weights_unsigned(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which i8 second operands of products, and their zero points, are u8 plus 128."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    signed = {t.name for t in graph.initializer if t.data_type == TensorProto.INT8}
    signed |= {p.name for p in graph.input if p.type.tensor_type.elem_type == TensorProto.INT8}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        operand, zero_point, first = _POSITIONS.get(node.op_type, (0, 0, 0))
        first_is_signed = not signed.isdisjoint([*node.input[:1], *node.input[first : first + 1]])
        if operand and node.input[operand] in signed and not first_is_signed:
            inputs = [*node.input, *[""] * (zero_point + 1 - len(node.input))]
            inputs[zero_point] = inputs[zero_point] or _add_zero(graph)
            for position in (operand, zero_point):
                if all(f"{inputs[position]}_u8" not in other.output for other in nodes):
                    nodes += _shift_by_128(graph, inputs[position])
                inputs[position] += "_u8"
            del node.input[:]
            node.input.extend(inputs)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return result


def _add_zero(graph: onnx.GraphProto) -> str:
    _add_constant(graph, "zero_i8", np.zeros((), np.int8))
    return "zero_i8"


def _shift_by_128(graph: onnx.GraphProto, name: str) -> list[onnx.NodeProto]:
    _add_constant(graph, "shift_128", np.array(128, np.int32))
    return [
        helper.make_node("Cast", [name], [f"{name}_i32"], to=TensorProto.INT32),
        helper.make_node("Add", [f"{name}_i32", "shift_128"], [f"{name}_sum"]),
        helper.make_node("Cast", [f"{name}_sum"], [f"{name}_u8"], to=TensorProto.UINT8),
    ]


def _add_constant(graph: onnx.GraphProto, name: str, value: Any) -> None:
    if all(tensor.name != name for tensor in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(value, name))
