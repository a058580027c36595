"""DeformableConvolution as rows gathered at moved coordinates, blended, and one matrix product.

A row holds the channels of a deformable group at one pixel of the image; four rows around each
coordinate of each tap are weighted, and a product with the filters sums taps and channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Add,
    Convert,
    DeformableConvolution1,
    Floor,
    Gather,
    GreaterEqual,
    Less,
    LogicalAnd,
    MatMul,
    Minimum,
    Multiply,
    Select,
    Subtract,
    Transpose,
    Unsqueeze,
)
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of
from .node_builder import NodeBuilder


class _TapBuilder(NodeBuilder):
    """The nodes that gather rows of an image of known height and width."""

    def __init__(self, graph: Graph, node: int, sides: Sequence[int], rows: Value) -> None:
        super().__init__(graph, node)
        self.sides, self.rows = sides, rows

    def do(self, op: Op, *values: Value | float) -> Value:
        return self.add(op, *(v if isinstance(v, Value) else self.number(v) for v in values))

    def is_within(self, coordinate: Value, axis: int, least: float) -> Value:
        """Whether a coordinate is at least `least` and before the end of the axis."""
        high = self.do(Less(), coordinate, self.sides[axis])
        return self.add(LogicalAnd(), self.do(GreaterEqual(), coordinate, least), high)

    def corner(self, y: Value, x: Value, weight: Value) -> Value:
        """Rows at integer coordinates times their weights, 0 outside the image."""
        inside = self.add(LogicalAnd(), self.is_within(y, 0, 0.0), self.is_within(x, 1, 0.0))
        index = self.do(Add(), self.do(Multiply(), y, self.sides[1]), x)
        # No row, which is 0: the pixel at the border may be infinite, or not a number.
        index = self.do(Select(), inside, index, self.sides[0] * self.sides[1])
        row_index = self.add(Convert(DType.i64), index)
        found = self.add(Gather(batch_dims=1), self.rows, row_index, self.ints([1]))
        return self.add(Multiply(), found, self.add(Unsqueeze(), weight, self.ints([2])))


def decompose_deformable(
    graph: Graph, node: int, op: DeformableConvolution1
) -> Patch | MatchFailure | None:
    """Images of known sizes in f32, with one group of filters."""
    shapes = [shape_of(graph, graph.input(node, port)) for port in range(3)]
    if None in shapes or any(not isinstance(d, int) for s in shapes for d in (s or ())[1:]):
        return MatchFailure("sizes are known at run time only")
    data, offsets, filters = ([d for d in (s or ())[1:] if isinstance(d, int)] for s in shapes)
    outputs = shapes[2][0] if shapes[2] else None
    if op.group != 1 or not isinstance(outputs, int):
        return MatchFailure("groups of filters")
    if dtype_of(graph, graph.input(node, 0)) is not DType.f32 or 0 in (*data, *offsets):
        return MatchFailure("not in f32, or an axis is empty")
    channels, *sides = data
    # Coordinates are computed in f32.
    if sides[0] * sides[1] >= 1 << 24:
        return MatchFailure("a large image")
    groups, output_sizes = op.deformable_group, offsets[1:]
    kernel, count = filters[1:], output_sizes[0] * output_sizes[1]
    taps, each = kernel[0] * kernel[1], channels // op.deformable_group
    build = _TapBuilder(graph, node, sides, Value(node))
    image, images = graph.input(node, 0), build.sizes(graph.input(node, 0), 0, 1)
    split = build.reshape(image, images, groups, each, sides[0] * sides[1])
    turned = build.add(Transpose(), split, build.ints([0, 1, 3, 2]))
    batch = build.add(Multiply(), images, build.ints([groups]))
    build.rows = build.reshape(turned, batch, sides[0] * sides[1], each)
    y, x, mask = _sample_coordinates(build, op, batch, output_sizes, kernel)
    inside = build.add(
        LogicalAnd(),
        build.is_within(y, 0, _least_coordinate(op)),
        build.is_within(x, 1, _least_coordinate(op)),
    )
    columns = _blend(build, y, x, inside, mask, clamps=not op.pads_bilinearly)
    # [N * groups, pixels * taps, each] to [N, pixels, groups * taps * each].
    order = [0, 2, 1, 3]
    groups_of_columns = build.reshape(columns, images, groups, count, taps * each)
    if groups > 1:
        groups_of_columns = build.add(Transpose(), groups_of_columns, build.ints(order))
    matrix = build.reshape(groups_of_columns, images, count, groups * taps * each)
    weights = build.reshape(graph.input(node, 2), outputs, groups, each, taps)
    weights = build.add(Transpose(), weights, build.ints([1, 3, 2, 0]))
    weights = build.reshape(weights, groups * taps * each, outputs)
    product = build.add(MatMul(), matrix, weights)
    made = build.add(Transpose(), product, build.ints([0, 2, 1]))
    return build.done(build.reshape(made, images, outputs, *output_sizes))


def _least_coordinate(op: DeformableConvolution1) -> float:
    """The least coordinate that is read: 0, or just above -1."""
    return float(np.nextafter(np.float32(-1), np.float32(0))) if op.pads_bilinearly else 0.0


def _sample_coordinates(
    build: _TapBuilder,
    op: DeformableConvolution1,
    batch: Value,
    output_sizes: Sequence[int],
    kernel: Sequence[int],
) -> tuple[Value, Value, Value | None]:
    """Where taps read, y and x, and their mask: [N * groups, pixels * taps]."""
    taps, count = kernel[0] * kernel[1], output_sizes[0] * output_sizes[1]
    moves = build.reshape(build.graph.input(build.node, 1), batch, taps, 2, count)
    moves = build.add(Transpose(), moves, build.ints([0, 3, 1, 2]))
    starts = op.tap_starts(kernel, build.sides, output_sizes)
    found: list[Value] = []
    for axis in (0, 1):
        own = build.reshape(build.cut(moves, 3, axis, axis + 1), batch, count * taps)
        start = starts[axis].reshape(taps, count).T.reshape(1, -1)
        found.append(build.add(Add(), own, build.patch.constant(start, DType.f32)))
    inputs = build.graph.inputs(build.node)
    mask = inputs[3] if len(inputs) > 3 else None
    if mask is not None:
        mask = build.reshape(mask, batch, taps, count)
        mask = build.add(Transpose(), mask, build.ints([0, 2, 1]))
        mask = build.reshape(mask, batch, count * taps)
    return found[0], found[1], mask


def _blend(
    build: _TapBuilder, y: Value, x: Value, inside: Value, mask: Value | None, *, clamps: bool
) -> Value:
    """Four rows around each coordinate by their distances; with `clamps` a row behind the last one
    is the last one, otherwise 0."""
    sides: list[list[tuple[Value, Value]]] = []
    for axis, coordinate in enumerate((y, x)):
        low = build.add(Floor(), coordinate)
        far = build.add(Subtract(), coordinate, low)
        near = build.do(Subtract(), 1.0, far)
        high = build.do(Add(), low, 1.0)
        if clamps:
            high = build.do(Minimum(), high, build.sides[axis] - 1)
        sides.append([(low, near), (high, far)])
    total: Value | None = None
    for rows, row_weight in sides[0]:
        for columns, column_weight in sides[1]:
            weight = build.add(Multiply(), row_weight, column_weight)
            weight = weight if mask is None else build.add(Multiply(), weight, mask)
            weight = build.do(Select(), inside, weight, 0.0)
            outside = build.number(-1.0)
            row = build.add(Select(), inside, rows, outside)
            weighted = build.corner(row, columns, weight)
            total = weighted if total is None else build.add(Add(), total, weighted)
    assert total is not None
    return total


_RULES = (
    op_rule("decompose_deformable_convolution", (DeformableConvolution1,), decompose_deformable),
)

decompose_deformable_convolution = Pass("decompose_deformable_convolution", lambda options: _RULES)
