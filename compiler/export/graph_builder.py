"""Small words for building standard operations, inferred as they are added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.infer import infer_node
from ...ir.op import Array, Op
from ...ir.ops import Add, Broadcast, Constant, Convert, Multiply, ShapeOf
from ...ir.scalar.builder import cast_array
from ...ir.types import TensorType


class Build:
    """Adds nodes that replace one dialect node, named after it."""

    def __init__(self, graph: Graph, name: str, origin: str) -> None:
        self.graph = graph
        self._name, self._origin = name, origin
        self._count = 0
        self._numbers: dict[tuple[str, DType], Value] = {}

    def op(self, op: Op, *inputs: Value | None) -> Value:
        """Add an operation and return its first output."""
        name = f"{self._name}/{op.kind}_{self._count}" if self._name else ""
        self._count += 1
        node = self.graph.add(op, inputs, name=name, origin=self._origin)
        infer_node(self.graph, node)
        return Value(node)

    def constant(self, data: Array, dtype: DType) -> Value:
        """An array of NumPy's type for `dtype` as a constant."""
        return self.op(Constant.of(data, dtype))

    def number(self, value: float | int | bool, dtype: DType) -> Value:
        """A scalar constant, rounded to `dtype`; equal ones are one."""
        key = repr(value), dtype
        if key not in self._numbers:
            exact = np.array(value) if dtype.is_int else np.array(value, dtype=np.float64)
            self._numbers[key] = self.constant(cast_array(exact, dtype), dtype)
        return self._numbers[key]

    def add(self, a: Value, b: Value) -> Value:
        return self.op(Add(), a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        return self.op(Multiply(), a, b)

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value in another element type."""
        return value if self.dtype(value) is dtype else self.op(Convert(dtype), value)

    def dtype(self, value: Value) -> DType:
        """The element type of a tensor."""
        return self.tensor(value).dtype

    def tensor(self, value: Value) -> TensorType:
        """The type of a value that is a tensor."""
        type_ = self.graph.type(value)
        assert isinstance(type_, TensorType)
        return type_

    def broadcast_with(self, value: Value, others: Sequence[Value], type_: TensorType) -> Value:
        """The value in the shape of `type_`, to which it and `others` broadcast together."""
        for other in others:
            if self.tensor(value).shape == type_.shape:
                break
            shape = self.op(ShapeOf(), other)
            value = self.op(Broadcast("bidirectional"), value, shape)
        return value
