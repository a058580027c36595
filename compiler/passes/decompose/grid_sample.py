"""GridSample in operations that have kernels: coordinates, the four elements around each, their
mean; and resizing by filters, which is a product with a constant matrix per axis.

An element is a row of all channels, picked from the image channels last by its number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dims import eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Add,
    Concat,
    Constant,
    Convert,
    Floor,
    Gather,
    GreaterEqual,
    LessEqual,
    LogicalAnd,
    MatMul,
    Maximum,
    Minimum,
    Multiply,
    Reshape,
    Round,
    Select,
    ShapeOf,
    Slice,
    Subtract,
    Transpose,
    Unsqueeze,
)
from ....ir.ops.nn.grid_sample_roi import GridSample
from ....ir.ops.nn.interpolate import Interpolate, Interpolate4
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of


class _Plane:
    """The nodes that a rule writes, for an image [N, C, H, W] in f32."""

    def __init__(self, graph: Graph, data: Value) -> None:
        self.patch = Patch()
        self.shape = self.patch.add(ShapeOf(DType.i64), data)
        # H and W as integers of one element, and as floats.
        self.spatial_sizes = [self.axis_size(axis) for axis in (2, 3)]
        self.sizes = [self.patch.add(Convert(DType.f32), size) for size in self.spatial_sizes]
        order = self.ints(0, 2, 3, 1)
        rows = self.patch.add(Transpose(), data, order)
        flat = self.patch.add(Concat(0), self.axis_size(0), self.ints(-1), self.axis_size(1))
        self.rows = self.patch.add(Reshape(), rows, flat)

    def ints(self, *numbers: int) -> Value:
        return self.patch.integers(numbers)

    def number(self, value: float) -> Value:
        return self.patch.constant(value, DType.f32)

    def axis_size(self, axis: int) -> Value:
        one = self.ints(1)
        return self.patch.add(
            Slice(), self.shape, self.ints(axis), self.ints(axis + 1), one, self.ints(0)
        )

    def do(self, op: Op, *values: Value | float) -> Value:
        given = [v if isinstance(v, Value) else self.number(v) for v in values]
        return self.patch.add(op, *given)

    def unnormalize(self, grid: Value, axis: int, *, corners: bool) -> Value:
        """Where on axis 2 + `axis` of the image the grid's coordinates lie: [N, h, w]."""
        at = 1 - axis
        one, last = self.ints(1), self.ints(3)
        normalized = self.patch.add(Slice(), grid, self.ints(at), self.ints(at + 1), one, last)
        sizes = self.patch.add(Slice(), self.patch.add(ShapeOf(DType.i64), grid), *(
            self.ints(n) for n in (0, 3, 1, 0)
        ))  # fmt: skip
        x = self.do(Add(), self.patch.add(Reshape(), normalized, sizes), 1.0)
        size = self.sizes[axis]
        if corners:
            return self.do(Multiply(), x, self.do(Multiply(), self.do(Subtract(), size, 1.0), 0.5))
        return self.do(Multiply(), self.do(Subtract(), self.do(Multiply(), x, size), 1.0), 0.5)

    def clamp_index(self, coordinate: Value, axis: int) -> tuple[Value, Value]:
        """A coordinate clamped to the image, and whether it was inside."""
        last = self.do(Subtract(), self.sizes[axis], 1.0)
        was = self.do(
            LogicalAnd(),
            self.do(GreaterEqual(), coordinate, 0.0),
            self.do(LessEqual(), coordinate, last),
        )
        return self.do(Maximum(), self.do(Minimum(), coordinate, last), 0.0), was

    def gather_rows(self, y: Value, x: Value, *, zeros: bool, weight: Value | None) -> Value:
        """Rows [N, h, w, C] at integer coordinates times their weights, 0 outside where `zeros`."""
        (y, in_y), (x, in_x) = self.clamp_index(y, 0), self.clamp_index(x, 1)
        wide = [self.patch.add(Convert(DType.i64), v) for v in (y, x)]
        index = self.do(Add(), self.do(Multiply(), wide[0], self.spatial_sizes[1]), wide[1])
        if zeros:
            # No row, which is 0: the pixel at the border may be infinite, or not a number.
            count = self.do(Multiply(), *self.spatial_sizes)
            index = self.do(Select(), self.do(LogicalAnd(), in_y, in_x), index, count)
        rows = self.patch.add(Gather(batch_dims=1), self.rows, index, self.ints(1))
        if weight is None:
            return rows
        return self.do(Multiply(), rows, self.patch.add(Unsqueeze(), weight, self.ints(3)))


def decompose_sample(graph: Graph, node: int, op: GridSample) -> Patch | MatchFailure | None:
    """The nearest element of each coordinate, or four by their distance."""
    data, grid = graph.input(node, 0), graph.input(node, 1)
    mode, outside = op.mode.lower(), op.padding_mode.lower()
    if mode not in ("bilinear", "nearest") or outside not in ("zeros", "border"):
        return MatchFailure(f"mode {mode} with {outside}")
    if dtype_of(graph, data) is not DType.f32 or dtype_of(graph, grid) is not DType.f32:
        return MatchFailure("not in f32")
    shapes = shape_of(graph, data), shape_of(graph, grid)
    if None in shapes:
        return MatchFailure("a rank is unknown")
    plane, zeros = _Plane(graph, data), outside == "zeros"
    y, x = (plane.unnormalize(grid, axis, corners=op.align_corners) for axis in (0, 1))
    if mode == "nearest":
        y, x = (plane.do(Round("half_to_even"), v) for v in (y, x))
        found = plane.gather_rows(y, x, zeros=zeros, weight=None)
    else:
        if not zeros:
            (y, _), (x, _) = plane.clamp_index(y, 0), plane.clamp_index(x, 1)
        corners = [_neighbor_indices(plane, v) for v in (y, x)]
        terms = [
            plane.gather_rows(a, b, zeros=zeros, weight=plane.do(Multiply(), wa, wb))
            for a, wa in corners[0]
            for b, wb in corners[1]
        ]
        found = terms[0]
        for term in terms[1:]:
            found = plane.do(Add(), found, term)
    made = plane.patch.add(Transpose(), found, plane.ints(0, 3, 1, 2))
    return plane.patch.replace(Value(node), made)


def _neighbor_indices(plane: _Plane, coordinate: Value) -> list[tuple[Value, Value]]:
    """The integer coordinates before and behind, with their weights."""
    before = plane.do(Floor(), coordinate)
    far = plane.do(Subtract(), coordinate, before)
    near = plane.do(Subtract(), 1.0, far)
    return [(before, near), (plane.do(Add(), before, 1.0), far)]


def decompose_filtered(
    graph: Graph, node: int, op: Interpolate | Interpolate4
) -> Patch | MatchFailure | None:
    """Sizes that are known, resized by a filter that grows as the image shrinks."""
    data, mode = graph.input(node, 0), op.mode.lower()
    if not (mode.endswith("_pillow") or (mode == "linear" and op.antialias)):
        return None
    before, after = shape_of(graph, data), shape_of(graph, Value(node))
    if before is None or after is None or any((*op.pads_begin, *op.pads_end)):
        return MatchFailure("the rank is unknown, or there are paddings")
    if dtype_of(graph, data) is not DType.f32:
        return MatchFailure("not in f32")
    scales: set[Any] | None = None
    if op.shape_calculation_mode.lower() == "scales":
        given = graph.input(node, 2 if isinstance(op, Interpolate4) else 1)
        constant = graph.op(given.node)
        if not isinstance(constant, Constant):
            return MatchFailure("dynamic scales")
        scales = set(constant.data.astype(np.float32).reshape(-1))
    patch, value = Patch(), data
    for axis, (size, out) in enumerate(zip(before, after, strict=True)):
        if eq(size, out) is True:
            continue
        if not isinstance(size, int) or not isinstance(out, int) or axis < len(before) - 2:
            return MatchFailure("dynamic sizes, or axes that are not the last two")
        scale = np.float32(out) / np.float32(max(size, 1))
        if scales is not None and scale not in scales:
            return MatchFailure("a scale that sizes do not determine")
        matrix = op.weights_of(size, out, float(scale))
        is_last = axis == len(before) - 1
        factor = patch.constant(matrix, DType.f32)
        if is_last:
            value = patch.add(MatMul(False, True), value, factor)
        else:
            value = patch.add(MatMul(), factor, value)
    return None if value == data else patch.replace(Value(node), value)


_RULES = (
    op_rule("decompose_grid_sample", (GridSample,), decompose_sample),
    op_rule("decompose_filtered", (Interpolate, Interpolate4), decompose_filtered),
)

decompose_grid_sample = Pass("decompose_grid_sample", lambda options: _RULES)
