"""Control flow with bodies: Loop and TensorIterator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, Expr, bounds, ceil_div, eq, evaluate, exact_quotient, plain_symbol
from ...errors import ShapeError
from ...graph import Graph
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import active_budget, charge_bytes, value_bytes
from ...op import Array, Fact, Op, Port, RunBody
from ...types import TensorType, Type, normalize_axis
from ..shape_inference import fresh_symbol, known_dims, require_single
from ..tensor.constants import Parameter
from .conditional import check_count, infer_body, infer_outer_types, interpreters, type_of
from .sequences import common_type


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
class _IteratingOp(Op):
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
                return slice_count(port, fact.tensor.shape[axis])
        return None

    def with_bodies(self, bodies: Sequence[Graph]) -> Op:
        return replace(self, body=bodies[0])

    def body_types(self, facts: Sequence[Fact | None]) -> list[list[Type | None]]:
        return [self._steady(facts)[0]]

    def _infer(self, facts: Sequence[Fact | None]) -> tuple[Type, ...]:
        _, out, open_sizes = self._steady(facts)
        trips = self._trips(facts)
        found = [
            self._output_type(r, self._close_type(out[r.result], open_sizes), trips)
            for r in self.results
        ]
        return infer_outer_types(self, facts, found)

    def _steady(
        self, facts: Sequence[Fact | None]
    ) -> tuple[list[Type | None], list[Type], set[Dim]]:
        """Types of the body's parameters and results that hold in every iteration, and the sizes
        that mean nothing outside one."""
        what = "a body's parameters and inputs differ"
        check_count(what, len(self.ports), len(self.body.parameters))
        types = [self._first_type(port, facts) for port in self.ports]
        # Sizes of carried values that change from one iteration to the next.
        open_sizes: set[Dim] = set()
        out: list[Type] = []
        steady = False
        while not steady:
            out, steady = infer_body(self.body, types, "b"), True
            for i, port in enumerate(self.ports):
                before = types[i]
                if port.mode == "carried" and before is not None:
                    types[i] = self._infer_carried(before, out[port.back], open_sizes)
                    steady = steady and types[i] == before
        return types, out, open_sizes

    def _infer_carried(self, before: Type, after: Type, open_sizes: set[Dim]) -> Type:
        """The type of a carried value in every iteration. ShapeError where its kind changes."""
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            # Sizes inside a sequence's type are not sizes of the loop (see sequences.py).
            return common_type(self, before, after)
        if before.dtype is not after.dtype:
            raise ShapeError("a carried value changes its type", got=f"{before} to {after}")
        if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
            return TensorType(before.dtype, None)
        sizes: list[Dim] = []
        for x, y in zip(before.shape, after.shape, strict=True):
            if x not in open_sizes and not eq(x, y):
                x = fresh_symbol(self)
                open_sizes.add(x)
            sizes.append(x)
        return TensorType(before.dtype, tuple(sizes))

    def _close_type(self, found: Type, open_sizes: set[Dim]) -> Type:
        """A result's type outside, where the sizes of a single iteration mean nothing."""
        if not isinstance(found, TensorType) or found.shape is None or not open_sizes:
            return found
        inner = {s for d in open_sizes if isinstance(d, Expr) for s in d.symbols()}
        sizes = (
            fresh_symbol(self) if isinstance(d, Expr) and d.symbols() & inner else d
            for d in found.shape
        )
        return TensorType(found.dtype, tuple(sizes))

    def _first_type(self, port: BodyInput, facts: Sequence[Fact | None]) -> Type | None:
        if port.mode == "iteration":
            return None
        found = type_of(facts, port.port)
        if port.mode != "sliced" or not isinstance(found, TensorType) or found.shape is None:
            return found
        axis = normalize_axis(port.axis, len(found.shape))
        sizes = (*found.shape[:axis], port.part_size, *found.shape[axis + 1 :])
        return TensorType(found.dtype, sizes)

    def _output_type(self, output: BodyOutput, found: Type, trips: Dim | None) -> Type:
        if output.mode == "last" or not isinstance(found, TensorType) or found.shape is None:
            return found
        axis = normalize_axis(output.axis, len(found.shape))
        total = fresh_symbol(self) if trips is None else trips * found.shape[axis]
        return TensorType(found.dtype, (*found.shape[:axis], total, *found.shape[axis + 1 :]))

    def _iterate(
        self,
        values: Sequence[Any],
        body: RunBody,
        trips: int | None,
        keep_going: int,
        go: bool = True,
    ) -> tuple[Any, ...]:
        """Iterate: at most `trips` times, and while result `keep_going` (-1: none) is true."""
        budget = active_budget()
        before, kept_bytes = budget.used, 0
        carried = {i: values[p.port] for i, p in enumerate(self.ports) if p.mode == "carried"}
        joined: list[list[Array]] = [[] for _ in self.results]
        results: list[Any] = []
        iteration = 0
        while go and (trips is None or iteration < trips):
            fed = [self._body_input(i, values, carried, iteration) for i in range(len(self.ports))]
            results = body(fed)
            carried = {i: results[self.ports[i].back] for i in carried}
            for slices, output in zip(joined, self.results, strict=True):
                if output.mode == "joined":
                    slices.append(results[output.result])
                    kept_bytes += value_bytes(results[output.result])
            budget.used = before
            carried_bytes = sum(map(value_bytes, carried.values()))
            budget.charge(kept_bytes + carried_bytes, f"what {iteration + 1} iterations keep")
            go = keep_going < 0 or bool(np.asarray(results[keep_going]).reshape(-1)[0])
            iteration += 1
        return tuple(
            self._collect(output, slices, results, carried, values)
            for output, slices in zip(self.results, joined, strict=True)
        )

    def _body_input(
        self,
        i: int,
        values: Sequence[Any],
        carried: dict[int, Any],
        iteration: int,
    ) -> Any:
        port = self.ports[i]
        if port.mode == "sliced":
            return _slice_input(port, values[port.port], iteration)
        if port.mode == "carried":
            return carried[i]
        if port.mode == "invariant":
            return values[port.port]
        declared = self.body.op(self.body.parameters[i])
        assert isinstance(declared, Parameter)
        one = np.array(iteration, declared.element_type.numpy)
        return one.reshape((1,) * len(declared.shape or ()))

    def _collect(
        self,
        output: BodyOutput,
        slices: list[Array],
        results: list[Any],
        carried: dict[int, Any],
        values: Sequence[Any],
    ) -> Any:
        if output.mode == "joined" and slices:
            order = slices if output.stride > 0 else slices[::-1]
            charge_bytes(value_bytes(slices), f"{len(slices)} parts joined")
            return np.concatenate(order, axis=output.axis)
        if output.mode == "joined":
            return self._empty_result(output, values)
        if results:
            return results[output.result]
        # No iteration ran: a carried value still has its initial value.
        found = [
            i for i, p in enumerate(self.ports) if p.mode == "carried" and p.back == output.result
        ]
        if not found:
            raise ShapeError("a loop without iterations has no such output", got=output.result)
        return carried[found[0]]

    def _empty_result(self, output: BodyOutput, values: Sequence[Any]) -> Array:
        """Of no iterations: sizes that the body would give, as far as its inputs say."""
        found = self.body.node(self.body.results[output.result]).types[0]
        assert isinstance(found, TensorType)
        given = self._sizes_of(values)
        env = {s.name: n for d, n in given.items() if (s := plain_symbol(d)) is not None}
        sizes = [
            d if isinstance(d, int)
            else given[d] if d in given
            else evaluate(d, env) if env.keys() >= {s.name for s in d.symbols()}
            else 0
            for d in found.shape or (0,)
        ]  # fmt: skip
        sizes[output.axis] = 0
        return np.empty(sizes, found.dtype.numpy)

    def _sizes_of(self, values: Sequence[Any]) -> dict[Expr, int]:
        """The sizes with symbols that the body's parameters are declared with."""
        found: dict[Expr, int] = {}
        for port, parameter in zip(self.ports, self.body.parameters, strict=True):
            declared = self.body.node(parameter).types[0]
            if port.mode == "iteration" or not isinstance(declared, TensorType):
                continue
            given = values[port.port].shape
            for axis, d in enumerate(declared.shape or ()):
                sliced = port.mode == "sliced" and axis == normalize_axis(port.axis, len(given))
                if isinstance(d, Expr) and not sliced and len(given) > axis:
                    found[d] = int(given[axis])
        return found


def slice_count(port: BodyInput, size: Dim) -> Dim | None:
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


def _starts(port: BodyInput, value: Array) -> range:
    """Where the parts of a sliced input start (with a negative stride, where they end)."""
    size = value.shape[port.axis]
    first = port.start if port.start >= 0 else size + port.start + 1
    last = port.end if port.end >= 0 else size + port.end + 1
    return range(first, last, port.stride)


def _slice_input(port: BodyInput, value: Array, iteration: int) -> Array:
    """The part of a sliced input that an iteration reads."""
    at = _starts(port, value)[iteration]
    begin = at if port.stride > 0 else at - port.part_size
    index: list[slice] = [slice(None)] * value.ndim
    index[normalize_axis(port.axis, value.ndim)] = slice(begin, begin + port.part_size)
    return np.ascontiguousarray(value[tuple(index)])


class TensorIterator(_IteratingOp):
    """Iterates over the parts of sliced inputs."""

    kind: ClassVar[str] = "TensorIterator"
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)

    def infer(self, facts: tuple[Fact | None, ...]) -> tuple[Type, ...]:
        return self._infer(facts)

    def evaluate(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.run(values, interpreters(self))

    def run(self, values: Sequence[Any], bodies: Sequence[RunBody]) -> tuple[Any, ...]:
        trips = [len(_starts(p, values[p.port])) for p in self.ports if p.mode == "sliced"]
        if not trips:
            raise ShapeError("a TensorIterator needs a sliced input")
        return self._iterate(values, bodies[0], min(trips), -1)


@dataclass(frozen=True, eq=False)
class Loop(_IteratingOp):
    """Iterates at most `trip_count` times (-1: without limit) while the condition holds.

    Ports 0 and 1 are trip count and first condition; `condition` is the index of the body's
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
        require_single(trip_count, "trip_count")
        require_single(execution_condition, "execution_condition")
        return self._infer([trip_count, execution_condition, *rest])

    def _trips(self, facts: Sequence[Fact | None]) -> Dim | None:
        first = facts[1]
        if first is not None and first.value is not None and not bool(first.value.reshape(-1)[0]):
            return 0
        limits = known_dims(facts[0])
        if first is None or first.value is None or not limits or not self.always():
            return None
        low = bounds(limits[0])[0]
        return limits[0] if low is not None and low >= 0 else None

    def always(self) -> bool:
        """Whether the body's condition is the constant true."""
        if self.condition < 0:
            return True
        source = self.body.input(self.body.results[self.condition], 0)
        known = self.body.known_value(source)
        return known is not None and bool(np.asarray(known).reshape(-1)[0])

    def evaluate(
        self, trip_count: Array, execution_condition: Array, rest: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return self.run([trip_count, execution_condition, *rest], interpreters(self))

    def run(self, values: Sequence[Any], bodies: Sequence[RunBody]) -> tuple[Any, ...]:
        limit = int(np.asarray(values[0]).reshape(-1)[0])
        go = bool(np.asarray(values[1]).reshape(-1)[0])
        trips = None if limit < 0 else limit
        return self._iterate(values, bodies[0], trips, self.condition, go)
