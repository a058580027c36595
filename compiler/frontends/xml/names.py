"""Tensor names: on output ports and Results, by the rules of versions 10 and 11.

Version 11 has only the names that the file gives; a Result takes `output_names`, or the names of
the port it reads unless a Parameter owns them. In version 10 operation names count as well: an
input is called as its Parameter, an output as the layer that produces it.
"""

from __future__ import annotations

from ....ir.errors import ModelFormatError
from ....ir.graph import Graph, Value
from .schema_records import Net, XmlLayer


def port_names(layer: XmlLayer) -> list[frozenset[str]]:
    """The names of a layer's output ports, by position."""
    return [port.names for port in layer.outputs]


def name_results(graph: Graph, layers: dict[int, XmlLayer]) -> None:
    """Give each Result the public names of its output (version 11). `layers` by node id."""
    for result in graph.results:
        source = graph.input(result, 0)
        layer = layers.get(result)
        given = None if layer is None else layer.output_names
        if given is None and graph.op(source.node).kind != "Parameter":
            given = graph.node(source.node).names[source.port]
        graph.node(result).names = [given or frozenset[str]()]


def add_operation_names(graph: Graph, net: Net) -> None:
    """Version 10: names of Parameters and of layers that Results read become tensor names.

    Raises ModelFormatError where such a name is already another tensor's.
    """
    owner: dict[str, Value] = {}
    for node in graph.ids():
        for port, names in enumerate(graph.node(node).names):
            if graph.op(node).kind != "Result":
                owner.update((name, Value(node, port)) for name in names)
    values = [Value(parameter) for parameter in graph.parameters]
    values += [graph.input(result, 0) for result in graph.results]
    for value in values:
        record = graph.node(value.node)
        if not record.name:
            continue
        name = record.name if record.op.output_count() == 1 else f"{record.name}.{value.port}"
        if owner.setdefault(name, value) != value:
            other = graph.node(owner[name].node)
            raise ModelFormatError(
                "an operation's name is another tensor's name, which version 10 does not allow",
                where=f"{net.file}: {record.origin}",
                got=f"{name!r}, also of {other.origin}",
                fix='give the layers different names, or save the model as version="11"',
            )
        record.names[value.port] |= {name}
    for result in graph.results:
        source = graph.input(result, 0)
        graph.node(result).names = [graph.node(source.node).names[source.port]]
