"""Which layers of a net count, in which order: connections resolved, cycles and gaps refused.

As in OpenVINO, layers that no Result or Assign reaches are dropped, except Parameters. Unlike
there, edges between layers or ports that do not exist, doubled edges and doubled ids are errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.errors import ModelFormatError
from .schema_records import Net, XmlLayer

# One end of a connection: the layer's position in the net, and the position of its output port.
Source = tuple[int, int]

_ROOTS = ("result", "assign")


@dataclass
class Wiring:
    """Positions of the layers that count, producers first, and what each input port reads."""

    order: list[int]
    sources: list[list[Source]]


def wire(net: Net, *, body: bool = False) -> Wiring:
    """Resolve edges and order layers. Raises ModelFormatError naming file, layer and line.

    A body may lack Results (its layer says what it returns), a model may not.
    """
    position = _positions(net)
    connected = _connections(net, position)
    kinds = [layer.type.lower() for layer in net.layers]
    roots = [i for kind in _ROOTS for i, k in enumerate(kinds) if k == kind]
    if not body and "result" not in kinds:
        raise ModelFormatError(
            "the model has no Result",
            where=f"{net.file}: <net>",
            got=f"no Result among {len(net.layers)} layers",
            expected="at least one output: a layer of type Result",
        )
    order = [i for i, kind in enumerate(kinds) if kind in ("parameter", "typedparameter")]
    seen = set(order)
    for root in roots:
        _visit(net, root, connected, seen, order)
    needed = set(order)
    sources: list[list[Source]] = []
    for i, layer in enumerate(net.layers):
        sources.append(_sources(layer, connected[i]) if i in needed else [])
    return Wiring(order, sources)


def _positions(net: Net) -> dict[int, int]:
    position: dict[int, int] = {}
    for i, layer in enumerate(net.layers):
        if layer.id in position:
            first = net.layers[position[layer.id]]
            raise layer.error(
                "two layers have one id",
                got=f"{layer.id}, also {first.origin}",
                expected="each id once",
            )
        position[layer.id] = i
    return position


def _connections(net: Net, position: dict[int, int]) -> list[dict[int, Source]]:
    """What each layer's input ports (by id) read."""
    outputs = [{port.id: n for n, port in enumerate(layer.outputs)} for layer in net.layers]
    inputs = [{port.id for port in layer.inputs} for layer in net.layers]
    connected: list[dict[int, Source]] = [{} for _ in net.layers]
    for edge in net.edges:
        where = f"{net.file}: <edge> (line {edge.line})"
        for end, wanted in (("from-layer", edge.from_layer), ("to-layer", edge.to_layer)):
            if wanted not in position:
                raise ModelFormatError(
                    f"an edge names a layer that does not exist ({end})",
                    where=where,
                    got=wanted,
                    expected="the id of a layer",
                )
        source, target = position[edge.from_layer], position[edge.to_layer]
        if edge.from_port not in outputs[source]:
            raise net.layers[source].error(
                f"an edge leaves from an output port that does not exist (line {edge.line})",
                got=f"port {edge.from_port}",
                expected=_ports(outputs[source], net.layers[source], "output"),
            )
        if edge.to_port not in inputs[target]:
            raise net.layers[target].error(
                f"an edge leads to an input port that does not exist (line {edge.line})",
                got=f"port {edge.to_port}",
                expected=_ports(inputs[target], net.layers[target], "input"),
            )
        if edge.to_port in connected[target]:
            raise net.layers[target].error(
                f"two edges lead to input port {edge.to_port} (line {edge.line})",
                got=f"a second one, from layer {edge.from_layer}, port {edge.from_port}",
                expected="one edge for each input port",
            )
        connected[target][edge.to_port] = source, outputs[source][edge.from_port]
    return connected


def _ports(ports: dict[int, int] | set[int], layer: XmlLayer, side: str) -> str:
    listed = [str(port) for port in sorted(ports)[:20]] + ["..."] * (len(ports) > 20)
    if not ports:
        return f"another layer: this {layer.type} has no {side} ports"
    return f"one of ports {', '.join(listed)}"


def _sources(layer: XmlLayer, connected: dict[int, Source]) -> list[Source]:
    if layer.type.lower() == "parameter" and layer.inputs:
        raise layer.error("a Parameter has no inputs", got=len(layer.inputs), expected=0)
    for n, port in enumerate(layer.inputs):
        if port.id not in connected:
            raise layer.error(
                f"input {n} (port {port.id}) is not connected",
                got="no edge that leads to it",
                expected=f'an edge with to-layer="{layer.id}" to-port="{port.id}"',
            )
    if layer.type.lower() == "result" and len(layer.inputs) != 1:
        raise layer.error("a Result has one input", got=len(layer.inputs), expected=1)
    return [connected[port.id] for port in layer.inputs]


def _visit(
    net: Net, root: int, connected: list[dict[int, Source]], seen: set[int], order: list[int]
) -> None:
    """Depth first from a root, without recursion; appends layers after all they read."""
    if root in seen:
        return
    seen.add(root)
    path = [root]
    on_path = {root}
    pending = [iter(_producers(net.layers[root], connected[root]))]
    while path:
        for producer in pending[-1]:
            if producer in on_path:
                raise _cycle(net, path[path.index(producer) :])
            if producer not in seen:
                seen.add(producer)
                path.append(producer)
                on_path.add(producer)
                pending.append(iter(_producers(net.layers[producer], connected[producer])))
                break
        else:
            order.append(path[-1])
            on_path.discard(path.pop())
            pending.pop()


def _producers(layer: XmlLayer, connected: dict[int, Source]) -> list[int]:
    return [connected[port.id][0] for port in layer.inputs if port.id in connected]


def _cycle(net: Net, path: list[int]) -> ModelFormatError:
    shown = [net.layers[i].origin for i in reversed(path)]
    if len(shown) > 12:
        shown = [*shown[:10], f"... {len(shown) - 11} more ...", shown[-1]]
    return ModelFormatError(
        "the layers form a cycle",
        where=f"{net.file}: {net.layers[path[0]].origin}",
        got=" -> ".join([*shown, shown[0]]),
        expected="no cycle",
    )
