"""Control flow with bodies: If, Loop, TensorIterator.

Port maps name external inputs by the node's input port and body values by their place in the
body's `parameters` and `results`, so that they survive renumbering. A body's own Parameters carry
declared types; `infer` refines a copy of the body with what is known outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dim import Dim, bounds, ceil_div, eq, exact_quotient
from ..errors import ShapeError
from ..graph import Graph
from ..op import Array, Fact, Op, Port
from ..types import TensorType, Type, normalize_axis
from .constants import Parameter
from .rules import known_int, naming, unknown_dim


def infer_body(body: Graph, types: Sequence[Type | None], name: str) -> list[Type]:
    """Types of a body's results where its parameters have the given types (None: as declared)."""
    from ..infer import infer_graph

    copy = body.copy()
    for node, type_ in zip(copy.parameters, types, strict=True):
        record = copy.node(node)
        if isinstance(type_, TensorType):
            record.op = Parameter(type_.dtype, type_.shape)
    with naming(name):
        infer_graph(copy)
    return [copy.node(node).types[0] for node in copy.results]


def joined_type(op: Op, a: Type, b: Type) -> Type:
    """A type that values of both types have. ShapeError where their element types differ."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        if a != b:
            raise ShapeError("values of one place differ in type", got=f"{a} and {b}")
        return a
    if a.dtype is not b.dtype:
        raise ShapeError("values of one place differ in element type", got=f"{a} and {b}")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(a.dtype, None)
    pairs = zip(a.shape, b.shape, strict=True)
    return TensorType(a.dtype, tuple(x if eq(x, y) else unknown_dim(op) for x, y in pairs))


def _check_count(what: str, got: int, expected: int) -> None:
    if got != expected:
        raise ShapeError(what, got=got, expected=expected)


@dataclass(frozen=True, eq=False)
class If(Op):
    """One of two bodies, by a condition of one boolean.

    `then_inputs[i]` is the node's input port that feeds parameter i of the then body (port 0 is
    the condition); `then_outputs[k]` is the place of its result that is output k. So for else.
    """

    kind: ClassVar[str] = "If"
    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("condition"),
        Port("inputs", optional=True, variadic=True),
    )
    then_body: Graph
    else_body: Graph
    then_inputs: tuple[int, ...] = ()
    else_inputs: tuple[int, ...] = ()
    then_outputs: tuple[int, ...] = ()
    else_outputs: tuple[int, ...] = ()

    def bodies(self) -> tuple[Graph, ...]:
        return self.then_body, self.else_body

    def output_count(self) -> int:
        return len(self.then_outputs)

    def infer(self, condition: Fact, rest: tuple[Fact | None, ...]) -> tuple[Type, ...]:
        _check_count(
            "the branches of an If differ in outputs", len(self.else_outputs), self.output_count()
        )
        facts = [condition, *rest]
        known = None if condition.value is None else bool(condition.value.reshape(-1)[0])
        found: list[list[Type]] = []
        for name, taken, body, inputs, outputs in (
            ("t", True, self.then_body, self.then_inputs, self.then_outputs),
            ("e", False, self.else_body, self.else_inputs, self.else_outputs),
        ):
            if known is (not taken):
                continue
            _check_count("a body's parameters and inputs differ", len(inputs), len(body.parameters))
            types = infer_body(body, [_type_of(facts, i) for i in inputs], name)
            found.append([types[k] for k in outputs])
        if len(found) == 1:
            return tuple(found[0])
        return tuple(joined_type(self, a, b) for a, b in zip(*found, strict=True))

    def evaluate(self, condition: Array, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        from ..interpret import interpret

        values = [condition, *rest]
        if bool(np.asarray(condition).reshape(-1)[0]):
            body, inputs, outputs = self.then_body, self.then_inputs, self.then_outputs
        else:
            body, inputs, outputs = self.else_body, self.else_inputs, self.else_outputs
        results = interpret(body, [values[i] for i in inputs])
        return tuple(results[k] for k in outputs)


def _type_of(facts: Sequence[Fact | None], port: int) -> Type | None:
    if not 0 <= port < len(facts):
        raise ShapeError("a body reads an input that the node lacks", got=f"input {port}")
    fact = facts[port]
    return None if fact is None else fact.type


@dataclass(frozen=True)
class BodyInput:
    """What feeds one parameter of a loop's body. `mode`:

    invariant   the node's input `port`, in every iteration
    carried     that input at first, then the body's result `back`
    sliced      parts of `part_size` along `axis`, from `start` to `end` by `stride` (negative
                bounds count from the end, -1 being the last; a negative stride goes backwards)
    iteration   the number of the iteration
    """

    mode: str
    port: int = -1
    back: int = -1
    axis: int = 0
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1


@dataclass(frozen=True)
class BodyOutput:
    """One output of the node: result `result` of the last iteration (`mode` "last"), or of all
    iterations joined along `axis` ("joined"; a negative stride joins from the end)."""

    mode: str
    result: int
    axis: int = 0
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1


@dataclass(frozen=True, eq=False)
class _Iterating(Op):
    """Base. `ports[i]` feeds parameter i of the body; `results[k]` is output k of the node."""

    body: Graph
    ports: tuple[BodyInput, ...] = ()
    results: tuple[BodyOutput, ...] = ()

    def bodies(self) -> tuple[Graph, ...]:
        return (self.body,)

    def output_count(self) -> int:
        return len(self.results)

    def _trips(self, facts: Sequence[Fact | None]) -> Dim | None:
        """How many iterations there are, where that is known."""
        for port in self.ports:
            fact = facts[port.port] if port.mode == "sliced" else None
            if fact is not None and fact.tensor.shape is not None:
                axis = normalize_axis(port.axis, len(fact.tensor.shape))
                return _slice_count(port, fact.tensor.shape[axis])
        return None

    def _infer(self, facts: Sequence[Fact | None]) -> tuple[Type, ...]:
        what = "a body's parameters and inputs differ"
        _check_count(what, len(self.ports), len(self.body.parameters))
        types = [self._first_type(port, facts) for port in self.ports]
        for attempt in range(_MAX_ROUNDS):
            out = infer_body(self.body, types, f"b{attempt}")
            steady = True
            for i, port in enumerate(self.ports):
                before = types[i]
                if port.mode != "carried" or before is None:
                    continue
                after = joined_type(self, before, out[port.back])
                if after != before:
                    types[i], steady = _opened(before, after, attempt), False
            if steady:
                break
        trips = self._trips(facts)
        return tuple(self._output_type(r, out[r.result], trips) for r in self.results)

    def _first_type(self, port: BodyInput, facts: Sequence[Fact | None]) -> Type | None:
        if port.mode == "iteration":
            return None
        found = _type_of(facts, port.port)
        if port.mode != "sliced" or not isinstance(found, TensorType) or found.shape is None:
            return found
        axis = normalize_axis(port.axis, len(found.shape))
        sizes = (*found.shape[:axis], port.part_size, *found.shape[axis + 1 :])
        return TensorType(found.dtype, sizes)

    def _output_type(self, output: BodyOutput, found: Type, trips: Dim | None) -> Type:
        if output.mode == "last" or not isinstance(found, TensorType) or found.shape is None:
            return found
        axis = normalize_axis(output.axis, len(found.shape))
        total = unknown_dim(self) if trips is None else trips * found.shape[axis]
        return TensorType(found.dtype, (*found.shape[:axis], total, *found.shape[axis + 1 :]))

    def _run(
        self, values: Sequence[Any], trips: int | None, keep_going: int, go: bool = True
    ) -> tuple[Any, ...]:
        """Iterate: at most `trips` times, and while result `keep_going` (-1: none) is true."""
        from ..interpret import interpret

        parts: dict[int, list[Array]] = {
            i: _parts(p, values[p.port]) for i, p in enumerate(self.ports) if p.mode == "sliced"
        }
        carried = {i: values[p.port] for i, p in enumerate(self.ports) if p.mode == "carried"}
        joined: list[list[Array]] = [[] for _ in self.results]
        results: list[Any] = []
        iteration = 0
        while go and (trips is None or iteration < trips):
            fed = [self._fed(i, values, parts, carried, iteration) for i in range(len(self.ports))]
            results = interpret(self.body, fed)
            carried = {i: results[self.ports[i].back] for i in carried}
            for kept, output in zip(joined, self.results, strict=True):
                if output.mode == "joined":
                    kept.append(results[output.result])
            go = keep_going < 0 or bool(np.asarray(results[keep_going]).reshape(-1)[0])
            iteration += 1
        return tuple(
            self._collect(output, kept, results, carried)
            for output, kept in zip(self.results, joined, strict=True)
        )

    def _fed(
        self,
        i: int,
        values: Sequence[Any],
        parts: dict[int, list[Array]],
        carried: dict[int, Any],
        iteration: int,
    ) -> Any:
        port = self.ports[i]
        if port.mode == "sliced":
            return parts[i][iteration]
        if port.mode == "carried":
            return carried[i]
        if port.mode == "invariant":
            return values[port.port]
        declared = self.body.op(self.body.parameters[i])
        assert isinstance(declared, Parameter)
        one = np.array(iteration, declared.element_type.numpy)
        return one.reshape((1,) * len(declared.shape or ()))

    def _collect(
        self, output: BodyOutput, kept: list[Array], results: list[Any], carried: dict[int, Any]
    ) -> Any:
        if output.mode == "joined" and kept:
            order = kept if output.stride > 0 else kept[::-1]
            return np.concatenate(order, axis=output.axis)
        if output.mode == "joined":
            return self._nothing(output)
        if results:
            return results[output.result]
        # No iteration ran: a carried value still has its initial value.
        found = [
            i for i, p in enumerate(self.ports) if p.mode == "carried" and p.back == output.result
        ]
        if not found:
            raise ShapeError("a loop without iterations has no such output", got=output.result)
        return carried[found[0]]

    def _nothing(self, output: BodyOutput) -> Array:
        found = self.body.node(self.body.results[output.result]).types[0]
        assert isinstance(found, TensorType)
        sizes = [d if isinstance(d, int) else 0 for d in found.shape or (0,)]
        sizes[output.axis] = 0
        return np.empty(sizes, found.dtype.numpy)


# Each round opens at least one size of a carried value, then its rank; no need for many.
_MAX_ROUNDS = 4


def _opened(before: Type, after: Type, attempt: int) -> Type:
    if attempt + 2 >= _MAX_ROUNDS and isinstance(before, TensorType):
        return TensorType(before.dtype, None)
    return after


def _slice_count(port: BodyInput, size: Dim) -> Dim | None:
    """How many parts a sliced input has."""
    first = port.start if port.start >= 0 else size + port.start + 1
    last = port.end if port.end >= 0 else size + port.end + 1
    span = last - first if port.stride > 0 else first - last
    step = abs(port.stride)
    exact = exact_quotient(span, step)
    count = ceil_div(span, step) if exact is None else exact
    low = bounds(count)[1]
    if low is not None and low < 0:
        raise ShapeError("a sliced input has no parts", got=f"{port.start}..{port.end} of {size}")
    return count


def _parts(port: BodyInput, value: Array) -> list[Array]:
    size = value.shape[port.axis]
    first = port.start if port.start >= 0 else size + port.start + 1
    last = port.end if port.end >= 0 else size + port.end + 1
    index: list[slice] = [slice(None)] * value.ndim
    axis = normalize_axis(port.axis, value.ndim)
    out: list[Array] = []
    starts = range(first, last, port.stride) if port.stride > 0 else range(first, last, port.stride)
    for at in starts:
        begin = at if port.stride > 0 else at - port.part_size
        index[axis] = slice(begin, begin + port.part_size)
        out.append(np.ascontiguousarray(value[tuple(index)]))
    return out


@dataclass(frozen=True, eq=False)
class TensorIterator(_Iterating):
    """Iterates over the parts of sliced inputs."""

    kind: ClassVar[str] = "TensorIterator"
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)

    def infer(self, facts: tuple[Fact | None, ...]) -> tuple[Type, ...]:
        return self._infer(facts)

    def evaluate(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        trips = [len(_parts(p, values[p.port])) for p in self.ports if p.mode == "sliced"]
        if not trips:
            raise ShapeError("a TensorIterator needs a sliced input")
        return self._run(values, min(trips), -1)


@dataclass(frozen=True, eq=False)
class Loop(_Iterating):
    """Iterates at most `trip_count` times (-1: without limit) while the condition holds.

    Ports 0 and 1 are trip count and first condition; `condition` is the place of the body's
    result that says whether to go on.
    """

    kind: ClassVar[str] = "Loop"
    version: ClassVar[int] = 5
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("trip_count"),
        Port("execution_condition"),
        Port("inputs", optional=True, variadic=True),
    )
    condition: int = -1

    def infer(
        self, trip_count: Fact, execution_condition: Fact, rest: tuple[Fact | None, ...]
    ) -> tuple[Type, ...]:
        return self._infer([trip_count, execution_condition, *rest])

    def _trips(self, facts: Sequence[Fact | None]) -> Dim | None:
        first = facts[1]
        if first is not None and first.value is not None and not bool(first.value.reshape(-1)[0]):
            return 0
        limit = known_int(facts[0])
        if limit is None or limit < 0 or not self._always():
            return None
        return limit

    def _always(self) -> bool:
        """Whether the body's condition is the constant true."""
        if self.condition < 0:
            return True
        source = self.body.input(self.body.results[self.condition], 0)
        known = self.body.known(source)
        return known is not None and bool(np.asarray(known).reshape(-1)[0])

    def evaluate(
        self, trip_count: Array, execution_condition: Array, rest: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        limit = int(np.asarray(trip_count).reshape(-1)[0])
        go = bool(np.asarray(execution_condition).reshape(-1)[0])
        values = [trip_count, execution_condition, *rest]
        return self._run(values, None if limit < 0 else limit, self.condition, go)
