"""Comparisons of indices: what ranges and their differences say about a mask [..., rows, keys].

An integer that depends on its indices as `offset + row * i + key * j` is known for every size,
and so is the diagonal at which a comparison of two such numbers changes.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.dims import Dim, Expr, eq, le
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import Constant
from ....ir.slice_bounds import normalize_start
from ..match.values import Shape, known_axes, shape_of


@dataclass(frozen=True)
class _AffineMask:
    """offset + row * i + key * j, where i and j count the last two axes."""

    offset: Dim
    row: int = 0
    key: int = 0


# Sign and slack of a comparison a ? b as sign * (a - b) <= slack.
_SIGNS = {"LessEqual": (1, 0), "Less": (1, -1), "GreaterEqual": (-1, 0), "Greater": (-1, -1)}
_MAX_MATCH_DEPTH = 16
_VIEWS = frozenset({"Unsqueeze", "Squeeze", "Reshape", "Broadcast", "Identity"})


def shown_up_to(graph: Graph, mask: Value, *, inverted: bool = False) -> Dim | None:
    """d where a boolean is true exactly for j <= i + d (`inverted`: false), else None."""
    found = _condition(graph, mask, _MAX_MATCH_DEPTH)
    if found is None:
        return None
    if inverted:
        found = _AffineMask(-found.offset - 1, -found.row, -found.key)
    return found.offset if (found.row, found.key) == (-1, 1) else None


def added_up_to(graph: Graph, mask: Value, hidden: float) -> Dim | None:
    """d where a number to be added is 0 exactly for j <= i + d, and elsewhere `hidden` or less."""
    for _ in range(_MAX_MATCH_DEPTH):
        kind = graph.op(mask.node).kind
        if kind == "Select":
            yes, no = (_match_repeated_number(graph, graph.input(mask.node, p)) for p in (1, 2))
            if yes is None or no is None or {yes == 0, no == 0} != {True, False}:
                return None
            if yes + no > hidden:  # one of them is 0
                return None
            return shown_up_to(graph, graph.input(mask.node, 0), inverted=no == 0)
        if kind not in _VIEWS or not _keeps_last(graph, graph.input(mask.node, 0), mask):
            return None
        mask = graph.input(mask.node, 0)
    return None


def _condition(graph: Graph, value: Value, depth: int) -> _AffineMask | None:
    """A boolean as row * i + key * j <= offset."""
    op = graph.op(value.node)
    if depth == 0:
        return None
    if op.kind in _SIGNS:
        left, right = (_place(graph, graph.input(value.node, p), depth - 1) for p in (0, 1))
        if left is None or right is None:
            return None
        sign, slack = _SIGNS[op.kind]
        return _AffineMask(
            (right.offset - left.offset) * sign + slack,
            (left.row - right.row) * sign,
            (left.key - right.key) * sign,
        )
    if op.kind == "Select":
        yes, no = (_match_repeated_number(graph, graph.input(value.node, p)) for p in (1, 2))
        found = _condition(graph, graph.input(value.node, 0), depth - 1)
        return (
            found if (yes, no) == (1, 0) else _negate_mask(found) if (yes, no) == (0, 1) else None
        )
    if op.kind in ("Equal", "NotEqual"):
        return _match_comparison(graph, value, depth)
    if op.kind == "LogicalNot":
        return _negate_mask(_condition(graph, graph.input(value.node, 0), depth - 1))
    if op.kind == "LogicalAnd":
        for one, other in ((0, 1), (1, 0)):
            if _match_repeated_number(graph, graph.input(value.node, other)) == 1:
                return _condition(graph, graph.input(value.node, one), depth - 1)
        return None
    if op.kind in _VIEWS:
        source = graph.input(value.node, 0)
        return _condition(graph, source, depth - 1) if _keeps_last(graph, source, value) else None
    if op.kind == "Slice":
        return _match_slice(graph, value, depth)
    return None


def _negate_mask(found: _AffineMask | None) -> _AffineMask | None:
    """Where row * i + key * j <= offset does not hold: -x <= -offset - 1."""
    return None if found is None else _AffineMask(-found.offset - 1, -found.row, -found.key)


def _match_comparison(graph: Graph, value: Value, depth: int) -> _AffineMask | None:
    """A choice between two numbers compared with one of them."""
    left, right = graph.input(value.node, 0), graph.input(value.node, 1)
    for choice, number in (
        (left, _match_repeated_number(graph, right)),
        (right, _match_repeated_number(graph, left)),
    ):
        if graph.op(choice.node).kind != "Select" or number is None:
            continue
        yes, no = (_match_repeated_number(graph, graph.input(choice.node, p)) for p in (1, 2))
        if yes is None or no is None or yes == no or number not in (yes, no):
            return None
        found = _condition(graph, graph.input(choice.node, 0), depth - 1)
        same = (number == yes) is (graph.op(value.node).kind == "Equal")
        return found if same else _negate_mask(found)
    return None


def _match_repeated_number(graph: Graph, value: Value) -> float | None:
    """The one number (or boolean, as 0 and 1) that a constant, or what repeats it, holds."""
    while graph.op(value.node).kind in ("Broadcast", "Reshape", "Unsqueeze"):
        value = graph.input(value.node, 0)
    op = graph.op(value.node)
    if not isinstance(op, Constant) or op.data.size != 1 or op.dtype is DType.string:
        return None
    return float(op.data.reshape(-1)[0])


def _keeps_last(graph: Graph, source: Value, value: Value) -> bool:
    """Whether two shapes differ in leading axes of 1, or in what repeats them, only."""
    before, after = shape_of(graph, source), shape_of(graph, value)
    if before is None or after is None or min(len(before), len(after)) < 2:
        return False
    last = all(eq(a, b) is True for a, b in zip(before[-2:], after[-2:], strict=True))
    return last and all(eq(d, 1) is True for d in before[:-2])


def _match_slice(graph: Graph, value: Value, depth: int) -> _AffineMask | None:
    """A part of rows or keys: numbers are counted from where it begins."""
    source, inputs = graph.input(value.node, 0), graph.inputs(value.node)
    shape, found = shape_of(graph, source), _condition(graph, source, depth - 1)
    if found is None or shape is None or len(inputs) < 5:
        return None
    start, step = (_single(graph, inputs[p]) for p in (1, 3))
    axes = known_axes(graph, inputs[4], len(shape))
    if start is None or step != 1 or axes is None or len(axes) != 1:
        return None
    if le(0, start) is not True:
        # A start beyond the end takes nothing, so that only the others have to be clamped.
        start = normalize_start(start, shape[axes[0]], 1)
    if start is None:
        return None
    if axes[0] == len(shape) - 2:
        return replace(found, offset=found.offset - start * found.row)
    if axes[0] == len(shape) - 1:
        return replace(found, offset=found.offset - start * found.key)
    return None


def _place(graph: Graph, value: Value, depth: int) -> _AffineMask | None:
    """An integer as a function of its indices."""
    op, shape = graph.op(value.node), shape_of(graph, value)
    single = _single(graph, value)
    if single is not None:
        return _AffineMask(single)
    if depth == 0 or shape is None:
        return None
    if op.kind == "Range":
        start, step = (_single(graph, graph.input(value.node, p)) for p in (0, 2))
        return _AffineMask(start, 0, 1) if start is not None and step == 1 else None
    if op.kind in ("Add", "Subtract"):
        left, right = (_place(graph, graph.input(value.node, p), depth - 1) for p in (0, 1))
        if left is None or right is None:
            return None
        sign = 1 if op.kind == "Add" else -1
        offset = left.offset + right.offset * sign
        return _AffineMask(offset, left.row + sign * right.row, left.key + sign * right.key)
    if op.kind == "Convert":
        return _place(graph, graph.input(value.node, 0), depth - 1)
    if op.kind in ("Unsqueeze", "Reshape"):
        source = graph.input(value.node, 0)
        before, found = shape_of(graph, source), _place(graph, source, depth - 1)
        if before is None or found is None:
            return None
        return _insert_unit_axes(found, before, shape)
    return None


def _insert_unit_axes(found: _AffineMask, before: Shape, after: Shape) -> _AffineMask | None:
    """The same numbers with axes of 1 put in: a vector may become rows."""
    if found.row == found.key == 0:
        return found
    if len(before) != 1 or found.row:
        last = all(eq(a, b) is True for a, b in zip(before[-2:], after[-2:], strict=True))
        return found if last and len(before) >= 2 else None
    long = [i - len(after) for i, d in enumerate(after) if eq(d, 1) is not True]
    if len(long) != 1 or eq(after[long[0]], before[0]) is not True or long[0] < -2:
        return None
    return found if long[0] == -1 else _AffineMask(found.offset, found.key, 0)


def _single(graph: Graph, value: Value | None) -> Dim | None:
    """The one integer that a value is known to hold."""
    known = None if value is None else graph.known_value(value)
    if known is None or known.size != 1 or known.dtype.kind not in "iuO":
        return None
    item = known.reshape(-1)[0]
    return item if isinstance(item, Expr) else int(item)
