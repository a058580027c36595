"""Control flow with bodies: If, and what it shares with loops.

Port maps name external inputs by the node's input port and body values by their index in the
body's `parameters` and `results`, so that they survive renumbering. A body's own Parameters carry
declared types; `infer` refines a copy of the body with what is known outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, Expr, bounds, eq, plain_symbol
from ...dtype import DType
from ...errors import ShapeError
from ...graph import Graph, Value
from ...lazy_dataclass import dataclass
from ...op import MAX_BODY_DEPTH, Array, Effects, Fact, Op, Port, RunBody
from ...types import TensorType, Type
from ..shape_inference import fresh_symbol, naming, require_single
from ..tensor.constants import Parameter, Result, TypedParameter
from .sequences import common_type

# How many bodies are being inferred, one inside the other. Everything that recurses over bodies
# comes after their inference, so that this bounds it, too.
_depth: ContextVar[int] = ContextVar("irc_body_depth", default=0)


def infer_body(body: Graph, types: Sequence[Type | None], name: str) -> list[Type]:
    """Types of a body's results where its parameters have the given types (None: as declared)."""
    from ...infer import infer_graph

    depth = _depth.get() + 1
    if depth > MAX_BODY_DEPTH:
        raise ShapeError(
            "control flow is nested too deeply",
            got=f"more than {MAX_BODY_DEPTH} bodies within bodies",
            expected=f"at most {MAX_BODY_DEPTH}",
        )
    copy = fed_body(body, types)
    outer = _depth.set(depth)
    try:
        with naming(name):
            infer_graph(copy)
    finally:
        _depth.reset(outer)
    return [copy.node(node).types[0] for node in copy.results]


def fed_body(body: Graph, types: Sequence[Type | None]) -> Graph:
    """A copy whose parameters have the given types (None: as declared), not inferred yet."""
    copy = body.copy()
    for node, type_ in zip(copy.parameters, types, strict=True):
        record = copy.node(node)
        if isinstance(type_, TensorType):
            record.op = Parameter(type_.dtype, type_.shape)
        elif type_ is not None:
            record.op = TypedParameter(type_)
    return copy


def joined_type(op: Op, a: Type, b: Type) -> Type:
    """A type that values of both types have. ShapeError where their element types differ."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return common_type(op, a, b)
    if a.dtype is not b.dtype:
        raise ShapeError(
            "values of one port (both branches of an If, say) differ in element type",
            got=f"{a} and {b}",
            expected="one element type",
        )
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(a.dtype, None)
    pairs = zip(a.shape, b.shape, strict=True)
    return TensorType(a.dtype, tuple(x if eq(x, y) else fresh_symbol(op) for x, y in pairs))


def infer_outer_types(
    op: Op, facts: Sequence[Fact | None], types: Sequence[Type]
) -> tuple[Type, ...]:
    """Types of control flow's results. What a body makes of sizes of its own is read off the
    result: a symbol, not an expression, whose symbols nothing outside defines."""
    defined = {s for f in facts if f is not None for d in _sizes(f) for s in d.symbols()}
    named: dict[Dim, Dim] = {}

    def size(d: Dim) -> Dim:
        if not isinstance(d, Expr) or d.symbols() <= defined or plain_symbol(d) is not None:
            return d
        low, high = bounds(d)
        return named.setdefault(d, fresh_symbol(op, max(low or 0, 0), high))

    def outer_type(found: Type) -> Type:
        if not isinstance(found, TensorType) or found.shape is None:
            return found
        return TensorType(found.dtype, tuple(map(size, found.shape)))

    return tuple(map(outer_type, types))


def _sizes(fact: Fact) -> list[Expr]:
    shape = fact.type.shape if isinstance(fact.type, TensorType) else None
    known = () if fact.value is None or fact.value.dtype != object else fact.value.reshape(-1)
    return [d for d in (*(shape or ()), *known) if isinstance(d, Expr)]


def check_count(what: str, got: int, expected: int) -> None:
    """ShapeError where two numbers differ."""
    if got != expected:
        raise ShapeError(what, got=got, expected=expected)


@dataclass(frozen=True)
class Fail(Op):
    """Replaces a branch that cannot work with the sizes it would be given: taking it is an
    error (dialect). The compiler writes it, no model file holds it."""

    kind: ClassVar[str] = "Fail"
    version: ClassVar[int] = 0
    effects: ClassVar[Effects] = Effects.FAILURE
    element_type: DType
    what: str

    def infer(self) -> tuple[Type, ...]:
        return (TensorType(self.element_type, None),)

    def evaluate(self) -> tuple[Any, ...]:
        raise ShapeError(self.what)


def failure(body: Graph) -> str | None:
    """Why a branch cannot be taken, if it was found out."""
    for node in body.results:
        op = body.op(body.input(node, 0).node)
        if isinstance(op, Fail):
            return op.what
    return None


def build_failing_body(types: Sequence[TensorType], what: str) -> Graph:
    """A body that fails, instead of one with results of these types."""
    from ...infer import infer_graph

    body = Graph()
    for type_ in types:
        body.add(Result(), [Value(body.add(Fail(type_.dtype, what)))])
    infer_graph(body)
    return body


@dataclass(frozen=True, eq=False)
class If(Op):
    """One of two bodies, by a condition of one boolean.

    `then_inputs[i]` is the node's input port that feeds parameter i of the then body (port 0 is
    the condition); `then_outputs[k]` is the index of its result that is output k. So for else.
    A branch that fails has no say in the types.
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
        require_single(condition, "condition")
        check_count(
            "the branches of an If differ in outputs", len(self.else_outputs), self.output_count()
        )
        facts = [condition, *rest]
        known = None if condition.value is None else bool(condition.value.reshape(-1)[0])
        found: list[list[Type]] = []
        fed = self.body_types(facts)
        for name, taken, body, inputs, outputs in (
            ("t", True, self.then_body, fed[0], self.then_outputs),
            ("e", False, self.else_body, fed[1], self.else_outputs),
        ):
            if known is (not taken):
                continue
            if (why := failure(body)) is not None:
                if known is taken:
                    raise ShapeError(why)
                continue
            types = infer_body(body, inputs, name)
            found.append([types[k] for k in outputs])
        if len(found) == 1:
            return infer_outer_types(self, facts, found[0])
        joined = [joined_type(self, a, b) for a, b in zip(*found, strict=True)]
        return infer_outer_types(self, facts, joined)

    def with_bodies(self, bodies: Sequence[Graph]) -> Op:
        return replace(self, then_body=bodies[0], else_body=bodies[1])

    def body_types(self, facts: Sequence[Fact | None]) -> list[list[Type | None]]:
        found: list[list[Type | None]] = []
        for body, inputs in zip(self.bodies(), (self.then_inputs, self.else_inputs), strict=True):
            check_count("a body's parameters and inputs differ", len(inputs), len(body.parameters))
            found.append([type_of(facts, i) for i in inputs])
        return found

    def evaluate(self, condition: Array, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.run([condition, *rest], interpreters(self))

    def run(self, values: Sequence[Any], bodies: Sequence[RunBody]) -> tuple[Any, ...]:
        taken = bool(np.asarray(values[0]).reshape(-1)[0])
        inputs = self.then_inputs if taken else self.else_inputs
        outputs = self.then_outputs if taken else self.else_outputs
        results = bodies[0 if taken else 1]([values[i] for i in inputs])
        return tuple(results[k] for k in outputs)


def interpreters(op: Op) -> list[RunBody]:
    """What runs each body by `evaluate`."""
    from ...interpret import interpret

    return [partial(interpret, body) for body in op.bodies()]


def type_of(facts: Sequence[Fact | None], port: int) -> Type | None:
    """The type at an input port of the node. ShapeError where there is no such port."""
    if not 0 <= port < len(facts):
        raise ShapeError("a body reads an input that the node lacks", got=f"input {port}")
    fact = facts[port]
    return None if fact is None else fact.type
