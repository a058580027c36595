"""A patch that replaces one node, written in the type that the node computes in."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import Concat, Convert, Reshape, ShapeOf, Slice
from ...rewrite.patch import Patch
from ..match.values import dtype_of

# To the end of an axis, whatever its size.
_END = (1 << 63) - 1


class NodeBuilder:
    """Nodes that replace a node; f16 and bf16 are computed in f32 and rounded once."""

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node, self.patch = graph, node, Patch()
        self.own = dtype_of(graph, graph.input(node, 0))
        self.dtype = DType.f32 if self.own.is_float and self.own.bits < 32 else self.own

    def add(self, op: Op, *inputs: Value) -> Value:
        return self.patch.add(op, *inputs)

    def read(self, port: int) -> Value:
        """An input in the type that is computed in."""
        value = self.graph.input(self.node, port)
        return value if self.dtype is self.own else self.add(Convert(self.dtype), value)

    def number(self, value: float) -> Value:
        return self.patch.constant(value, self.dtype)

    def ints(self, values: Sequence[int]) -> Value:
        return self.patch.integers(values)

    def sizes(self, value: Value, first: int, last: int) -> Value:
        """The sizes of axes first..last - 1, as a list of i64."""
        shape = self.add(ShapeOf(DType.i64), value)
        return self.cut(shape, 0, first, last)

    def cut(
        self, value: Value, axis: int, start: int, stop: int | None = None, step: int = 1
    ) -> Value:
        """value[start:stop:step] on one axis; `stop` None: up to its end."""
        end = _END if stop is None else stop
        return self.add(Slice(), value, *(self.ints([n]) for n in (start, end, step, axis)))

    def reshape(self, value: Value, *parts: Value | int) -> Value:
        """The value in a shape whose parts are sizes or lists of sizes."""
        target = [self.ints([p]) if isinstance(p, int) else p for p in parts]
        shape = target[0] if len(target) == 1 else self.add(Concat(0), *target)
        return self.add(Reshape(), value, shape)

    def done(self, value: Value) -> Patch:
        """The patch that replaces the node's first output, rounded to its type."""
        if self.dtype is not self.own:
            value = self.add(Convert(self.own), value)
        return self.patch.replace(Value(self.node), value)
