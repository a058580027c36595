"""The walk over a model's nodes: each becomes operations of the graph, inferred at once.

Functions (the model's own, and those by which ONNX defines one operator through others) are
expanded in place by a stack of frames, without recursion. A node that is not supported is
remembered, what depends on it is passed over, and all are reported together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....ir.errors import (
    Error,
    MemoryLimitError,
    ModelFormatError,
    ShapeError,
    UnsupportedOperationError,
)
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Result
from ....ir.types import Type
from ..xml.text import shorten_text
from .attributes import collect, resolve_references
from .body import MAX_DEPTH, Body, UnsupportedBody, add_parameter, captured_names
from .files.external_data import ExternalData
from .files.initializers import read_constants
from .files.model_file import canonical_domain
from .functions import NODE_LIMIT, Functions, key_of
from .import_context import GraphBuilder, ImportContext, Imported, ImportFunction, UseFunctionBody
from .ops import find_importer
from .order import node_label, sort_nodes
from .schemas import (
    attribute_defaults,
    check_arity,
    check_attributes,
    check_types,
    function_body,
    has_function,
    signature,
)
from .scopes import ImportScope, add_constant, captured_value
from .unsupported import Unsupported
from .user_operations import find_extension

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto


@dataclass
class Importer:
    """Builds the graph of one model; see `run`."""

    functions: Functions
    external: ExternalData
    unsupported: Unsupported = field(default_factory=Unsupported)
    _count: int = 0

    def run(self, main: ImportScope) -> None:
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

    def value(self, frame: ImportScope, name: str) -> Value | None:
        """The value of a name, None for an absent optional one; constants become nodes here."""
        if not name:
            return None
        if name in frame.values:
            return frame.values[name]
        if name not in frame.constants and frame.outer is not None:
            found = self.value(frame.outer, name)
            frame.values[name] = captured_value(frame, found, name)
            return frame.values[name]
        dtype, data = frame.constants[name]
        origin = f"initialiser {shorten_text(name)}"
        value = add_constant(frame.graph, Constant.of(data, dtype), frame.prefix + name, origin)
        if not frame.prefix:
            frame.graph.node(value.node).names = [frozenset([name])]
        frame.values[name] = value
        return value

    # One node ---------------------------------------------------------------------------------

    def _import(self, frame: ImportScope, proto: NodeProto, position: int) -> ImportScope | None:
        """Add a node's operations, or return the frame of the function that it calls."""
        self._count += 1
        if self._count > NODE_LIMIT:
            raise ModelFormatError(
                "the model has too many nodes once its functions are expanded",
                got=self._count,
                expected=f"at most {NODE_LIMIT}",
            )
        domain = canonical_domain(proto.domain)
        version = frame.opsets.get(domain)
        origin = frame.prefix + node_label(proto, position)
        proto = resolve_references(proto, frame.bound)
        lost = [name for name in proto.input if frame.is_lost(name)]
        inputs = [None if name in lost else self.value(frame, name) for name in proto.input]
        types = [None if v is None else frame.graph.type(v) for v in inputs]
        importer = find_extension(proto.op_type, domain)
        function = None if importer is not None else self.functions.get(key_of(proto))
        if function is None and importer is None and version is not None:
            importer = find_importer(proto.op_type, domain, version)
        if function is None and importer is None and not lost and version is not None:
            function = self._schema_function(proto, domain, version, types, origin)
        if function is None and importer is None:
            # What reads a lost value may still be a function; only its types would say.
            if not (lost and has_function(proto.op_type, domain, version or 0)):
                self.unsupported.add(proto.op_type, domain, version, origin, types)
        if lost or (function is None and importer is None):
            frame.lost.update(name for name in proto.output if name)
            return None
        node = ImportContext(
            frame.builder,
            proto,
            proto.op_type,
            domain,
            version or 0,
            frame.prefix + (proto.name or next((o for o in proto.output if o), proto.op_type)),
            origin,
            inputs,
            collect(proto, origin),
            self.external,
            lambda body, types: self.body(frame, node, body, types),
            lambda body: self.inline_body(frame, node, body),
            lambda function, inputs: self.inline_function(frame, node, function, inputs),
        )
        if function is not None:
            return self._call(frame, node, function)
        assert importer is not None
        try:
            self._add(frame, node, importer, list(types))
        except UseFunctionBody:
            function = self._schema_function(proto, domain, version or 0, types, origin)
            if function is not None:
                return self._call(frame, node, function)
            self.unsupported.add(proto.op_type, domain, version, origin, types)
            frame.lost.update(name for name in proto.output if name)
        return None

    def _add(
        self,
        frame: ImportScope,
        node: ImportContext,
        importer: ImportFunction,
        types: list[Type | None],
    ) -> None:
        known = signature(node.op_type, node.domain, node.version)
        while types and types[-1] is None:
            types.pop()
        if known is not None:
            check_arity(known, len(types), len(node.proto.output), node.origin)
            check_types(known, types, node.origin)
        try:
            outputs = importer(node)
        except UnsupportedBody:
            frame.lost.update(name for name in node.proto.output if name)
            return
        except UnsupportedOperationError as error:
            reason = error.what + (f": {error.got}" if error.got is not None else "")
            self.unsupported.add(
                node.op_type, node.domain, node.version, node.origin, types, reason
            )
            frame.lost.update(name for name in node.proto.output if name)
            return
        except Error as error:
            raise _locate_error(error, node.origin) from error
        except MemoryError as error:
            raise MemoryLimitError("no memory for a node's constants", where=node.origin) from error
        except (ValueError, TypeError, LookupError, ArithmeticError, AssertionError) as error:
            raise ModelFormatError(
                "the inputs and attributes of a node do not fit together",
                where=node.origin,
                got=f"{type(error).__name__} {str(error)[:200]}".strip(),
            ) from error
        if known is not None:
            try:
                check_attributes(known, node.attributes, node.seen, node.origin)
            except UnsupportedOperationError as error:
                self.unsupported.add(
                    node.op_type, node.domain, node.version, node.origin, types, error.what
                )
        self._define(frame, node, outputs)

    def _define(self, frame: ImportScope, node: ImportContext, outputs: Imported) -> None:
        listed = [outputs] if isinstance(outputs, Value) else list(outputs)
        for i, name in enumerate(node.proto.output):
            if not name:
                continue
            value = listed[i] if i < len(listed) else None
            if value is None:
                raise ModelFormatError(
                    f"output {i} is not produced", where=node.origin, got=shorten_text(name)
                )
            frame.values[name] = value
            record = frame.graph.node(value.node)
            if i == 0 and value not in node.inputs:
                record.name = node.name
            if not frame.prefix:
                record.names[value.port] |= {name}

    # Bodies -----------------------------------------------------------------------------------

    def body(
        self, frame: ImportScope, node: ImportContext, proto: GraphProto, types: Sequence[Type]
    ) -> Body:
        """A body as a graph of its own. Its first parameters are its inputs, of these types."""
        inner = self._import_body(frame, node, proto, GraphBuilder(Graph(proto.name)), captured=[])
        for port, type_ in zip(proto.input, types, strict=True):
            origin = f"{node.origin}, input {shorten_text(port.name)}"
            inner.values[port.name] = add_parameter(inner.graph, type_, port.name, origin)
        values = self._run_body(inner, node, proto)
        for port, value in zip(proto.output, values, strict=True):
            name = f"{port.name}/sink_port_0"
            inner.builder.add(
                Result(), [value], name, f"{node.origin}, output {shorten_text(port.name)}"
            )
        assert inner.captured is not None
        return Body(inner.graph, inner.captured)

    def inline_body(
        self, frame: ImportScope, node: ImportContext, proto: GraphProto
    ) -> list[Value]:
        """The outputs of a body without inputs, imported in place."""
        return self._run_body(
            self._import_body(frame, node, proto, frame.builder, None), node, proto
        )

    def _import_body(
        self,
        frame: ImportScope,
        node: ImportContext,
        proto: GraphProto,
        builder: GraphBuilder,
        captured: list[Value] | None,
    ) -> ImportScope:
        if frame.depth >= MAX_DEPTH:
            raise node.error(
                "bodies are nested too deeply",
                got=f"{frame.depth + 1} levels",
                expected=f"at most {MAX_DEPTH} levels",
            )
        constants = read_constants(proto, {}, self.external)
        given = [port.name for port in proto.input] + list(constants)
        outer = [name for name in captured_names(proto) if name not in given]
        outputs = [port.name for port in proto.output]
        order = sort_nodes(proto.node, [*given, *outer], outputs, node.origin)
        return ImportScope(
            builder,
            proto.node,
            order,
            frame.opsets,
            {},
            constants,
            bound=frame.bound,
            prefix=f"{node.name}/",
            outer=frame,
            captured=captured,
            depth=frame.depth + 1,
        )

    def _run_body(self, inner: ImportScope, node: ImportContext, proto: GraphProto) -> list[Value]:
        self.run(inner)
        values: list[Value] = []
        for port in proto.output:
            if inner.is_lost(port.name):
                raise UnsupportedBody
            value = self.value(inner, port.name)
            if value is None:
                raise node.error("an output of a body has no value", got=shorten_text(port.name))
            values.append(value)
        return values

    # Functions --------------------------------------------------------------------------------

    def inline_function(
        self,
        frame: ImportScope,
        node: ImportContext,
        function: FunctionProto,
        inputs: Sequence[Value | None],
    ) -> list[Value]:
        """The outputs of a function without attributes, imported in place."""
        values = dict(zip(function.input, inputs, strict=True))
        opsets = {canonical_domain(o.domain): o.version for o in function.opset_import}
        inner = ImportScope(
            frame.builder,
            function.node,
            sort_nodes(function.node, values, function.output, node.origin),
            frame.opsets | opsets,
            values,
            prefix=f"{node.name}/",
            depth=frame.depth,
        )
        self.run(inner)
        if any(inner.is_lost(name) for name in function.output):
            raise UnsupportedBody
        found = [self.value(inner, name) for name in function.output]
        return [value for value in found if value is not None]

    def _call(
        self, frame: ImportScope, node: ImportContext, function: FunctionProto
    ) -> ImportScope:
        """The frame of a function's body, its inputs and attributes bound."""
        where = f"{node.origin}, function {shorten_text(function.name)}"
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
        return ImportScope(
            frame.builder,
            function.node,
            order,
            frame.opsets | opsets,
            values,
            bound=bound,
            prefix=f"{node.name}/",
            call=node,
            outputs=list(function.output),
            depth=frame.depth,
        )

    def _return(self, frame: ImportScope, caller: ImportScope) -> None:
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
                caller.graph.node(value.node).names[value.port] |= {name}

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
        try:
            return function_body(proto, domain, version, types)
        except ModelFormatError as error:
            raise _locate_error(error, origin) from error


def _locate_error(error: Error, origin: str) -> Error:
    """The error with the ONNX node named, also where it names an origin inside."""
    where = origin
    if error.where is not None:
        where = error.where if origin in error.where else f"{origin}, {error.where}"
    kind = type(error) if isinstance(error, ModelFormatError) else ShapeError
    return kind(error.what, where=where, got=error.got, expected=error.expected, fix=error.fix)
