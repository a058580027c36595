"""Sizes that an operation needs to be equal where inference could not tell whether they are.

Inference takes such sizes for equal: an input `[N, K]` beside a weight of 8 rows says that K is 8.
What a caller brings may contradict that, and a kernel that walks 8 of 9 columns gives wrong numbers
without touching memory that is not its own. So each pair becomes a size expression of the
region, evaluated with every new shape, which refuses sizes that contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...ir import ops
from ...ir.dim import Dim, Expr, fits, product, same
from ...ir.graph import Graph, Value
from ...ir.op import Op
from ...ir.ops.elementwise import Elementwise
from ...ir.types import TensorType, normalize_axis

Shape = tuple[Dim, ...]


def size_rules(graph: Graph, node: int) -> list[Expr]:
    """Expressions that can be evaluated only where the node's sizes fit together."""
    op = graph.op(node)
    rule = _RULES.get(type(op))
    if rule is None and isinstance(op, Elementwise):
        rule = _broadcasts
    inputs = [shape_of(graph, v) for v in graph.inputs(node)]
    out = shape_of(graph, Value(node))
    if rule is None or out is None:
        return []
    return [d for d in rule(op, inputs, out) if isinstance(d, Expr)]


def shape_of(graph: Graph, value: Value | None) -> Shape | None:
    """The sizes of a tensor of known rank."""
    type_ = None if value is None else graph.type(value)
    return type_.shape if isinstance(type_, TensorType) else None


def _broadcasts(op: Op, inputs: Sequence[Shape | None], out: Shape) -> Iterator[Dim]:
    if isinstance(op, ops.PRelu):
        inputs = inputs[:1]  # its slope may stand on axis 1
    for shape in inputs:
        aligned = out[len(out) - len(shape) :] if shape and len(shape) <= len(out) else ()
        yield from (fits(size, wanted) for size, wanted in zip(shape or (), aligned, strict=False))


def _product(op: Op, inputs: Sequence[Shape | None], out: Shape) -> Iterator[Dim]:
    assert isinstance(op, ops.MatMul | ops.Gemm)
    a, b, *rest = inputs
    if a is None or b is None or not a or not b:
        return
    left = a[-2] if op.transpose_a and len(a) > 1 else a[-1]
    right = b[-1] if op.transpose_b and len(b) > 1 else b[-2 if len(b) > 1 else -1]
    yield same(left, right)
    batch = out[: len(out) - (len(a) > 1) - (len(b) > 1)]
    for shape in (a, b):
        lead = shape[:-2]
        yield from (fits(s, w) for s, w in zip(lead, batch[len(batch) - len(lead) :], strict=False))
    yield from _broadcasts(op, rest, out)


def _concat(op: Op, inputs: Sequence[Shape | None], out: Shape) -> Iterator[Dim]:
    axis = normalize_axis(int(getattr(op, "axis", 0)), len(out))
    for shape in inputs:
        for i, (size, wanted) in enumerate(zip(shape or (), out, strict=False)):
            if i != axis:
                yield same(size, wanted)


def _convolution(op: Op, inputs: Sequence[Shape | None], out: Shape) -> Iterator[Dim]:
    data, filters = inputs[:2]
    if data is None or filters is None or len(data) < 2:
        return
    grouped = op.kind.startswith("Group")
    inner = filters[1:] if grouped else filters
    channels = inner[0] if "Backprop" in op.kind else inner[1]
    yield same(data[1], channels * filters[0] if grouped else channels)


def _elements(op: Op, inputs: Sequence[Shape | None], out: Shape) -> Iterator[Dim]:
    if inputs[0] is not None:
        yield same(product(inputs[0]), product(out))


_RULES: dict[type[Op], Callable[[Op, Sequence[Shape | None], Shape], Iterator[Dim]]] = {
    ops.MatMul: _product,
    ops.Gemm: _product,
    ops.Concat: _concat,
    ops.Group: _broadcasts,
    ops.Reshape: _elements,
    ops.Convolution: _convolution,
    ops.GroupConvolution: _convolution,
    ops.ConvolutionBackpropData: _convolution,
    ops.GroupConvolutionBackpropData: _convolution,
}
