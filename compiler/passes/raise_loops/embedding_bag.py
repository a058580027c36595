"""Rewrites a loop over bags of embeddings as operations on the rows of all bags.

Pattern: a Loop over bags, whose body slices the indices between two neighbouring offsets, gathers
these rows of a table and reduces them; bags of one size become an axis, others are added up where a
number per row says. Offsets do not fall, as EmbeddingBag demands.
Exporter: torch 2.13, `torch.onnx.export` of nn.EmbeddingBag (DLRM): a counted loop with
`dynamo=False`, a loop that fills a list with `dynamo=True`.
Gain: two native steps in place of a loop that Python runs (docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.dims import Dim, eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import (
    Add,
    Broadcast,
    Concat,
    Constant,
    Convert,
    CumSum,
    Divide,
    Equal,
    Gather,
    If,
    Loop,
    Minimum,
    Range,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Reshape,
    ScatterElementsUpdate,
    ScatterNDUpdate,
    Select,
    ShapeOf,
    Slice,
    Subtract,
    Unsqueeze,
)
from ....ir.ops.shape_inference import known_ints
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import constant_scalar, dtype_of, known_axes, shape_of, single_integer

_MOVING = frozenset("Identity Reshape Squeeze Unsqueeze Convert ConvertLike".split())
_REDUCTIONS = {"ReduceSum": ReduceSum, "ReduceMean": ReduceMean, "ReduceMax": ReduceMax}


@dataclass(frozen=True)
class _BodyScope:
    """A graph of the loop, body or branch, and what feeds its parameters: values of the graph
    around the loop, None for the iteration's number; of a branch, values of `outer`."""

    graph: Graph
    feeds: dict[int, Value | None]
    outer: _BodyScope | None = None

    def resolve_origin(self, value: Value) -> tuple[_BodyScope, Value]:
        """The value where it is made: parameters of branches lead outwards."""
        scope = self
        while scope.outer is not None and value.node in scope.feeds:
            source = scope.feeds[value.node]
            assert source is not None
            scope, value = scope.outer, source
        return scope, value

    def skip_reshapes(self, value: Value) -> tuple[_BodyScope, Value]:
        """The same without what changes shape or type only."""
        scope, value = self.resolve_origin(value)
        while scope.graph.op(value.node).kind in _MOVING:
            scope, value = scope.resolve_origin(scope.graph.input(value.node, 0))
        return scope, value

    def loop_invariant(self, value: Value) -> Value | Constant | None:
        """What is the same in all iterations: a value around the loop, or a constant."""
        scope, value = self.resolve_origin(value)
        op = scope.graph.op(value.node)
        if isinstance(op, Constant):
            return op
        return scope.feeds.get(value.node) if scope.outer is None else None

    def step(self, value: Value) -> int | None:
        """c where the value is the iteration's number plus c."""
        scope, at = self.skip_reshapes(value)
        if scope.outer is None and at.node in scope.feeds and scope.feeds[at.node] is None:
            return 0
        if scope.graph.op(at.node).kind != "Add":
            return None
        for own, other in ((0, 1), (1, 0)):
            there, value = scope.resolve_origin(scope.graph.input(at.node, other))
            more = known_ints(there.graph.fact(value))
            found = scope.step(scope.graph.input(at.node, own))
            if found is not None and more is not None and len(more) == 1:
                return found + more[0]
        return None

    def element(self, value: Value) -> tuple[Value | Constant, int] | None:
        """An array and c where the value is the array's element of the iteration's number + c."""
        scope, at = self.skip_reshapes(value)
        graph, op = scope.graph, scope.graph.op(at.node)
        if not isinstance(op, Gather | Slice):
            return None
        array, first = (
            scope.loop_invariant(graph.input(at.node, 0)),
            scope.step(graph.input(at.node, 1)),
        )
        if array is None or first is None:
            return None
        if isinstance(op, Slice) and scope.step(graph.input(at.node, 2)) != first + 1:
            return None
        return array, first


@dataclass(frozen=True)
class _Bags:
    """Rows (or a table and the numbers of its rows), the arrays and the first of their elements
    between which a bag lies, and the reduction. An empty bag gives zeros."""

    rows: Value | Constant
    numbers: Value | Constant | None
    starts: tuple[Value | Constant, int]
    ends: tuple[Value | Constant, int]
    reduction: str


def sum_bags(graph: Graph, node: int, op: Loop) -> Patch | MatchFailure | None:
    """A loop over bags whose only output is their reductions."""
    if len(op.results) != 1:
        return None
    (out,) = op.results
    if (out.mode, out.axis, out.stride) != ("joined", 0, 1):
        return None
    counted = _match_counted_loop(graph, node, op)
    if counted is None:
        return None
    scope, count = counted
    found = _bags(scope, op.body.input(op.body.results[out.result], 0))
    if found is None:
        return None
    return _build_bag(graph, node, found, count)


def _match_counted_loop(graph: Graph, node: int, op: Loop) -> tuple[_BodyScope, Dim] | None:
    """The body with what feeds it, and how often it runs; None unless that is counted."""
    outside, body = graph.inputs(node), op.body
    feeds: dict[int, Value | None] = {}
    counters: list[int] = []
    for parameter, port in zip(body.parameters, op.ports, strict=True):
        if port.mode == "invariant":
            feeds[parameter] = outside[port.port]
        elif port.mode == "iteration":
            feeds[parameter] = None
        elif port.mode == "carried" and body.use_count(Value(parameter)):
            if constant_scalar(graph, outside[port.port]) != 0:
                return None
            feeds[parameter] = None
            counters.append(port.back)
    scope = _BodyScope(body, feeds)
    if any(scope.step(body.input(body.results[back], 0)) != 1 for back in counters):
        return None
    if op.condition < 0 or not _is_true(graph, outside[1]):
        return None
    trips = None if outside[0] is None else single_integer(graph, outside[0])
    # A loop that compares a counter with a bound has a number by now (while_loops.py).
    if trips is None or (isinstance(trips, int) and trips < 0) or not op.always():
        return None
    return scope, trips


def _is_true(graph: Graph, value: Value | None) -> bool:
    known = None if value is None else graph.known_value(value)
    return value is None or (known is not None and bool(np.all(known)))


def _bags(scope: _BodyScope, value: Value) -> _Bags | None:
    """What an iteration hands out, where that is a bag's reduction."""
    scope, at = scope.resolve_origin(value)
    while scope.graph.op(at.node).kind in ("Unsqueeze", "Identity"):
        scope, at = scope.resolve_origin(scope.graph.input(at.node, 0))
    graph, op = scope.graph, scope.graph.op(at.node)
    if isinstance(op, If):
        return _match_empty_guard(scope, at.node, op)
    if op.kind not in _REDUCTIONS or known_axes(graph, graph.input(at.node, 1), 2) != [0]:
        return None
    inner, sliced = scope.resolve_origin(graph.input(at.node, 0))
    numbers = None
    if inner.graph.op(sliced.node).kind == "Gather":
        rows = inner.loop_invariant(inner.graph.input(sliced.node, 0))
        axis = inner.graph.known_value(inner.graph.input(sliced.node, 2))
        if rows is None or axis is None or axis.reshape(-1)[0] != 0:
            return None
        inner, sliced = inner.resolve_origin(inner.graph.input(sliced.node, 1))
        cut = _match_slice(inner, sliced)
        numbers = cut[0] if cut else None
    else:
        cut = _match_slice(inner, sliced)
        rows = cut[0] if cut else None
    if cut is None or rows is None:
        return None
    return _Bags(rows, numbers, cut[1], cut[2], op.kind)


def _match_slice(scope: _BodyScope, value: Value) -> Any:
    """An array, and the elements of others between which a Slice of it lies."""
    graph = scope.graph
    if not isinstance(graph.op(value.node), Slice):
        return None
    inputs = graph.inputs(value.node)
    array, step = scope.loop_invariant(graph.input(value.node, 0)), graph.input(value.node, 3)
    if isinstance(graph.op(step.node), Broadcast):
        step = graph.input(step.node, 0)
    if len(inputs) > 4 and known_axes(graph, inputs[4], 2) != [0]:
        return None
    starts, ends = (scope.element(graph.input(value.node, port)) for port in (1, 2))
    if array is None or constant_scalar(graph, step) != 1 or starts is None or ends is None:
        return None
    return array, starts, ends


def _match_empty_guard(scope: _BodyScope, node: int, op: If) -> _Bags | None:
    """An If that gives zeros for an empty bag."""
    graph = scope.graph
    inputs = graph.inputs(node)
    at, equal = scope.skip_reshapes(graph.input(node, 0))
    if at.graph.op(equal.node).kind != "Equal":
        return None
    zeros = op.then_body.known_value(
        op.then_body.input(op.then_body.results[op.then_outputs[0]], 0)
    )
    feeds = {
        parameter: inputs[port]
        for parameter, port in zip(op.else_body.parameters, op.else_inputs, strict=True)
    }
    inner = _BodyScope(op.else_body, feeds, scope)
    found = _bags(inner, op.else_body.input(op.else_body.results[op.else_outputs[0]], 0))
    sides = [at.element(at.graph.input(equal.node, port)) for port in (0, 1)]
    if zeros is None or np.any(zeros != 0) or found is None:
        return None
    return found if sides == [found.starts, found.ends] else None


def _build_bag(graph: Graph, node: int, bags: _Bags, count: Dim) -> Patch | MatchFailure:
    """All rows at once, in parts of one size or added up by the number of their bag."""
    patch = Patch()
    shape, picks = _shape(graph, bags.rows), _shape(graph, bags.numbers or bags.rows)
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int) or picks is None:
        return MatchFailure("the rows are not known to be vectors of one size")
    rows = _value(patch, bags.rows)
    if bags.numbers is not None:
        rows = patch.add(Gather(), rows, _value(patch, bags.numbers), patch.integers(0))
    size = _one_size(graph, bags, count, picks[0])
    if size is not None:
        parts = patch.add(Reshape(False), rows, patch.integers([-1, size, shape[1]]))
        made = patch.add(_REDUCTIONS[bags.reduction](keep_dims=False), parts, patch.integers([1]))
        return patch.replace(Value(node), made)
    if bags.reduction == "ReduceMax" or not _are_consecutive(graph, bags):
        return MatchFailure("bags of several sizes, of maxima or with rows between them")
    array, first = bags.starts
    length = _shape(graph, array)
    if length is None or eq(length[0], count + first + 1) is not True:
        return MatchFailure("it is not known which offset is the last")
    bounds = patch.add(Convert(DType.i64), _slice_first_axis(patch, _value(patch, array), first))
    dtype = bags.rows.dtype if isinstance(bags.rows, Constant) else dtype_of(graph, bags.rows)
    sums = _add_segment_sums(patch, rows, bounds, shape[1], dtype)
    if bags.reduction == "ReduceMean":
        counts = patch.add(
            Subtract(), _slice_first_axis(patch, bounds, 1), _slice_first_axis(patch, bounds, 0, -1)
        )
        divisor = patch.add(Unsqueeze(), patch.add(Convert(dtype), counts), patch.integers([1]))
        mean = patch.add(Divide(), sums, divisor)
        nothing = patch.constant(0, dtype)
        empty = patch.add(Equal(), divisor, nothing)
        sums = patch.add(Select(), empty, nothing, mean)
    return patch.replace(Value(node), sums)


def _add_segment_sums(patch: Patch, rows: Value, bounds: Value, width: int, dtype: DType) -> Value:
    """Sums of rows between neighbouring bounds: what is before and behind all is dropped."""
    total = _slice_first_axis(patch, patch.add(ShapeOf(DType.i64), rows), 0, 1)
    one, zero = patch.integers([1]), patch.integers(0)
    marks = patch.add(Broadcast(), zero, patch.add(Add(), total, one))
    ones = patch.add(Broadcast(), patch.integers(1), patch.add(ShapeOf(DType.i64), bounds))
    begins = patch.add(Minimum(), bounds, total)
    marks = patch.add(ScatterElementsUpdate(reduction="sum"), marks, begins, ones, zero)
    numbers = _slice_first_axis(patch, patch.add(CumSum(), marks, zero), 0, -1)
    count_with_end = patch.add(Add(), patch.add(ShapeOf(DType.i64), bounds), one)
    nothing = patch.constant(0, dtype)
    to = patch.add(
        Broadcast(), nothing, patch.add(Concat(0), count_with_end, patch.integers([width]))
    )
    at = patch.add(Unsqueeze(), numbers, one)
    return _slice_first_axis(
        patch, patch.add(ScatterNDUpdate(reduction="sum"), to, at, rows), 1, -1
    )


def _one_size(graph: Graph, bags: _Bags, count: Dim, total: Dim) -> int | None:
    """How many rows each bag has, where that is one number and they are all the rows."""
    starts, ends = _known_elements(graph, *bags.starts), _known_elements(graph, *bags.ends)
    if isinstance(count, int) and starts and ends:
        size = ends[0] - starts[0]
        even = [n * size for n in range(count + 1)]
        same = starts[:count] == even[:-1] and ends[:count] == even[1:]
        return size if size > 0 and same and eq(total, size * count) is True else None
    array, first = bags.starts
    if not isinstance(array, Value) or first != 0 or not _are_consecutive(graph, bags):
        return None
    parts = [v for v in graph.inputs(array.node) if v is not None]
    if not isinstance(graph.op(array.node), Concat) or len(parts) != 2:
        return None
    steps, last = graph.op(parts[0].node), graph.known_value(parts[1])
    if not isinstance(steps, Range) or last is None or last.size != 1:
        return None
    start, _, step = (constant_scalar(graph, v) for v in graph.inputs(parts[0].node))
    made, size = shape_of(graph, parts[0]), int(step or 0)
    if start != 0 or size < 1 or made is None or eq(made[0], count) is not True:
        return None
    ends_all = eq(last.reshape(-1)[0], total) is True and eq(total, count * size) is True
    return size if ends_all else None


def _are_consecutive(graph: Graph, bags: _Bags) -> bool:
    """Whether each bag ends where the next one begins."""
    (array, first), (ends, last) = bags.starts, bags.ends
    if isinstance(array, Constant) or isinstance(ends, Constant):
        return array is ends and last == first + 1
    if array == ends:
        return last == first + 1
    if not isinstance(graph.op(ends.node), Slice) or graph.input(ends.node, 0) != array:
        return False
    cut = [constant_scalar(graph, v) for v in graph.inputs(ends.node)[1:]]
    length = shape_of(graph, array)
    reaches_end = (
        length is not None and isinstance(cut[1], int) and cut[1] >= np.iinfo(np.int32).max
    )
    return cut[0] == 1 and reaches_end and cut[2:] in ([1], [1, 0]) and last == first


def _known_elements(graph: Graph, given: Value | Constant, first: int) -> list[int]:
    """The numbers of an array from one on; none where they are not known."""
    found = given.data if isinstance(given, Constant) else graph.known_value(given)
    if found is None or found.ndim != 1 or found.dtype == object:
        return []
    return [int(n) for n in found[first:]]


def _shape(graph: Graph, given: Value | Constant) -> Sequence[Dim] | None:
    return given.shape if isinstance(given, Constant) else shape_of(graph, given)


def _value(patch: Patch, given: Value | Constant) -> Value:
    return patch.add(given) if isinstance(given, Constant) else given


def _slice_first_axis(
    patch: Patch, value: Value, start: int, stop: int = np.iinfo(np.int64).max
) -> Value:
    """Elements from `start` to `stop` of the first axis."""
    one, axis = patch.integers([1]), patch.integers([0])
    return patch.add(
        Slice(), value, patch.integers([start]), patch.integers([int(stop)]), one, axis
    )


_RULES = (op_rule("sum_bags", (Loop,), sum_bags),)

raise_embedding_bag = Pass("raise_embedding_bag", lambda options: _RULES)
