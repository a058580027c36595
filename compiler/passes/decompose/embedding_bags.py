"""Embedding bags as gathered rows that are summed along an axis, or scattered to their bags."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Add,
    Broadcast,
    Concat,
    Convert,
    CumSum,
    Divide,
    EmbeddingBagOffsets,
    EmbeddingBagOffsetsSum,
    EmbeddingBagPacked,
    EmbeddingBagPackedSum,
    EmbeddingSegmentsSum,
    Equal,
    Gather,
    Greater,
    Less,
    Maximum,
    Multiply,
    ReduceMean,
    ReduceSum,
    Reshape,
    ScatterElementsUpdate,
    ScatterNDUpdate,
    Select,
    ShapeOf,
    Unsqueeze,
)
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import constant_scalar, shape_of
from .node_builder import NodeBuilder

# The number of no bag: more than any axis has elements.
_TOO_LARGE = 1 << 40


class _BagBuilder(NodeBuilder):
    """The nodes that sum rows of a table of known rank."""

    def __init__(self, graph: Graph, node: int, rank: int) -> None:
        super().__init__(graph, node)
        self.table, self.rank = graph.input(node, 0), rank

    def optional_input(self, port: int) -> Value | None:
        inputs = self.graph.inputs(self.node)
        return inputs[port] if port < len(inputs) else None

    def widen(self, value: Value) -> Value:
        return value if self.dtype is self.own else self.add(Convert(self.dtype), value)

    def pick(self, indices: Value, axes: int, weights: Value | None) -> Value:
        """Rows of the table, times the weights of the indices (of `axes` axes)."""
        gathered = self.add(
            Gather(out_of_range="error"), self.table, indices, self.patch.integers(0)
        )
        rows = self.widen(gathered)
        if weights is None:
            return rows
        return self.add(Multiply(), rows, self.unsqueeze_to(self.widen(weights), axes))

    def unsqueeze_to(self, value: Value, axes: int) -> Value:
        """A value of `axes` axes that broadcasts against rows."""
        more = self.rank - 1
        return self.add(Unsqueeze(), value, self.ints(range(axes, axes + more))) if more else value

    def scatter(self, rows: Value, bags: Value, count: Value) -> Value:
        """Sums of rows by the numbers of their bags; `count` holds how many bags there are."""
        shape = [count, self.sizes(self.table, 1, self.rank)] if self.rank > 1 else [count]
        target = self.add(Concat(0), *shape) if len(shape) > 1 else count
        zeros = self.add(Broadcast(), self.number(0), target)
        bag_indices = self.add(Unsqueeze(), bags, self.ints([1]))
        return self.add(ScatterNDUpdate("sum"), zeros, bag_indices, rows)

    def counts(self, bags: Value, count: Value) -> Value:
        """How many rows each bag has."""
        zeros = self.add(Broadcast(), self.patch.integers(0), count)
        ones = self.add(Broadcast(), self.patch.integers(1), self.add(ShapeOf(DType.i64), bags))
        return self.add(ScatterElementsUpdate("sum"), zeros, bags, ones, self.patch.integers(0))

    def with_default(self, sums: Value, counts: Value, default: int) -> Value:
        """The default row in place of empty bags."""
        if default < 0:
            return sums
        row = self.widen(
            self.add(Gather(), self.table, self.patch.integers(default), self.patch.integers(0))
        )
        empty = self.add(Equal(), counts, self.patch.integers(0))
        return self.add(Select(), self.unsqueeze_to(empty, 1), row, sums)


def _begin_bags(
    graph: Graph, node: int, default_port: int | None
) -> tuple[_BagBuilder, int] | MatchFailure:
    """The builder, and the number of the default row (-1: none)."""
    shape = shape_of(graph, graph.input(node, 0))
    if shape is None:
        return MatchFailure("the table's rank is unknown")
    build = _BagBuilder(graph, node, len(shape))
    given = None if default_port is None else build.optional_input(default_port)
    default = -1 if given is None else constant_scalar(graph, given)
    if not isinstance(default, int):
        return MatchFailure("the default row is known at run time only")
    if isinstance(shape[0], int) and default >= shape[0]:
        return MatchFailure("the default row is not in the table")
    return build, default


def decompose_packed(
    graph: Graph, node: int, op: EmbeddingBagPackedSum
) -> Patch | MatchFailure | None:
    """A sum, or a mean, along the axis of a bag's indices."""
    found, shape = _begin_bags(graph, node, None), shape_of(graph, graph.input(node, 1))
    if isinstance(found, MatchFailure):
        return found
    if op.means() and (shape is None or not isinstance(shape[1], int) or not shape[1]):
        return MatchFailure("the mean of bags that may be empty")
    build = found[0]
    rows = build.pick(graph.input(node, 1), 2, build.optional_input(2))
    reduction = ReduceMean if op.means() else ReduceSum
    return build.done(build.add(reduction(keep_dims=False), rows, build.ints([1])))


def decompose_offsets(
    graph: Graph, node: int, op: EmbeddingBagOffsetsSum
) -> Patch | MatchFailure | None:
    """The number of a row's bag is how many offsets are not behind it."""
    found = _begin_bags(graph, node, 3)
    if isinstance(found, MatchFailure):
        return found
    build, default = found
    indices, zero = graph.input(node, 1), build.patch.integers(0)
    total = build.add(ShapeOf(DType.i64), indices)
    offsets = build.add(Convert(DType.i64), graph.input(node, 2))
    before = build.cut(build.add(Concat(0), build.ints([0]), offsets), 0, 0, -1)
    falls = build.add(Convert(DType.i64), build.add(Greater(), before, offsets))
    falls = build.add(ReduceSum(keep_dims=True), falls, build.ints([0]))
    marks = build.add(Broadcast(), zero, build.add(Add(), total, build.ints([1])))
    given = build.add(ShapeOf(DType.i64), offsets)
    ones = build.add(Broadcast(), build.patch.integers(1), given)
    marks = build.add(ScatterElementsUpdate("sum"), marks, offsets, ones, zero)
    numbers = build.cut(build.add(CumSum(), marks, zero), 0, 0, -1)
    # An offset that falls makes the numbers of bags too large, which is an error.
    falls = build.add(Multiply(), falls, build.ints([_TOO_LARGE]))
    numbers = build.add(Add(), numbers, falls)
    # Bag 0 are the rows before the first offset, which no bag takes.
    count = build.add(Add(), given, build.ints([1]))
    sums = build.scatter(build.pick(indices, 1, build.optional_input(4)), numbers, count)
    sums, counts = (build.cut(v, 0, 1) for v in (sums, build.counts(numbers, count)))
    if isinstance(op, EmbeddingBagOffsets) and op.reduction.lower() == "mean":
        divisor = build.unsqueeze_to(build.add(Maximum(), counts, build.ints([1])), 1)
        # A bag may have more rows than a type of 8 bits has numbers.
        narrow = build.dtype.is_int and build.dtype.bits < 32
        wide = DType.i64 if narrow else build.dtype
        sums = build.add(Convert(wide), sums) if narrow else sums
        sums = build.add(Divide(), sums, build.add(Convert(wide), divisor))
        sums = build.add(Convert(build.dtype), sums) if narrow else sums
    return build.done(build.with_default(sums, counts, default))


def decompose_segments(
    graph: Graph, node: int, op: EmbeddingSegmentsSum
) -> Patch | MatchFailure | None:
    """Rows scattered to their segments."""
    found = _begin_bags(graph, node, 4)
    if isinstance(found, MatchFailure):
        return found
    if graph.known_value(graph.input(node, 3)) is None:
        return MatchFailure("the number of segments is known at run time only")
    build, default = found
    bags = build.add(Convert(DType.i64), graph.input(node, 2))
    # A negative number is an error, and does not count from the end.
    negative = build.add(Less(), bags, build.patch.integers(0))
    bags = build.add(Select(), negative, build.patch.integers(_TOO_LARGE), bags)
    count = build.add(Convert(DType.i64), graph.input(node, 3))
    count = build.add(Reshape(), count, build.ints([1]))
    rows = build.pick(graph.input(node, 1), 1, build.optional_input(5))
    sums = build.scatter(rows, bags, count)
    return build.done(build.with_default(sums, build.counts(bags, count), default))


_RULES = (
    op_rule(
        "decompose_embedding_bag_packed",
        (EmbeddingBagPackedSum, EmbeddingBagPacked),
        decompose_packed,
    ),
    op_rule(
        "decompose_embedding_bag_offsets",
        (EmbeddingBagOffsetsSum, EmbeddingBagOffsets),
        decompose_offsets,
    ),
    op_rule("decompose_embedding_segments", (EmbeddingSegmentsSum,), decompose_segments),
)

decompose_embedding_bags = Pass("decompose_embedding_bags", lambda options: _RULES)
