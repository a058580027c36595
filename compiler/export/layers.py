"""One net as text: layers, edges and rt_info in the order and format of OpenVINO's writer."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...ir.dims import Expr
from ...ir.dtype import DType
from ...ir.errors import UnsupportedOperationError
from ...ir.extensions import file_type, ir_opset, is_extension
from ...ir.graph import Graph, Node, Value
from ...ir.op import Op
from ...ir.ops import XML_NAMES, Constant, Parameter
from ...ir.types import TensorType, Type
from ..frontends.xml.attributes import ABSENT, EXTRA
from ..frontends.xml.catalog import DIALECT
from ..frontends.xml.parameters import BOUNDS, SIZES
from .attribute_format import KEEP_DIALECT, attribute_text, escape, names_text, shape_text
from .bodies import named_bodies, port_maps
from .constants import WeightsWriter

# Attributes that the standard operation sets do not have: kept in rt_info.
_EXTRA_ATTRIBUTES = {"Gather": ("out_of_range",)}

Pairs = dict[str, str]


Sources = list[Value | None]


@dataclass
class Numbering:
    """The layer ids of one net, in the order of writing, and what each layer reads."""

    order: list[int]
    ids: dict[int, int]
    sources: dict[int, Sources]


def number_layers(graph: Graph) -> Numbering:
    """Parameters, what results and sinks need, sinks, results: as OpenVINO orders layers."""
    sources: dict[int, Sources] = {parameter: [] for parameter in graph.parameters}
    pending = [*graph.results, *graph.sinks]
    while pending:
        node = pending.pop()
        if node not in sources:
            sources[node] = graph.inputs(node)
            pending.extend(value.node for value in sources[node] if value is not None)
    ends = {*graph.parameters, *graph.results, *graph.sinks}
    middle = [node for node in graph.order() if node in sources and node not in ends]
    order = [*graph.parameters, *middle, *graph.sinks, *graph.results]
    return Numbering(order, {node: i for i, node in enumerate(order)}, sources)


def _layer_ids(graph: Graph) -> dict[int, int]:
    return number_layers(graph).ids


class NetWriter:
    """Appends the text of a net to `lines`; bodies of control flow share lines and weights."""

    def __init__(self, weights: WeightsWriter, *, dialect: bool) -> None:
        self.weights = weights
        self.dialect = dialect
        self.lines: list[str] = []
        self.indent = 0

    # Lines ------------------------------------------------------------------------------------

    def element(self, tag: str, attributes: Pairs | None = None) -> None:
        """An element without children."""
        self.lines.append("\t" * self.indent + f"<{_open_tag(tag, attributes)} />")

    def open(self, tag: str, attributes: Pairs | None = None) -> None:
        self.lines.append("\t" * self.indent + f"<{_open_tag(tag, attributes)}>")
        self.indent += 1

    def close(self, tag: str) -> None:
        self.indent -= 1
        self.lines.append("\t" * self.indent + f"</{tag}>")

    # Nets -------------------------------------------------------------------------------------

    def net(self, graph: Graph) -> Numbering:
        """`<layers>` and `<edges>` of a graph. Returns its layer ids."""
        numbering = number_layers(graph)
        self.open("layers")
        for node in numbering.order:
            self._layer(graph, node, numbering)
        self.close("layers")
        self.open("edges")
        names = ("from-layer", "from-port", "to-layer", "to-port")
        for edge in _edges(numbering):
            self.element("edge", dict(zip(names, map(str, edge), strict=True)))
        self.close("edges")
        return numbering

    def _layer(self, graph: Graph, node: int, numbering: Numbering) -> None:
        record, sources = graph.node(node), numbering.sources[node]
        op = record.op
        kind, version = _file_name(op)
        if not op.version and not self.dialect:
            raise _not_standard(record)
        head = {
            "id": str(numbering.ids[node]),
            "name": record.name,
            "type": kind,
            "version": version,
        }
        if op.kind == "Result":
            names = _result_names(graph, node)
            head |= {"output_names": names_text(names)} if names else {}
        self.open("layer", head)
        self._data(op)
        for tag, entries in port_maps(op, _count_present(sources), _layer_ids):
            self.open(tag)
            for name, pairs in entries:
                self.element(name, pairs)
            self.close(tag)
        self._rt_info(self._layer_info(record, sources))
        self._ports(graph, record, [value for value in sources if value is not None])
        for tag, body in named_bodies(op):
            self.open(tag)
            self.net(body)
            self.element("rt_info")
            self.close(tag)
        self.close("layer")

    def _data(self, op: Op) -> None:
        if isinstance(op, Constant):
            offset, size = self.weights.add_constant(op.data, op.dtype)
            data = {
                "element_type": op.dtype.value,
                "shape": ", ".join(str(d) for d in op.shape),
                "offset": str(offset),
                "size": str(size),
            }
        elif isinstance(op, Parameter):
            data = {"shape": shape_text(op.shape), "element_type": op.element_type.value}
        else:
            data = {} if op.bodies() else _attributes(op, extra=False)
        if data:
            self.element("data", data)

    def _rt_info(self, info: dict[str, Pairs]) -> None:
        if not info:
            return
        self.open("rt_info")
        for name, pairs in info.items():
            rest = {k: v for k, v in pairs.items() if k not in ("name", "version")}
            version = pairs.get("version", "0")
            self.element("attribute", {"name": name, "version": version} | rest)
        self.close("rt_info")

    def _layer_info(self, record: Node, sources: Sources) -> dict[str, Pairs]:
        """rt_info of the layer, with what only irc knows in one entry of its own."""
        info = {name: pairs for name, pairs in record.rt_info.items() if "/" not in name}
        own = _attributes(record.op, extra=True)
        absent = [i for i, value in enumerate(sources) if value is None]
        if absent:
            if not self.dialect:
                raise UnsupportedOperationError(
                    "OpenVINO's IR cannot leave out an input before others",
                    where=_describe_origin(record),
                    got=f"input {absent[0]} is absent",
                    fix=KEEP_DIALECT,
                )
            own[ABSENT] = ", ".join(map(str, absent))
        if isinstance(record.op, Parameter):
            own |= _sizes(record.op)
        return info | ({EXTRA: own} if own else {})

    def _ports(self, graph: Graph, record: Node, sources: list[Value]) -> None:
        if sources:
            self.open("input")
            for port, value in enumerate(sources):
                info = _port_info(record, "in", port)
                self._port(record, port, graph.type(value), frozenset(), info)
            self.close("input")
        if record.op.kind == "Result":
            return
        self.open("output")
        for port, type_ in enumerate(record.types):
            info = _port_info(record, "out", port)
            self._port(record, len(sources) + port, type_, record.names[port], info)
        self.close("output")

    def _port(
        self,
        record: Node,
        number: int,
        type_: Type,
        names: frozenset[str],
        info: dict[str, Pairs],
    ) -> None:
        head = {"id": str(number), "precision": self._precision(record, type_)}
        if names:
            head["names"] = names_text(names)
        shape = type_.shape if isinstance(type_, TensorType) else None
        if not shape and not info:
            self.element("port", head)
            return
        self.open("port", head)
        for dim in shape or ():
            text = dim if isinstance(dim, int) else -1
            self.lines.append("\t" * self.indent + f"<dim>{text}</dim>")
        self._rt_info(info)
        self.close("port")

    def _precision(self, record: Node, type_: Type) -> str:
        if not isinstance(type_, TensorType):
            return DType.dynamic.ir_precision
        if not type_.dtype.in_openvino and not self.dialect:
            raise UnsupportedOperationError(
                f"OpenVINO's IR has no element type {type_.dtype}",
                where=_describe_origin(record),
                fix=f"{KEEP_DIALECT}; or convert the tensor to another type",
            )
        return type_.dtype.ir_precision


def _file_name(op: Op) -> tuple[str, str]:
    """The type and version of a layer."""
    if is_extension(op):
        return file_type(type(op)), ir_opset(type(op))
    return XML_NAMES.get(op.kind, op.kind), f"opset{op.version}" if op.version else DIALECT


def _open_tag(tag: str, attributes: Pairs | None) -> str:
    if not attributes:
        return tag
    return tag + "".join([f' {k}="{escape(v)}"' for k, v in attributes.items()])


def _attributes(op: Op, *, extra: bool) -> Pairs:
    """Attributes as text: the standard ones, or those kept in rt_info."""
    special = _EXTRA_ATTRIBUTES.get(op.kind, ())
    out: Pairs = {}
    for attribute in op.attributes():
        value = getattr(op, attribute.name)
        if (attribute.name in special) is not extra:
            continue
        if extra and value == attribute.default:
            continue
        text = attribute_text(value)
        if text is not None:
            out[attribute.xml] = text
    return out


def _sizes(op: Parameter) -> Pairs:
    """The names of a Parameter's symbolic sizes, and the bounds of their symbols."""
    if op.shape is None or all(isinstance(d, int) for d in op.shape):
        return {}
    symbols = {s for d in op.shape if isinstance(d, Expr) for s in d.symbols()}
    limits = {s.name: [s.lo, s.hi] for s in symbols if (s.lo, s.hi) != (0, None)}
    pairs = {SIZES: json.dumps([str(d) for d in op.shape])}
    return pairs | ({BOUNDS: json.dumps(limits, sort_keys=True)} if limits else {})


def _port_info(record: Node, side: str, port: int) -> dict[str, Pairs]:
    if not record.rt_info:
        return {}
    prefix = f"{side}:{port}/"
    return {
        name.removeprefix(prefix): pairs
        for name, pairs in record.rt_info.items()
        if name.startswith(prefix)
    }


def _count_present(sources: Sources) -> int:
    return sum(value is not None for value in sources)


def _edges(numbering: Numbering) -> list[tuple[int, int, int, int]]:
    """From layer and port, to layer and port; outputs are numbered after the inputs present."""
    edges: list[tuple[int, int, int, int]] = []
    for node in numbering.order:
        present = [value for value in numbering.sources[node] if value is not None]
        for port, value in enumerate(present):
            first = _count_present(numbering.sources[value.node])
            ends = numbering.ids[value.node], first + value.port, numbering.ids[node], port
            edges.append(ends)
    return sorted(edges, key=lambda edge: (edge[0], edge[2], edge[3]))


def _result_names(graph: Graph, node: int) -> frozenset[str]:
    """The public names of an output: its own, or those of what it returns."""
    own = graph.node(node).names[0]
    source = graph.input(node, 0)
    if own or graph.op(source.node).kind == "Parameter":
        return own
    return graph.node(source.node).names[source.port]


def _describe_origin(record: Node) -> str:
    return record.origin or f"{record.op.kind} {record.name!r}"


def _not_standard(record: Node) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{record.op.kind} has no form in OpenVINO's operation sets",
        where=_describe_origin(record),
        fix=KEEP_DIALECT,
    )
