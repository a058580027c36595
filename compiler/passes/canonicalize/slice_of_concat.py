"""Parts of a concatenation that are its inputs again: what exporters write around caches and
rotary embeddings."""

from __future__ import annotations

from ....ir.dims import Dim, eq
from ....ir.graph import Graph, Value
from ....ir.ops import Concat
from ....ir.slice_bounds import normalize_slice
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import Shape, known_axes, shape_of


def slice_of_concat(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A slice that is exactly one input of a concatenation along the same axis."""
    found = _concat(graph, graph.input(node, 0))
    if found is None:
        return None
    pieces, axis, shape = found
    ports = graph.inputs(node)
    start, stop, step = (_single_element(graph, ports[p]) for p in (1, 2, 3))
    axes = known_axes(graph, ports[4], len(shape)) if len(ports) > 4 else [0]
    if start is None or stop is None or step != 1 or axes is None:
        return MatchFailure("the slice is not known, or has several axes or steps")
    if axes != [axis]:
        return MatchFailure("the slice is along another axis")
    cut = normalize_slice(start, stop, 1, shape[axis])
    if cut is None:
        return MatchFailure("the slice may begin or end on either side of element 0")
    for value, first, last in pieces:
        if eq(first, cut[0]) is True and eq(last - first, cut[1]) is True:
            return Patch().replace(Value(node), value)
    return MatchFailure("the slice is not a whole input of the concatenation")


def split_of_concat(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A split into the inputs of a concatenation along the same axis."""
    found = _concat(graph, graph.input(node, 0))
    if found is None:
        return None
    pieces, axis, shape = found
    if known_axes(graph, graph.input(node, 1), len(shape)) != [axis]:
        return MatchFailure("the split is along another axis")
    outputs = list(graph.values(node))
    if len(outputs) != len(pieces):
        return MatchFailure("the split has another number of parts")
    patch = Patch()
    for output, (value, _, _) in zip(outputs, pieces, strict=True):
        slice_shape, piece = shape_of(graph, output), shape_of(graph, value)
        if slice_shape is None or piece is None or eq(slice_shape[axis], piece[axis]) is not True:
            return MatchFailure("a part is not a whole input of the concatenation")
        patch.replace(output, value)
    return patch


def _concat(graph: Graph, value: Value) -> tuple[list[tuple[Value, Dim, Dim]], int, Shape] | None:
    """The inputs of a Concat with where they begin and end, its axis, and its shape."""
    node = producer(graph, value, "Concat")
    shape = shape_of(graph, value)
    if node is None or shape is None:
        return None
    op = graph.op(node)
    assert isinstance(op, Concat)
    axis, end = op.axis % len(shape), 0
    pieces: list[tuple[Value, Dim, Dim]] = []
    for source in graph.inputs(node):
        input_shape = shape_of(graph, source)
        if source is None or input_shape is None:
            return None
        first, end = end, end + input_shape[axis]
        pieces.append((source, first, end))
    return pieces, axis, shape


def _single_element(graph: Graph, value: Value | None) -> Dim | None:
    known = None if value is None else graph.known_value(value)
    if known is None or known.size != 1 or known.dtype.kind not in "iuO":
        return None
    return known.reshape(-1).tolist()[0]


_RULES = (
    Rule("slice_of_concat", ("Slice",), slice_of_concat),
    Rule("split_of_concat", ("Split", "VariadicSplit"), split_of_concat),
)

fold_slice_of_concat = Pass("fold_slice_of_concat", lambda options: _RULES)
