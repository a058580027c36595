"""An ONNX model before quantization: batch normalization folded, weights as initializers.

Weights behind a Transpose are transposed. These rewrites change no answer but by rounding, and let
the graph that irc reads and the model that is written have the same layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.op import Array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

# The first file version whose initializers need not be inputs.
_FREE_INITIALIZERS_IR = 4


def load_source(source: Any) -> ModelProto:
    """A model with all of its weights, which irc has read before; a copy of a ModelProto."""
    import os

    import onnx

    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        return model
    if isinstance(source, bytes | bytearray | memoryview):
        return onnx.load_model_from_string(bytes(source))
    return onnx.load(os.fspath(source))


def prepare_source(model: ModelProto) -> None:
    """Rewrite the model in place."""
    _name_nodes(model.graph)
    _drop_initialized_inputs(model)
    _lift_constants(model.graph)
    _fold_transposes(model.graph)
    _fold_batch_norm(model.graph)


def _name_nodes(graph: GraphProto) -> None:
    """Each node gets a name of its own."""
    taken: set[str] = set()
    for number, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = fresh_name(node.name or f"{node.op_type}_{number}", taken)
        taken.add(node.name)


def _drop_initialized_inputs(model: ModelProto) -> None:
    """Inputs with initializers, as older files have them, are constants to irc."""
    initializers = arrays_of(model.graph)
    free_inputs = [port for port in model.graph.input if port.name not in initializers]
    if len(free_inputs) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(free_inputs)
        model.ir_version = max(model.ir_version, _FREE_INITIALIZERS_IR)


def _lift_constants(graph: GraphProto) -> None:
    """Constant nodes of tensors become initializers."""
    kept: list[NodeProto] = []
    for node in graph.node:
        value = next((a for a in node.attribute if a.name == "value"), None)
        if node.op_type == "Constant" and value is not None and value.HasField("t"):
            tensor = graph.initializer.add()
            tensor.CopyFrom(value.t)
            tensor.name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)


def _fold_transposes(graph: GraphProto) -> None:
    """Transposed matrices of initializers that products alone read become initializers, as a layer
    has a constant weight."""
    from onnx import numpy_helper

    tensors = arrays_of(graph)
    counts = count_reads(graph)
    weights: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in ("MatMul", "Gemm") and len(node.input) > 1:
            weights[node.input[1]] = weights.get(node.input[1], 0) + 1
    gone: list[NodeProto] = []
    for node in graph.node:
        tensor = tensors.get(node.input[0]) if node.op_type == "Transpose" else None
        if tensor is None or len(tensor.dims) != 2:
            continue
        name = node.output[0]
        if weights.get(name) != counts.get(name):
            continue
        order = next((list(a.ints) for a in node.attribute if a.name == "perm"), [1, 0])
        array = np.ascontiguousarray(numpy_helper.to_array(tensor).transpose(order))
        graph.initializer.append(numpy_helper.from_array(array, name))
        gone.append(node)
    for node in gone:
        graph.node.remove(node)
    if gone:
        drop_unread(graph)


def arrays_of(graph: GraphProto) -> dict[str, Any]:
    """The initializers by name, as tensors."""
    return {tensor.name: tensor for tensor in graph.initializer}


def _fold_batch_norm(graph: GraphProto) -> None:
    """Conv and a BatchNormalization that alone reads it become one Conv."""
    from onnx import numpy_helper

    tensors = arrays_of(graph)
    counts = count_reads(graph)
    makers = {name: node for node in graph.node for name in node.output}
    taken = {*tensors, *makers, *(port.name for port in graph.input)}
    gone: list[NodeProto] = []
    for norm in graph.node:
        conv = makers.get(norm.input[0]) if norm.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type != "Conv" or counts[norm.input[0]] != 1:
            continue
        names = [*conv.input[1:], *norm.input[1:5]]
        if any(norm.output[1:]) or any(n not in tensors for n in names):
            continue
        if any(a.name == "training_mode" and a.i for a in norm.attribute):
            continue
        weight, *rest = (numpy_helper.to_array(tensors[n]) for n in conv.input[1:])
        parameters = [numpy_helper.to_array(tensors[n]) for n in norm.input[1:5]]
        eps = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
        folded, bias = _fold_parameters(weight, rest[0] if rest else None, parameters, eps)
        del conv.input[1:]
        for suffix, array in (("weight", folded), ("bias", bias)):
            name = fresh_name(f"{conv.name}_folded_{suffix}", taken)
            taken.add(name)
            tensors[name] = numpy_helper.from_array(array, name)
            graph.initializer.append(tensors[name])
            conv.input.append(name)
        conv.output[0] = norm.output[0]
        makers[norm.output[0]] = conv
        gone.append(norm)
    for norm in gone:
        graph.node.remove(norm)
    drop_unread(graph)


def _fold_parameters(
    weight: Array, bias: Array | None, parameters: list[Array], eps: float
) -> tuple[Array, Array]:
    gamma, beta, mean, variance = (p.astype(np.float64) for p in parameters)
    factor = gamma / np.sqrt(variance + eps)
    before = 0.0 if bias is None else bias.astype(np.float64)
    scaled = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    return scaled.astype(weight.dtype), ((before - mean) * factor + beta).astype(weight.dtype)


def count_reads(graph: GraphProto) -> dict[str, int]:
    """How often each tensor is read, by nodes (bodies included) and as an output."""
    counts: dict[str, int] = {}
    graphs: list[GraphProto] = [graph]
    while graphs:
        part = graphs.pop()
        names = [n for node in part.node for n in node.input] + [o.name for o in part.output]
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        for node in part.node:
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs
    return counts


def drop_unread(graph: GraphProto) -> None:
    """Remove initializers that nothing reads, unless they are inputs as well."""
    counts = count_reads(graph)
    ports = {port.name for port in graph.input}
    kept = [t for t in graph.initializer if counts.get(t.name) or t.name in ports]
    if len(kept) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(kept)


def fresh_name(wanted: str, taken: Any) -> str:
    """A name that nothing has yet."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name
