"""Control flow with bodies: If, and what it shares with loops.

Port maps name external inputs by the node's input port and body values by their place in the
body's `parameters` and `results`, so that they survive renumbering. A body's own Parameters carry
declared types; `infer` refines a copy of the body with what is known outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dim import eq
from ..errors import ShapeError
from ..graph import Graph
from ..op import Array, Fact, Op, Port
from ..types import TensorType, Type
from .constants import Parameter, TypedParameter
from .rules import naming, unknown_dim
from .sequences import common_type


def infer_body(body: Graph, types: Sequence[Type | None], name: str) -> list[Type]:
    """Types of a body's results where its parameters have the given types (None: as declared)."""
    from ..infer import infer_graph

    copy = body.copy()
    for node, type_ in zip(copy.parameters, types, strict=True):
        record = copy.node(node)
        if isinstance(type_, TensorType):
            record.op = Parameter(type_.dtype, type_.shape)
        elif type_ is not None:
            record.op = TypedParameter(type_)
    with naming(name):
        infer_graph(copy)
    return [copy.node(node).types[0] for node in copy.results]


def joined_type(op: Op, a: Type, b: Type) -> Type:
    """A type that values of both types have. ShapeError where their element types differ."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return common_type(op, a, b)
    if a.dtype is not b.dtype:
        raise ShapeError("values of one place differ in element type", got=f"{a} and {b}")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(a.dtype, None)
    pairs = zip(a.shape, b.shape, strict=True)
    return TensorType(a.dtype, tuple(x if eq(x, y) else unknown_dim(op) for x, y in pairs))


def check_count(what: str, got: int, expected: int) -> None:
    """ShapeError where two numbers differ."""
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
        check_count(
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
            check_count("a body's parameters and inputs differ", len(inputs), len(body.parameters))
            types = infer_body(body, [type_of(facts, i) for i in inputs], name)
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


def type_of(facts: Sequence[Fact | None], port: int) -> Type | None:
    """The type at an input port of the node. ShapeError where there is no such port."""
    if not 0 <= port < len(facts):
        raise ShapeError("a body reads an input that the node lacks", got=f"input {port}")
    fact = facts[port]
    return None if fact is None else fact.type
