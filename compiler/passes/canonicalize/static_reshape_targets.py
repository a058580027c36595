"""Let as little as possible read a shape at run time.

Exporters compute a Reshape's target from the sizes of its input. Where inference knows what comes
out, a constant with 0 (copy the input's size) and -1 (what remains) says the same, and the chain
that computed it dies. What still reads a shape reads it as early as possible: a reader of a
product's shape would keep the product from being fused with what follows it.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.dims import Dim, bounds, eq
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Reshape
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import Shape, shape_of


def materialize_target(graph: Graph, node: int, op: Reshape) -> Patch | MatchFailure | None:
    """A Reshape whose target is computed but known gets a constant target."""
    target = graph.input(node, 1)
    if isinstance(graph.op(target.node), Constant):
        return None
    source, out = graph.input(node, 0), shape_of(graph, Value(node))
    if graph.known_value(target) is None or out is None:
        return MatchFailure("the target is not known")
    have = shape_of(graph, source)
    if have is None:
        return MatchFailure("the rank of the input is unknown")
    sizes = constant_target(have, out)
    if sizes is None:
        return MatchFailure("more than one size can be neither copied nor left out")
    patch = Patch()
    listed = patch.integers(sizes)
    return patch.replace(Value(node), patch.add(replace(op, special_zero=True), source, listed))


def constant_target(have: Shape, out: Shape) -> list[int] | None:
    """A target with special zeros that makes `have` into `out`, if there is one."""
    sizes: list[int] = []
    for axis, size in enumerate(out):
        if isinstance(size, int) and size > 0:
            sizes.append(size)
        elif axis < len(have) and eq(have[axis], size) is True:
            sizes.append(0)
        elif isinstance(size, int) or -1 in sizes:
            return None  # a size of 0 that the input does not have here, or a second unknown
        else:
            sizes.append(-1)
    # With 0 elements, -1 would be anything: every size next to it must be at least 1.
    if -1 in sizes and any(s == 0 and not _is_positive(d) for s, d in zip(sizes, out, strict=True)):
        return None
    return sizes


def _is_positive(size: Dim) -> bool:
    least = bounds(size)[0]
    return least is not None and least > 0


def read_early(graph: Graph, node: int) -> Patch | None:
    """ShapeOf(f(x)) where x has the same shape: ShapeOf(x)."""
    value = graph.input(node, 0)
    shape = shape_of(graph, value)
    if shape is None:
        return None
    for source in graph.inputs(value.node):
        if source is not None and shape_of(graph, source) == shape:
            patch = Patch()
            return patch.replace(Value(node), patch.add(graph.op(node), source))
    for parameter in graph.parameters:
        source = Value(parameter)
        if (
            source != value
            and _is_before(graph, source, value)
            and shape_of(graph, source) == shape
        ):
            patch = Patch()
            return patch.replace(Value(node), patch.add(graph.op(node), source))
    return None


def _is_before(graph: Graph, parameter: Value, value: Value) -> bool:
    """An order among values of one shape, so that two parameters do not take turns."""
    if graph.op(value.node).kind != "Parameter":
        return True
    return graph.parameters.index(parameter.node) < graph.parameters.index(value.node)


_RULES = (
    op_rule("materialize_target", (Reshape,), materialize_target),
    Rule("read_early", ("ShapeOf",), read_early),
)

materialize_reshape_targets = Pass("materialize_reshape_targets", lambda options: _RULES)
