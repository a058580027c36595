"""ONNX models: what `irc convert model.xml -o model.onnx` writes.

Operators are those of the standard, of one operator set. Every operation of the graph is written by
the table of its family (ops/), or decomposed (fallback.py). Variables become inputs and outputs
(states.py). What is written passes ONNX's checker.
"""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO, cast

import onnx
from onnx import ModelProto, checker, defs

from ....ir.errors import UnsupportedOperationError, UsageError
from ....ir.graph import Graph, Value
from ....ir.ops import Constant
from ..compress_fp16 import compress_weights
from ..files import replace_files
from .graph_writer import write_graph
from .initializers import TensorWriter
from .metadata import write_metadata
from .recognize import recognize_quantized
from .scope import GraphScope, ModelScope
from .states import add_variable_ports
from .value_types import add_port

DEFAULT_OPSET = 21
# Axes of reductions and slices are inputs from here on; earlier sets differ in most operators.
MIN_OPSET = 13
# Protobuf does not hold 2 GiB; the nodes need room besides the constants.
MAX_EMBEDDED_BYTES = 2**31 - 2**26
# The file format that an operator set came with: readers refuse later ones than they know.
_IR_VERSIONS = ((21, 10), (19, 9), (15, 8), (13, 7))


def write_onnx(
    graph: Graph,
    path: str | PathLike[str],
    *,
    opset: int = DEFAULT_OPSET,
    compress_to_fp16: bool = False,
    max_embedded_bytes: int = MAX_EMBEDDED_BYTES,
) -> tuple[Path, ...]:
    """Save an inferred graph as ONNX. Returns the files: the model, and PATH.data with the large
    constants where they are more than `max_embedded_bytes` together. `compress_to_fp16` stores
    float weights as f16 with a Cast behind them.

    The files are replaced whole or not at all; the graph is not changed. Raises
    UnsupportedOperationError naming the operation that ONNX cannot express, Error where the files
    cannot be written, UsageError for an operator set that is not written.
    """
    target = Path(fspath(path))
    if compress_to_fp16:
        graph = graph.copy()
        compress_weights(graph)
    if _constant_bytes(graph) <= max_embedded_bytes:
        proto = to_onnx_model(graph, opset=opset)
        with replace_files(target) as (stream,):
            stream.write(proto.SerializeToString())
        return (target,)
    data = target.with_name(target.name + ".data")
    with replace_files(data, target) as (data_stream, stream):
        proto = _to_model(graph, opset, data_stream, data.name)
        stream.write(proto.SerializeToString())
    return target, data


def to_onnx_model(graph: Graph, *, opset: int = DEFAULT_OPSET) -> ModelProto:
    """An inferred graph as a ModelProto that holds its constants; errors as `write_onnx`."""
    return _to_model(graph, opset, None, "")


def _to_model(graph: Graph, opset: int, stream: BinaryIO | None, location: str) -> ModelProto:
    newest = defs.onnx_opset_version()
    if not MIN_OPSET <= opset <= newest:
        raise UsageError(
            "this operator set is not written", got=opset, expected=f"{MIN_OPSET} to {newest}"
        )
    writer = ModelScope(opset, TensorWriter(opset, stream, location), write_graph)
    proto = ModelProto(ir_version=_ir_version(opset))
    _write_graph(writer, recognize_quantized(graph), proto)
    proto.opset_import.add(domain="", version=opset)
    for domain, version in sorted(writer.domains.items()):
        proto.opset_import.add(domain=domain, version=version)
    write_metadata(proto, graph)
    check_model(proto, embedded=stream is None)
    return proto


def _ir_version(opset: int) -> int:
    known = next((version for least, version in _IR_VERSIONS if opset >= least), 7)
    return known if opset <= 22 else min(onnx.IR_VERSION, 11 if opset < 25 else onnx.IR_VERSION)


def check_model(proto: ModelProto, *, embedded: bool) -> None:
    """ONNX's checker, with shape inference. It reads models that hold their constants, and refuses
    inputs and outputs of unknown rank, which other readers take: those are not checked.

    Raises UnsupportedOperationError where it refuses what was written.
    """
    ports = (*proto.graph.input, *proto.graph.output)
    ranked = all(
        p.type.WhichOneof("value") != "tensor_type" or p.type.tensor_type.HasField("shape")
        for p in ports
    )
    if not embedded or not ranked:
        return
    try:
        check = cast("Any", checker).check_model
        check(proto, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise UnsupportedOperationError(
            "ONNX's checker refuses what was written",
            got=re.sub(r"\s+", " ", str(error))[:400],
            fix="report this model; save it as .xml meanwhile",
        ) from error


def _write_graph(writer: ModelScope, graph: Graph, proto: ModelProto) -> None:
    """The main graph: inputs, nodes, outputs."""
    main, names = GraphScope(writer), dict[Value, str]()
    proto.graph.name = graph.name or "main"
    for node in graph.parameters:
        record = graph.node(node)
        name = writer.unique(public_name(graph, node))
        names[Value(node)] = name
        add_port(proto.graph.input, name, record.types[0], writer.opset, record.origin)
    outputs = [(public_name(graph, node), graph.input(node, 0)) for node in graph.results]
    wanted: dict[Value, str] = {}
    taken = set(names.values())
    for i, (name, value) in enumerate(outputs):
        if name in taken:  # two outputs of one name, or an input that is one
            name = writer.unique(name)
            outputs[i] = name, value
        taken.add(writer.reserve(name))
        kind = graph.op(value.node).kind
        if kind not in ("Parameter", "TypedParameter", "Constant", "ReadValue"):
            wanted.setdefault(value, name)
    write_graph(main, graph, names, wanted)
    for (name, value), node in zip(outputs, graph.results, strict=True):
        if names[value] != name:
            main.copy(names[value], name)
        add_port(proto.graph.output, name, graph.type(value), writer.opset, graph.node(node).origin)
    add_variable_ports(main, proto.graph)
    main.finish(proto.graph)


def public_name(graph: Graph, node: int) -> str:
    """The name of an input or output as a caller knows it."""
    record = graph.node(node)
    listed = sorted(record.names[0]) if record.names else []
    if not listed and record.op.kind == "Result":
        source = graph.input(node, 0)
        if graph.op(source.node).kind not in ("Parameter", "TypedParameter"):
            listed = sorted(graph.node(source.node).names[source.port])
    return listed[0] if listed and record.name not in listed else record.name or f"value_{node}"


def _constant_bytes(graph: Graph) -> int:
    """The bytes of all constants, those of bodies included."""
    pending, total = [graph], 0
    while pending:
        each = pending.pop()
        for node in each.ids():
            op = each.op(node)
            total += op.nbytes if isinstance(op, Constant) else 0
            pending.extend(op.bodies())
    return total
