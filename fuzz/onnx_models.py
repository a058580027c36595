"""ONNX models drawn by hypothesis: the cases of ONNX's own backend tests as building blocks.

A model is one to three cases (an operator with attributes and inputs that fit it) side by side,
each with some sizes made symbolic, some inputs made initialisers, and a chain of operators drawn
around it. So every operator that ONNX has a case for is drawn, in the neighbourhoods that
exporters never write.
"""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import Error
from onnx import TensorProto, helper, numpy_helper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ONNX overflows on purpose while it makes its cases
    from onnx.backend.test.loader import load_model_tests

# Random values, images to decode, and cases of minutes.
_LEFT_OUT = re.compile(
    "bernoulli|random|image_decoder|dropout|multinomial|training|gradient|resize_.*_cubic"
)
UNARY = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Identity", "Floor", "Softmax", "Sqrt"]
BINARY = ["Add", "Mul", "Sub", "Max"]


@dataclass(frozen=True)
class Block:
    """A case of one graph: its model, and inputs that fit it."""

    name: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]


@functools.cache
def blocks() -> tuple[Block, ...]:
    """The cases that irc reads, of current operator sets, small enough to be run often."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    found: list[Block] = []
    for case in cases:
        if case.model is None or not case.data_sets or _LEFT_OUT.search(case.name):
            continue
        inputs = case.data_sets[0][0]
        if sum(getattr(x, "size", 0) for x in inputs) > 20_000:
            continue
        found.append(Block(case.name, case.model, tuple(inputs)))
    return tuple(found)


@st.composite
def models(draw: Any) -> tuple[onnx.ModelProto, list[Any]]:
    """A model, and the arrays of its inputs in order."""
    # Cases of one opset and IR version can stand in one model.
    first = draw(st.sampled_from(blocks()))
    opsets = {(o.domain, o.version) for o in first.model.opset_import}
    alike = [b for b in blocks() if {(o.domain, o.version) for o in b.model.opset_import} == opsets]
    chosen = [first, *draw(st.lists(st.sampled_from(alike), max_size=2))]
    graph = onnx.GraphProto(name="drawn")
    functions: dict[tuple[str, str], onnx.FunctionProto] = {}
    feeds: list[Any] = []
    for n, block in enumerate(chosen):
        _join(draw, graph, block, f"b{n}_", feeds)
        functions |= {(f.domain, f.name): f for f in block.model.functions}
    made = helper.make_model(graph, functions=list(functions.values()))
    made.ClearField("opset_import")
    made.opset_import.extend(first.model.opset_import)
    made.ir_version = max(b.model.ir_version for b in chosen)
    return made, feeds


def _join(draw: Any, graph: onnx.GraphProto, block: Block, prefix: str, feeds: list[Any]) -> None:
    """Put a case into the graph, all names prefixed."""
    inner = onnx.GraphProto()
    inner.CopyFrom(block.model.graph)
    _rename(inner, prefix, {})
    graph.node.extend(inner.node)
    graph.initializer.extend(inner.initializer)
    renamed: dict[str, str] = {}
    for port, array in zip(inner.input, block.inputs, strict=False):
        plain = isinstance(array, np.ndarray) and port.type.HasField("tensor_type")
        if plain and draw(st.integers(0, 3)) == 0:
            tensor = numpy_helper.from_array(array, port.name)
            tensor.data_type = port.type.tensor_type.elem_type
            graph.initializer.append(tensor)
            continue
        if plain and port.type.tensor_type.HasField("shape"):
            for axis, dim in enumerate(port.type.tensor_type.shape.dim):
                if draw(st.integers(0, 3)) == 0:
                    dim.ClearField("dim_value")
                    dim.dim_param = f"{port.name}_{axis}"
        if plain and array.dtype == np.float32 and draw(st.integers(0, 3)) == 0:
            renamed[port.name] = _before(draw, graph, port.name)
        graph.input.append(port)
        feeds.append(array)
    for node in graph.node[-len(inner.node) :] if renamed else ():
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
    for port in inner.output:
        graph.output.append(_after(draw, graph, port))


def _before(draw: Any, graph: onnx.GraphProto, name: str) -> str:
    """A chain that gives values of the same shape and range; it stands before its reader."""
    made = f"{name}_pre"
    kind = draw(st.sampled_from(["Identity", "Neg", "Abs", "Transposes"]))
    if kind == "Transposes":
        graph.node.insert(0, helper.make_node("Neg", [f"{made}_t"], [made]))
        graph.node.insert(0, helper.make_node("Neg", [name], [f"{made}_t"]))
    else:
        graph.node.insert(0, helper.make_node(kind, [name], [made]))
    return made


def _after(draw: Any, graph: onnx.GraphProto, port: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The output, or what a drawn chain makes of it."""
    is_float = port.type.tensor_type.elem_type == TensorProto.FLOAT
    name = port.name
    if is_float:
        for n in range(draw(st.integers(0, 3))):
            made = f"{port.name}_{n}"
            if draw(st.booleans()):
                node = helper.make_node(draw(st.sampled_from(UNARY)), [name], [made])
            else:
                node = helper.make_node(draw(st.sampled_from(BINARY)), [name, name], [made])
            graph.node.append(node)
            name = made
    end = onnx.ValueInfoProto(name=name)
    if not port.type.HasField("tensor_type"):
        end.type.CopyFrom(port.type)
    return end


def _rename(graph: onnx.GraphProto, prefix: str, outer: dict[str, str]) -> None:
    """Prefix every name of a graph and of the graphs in it."""
    names = dict(outer)
    own = [*(p.name for p in graph.input), *(t.name for t in graph.initializer)]
    own += [t.values.name for t in graph.sparse_initializer]
    own += [o for node in graph.node for o in node.output]
    names |= {n: prefix + n for n in own if n}
    for port in (*graph.input, *graph.output):
        port.name = names.get(port.name, port.name)
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    graph.ClearField("value_info")
    for node in graph.node:
        for field in (node.input, node.output):
            for i, name in enumerate(field):
                field[i] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, prefix, names)


def stored_feeds(model: onnx.ModelProto, feeds: list[Any]) -> bytes:
    """Inputs in order as a graph's initialisers, to replay a finding with; empty where one of them
    is not a tensor."""
    held = onnx.GraphProto(name="feeds")
    for port, array in zip(model.graph.input, feeds, strict=True):
        if not isinstance(array, np.ndarray):
            return b""
        tensor = held.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(array, port.name))
        tensor.data_type = port.type.tensor_type.elem_type
    return held.SerializeToString()


def read_feeds(data: bytes) -> list[Any] | None:
    """What was stored, or None where nothing was."""
    return list(map(numpy_helper.to_array, onnx.GraphProto.FromString(data).initializer)) or None


def read(model: onnx.ModelProto) -> Any | None:
    """The graph of a model, or None where irc refuses it."""
    try:
        return read_onnx(model)
    except Error:
        return None
