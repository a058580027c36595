"""If, Loop and TensorIterator. A body reads the values around it by their names, so that only what
changes from one iteration to the next is passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto

from ......ir.dtype import DType
from ......ir.graph import Graph, Value
from ......ir.ops import If, Loop, TensorIterator
from ......ir.ops.control_flow.loops import BodyInput, BodyOutput
from ......ir.types import TensorType, Type, normalize_axis
from ...context import ExportContext, Exported, ExportFunction
from ...scope import GraphScope, ModelScope
from ...value_types import add_port

_NO_LIMIT = (1 << 63) - 1


def _if(n: ExportContext) -> Exported:
    op = n.cast_op(If)
    branches: dict[str, Any] = {}
    for name, body, inputs, outputs in (
        ("then_branch", op.then_body, op.then_inputs, op.then_outputs),
        ("else_branch", op.else_body, op.else_inputs, op.else_outputs),
    ):
        names = {
            Value(parameter): n.input(port)
            for parameter, port in zip(body.parameters, inputs, strict=True)
        }
        label = f"{n.record.name or 'If'}/{name}"
        writer, found = _write_branch(n.writer.model, body, names, outputs, label)
        proto = GraphProto(name=label)
        for result, index in zip(found, outputs, strict=True):
            _declare(n, proto.output, result, _result_type(body, index))
        writer.finish(proto)
        branches[name] = proto
    return n.add_all("If", [n.flatten_scalar(0, DType.boolean)], op.output_count(), **branches)


def _write_branch(
    model: ModelScope,
    body: Graph,
    names: dict[Value, str],
    results: Sequence[int],
    label: str,
) -> tuple[GraphScope, list[str]]:
    """Write a body whose parameters have names. Returns its writer, and the names of the results
    listed, each computed in the body and each of its own."""
    writer = GraphScope(model)
    model.write_graph(writer, body, names, {})
    found: list[str] = []
    outer = {names[Value(p)] for p in body.parameters}
    own = {name for node in writer.nodes for name in node.output} - outer
    for result in results:
        name = names[body.input(body.results[result], 0)]
        if name not in own or name in found:
            copy = model.unique(f"{label}/{name}")
            writer.copy(name, copy)
            name = copy
        found.append(name)
    return writer, found


def _result_type(body: Graph, index: int) -> Type:
    return body.type(body.input(body.results[index], 0))


def _declare(n: ExportContext, ports: object, name: str, type_: Type) -> None:
    """A port of a body by its element type, as sizes may change between runs, unless it is a
    scalar."""
    scalar = isinstance(type_, TensorType) and type_.shape == ()
    add_port(ports, name, type_, n.opset, n.where, sizes=scalar)


class _LoopExporter:
    """A Loop or TensorIterator as ONNX's Loop."""

    def __init__(self, n: ExportContext) -> None:
        op = n.op
        assert isinstance(op, Loop | TensorIterator)
        self.n, self.op, self.body = n, op, op.body
        self.label = f"{n.record.name or op.kind}/body"
        self.writer = GraphScope(n.writer.model)
        self.proto = GraphProto(name=self.label)
        unique = n.writer.model.unique
        self.iteration = unique(f"{self.label}/iteration")
        self.names: dict[Value, str] = {}
        # Helper nodes of the body are added through a context that writes to it.
        self.inner = ExportContext(self.writer, n.graph, n.node, n.names)
        self.carried = [i for i, p in enumerate(op.ports) if p.mode == "carried"]

    def write(self) -> list[str]:
        """Add the node and return the names of its outputs."""
        n, unique = self.n, self.n.writer.model.unique
        _declare(n, self.proto.input, self.iteration, TensorType(DType.i64, ()))
        _declare(n, self.proto.input, unique(f"{self.label}/go"), TensorType(DType.boolean, ()))
        for i, port in enumerate(self.op.ports):
            self.names[Value(self.body.parameters[i])] = self._feed(i, port)
        n.writer.model.write_graph(self.writer, self.body, self.names, {})
        go = self._condition()
        _declare(n, self.proto.output, go, TensorType(DType.boolean, ()))
        for i in self.carried:
            self._return(self.op.ports[i].back)
        scanned = self._scan_outputs()
        self.writer.finish(self.proto)
        initial = [n.input(self.op.ports[i].port) for i in self.carried]
        trips, condition = self._limits()
        count = len(self.carried) + len(scanned)
        made = n.add_all("Loop", [trips, condition, *initial], count, body=self.proto)
        results = enumerate(self.op.results)
        return [self._take_output(k, output, made, scanned) for k, output in results]

    def _feed(self, i: int, port: BodyInput) -> str:
        """The name of what a parameter of the body reads."""
        declared = self.body.node(self.body.parameters[i]).types[0]
        if port.mode == "invariant":
            return self.n.input(port.port)
        if port.mode == "carried":
            name = self.n.writer.model.unique(f"{self.label}/{self._label(i)}")
            _declare(self.n, self.proto.input, name, declared)
            return name
        if port.mode == "sliced":
            return self._slice(port)
        assert isinstance(declared, TensorType)
        inner, value = self.inner, self.iteration
        if declared.dtype is not DType.i64:
            value = inner.cast(value, declared.dtype)
        rank = len(declared.shape or ())
        return inner.add("Reshape", value, inner.ints([1] * rank)) if rank else value

    def _label(self, i: int) -> str:
        return self.body.node(self.body.parameters[i]).name or f"state_{i}"

    def _slice(self, port: BodyInput) -> str:
        """The part of an outer value that an iteration reads."""
        inner, rank = self.inner, self.n.rank(port.port)
        axis = normalize_axis(port.axis, rank)
        moved = inner.add("Mul", self.iteration, inner.int_scalar(port.stride))
        first = inner.add("Add", self._bound(inner, port.port, axis, port.start), moved)
        if port.stride < 0:
            first = inner.add("Sub", first, inner.int_scalar(port.part_size))
        last = inner.add("Add", first, inner.int_scalar(port.part_size))
        bounds = [inner.add("Reshape", v, inner.ints([1])) for v in (first, last)]
        return inner.add("Slice", self.n.input(port.port), *bounds, inner.ints([axis]))

    def _bound(self, n: ExportContext, port: int, axis: int, bound: int) -> str:
        """A bound of slices as a scalar; negative ones count from the end, -1 being the last."""
        if bound >= 0:
            return n.int_scalar(bound)
        shape = self.n.shape(port)
        size = None if shape is None else shape[axis]
        if isinstance(size, int):
            return n.int_scalar(size + bound + 1)
        found = n.add("Reshape", n.size(self.n.input(port), axis), n.ints([]))
        return found if bound == -1 else n.add("Add", found, n.int_scalar(bound + 1))

    def _condition(self) -> str:
        """Whether to go on."""
        if isinstance(self.op, Loop) and self.op.condition >= 0:
            result = self.body.results[self.op.condition]
            name = self.names[self.body.input(result, 0)]
            type_ = _result_type(self.body, self.op.condition)
            if isinstance(type_, TensorType) and type_.shape != ():
                name = self.inner.add("Reshape", name, self.inner.ints([]))
            return self.inner.add("Identity", name)
        return self.inner.add("Identity", self.inner.constant(True, DType.boolean))

    def _return(self, result: int) -> None:
        """An output of the body with a name of its own."""
        name = self.names[self.body.input(self.body.results[result], 0)]
        copy = self.inner.add("Identity", name)
        _declare(self.n, self.proto.output, copy, _result_type(self.body, result))

    def _scan_outputs(self) -> dict[int, int]:
        """Outputs that every iteration adds to: which output of ONNX's node each of ours is."""
        found: dict[int, int] = {}
        for k, output in enumerate(self.op.results):
            if output.mode == "last" and self._state_of(output) is not None:
                continue
            found[k] = len(self.carried) + len(found)
            self._return(output.result)
        return found

    def _state_of(self, output: BodyOutput) -> int | None:
        """The carried value whose last value an output is."""
        positions = (
            k for k, i in enumerate(self.carried) if self.op.ports[i].back == output.result
        )
        return next(positions, None)

    def _limits(self) -> tuple[str | None, str | None]:
        """Trip count and first condition."""
        n, op = self.n, self.op
        if isinstance(op, Loop):
            known, condition = n.known_ints(0), n.known(1)
            always = condition is not None and bool(condition.reshape(-1)[0])
            first = None if always else n.flatten_scalar(1, DType.boolean)
            if known is not None:
                return (None if known[0] < 0 else n.int_scalar(known[0])), first
            trips = n.flatten_scalar(0, DType.i64)
            below = n.add("Less", trips, n.int_scalar(0))
            return n.add("Where", below, n.int_scalar(_NO_LIMIT), trips), first
        counts = [self._count(p) for p in op.ports if p.mode == "sliced"]
        if not counts:
            raise n.error("an iterator without a sliced input")
        return counts[0] if len(counts) == 1 else n.add("Min", *counts), None

    def _count(self, port: BodyInput) -> str:
        """How many parts a sliced input has: the span over the step, rounded up."""
        n = self.n
        axis = normalize_axis(port.axis, n.rank(port.port))
        ends = [self._bound(n, port.port, axis, bound) for bound in (port.start, port.end)]
        first, last = ends if port.stride > 0 else reversed(ends)
        step = abs(port.stride)
        span = n.add("Sub", last, first)
        if step == 1:
            return span
        return n.add("Div", n.add("Add", span, n.int_scalar(step - 1)), n.int_scalar(step))

    def _take_output(
        self, k: int, output: BodyOutput, made: Sequence[str], scanned: dict[int, int]
    ) -> str:
        """One output of ours from the outputs of ONNX's node."""
        n = self.n
        if k not in scanned:
            state = self._state_of(output)
            assert state is not None
            # Two outputs may be one value: each needs a name of its own.
            first = next(j for j, o in enumerate(self.op.results) if o == output)
            return made[state] if first == k else n.add("Identity", made[state])
        value = made[scanned[k]]
        if output.mode == "last":
            return n.add("Gather", value, n.int_scalar(-1), axis=0)
        type_ = _result_type(self.body, output.result)
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise n.error("parts of an unknown rank that are joined")
        return self._join(value, normalize_axis(output.axis, len(type_.shape)), output, type_)

    def _join(self, value: str, axis: int, output: BodyOutput, type_: TensorType) -> str:
        """Stacked parts [trips, ...] joined along an axis of the parts."""
        n, rank = self.n, len(type_.shape or ())
        if output.stride < 0:
            value = n.slice(value, -1, -(1 << 62), 0, -1)
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
        value = n.transpose(value, order)
        sizes = n.add("Shape", value)
        both = n.reduce("ReduceProd", n.slice(sizes, axis, axis + 2, 0), [0])
        parts = [n.slice(sizes, 0, axis, 0)] if axis else []
        parts.append(both)
        if axis + 1 < rank:
            parts.append(n.slice(sizes, axis + 2, rank + 1, 0))
        target = parts[0] if len(parts) == 1 else n.add("Concat", *parts, axis=0)
        return n.add("Reshape", value, target)


def _loop(n: ExportContext) -> Exported:
    return _LoopExporter(n).write()


EXPORTERS: dict[str, ExportFunction] = {"If": _if, "Loop": _loop, "TensorIterator": _loop}
