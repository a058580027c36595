"""If, Loop and TensorIterator of OpenVINO's opset modules: nodes whose bodies and ports are set
one after the other.

A node's operation is made anew with each change, as soon as every parameter of its bodies has an
input; outputs that were taken before belong to the new operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...builder.tensor import Tensor as Built
from ...builder.tensor import constant
from ...ir.dtype import DType
from ...ir.errors import UsageError
from ...ir.graph import Graph
from ...ir.graph import Node as Record
from ...ir.infer import infer_record
from ...ir.op import Op
from ...ir.ops import BodyInput, BodyOutput, If, Loop, TensorIterator
from ...ir.types import TensorType
from .model import Model
from .nodes import Node, Output, find_tensor


class _ControlFlowNode(Node, ABC):
    """A free node with bodies. `_ports[b]`: what feeds each parameter of body b, by its position;
    `_results`: one entry per output."""

    _kind: type[Op]
    _body_names: tuple[str, ...]

    def __init__(self, *inputs: Any) -> None:
        self._given: list[Built] = []
        self._bodies: dict[int, Model] = {}
        self._ports: dict[int, dict[int, Any]] = {n: {} for n in range(len(self._body_names))}
        self._results: list[Any] = []
        self._own = Record(self._kind(*[Graph() for _ in self._body_names]))
        super().__init__(None, -1)
        for value in inputs:
            self._add_input(value)

    @property
    def record(self) -> Record:
        return self._own

    def _inputs(self) -> list[Output | None]:
        from .nodes import free_node

        return [Output(free_node(t), t._port) for t in self._given]

    def set_function(self, *args: Any) -> None:
        """Set a body: set_function(body), or set_function(index, body)."""
        *at, body = args
        self._bodies[at[0] if at else 0] = body
        self._update()

    def get_function(self, index: int = 0) -> Model:
        """A body."""
        return self._body(index)

    def _body(self, index: int) -> Model:
        found = self._bodies.get(index)
        if found is None:
            raise UsageError(
                f"{self._kind.kind} has no {self._body_names[index]} yet",
                fix="set it before its inputs and outputs",
            )
        return found

    def _add_input(self, value: Any) -> int:
        is_value = isinstance(value, Node | Output)
        tensor = find_tensor(value) if is_value else constant(np.asarray(value))
        self._given.append(tensor)
        return len(self._given) - 1

    def _add_output(self, entry: Any) -> Output:
        self._results.append(entry)
        self.built = (*self.built, Built(self._own, (), len(self.built)))
        self._update()
        return Output(self, len(self._results) - 1)

    def _update(self) -> None:
        """Make the operation of what is set. Until each parameter has an input, types are open."""
        bodies = [self._bodies.get(n) for n in range(len(self._body_names))]
        complete = all(
            body is not None and len(self._ports[n]) == len(body.graph.parameters)
            for n, body in enumerate(bodies)
        )
        if complete:
            self._own.op = self._make_op([body.graph for body in bodies if body is not None])
            facts = [tensor._fact for tensor in self._given]
            infer_record(self._own, [*facts], f"c{id(self._own)}")
        else:
            self._own.types = [TensorType(DType.dynamic, None)] * len(self._results)
        self._own.names = [frozenset[str]()] * len(self._results)
        for tensor in self.built:
            tensor._inputs = tuple(self._given)

    def _list_ports(self, body: int) -> tuple[Any, ...]:
        return tuple(entry for _, entry in sorted(self._ports[body].items()))

    @abstractmethod
    def _make_op(self, graphs: list[Graph]) -> Op:
        """The operation of complete bodies."""


class if_op(_ControlFlowNode):  # OpenVINO's name
    """One of two bodies, by a condition."""

    _kind, _body_names = If, ("then body", "else body")

    def __init__(self, execution_condition: Any) -> None:
        super().__init__(execution_condition)

    def set_then_body(self, body: Model) -> None:
        """Set the body that runs where the condition is true."""
        self.set_function(0, body)

    def set_else_body(self, body: Model) -> None:
        """Set the body that runs where it is false."""
        self.set_function(1, body)

    def get_then_body(self) -> Model:
        """The body that runs where the condition is true."""
        return self._body(0)

    def get_else_body(self) -> Model:
        """The body that runs where it is false."""
        return self._body(1)

    def set_input(self, value: Any, then_parameter: Any, else_parameter: Any) -> None:
        """Feed a value to a parameter of each body; None: that body does not read it."""
        port = self._add_input(value)
        for body, parameter in ((0, then_parameter), (1, else_parameter)):
            if parameter is not None:
                self._ports[body][self._body(body).find_parameter(parameter)] = port
        self._update()

    def set_output(self, then_result: Any, else_result: Any) -> Output:
        """An output that is a result of either body."""
        found = [self._body(n).find_result(r) for n, r in enumerate((then_result, else_result))]
        return self._add_output((found[0], found[1]))

    def _make_op(self, graphs: list[Graph]) -> Op:
        then_outputs, else_outputs = (tuple(e[n] for e in self._results) for n in (0, 1))
        ports = self._list_ports(0), self._list_ports(1)
        return If(graphs[0], graphs[1], *ports, then_outputs, else_outputs)


class _IteratingNode(_ControlFlowNode):
    _body_names = ("body",)

    def set_invariant_input(self, body_parameter: Any, value: Any) -> None:
        """Feed a value to a parameter of the body in every iteration."""
        self._feed(body_parameter, BodyInput("invariant", self._add_input(value)))

    def set_merged_input(
        self, body_parameter: Any, initial_value: Any, successive_value: Any
    ) -> None:
        """Feed a value to a parameter in the first iteration, then a result of the last one."""
        back = self._body(0).find_result(successive_value)
        self._feed(body_parameter, BodyInput("carried", self._add_input(initial_value), back))

    def set_sliced_input(
        self, parameter: Any, value: Any, start: int, stride: int, part_size: int, end: int,
        axis: int,
    ) -> None:  # fmt: skip
        """Feed a part of a value along an axis to a parameter in each iteration."""
        port = self._add_input(value)
        self._feed(
            parameter,
            BodyInput("sliced", port, axis=axis, start=start, end=end, stride=stride,
                      part_size=part_size),
        )  # fmt: skip

    def get_iter_value(self, body_value: Any, iteration: int = -1) -> Output:
        """An output: a result of the last iteration."""
        if iteration != -1:
            raise UsageError("only the last iteration has an output", got=iteration, expected=-1)
        return self._add_output(BodyOutput("last", self._body(0).find_result(body_value)))

    def get_concatenated_slices(
        self, value: Any, start: int, stride: int, part_size: int, end: int, axis: int
    ) -> Output:
        """An output: a result of all iterations, joined along an axis."""
        found = self._body(0).find_result(value)
        return self._add_output(BodyOutput("joined", found, axis, start, end, stride, part_size))

    def _feed(self, parameter: Any, entry: BodyInput) -> None:
        self._ports[0][self._body(0).find_parameter(parameter)] = entry
        self._update()


class tensor_iterator(_IteratingNode):  # OpenVINO's name
    """A body that runs once for each part of its sliced inputs."""

    _kind = TensorIterator

    def set_body(self, body: Model) -> None:
        """Set the body."""
        self.set_function(body)

    def get_body(self) -> Model:
        """The body."""
        return self._body(0)

    def _make_op(self, graphs: list[Graph]) -> Op:
        return TensorIterator(graphs[0], self._list_ports(0), tuple(self._results))


class loop(_IteratingNode):  # OpenVINO's name
    """A body that runs so many times, and while its condition holds."""

    _kind = Loop

    def __init__(self, trip_count: Any, execution_condition: Any) -> None:
        self._special = [-1, -1]
        super().__init__(trip_count, execution_condition)

    def set_special_body_ports(self, special_body_ports: list[int]) -> None:
        """Set the parameter that is the iteration's number, and the result that says whether to go
        on; -1: none."""
        if self._special[0] >= 0:
            self._ports[0].pop(self._special[0], None)
        self._special = list(special_body_ports)
        if self._special[0] >= 0:
            self._ports[0][self._special[0]] = BodyInput("iteration")
        self._update()

    def get_special_body_ports(self) -> list[int]:
        """The positions of the iteration's number and of the condition."""
        return list(self._special)

    def _make_op(self, graphs: list[Graph]) -> Op:
        return Loop(graphs[0], self._list_ports(0), tuple(self._results), self._special[1])
