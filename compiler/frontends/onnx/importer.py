"""The walk over a model's nodes: each becomes operations of the graph, inferred at once.

Functions (the model's own, and those by which ONNX defines one operator through others) are
expanded in place by a stack of frames, without recursion. A node that is not supported is
remembered, what depends on it is passed over, and all are reported together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....ir.errors import Error, ModelFormatError, ShapeError, UnsupportedOperationError
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import Constant
from ....ir.types import Type
from ..xml.text import short
from .attributes import collect
from .external_data import ExternalData
from .functions import NODE_LIMIT, Functions, key_of
from .model_file import canonical_domain
from .node import Builder, Imported, ImportFunction, OnnxNode
from .ops import find_importer
from .order import node_label, sort_nodes
from .schemas import attribute_defaults, check_arity, check_types, function_body, signature
from .unsupported import Unsupported

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, NodeProto

    from ....ir.dtype import DType


@dataclass
class Frame:
    """Names of one graph or function body: `values` by name (None: an absent optional), constants
    that become nodes when first read, and names that `lost` their value to an unsupported node."""

    nodes: Sequence[NodeProto]
    order: list[int]
    opsets: dict[str, int]
    values: dict[str, Value | None]
    constants: dict[str, tuple[DType, Array]] = field(
        default_factory=dict[str, "tuple[DType, Array]"]
    )
    lost: set[str] = field(default_factory=set[str])
    bound: dict[str, AttributeProto] = field(default_factory=dict[str, "AttributeProto"])
    prefix: str = ""
    # Of a function: the node that calls it, and its outputs' names inside.
    call: OnnxNode | None = None
    outputs: Sequence[str] = ()
    at: int = 0


@dataclass
class Importer:
    """Builds the graph of one model; see `run`."""

    graph: Graph
    functions: Functions
    external: ExternalData
    unsupported: Unsupported = field(default_factory=Unsupported)
    _count: int = 0

    def __post_init__(self) -> None:
        self.builder = Builder(self.graph)

    def run(self, main: Frame) -> None:
        """Import all nodes of a frame, with the functions they call."""
        stack = [main]
        while stack:
            frame = stack[-1]
            if frame.at == len(frame.order):
                stack.pop()
                if stack:
                    self._return(frame, stack[-1])
                continue
            position = frame.order[frame.at]
            frame.at += 1
            called = self._import(frame, frame.nodes[position], position)
            if called is not None:
                stack.append(called)

    def value(self, frame: Frame, name: str) -> Value | None:
        """The value of a name, None for an absent optional one; constants become nodes here."""
        if not name:
            return None
        if name in frame.values:
            return frame.values[name]
        dtype, data = frame.constants[name]
        node = self.graph.add(
            Constant.of(data, dtype),
            name=frame.prefix + name,
            origin=f"initialiser {short(name)}",
            names=[frozenset([name])] if not frame.prefix else (),
        )
        record = self.graph.node(node)
        record.types, record.known = list(record.op.infer()), [data]
        frame.values[name] = Value(node)
        return Value(node)

    # One node ---------------------------------------------------------------------------------

    def _import(self, frame: Frame, proto: NodeProto, position: int) -> Frame | None:
        """Add a node's operations, or return the frame of the function that it calls."""
        self._count += 1
        if self._count > NODE_LIMIT:
            raise ModelFormatError(
                "the model has too many nodes once its functions are expanded",
                expected=f"at most {NODE_LIMIT}",
            )
        domain = canonical_domain(proto.domain)
        version = frame.opsets.get(domain)
        origin = frame.prefix + node_label(proto, position)
        lost = [name for name in proto.input if name in frame.lost]
        inputs = [None if name in frame.lost else self.value(frame, name) for name in proto.input]
        types = [None if v is None else self.graph.type(v) for v in inputs]
        function = self.functions.get(key_of(proto))
        importer = None
        if function is None and version is not None:
            importer = find_importer(proto.op_type, domain, version)
        if function is None and importer is None and not lost and version is not None:
            function = self._schema_function(proto, domain, version, types, origin)
        if function is None and importer is None:
            reason = "" if not lost or self._schema_exists(proto, domain, version) else "unknown"
            self.unsupported.add(proto.op_type, domain, version, origin, types, reason)
        if lost or (function is None and importer is None):
            frame.lost.update(name for name in proto.output if name)
            return None
        node = OnnxNode(
            self.builder,
            proto,
            proto.op_type,
            domain,
            version or 0,
            frame.prefix + (proto.name or next((o for o in proto.output if o), proto.op_type)),
            origin,
            inputs,
            collect(proto, frame.bound, origin),
            self.external,
        )
        if function is not None:
            return self._call(frame, node, function)
        assert importer is not None
        self._add(frame, node, importer, types)
        return None

    def _add(
        self, frame: Frame, node: OnnxNode, importer: ImportFunction, types: list[Type | None]
    ) -> None:
        known = signature(node.op_type, node.domain, node.version)
        while types and types[-1] is None:
            types.pop()
        if known is not None:
            check_arity(known, len(types), len(node.proto.output), node.origin)
            check_types(known, types, node.origin)
        try:
            outputs = importer(node)
        except UnsupportedOperationError as error:
            reason = error.what + (f": {error.got}" if error.got is not None else "")
            self.unsupported.add(
                node.op_type, node.domain, node.version, node.origin, types, reason
            )
            frame.lost.update(name for name in node.proto.output if name)
            return
        except Error as error:
            raise _located(error, node.origin) from error
        if known is not None:
            unknown = node.attributes.keys() - node.seen - known.attributes
            if unknown:
                raise ModelFormatError(
                    "a node has an attribute that its operator does not have",
                    where=node.origin,
                    got=", ".join(short(name) for name in sorted(unknown)[:5]),
                    expected=", ".join(sorted(known.attributes)) or "no attributes",
                )
        self._define(frame, node, outputs)

    def _define(self, frame: Frame, node: OnnxNode, outputs: Imported) -> None:
        listed = [outputs] if isinstance(outputs, Value) else list(outputs)
        for i, name in enumerate(node.proto.output):
            if not name:
                continue
            value = listed[i] if i < len(listed) else None
            if value is None:
                raise ModelFormatError(
                    f"output {i} is not produced", where=node.origin, got=short(name)
                )
            frame.values[name] = value
            record = self.graph.node(value.node)
            if i == 0 and value not in node.inputs:
                record.name = node.name
            if not frame.prefix:
                record.names[value.port] |= {name}

    # Functions --------------------------------------------------------------------------------

    def _call(self, frame: Frame, node: OnnxNode, function: FunctionProto) -> Frame:
        """The frame of a function's body, its inputs and attributes bound."""
        where = f"{node.origin}, function {short(function.name)}"
        if len(node.inputs) > len(function.input):
            raise ModelFormatError(
                "a function is called with too many inputs",
                where=where,
                got=len(node.inputs),
                expected=len(function.input),
            )
        if len(node.proto.output) > len(function.output):
            raise ModelFormatError(
                "a function is called for too many outputs",
                where=where,
                got=len(node.proto.output),
                expected=len(function.output),
            )
        padded = [*node.inputs, *[None] * (len(function.input) - len(node.inputs))]
        values = dict(zip(function.input, padded, strict=True))
        bound = {a.name: a for a in function.attribute_proto} | node.attributes
        if key_of(node.proto) not in self.functions:
            bound = attribute_defaults(node.op_type, node.domain, node.version) | bound
        opsets = {canonical_domain(o.domain): o.version for o in function.opset_import}
        wanted = [f for f, name in zip(function.output, node.proto.output, strict=False) if name]
        order = sort_nodes(function.node, values, wanted, where)
        return Frame(
            function.node,
            order,
            frame.opsets | opsets,
            values,
            bound=bound,
            prefix=f"{node.name}/",
            call=node,
            outputs=list(function.output),
        )

    def _return(self, frame: Frame, caller: Frame) -> None:
        """Give a function's outputs to the node that called it."""
        node = frame.call
        assert node is not None
        for i, name in enumerate(node.proto.output):
            inner = frame.outputs[i]
            if not name:
                continue
            if inner in frame.lost:
                caller.lost.add(name)
                continue
            value = self.value(frame, inner)
            caller.values[name] = value
            if value is not None and not caller.prefix:
                self.graph.node(value.node).names[value.port] |= {name}

    def _schema_function(
        self,
        proto: NodeProto,
        domain: str,
        version: int,
        types: list[Type | None],
        origin: str,
    ) -> FunctionProto | None:
        known = signature(proto.op_type, domain, version)
        if known is None:
            return None
        check_arity(known, len(types), len(proto.output), origin)
        check_types(known, list(types), origin)
        return function_body(proto, domain, version, types)

    @staticmethod
    def _schema_exists(proto: NodeProto, domain: str, version: int | None) -> bool:
        return version is not None and signature(proto.op_type, domain, version) is not None


def _located(error: Error, origin: str) -> Error:
    """The error with the ONNX node named, also where it names a place inside."""
    where = origin
    if error.where is not None:
        where = error.where if origin in error.where else f"{origin}, {error.where}"
    kind = type(error) if isinstance(error, ModelFormatError) else ShapeError
    return kind(error.what, where=where, got=error.got, expected=error.expected, fix=error.fix)
