"""Move transposes behind elementwise operations, where they meet others, cancel, or end in the
flags of a product."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Reshape, Transpose
from ....ir.ops.math.elementwise import Elementwise
from ...legality import is_elementwise
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..canonicalize.static_reshape_targets import constant_target
from ..match.values import known_axes, shape_of

# Constant operands are transposed at once; larger ones are left where they are.
MAX_TRANSPOSED_CONSTANT_BYTES = 64 * 2**10


def order_of(graph: Graph, node: int) -> list[int] | None:
    """The known order of a Transpose; an empty one reverses the axes."""
    shape = shape_of(graph, graph.input(node, 0))
    if shape is None:
        return None
    order = known_axes(graph, graph.input(node, 1), len(shape))
    if order is None:
        return None
    return order or list(reversed(range(len(shape))))


def add_transpose(patch: Patch, value: Value, order: Sequence[int]) -> Value:
    """Append a Transpose, or nothing where the order is the identity."""
    if list(order) == list(range(len(order))):
        return value
    axes = patch.integers(order)
    return patch.add(Transpose(), value, axes)


def inverse(order: Sequence[int]) -> list[int]:
    """The order that undoes `order`."""
    return [list(order).index(i) for i in range(len(order))]


def merge_pair(graph: Graph, node: int) -> Patch | None:
    """Transpose of a transpose: one transpose, or none."""
    inner = producer(graph, graph.input(node, 0), "Transpose")
    outer_order = order_of(graph, node)
    inner_order = None if inner is None else order_of(graph, inner)
    if inner is None or outer_order is None or inner_order is None:
        return None
    patch = Patch()
    merged = [inner_order[i] for i in outer_order]
    return patch.replace(Value(node), add_transpose(patch, graph.input(inner, 0), merged))


def push_down(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """f(Transpose(x), ...) = Transpose(f(x, ...)): never more transposes, and closer to a reader
    that takes them. Every operand is a transpose of one order, a single element or a constant."""
    op = graph.op(node)
    if not isinstance(op, Elementwise):
        return None
    inputs = [v for v in graph.inputs(node) if v is not None]
    orders = {v: o for v in inputs if (o := _match_transpose(graph, v)) is not None}
    if not orders or len(inputs) != len(graph.inputs(node)):
        return None
    order = next(iter(orders.values()))
    if any(o != order for o in orders.values()):
        return MatchFailure("the operands are transposed differently")
    if not all(graph.only_reader(v) == node for v in orders):
        return MatchFailure("a transposed operand has other readers")
    if not is_elementwise(graph, node):
        return MatchFailure("the operation depends on the index of an axis")
    patch = Patch()
    moved: list[Value] = []
    for value in inputs:
        if value in orders:
            moved.append(graph.input(value.node, 0))
            continue
        constant = _transpose_constant(graph, patch, value, inverse(order))
        if constant is None:
            return MatchFailure("an operand is not transposed")
        moved.append(constant)
    return patch.replace(Value(node), add_transpose(patch, patch.add(op, *moved), order))


def _match_transpose(graph: Graph, value: Value) -> list[int] | None:
    inner = producer(graph, value, "Transpose")
    return None if inner is None else order_of(graph, inner)


def _transpose_constant(
    graph: Graph, patch: Patch, value: Value, order: Sequence[int]
) -> Value | None:
    """A single element as it is, a constant transposed; None for anything else."""
    shape, op = shape_of(graph, value), graph.op(value.node)
    if shape is None or len(shape) > len(order):
        return None
    if all(d == 1 for d in shape if isinstance(d, int)) and all(isinstance(d, int) for d in shape):
        return value
    if not isinstance(op, Constant) or op.nbytes > MAX_TRANSPOSED_CONSTANT_BYTES:
        return None
    data = op.data.reshape((1,) * (len(order) - op.data.ndim) + op.data.shape)
    return patch.constant(data.transpose(order), op.dtype)


def lift_up(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Transpose(f(Transpose(x), y)) where the two cancel: f(x, Transpose(y)), one fewer."""
    middle = graph.input(node, 0)
    op, order = graph.op(middle.node), order_of(graph, node)
    if not isinstance(op, Elementwise) or order is None:
        return None
    inputs = graph.inputs(middle.node)
    back = [v for v in inputs if v is not None and _match_transpose(graph, v) == inverse(order)]
    if not back:
        return None
    if not has_one_use(graph, middle):
        return MatchFailure("the elementwise operation has other readers")
    if not is_elementwise(graph, middle.node):
        return MatchFailure("the operation depends on the index of an axis")
    patch, added = Patch(), 0
    moved: list[Value] = []
    for value in inputs:
        shape = shape_of(graph, value)
        if value is None or shape is None:
            return MatchFailure("an operand is absent or of unknown rank")
        if value in back:
            moved.append(graph.input(value.node, 0))
            continue
        constant = _transpose_constant(graph, patch, value, order)
        if constant is None:
            if len(shape) != len(order):
                return MatchFailure("an operand has another rank")
            constant = add_transpose(patch, value, order)
            # Merging with a transpose that is there already adds none.
            added += _match_transpose(graph, value) is None
        moved.append(constant)
    dying = sum(has_one_use(graph, v) for v in back)
    if added > dying:
        return MatchFailure("other operands would need a transpose each")
    return patch.replace(Value(node), patch.add(op, *moved))


def turn_inside(graph: Graph, node: int) -> Patch | None:
    """Matrices whose batch axes are merged, turned and split again: turned as they are."""
    middle = producer(graph, graph.input(node, 0), "Transpose")
    first = None if middle is None else producer(graph, graph.input(middle, 0), "Reshape")
    if middle is None or first is None or order_of(graph, middle) != [0, 2, 1]:
        return None
    source = graph.input(first, 0)
    have, merged, out = (shape_of(graph, v) for v in (source, Value(first), Value(node)))
    if have is None or merged is None or out is None or min(len(have), len(out)) < 3:
        return None
    rows, size = have[-2:]
    ends = ((merged[-2], rows), (merged[-1], size), (out[-1], rows), (out[-2], size))
    if not all(eq(a, b) is True for a, b in ends):
        return None
    patch, wanted = Patch(), (*out[:-2], rows, size)
    if len(have) != len(out) or not all(
        eq(a, b) is True for a, b in zip(have, wanted, strict=True)
    ):
        target = constant_target(have, wanted)
        if target is None:
            return None
        listed = patch.integers(target)
        source = patch.add(Reshape(special_zero=True), source, listed)
    rank = len(out)
    order = [*range(rank - 2), rank - 1, rank - 2]
    return patch.replace(Value(node), add_transpose(patch, source, order))


_RULES = (
    Rule("turn_inside", ("Reshape",), turn_inside),
    Rule("merge_pair", ("Transpose",), merge_pair),
    Rule("lift_up", ("Transpose",), lift_up),
    Rule("push_down", (), push_down),
)

cancel_transposes = Pass("cancel_transposes", lambda options: _RULES)
