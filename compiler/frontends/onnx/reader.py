"""ONNX to a graph, from a path, bytes or a ModelProto; the onnx package is loaded on use only.

Nothing of the file is trusted; every error names the file and the node, initialiser or input.
"""

from __future__ import annotations

from typing import Literal

from ....ir.errors import Error
from ....ir.graph import Graph
from .files.external_data import ExternalData
from .files.initializers import read_constants
from .files.model_file import Source, load_model, opset_imports
from .functions import check_size, model_functions
from .graph_io import add_inputs, add_results, check_values
from .import_context import GraphBuilder
from .importer import Importer
from .metadata import read_metadata
from .order import sort_nodes
from .schemas import check_opsets
from .scopes import ImportScope

DeclaredShapes = Literal["check", "ignore"]


def read_onnx(
    source: Source,
    *,
    declared_shapes: DeclaredShapes = "check",
    max_memory: int | None = None,
) -> Graph:
    """Read an ONNX model; every node of the result is inferred.

    Node names, tensor names (on output ports), the order and names of inputs and outputs, and
    symbolic sizes (`dim_param`) are kept. Initialisers are constants, also those that are inputs.
    `declared_shapes="ignore"` takes inferred types where an output or a value inside (`value_info`)
    declares something else.
    `max_memory` limits what is read of each file, and each constant, in bytes.

    Raises ModelFormatError (with file and node) for a broken model, ShapeError where types do not
    fit together, UnsupportedOperationError listing every operation irc does not have.
    """
    model = load_model(source, max_memory=max_memory)
    label = model.label
    external = ExternalData(model.folder, max_memory)
    try:
        opsets = opset_imports(model)
        check_opsets(opsets)
        proto = model.proto.graph
        functions = model_functions(model.proto.functions, label)
        check_size(proto.node, functions, label)
        graph = Graph(proto.name)
        graph.rt_info = read_metadata(model.proto)
        constants = read_constants(proto, model.payloads, external)
        importer = Importer(functions, external)
        values = add_inputs(graph, proto, constants, importer.unsupported)
        inputs = [port.name for port in proto.input if port.name not in constants]
        outputs = [port.name for port in proto.output]
        order = sort_nodes(proto.node, [*inputs, *constants], outputs, "graph")
        frame = ImportScope(GraphBuilder(graph), proto.node, order, opsets, dict(values), constants)
        frame.lost.update(set(inputs) - values.keys())
        importer.run(frame)
        importer.unsupported.check(label)
        check = declared_shapes == "check"
        if check:
            check_values(proto, frame)
        add_results(graph, proto, importer, frame, check=check)
        # Scopes are cycles of references, which would keep unused values alive.
        constants.clear()
    except Error as error:
        if error.where is not None and label in error.where:
            raise
        where = label if error.where is None else f"{label}: {error.where}"
        raise type(error)(
            error.what, where=where, got=error.got, expected=error.expected, fix=error.fix
        ) from error
    finally:
        external.close()
    return graph
