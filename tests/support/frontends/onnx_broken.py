"""Parts that broken ONNX models are made of, and the check that one is refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import Error
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **attributes)


def model_of(
    nodes: list[onnx.NodeProto],
    outputs: Sequence[str] = ("y",),
    tensors: Sequence[TensorProto] = (),
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
    **graph_parts: Any,
) -> onnx.ModelProto:
    """A model with the input x, f32 [2, 3], outputs of unknown shape, functions of domain own."""
    ports = [helper.make_tensor_value_info("x", FLOAT, [2, 3])]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", ports, ends, list(tensors), **graph_parts)
    sets = [helper.make_opsetid("", opset)]
    if functions:
        sets.append(helper.make_opsetid("own", 1))
    return helper.make_model(graph, opset_imports=sets, functions=list(functions), ir_version=10)


def tensor(**fields: Any) -> TensorProto:
    """The tensor w, f32 [2, 3], without data but for the fields given."""
    made = TensorProto(name="w", data_type=FLOAT, dims=[2, 3])
    for name, value in fields.items():
        if isinstance(value, list):
            made.ClearField(name)
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return made


def refused(source: Any, kind: type[Error], *parts: str, **options: Any) -> Error:
    """Read a model that has to be refused, quickly, with these parts in the message."""
    start = time.process_time()
    with pytest.raises(kind) as caught:
        read_onnx(source, **options)
    assert time.process_time() - start < 5
    text = str(caught.value)
    for part in parts:
        assert part in text, text
    assert caught.value.where is not None
    return caught.value
