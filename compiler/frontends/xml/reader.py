"""OpenVINO IR (versions 10 and 11) to a graph.

Text becomes records (schema.py), records are ordered and checked (order.py, catalog.py), and each
layer becomes a node whose types are inferred at once, so that a MatMul's rule can be chosen and
declared types be compared. Nothing of the file is trusted; every error names file, layer and line.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from ....ir.errors import Error, ModelFormatError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.op import Array, Op
from ....ir.ops import Constant
from . import text as words
from .attributes import ABSENT, EXTRA, read_op
from .bodies import Bodies, check_nesting_depth, has_bodies, read_control
from .catalog import look_up, nested_layers, refuse_unsupported
from .declared import check_declared, check_precision_names
from .file_parts import FileParts
from .matmul import matmul_inputs
from .names import add_operation_names, name_results, port_names
from .order import Wiring, wire
from .parameters import XmlSymbols, read_parameter
from .schema import parse_xml
from .schema_records import Net, XmlLayer
from .source import HeldArray, OpenFile, as_read_only, require_size
from .v10_io import convert_io
from .weights import Parts, WeightsFile, read_constant, referred_ranges

DeclaredShapes = Literal["check", "ignore"]
Source = str | PathLike[str] | bytes


# A thousand bytes for each of a million layers; a tree of them takes ten times as much.
_MAX_TEXT = 1 << 30
_BIN = "the weights (.bin)"


def read_xml(
    path_or_bytes: Source,
    weights: bytes | Array | str | PathLike[str] | None = None,
    *,
    declared_shapes: DeclaredShapes = "check",
    legacy_io: bool = False,
    max_memory: int | None = None,
) -> Graph:
    """Read an IR from a path or from its text; the result is inferred and verified by types.

    `weights` is the .bin's path or content (bytes, or an array of them that is never written to);
    without it, the file of the same name next to the .xml.
    `declared_shapes="ignore"` takes inferred types where a layer declares something else.
    `legacy_io=True` gives a version 10 model the input and output types that OpenVINO gives it.
    `max_memory` limits what is read of each file, and each constant, in bytes.

    Raises ModelFormatError (with file, layer id and name, line) for a broken file, ShapeError
    where types do not fit together, UnsupportedOperationError listing every unknown operation.
    """
    if isinstance(path_or_bytes, bytes | bytearray | memoryview):
        file, text = "<xml>", bytes(path_or_bytes)
    else:
        file = os.fspath(path_or_bytes)
        with OpenFile(file, "the model", max_memory=max_memory) as opened:
            require_size(opened.size, _MAX_TEXT, "an IR's .xml", repr(file))
            text = opened.part(0, opened.size).tobytes()
    net = parse_xml(text, file)
    del text
    wiring = wire(net)
    check_nesting_depth(net)
    layers = list(nested_layers(net, wiring.order))
    refuse_unsupported(layers, file)

    def load() -> Parts:
        parts = _open_weights(path_or_bytes, weights, max_memory)
        parts.expect(referred_ranges(layers))
        return parts

    with WeightsFile(load, max_memory) as weights_file:
        graph = _Builder(weights_file, check=declared_shapes == "check").build(net, wiring).graph
    graph.rt_info = dict(net.rt_info)
    if net.version == 10:
        add_operation_names(graph, net)
        if legacy_io:
            convert_io(graph)
    return graph


def _open_weights(
    source: Source, weights: bytes | Array | str | PathLike[str] | None, max_memory: int | None
) -> Parts:
    if isinstance(weights, np.ndarray):
        return HeldArray(weights)
    if isinstance(weights, bytes | bytearray | memoryview):
        return HeldArray(as_read_only(weights))
    if weights is not None:
        return FileParts(OpenFile(weights, _BIN), max_memory)
    if isinstance(source, bytes | bytearray | memoryview):
        raise ModelFormatError(
            "the model has constants but no weights were given",
            got="the text of the .xml alone",
            expected="the .bin's bytes or path next to it",
            fix="pass weights=...",
        )
    path = Path(os.fspath(source)).with_suffix(".bin")
    if not path.exists():
        raise ModelFormatError(
            "the model has constants but the file with its weights is missing",
            where=repr(str(path)),
            got="no such file",
            expected="the .bin that was written with this .xml",
            fix="put the .bin next to the .xml, or pass weights=...",
        )
    return FileParts(OpenFile(path, _BIN), max_memory)


# Errors that inference may raise for attributes of broken files.
_UNFORESEEN = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


class _Builder:
    """Turns nets into graphs: one for a file, shared by its bodies."""

    def __init__(self, weights: WeightsFile, *, check: bool) -> None:
        self.weights = weights
        self.check = check
        self.symbols = XmlSymbols()

    def build(self, net: Net, wiring: Wiring) -> Bodies:
        """The graph of a net, and the node of each of its layers by layer id."""
        graph = Graph(net.name)
        nodes: dict[int, int] = {}
        by_node: dict[int, XmlLayer] = {}
        for i in wiring.order:
            layer = net.layers[i]
            read = [Value(nodes[source], port) for source, port in wiring.sources[i]]
            node = self._add(graph, layer, _inputs_by_port(layer, read))
            nodes[i] = node
            by_node[node] = layer
        name_results(graph, by_node)
        return Bodies(graph, {layer.id: node for node, layer in by_node.items()})

    def _add(self, graph: Graph, layer: XmlLayer, inputs: list[Value | None]) -> int:
        check_precision_names(layer)
        op = self._op(layer)
        try:
            if op.kind == "MatMul":
                inputs = matmul_inputs(graph, layer, op, inputs, check=self.check)
            count = op.output_count()
            if len(layer.outputs) > count and op.kind != "Result":
                raise layer.error(
                    "a layer declares too many outputs", got=len(layer.outputs), expected=count
                )
            names = [] if op.kind == "Result" else port_names(layer)
            node = graph.add(op, inputs, name=layer.name, origin=layer.origin, names=names)
            record = graph.node(node)
            record.rt_info = _kept_rt_info(layer)
            infer_node(graph, node)
        except Error as error:
            if error.where is not None and layer.file in error.where:
                raise
            raise type(error)(
                error.what,
                where=layer.location,
                got=error.got,
                expected=error.expected,
                fix=error.fix,
            ) from error
        except _UNFORESEEN as error:
            raise layer.error(
                "the layer's attributes and inputs do not fit together",
                got=f"{type(error).__name__}: {error}"[:300],
            ) from error
        if self.check:
            check_declared(layer, record.types)
        return node

    def _op(self, layer: XmlLayer) -> Op:
        cls = look_up(layer)
        assert cls is not None  # refuse_unsupported has seen every layer
        if cls.kind == "Parameter":
            return read_parameter(layer, self.symbols)
        if cls.kind == "Constant":
            dtype, data = read_constant(layer, self.weights)
            return Constant.of(data, dtype)
        if layer.bodies or has_bodies(cls):
            bodies = {
                tag: self.build(body, wire(body, body=True)) for tag, body in layer.bodies.items()
            }
            return read_control(layer, cls, bodies)
        # Some operations have as many outputs as the layer declares: no attribute says so.
        counted = getattr(cls, "counted_by", None)
        return read_op(layer, cls, **({counted: len(layer.outputs)} if counted else {}))


def _inputs_by_port(layer: XmlLayer, given: list[Value]) -> list[Value | None]:
    """Inputs by port of the operation: None where a layer of the dialect leaves one out."""
    inputs: list[Value | None] = list(given)
    text = layer.rt_info.get(EXTRA, {}).get(ABSENT)
    for word in words.words(text) if text else ():
        port = layer.read(ABSENT, word, words.parse_unsigned)
        if port > len(inputs):
            raise layer.error("an absent input lies beyond the others", got=port)
        inputs.insert(port, None)
    return inputs


def _kept_rt_info(layer: XmlLayer) -> dict[str, dict[str, str]]:
    """rt_info of a layer and its ports as a node keeps it: ports as `in:0/name`, `out:0/name`."""
    entries = {name: dict(pairs) for name, pairs in layer.rt_info.items() if name != EXTRA}
    for side, ports in (("in", layer.inputs), ("out", layer.outputs)):
        for n, port in enumerate(ports):
            if port.rt_info:
                entries.update({f"{side}:{n}/{name}": dict(v) for name, v in port.rt_info.items()})
    return entries
