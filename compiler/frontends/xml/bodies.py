"""Bodies of If, Loop and TensorIterator: port maps and back edges.

A port map names port ids outside and layer ids inside the body; operations name input
ports and of indices among a body's parameters and results. Every parameter of a body has to be fed
and every output of the layer has to come from somewhere, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ....ir.errors import ModelFormatError
from ....ir.graph import Graph
from ....ir.op import Op
from ....ir.ops import If, Loop, TensorIterator
from ....ir.ops.control_flow.loops import BodyInput, BodyOutput
from . import text as words
from .attributes import read_op
from .schema_records import MapEntry, Net, XmlLayer, tag_text

_T = TypeVar("_T")
# A port number outside that means the loop itself.
_LOOP_PORT = -1
_PARTS = ("start", "end", "stride", "part_size")


# Types of a loop's body are inferred again until carried types are steady, at most so often.
_LOOP_ROUNDS = 4
_LOOPS = ("loop", "tensoriterator")
# What inference of bodies may cost, in layers: this, and so often the layers that are there.
_MAX_INFERRED_LAYERS = 200_000
_MAX_INFERENCES_PER_LAYER = 10


def check_nesting_depth(net: Net) -> None:
    """Refuse loops nested so deeply that inferring types alone would take minutes."""
    layers, cost = _cost(net)
    if cost > _MAX_INFERRED_LAYERS + _MAX_INFERENCES_PER_LAYER * layers:
        raise ModelFormatError(
            "loops are nested too deeply: inferring their types costs too much",
            where=net.file,
            got=f"{cost} inferences for {layers} layers",
            expected=f"at most {_MAX_INFERRED_LAYERS + _MAX_INFERENCES_PER_LAYER * layers}",
        )


def _cost(net: Net) -> tuple[int, int]:
    """Layers of a net with all bodies, and how many layers inference visits at most."""
    layers = cost = len(net.layers)
    for layer in net.layers:
        rounds = _LOOP_ROUNDS if layer.type.lower() in _LOOPS else 1
        for body in layer.bodies.values():
            inner_layers, inner_cost = _cost(body)
            layers += inner_layers
            cost += rounds * inner_cost
    return layers, cost


@dataclass
class Bodies:
    """A body's graph, and its nodes by layer id, which port maps name."""

    graph: Graph
    nodes: dict[int, int]


def has_bodies(cls: type[Op]) -> bool:
    """Whether layers of this operation hold bodies, whatever a file says."""
    return cls in (If, Loop, TensorIterator)


def read_control(layer: XmlLayer, cls: type[Op], bodies: dict[str, Bodies]) -> Op:
    """The operation of a layer with bodies. Raises ModelFormatError naming layer and line."""
    if cls is If:
        then_body, else_body = (_body(layer, bodies, tag) for tag in ("then_body", "else_body"))
        return If(
            then_body.graph,
            else_body.graph,
            *(
                _branch_inputs(layer, body, f"{branch}_port_map")
                for branch, body in (("then", then_body), ("else", else_body))
            ),
            *(
                _branch_outputs(layer, body, f"{branch}_port_map")
                for branch, body in (("then", then_body), ("else", else_body))
            ),
        )
    if cls not in (Loop, TensorIterator):
        raise layer.error("this operation has no bodies", got=", ".join(bodies))
    return _IterationReader(layer, _body(layer, bodies, "body")).read(cls)


def _body(layer: XmlLayer, bodies: dict[str, Bodies], tag: str) -> Bodies:
    if tag not in bodies:
        raise _missing_error(layer, tag, bodies)
    return bodies[tag]


def _map(layer: XmlLayer, tag: str) -> list[MapEntry]:
    if tag not in layer.maps:
        raise _missing_error(layer, tag, layer.maps)
    return layer.maps[tag]


def _missing_error(layer: XmlLayer, tag: str, there: Iterable[str]) -> ModelFormatError:
    found = ", ".join(f"<{name}>" for name in there)
    return layer.error(
        f"<{tag}> is missing",
        got=found or "nothing of that kind",
        expected=f"a <{tag}> in this layer",
    )


def _branch_inputs(layer: XmlLayer, body: Bodies, tag: str) -> tuple[int, ...]:
    found: dict[int, int] = {}
    for entry in _map(layer, tag):
        if not entry.output:
            index = _inner_index(layer, entry, body, body.graph.parameters, "Parameter")
            _insert_once(layer, entry, found, index, _outer_input(layer, entry))
    return _complete(layer, found, len(body.graph.parameters), "a parameter of the body")


def _branch_outputs(layer: XmlLayer, body: Bodies, tag: str) -> tuple[int, ...]:
    found: dict[int, int] = {}
    for entry in _map(layer, tag):
        if entry.output:
            index = _inner_index(layer, entry, body, body.graph.results, "Result")
            _insert_once(layer, entry, found, _outer_output(layer, entry), index)
    return _complete(layer, found, len(layer.outputs), "an output of the layer")


class _IterationReader:
    """Reads Loop and TensorIterator, whose port maps are alike."""

    def __init__(self, layer: XmlLayer, body: Bodies) -> None:
        self.layer, self.body = layer, body
        self.back = self._back_edges()

    def read(self, cls: type[Op]) -> Op:
        """The operation of the layer."""
        graph = self.body.graph
        inputs: dict[int, BodyInput] = {}
        outputs: dict[int, BodyOutput] = {}
        condition: dict[int, int] = {}
        for entry in _map(self.layer, "port_map"):
            if entry.output:
                index = _inner_index(self.layer, entry, self.body, graph.results, "Result")
                if entry.attributes.get("purpose") == "execution_condition":
                    _insert_once(self.layer, entry, condition, 0, index)
                if _read_number(self.layer, entry, "external_port_id") != _LOOP_PORT:
                    output = self._output(entry, index)
                    _insert_once(
                        self.layer, entry, outputs, _outer_output(self.layer, entry), output
                    )
            else:
                index = _inner_index(self.layer, entry, self.body, graph.parameters, "Parameter")
                _insert_once(self.layer, entry, inputs, index, self._input(entry, index))
        given: dict[str, Any] = {
            "body": graph,
            "ports": _complete(
                self.layer, inputs, len(graph.parameters), "a parameter of the body"
            ),
            "results": _complete(
                self.layer, outputs, len(self.layer.outputs), "an output of the layer"
            ),
        }
        if cls is Loop:
            given["condition"] = condition.get(0, -1)
        return read_op(self.layer, cls, **given)

    def _back_edges(self) -> dict[int, int]:
        """Indices of parameters to the indices of the results that come back to them."""
        back: dict[int, int] = {}
        for source, target in self.layer.back_edges:
            result = self._index_of_layer(source, self.body.graph.results, "Result")
            parameter = self._index_of_layer(target, self.body.graph.parameters, "Parameter")
            if parameter in back:
                raise self.layer.error(
                    "two back edges lead to one Parameter",
                    got=f"a second one to layer {target}",
                    expected="one back edge for each Parameter",
                )
            back[parameter] = result
        return back

    def _index_of_layer(self, layer_id: int, listed: list[int], kind: str) -> int:
        node = self.body.nodes.get(layer_id)
        if node is None or node not in listed:
            raise self.layer.error(
                f"a back edge names a layer that is not a {kind} of the body",
                got=f"layer {layer_id}",
                expected=f"the id of a {kind} in the body's <layers>",
            )
        return listed.index(node)

    def _input(self, entry: MapEntry, index: int) -> BodyInput:
        purpose = entry.attributes.get("purpose")
        if purpose == "current_iteration":
            return BodyInput("iteration")
        if purpose is not None:
            wanted = "current_iteration, or no purpose"
            raise _error(self.layer, entry, "an unknown purpose of an input", purpose, wanted)
        port = _outer_input(self.layer, entry)
        if "axis" in entry.attributes:
            axis, parts = self._read_slicing(entry)
            return BodyInput("sliced", port, axis=axis, **parts)
        if index in self.back:
            return BodyInput("carried", port, self.back[index])
        return BodyInput("invariant", port)

    def _output(self, entry: MapEntry, index: int) -> BodyOutput:
        if "axis" not in entry.attributes:
            return BodyOutput("last", index)
        axis, parts = self._read_slicing(entry)
        return BodyOutput("joined", index, axis, **parts)

    def _read_slicing(self, entry: MapEntry) -> tuple[int, dict[str, int]]:
        """Axis and the other numbers of a sliced input or joined output."""
        given: dict[str, Any] = {
            name: _read_number(self.layer, entry, name)
            for name in _PARTS
            if name in entry.attributes
        }
        if given.get("stride") == 0:
            raise _error(self.layer, entry, "a stride of 0", _tag(entry), "any other stride")
        if given.get("part_size", 1) < 1:
            raise _error(self.layer, entry, "a part without size", given["part_size"], "1 or more")
        return _read_number(self.layer, entry, "axis"), given


def _read_number(layer: XmlLayer, entry: MapEntry, name: str) -> int:
    text = entry.attributes.get(name)
    if text is None:
        raise _error(
            layer, entry, f"attribute {name!r} is missing in a port map", _tag(entry), name
        )
    return layer.read(name, text, words.integer)


def _inner_index(
    layer: XmlLayer, entry: MapEntry, body: Bodies, listed: list[int], kind: str
) -> int:
    """The index of a body's layer among the body's parameters or results."""
    number = _read_number(layer, entry, "internal_layer_id")
    node = body.nodes.get(number)
    if node is None or node not in listed:
        raise _error(
            layer,
            entry,
            f"a port map names a layer that is not a {kind} of the body",
            number,
            f"the id of a {kind} in the body's <layers>",
        )
    return listed.index(node)


def _outer_input(layer: XmlLayer, entry: MapEntry) -> int:
    return _outer_index(layer, entry, [port.id for port in layer.inputs], "input")


def _outer_output(layer: XmlLayer, entry: MapEntry) -> int:
    return _outer_index(layer, entry, [port.id for port in layer.outputs], "output")


def _outer_index(layer: XmlLayer, entry: MapEntry, ids: list[int], side: str) -> int:
    number = _read_number(layer, entry, "external_port_id")
    if number not in ids:
        what = f"a port map names an {side} port that does not exist"
        raise _error(layer, entry, what, number, f"one of {ids[:20]}" if ids else f"an {side}")
    return ids.index(number)


def _insert_once(
    layer: XmlLayer, entry: MapEntry, found: dict[int, _T], index: int, value: _T
) -> None:
    if index in found:
        what = "a port map says the same thing twice"
        raise _error(layer, entry, what, _tag(entry), "each entry once")
    found[index] = value


def _complete(layer: XmlLayer, found: dict[int, _T], count: int, what: str) -> tuple[_T, ...]:
    for index in range(count):
        if index not in found:
            raise layer.error(
                f"{what} is not connected in the port map",
                got=f"nothing for number {index}",
                expected=f"an entry for each of {count}",
            )
    return tuple(found[index] for index in range(count))


def _error(
    layer: XmlLayer, entry: MapEntry, what: str, got: object, expected: object
) -> ModelFormatError:
    return layer.error(f"{what} (line {entry.line})", got=got, expected=expected)


def _tag(entry: MapEntry) -> str:
    return tag_text("output" if entry.output else "input", entry.attributes)
