"""GridSample in operations that have kernels: coordinates, the elements around each, their sum by
weights; and resizing by filters, which is a product with a constant matrix per axis.

An element is a row of all channels, picked from the image channels last by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.dims import eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Abs,
    Add,
    Concat,
    Constant,
    Convert,
    Floor,
    FloorMod,
    Gather,
    Greater,
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
from ....ir.ops.math.elementwise import FLOATS
from ....ir.ops.nn.grid_sample_roi import GridSample
from ....ir.ops.nn.interpolate import Interpolate, Interpolate4
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of

# What images and coordinates are computed in: their own type, or f32 for narrower ones.
_COMPUTE_TYPES = {dtype: DType.f64 if dtype is DType.f64 else DType.f32 for dtype in FLOATS}


class _Plane:
    """The nodes that a rule writes, for an image [N, C, H, W].

    types: of the image and of the grid. Weights and sums have the type in which the image is
    computed, coordinates that of the grid.
    """

    def __init__(self, data: Value, types: tuple[DType, DType], op: GridSample) -> None:
        self.patch = Patch()
        self.element_type, self.coordinate_type = (_COMPUTE_TYPES[t] for t in types)
        self.padding_mode, self.corners = op.padding_mode.lower(), op.align_corners
        data = self.convert(data, types[0], self.element_type)
        self.shape = self.patch.add(ShapeOf(DType.i64), data)
        # H and W as integers of one element, and as coordinates.
        self.spatial_sizes = [self.axis_size(axis) for axis in (2, 3)]
        as_coordinate = Convert(self.coordinate_type)
        self.sizes = [self.patch.add(as_coordinate, size) for size in self.spatial_sizes]
        order = self.ints(0, 2, 3, 1)
        rows = self.patch.add(Transpose(), data, order)
        flat = self.patch.add(Concat(0), self.axis_size(0), self.ints(-1), self.axis_size(1))
        self.rows = self.patch.add(Reshape(), rows, flat)

    def ints(self, *numbers: int) -> Value:
        return self.patch.integers(numbers)

    def axis_size(self, axis: int) -> Value:
        one = self.ints(1)
        return self.patch.add(
            Slice(), self.shape, self.ints(axis), self.ints(axis + 1), one, self.ints(0)
        )

    def convert(self, value: Value, before: DType, after: DType) -> Value:
        """The value in type `after`."""
        return value if before is after else self.patch.add(Convert(after), value)

    def do(self, op: Op, *values: Value | float) -> Value:
        """Add a node; numbers are coordinates."""
        given = [
            v if isinstance(v, Value) else self.patch.constant(v, self.coordinate_type)
            for v in values
        ]
        return self.patch.add(op, *given)

    def unnormalize(self, grid: Value, axis: int) -> Value:
        """Where on axis 2 + `axis` of the image the grid's coordinates are: [N, h, w]."""
        at = 1 - axis
        one, last = self.ints(1), self.ints(3)
        normalized = self.patch.add(Slice(), grid, self.ints(at), self.ints(at + 1), one, last)
        sizes = self.patch.add(Slice(), self.patch.add(ShapeOf(DType.i64), grid), *(
            self.ints(n) for n in (0, 3, 1, 0)
        ))  # fmt: skip
        x = self.do(Add(), self.patch.add(Reshape(), normalized, sizes), 1.0)
        size = self.sizes[axis]
        if self.corners:
            return self.do(Multiply(), x, self.do(Multiply(), self.last_coordinate(axis), 0.5))
        return self.do(Multiply(), self.do(Subtract(), self.do(Multiply(), x, size), 1.0), 0.5)

    def last_coordinate(self, axis: int) -> Value:
        """The coordinate of an axis' last element."""
        return self.do(Subtract(), self.sizes[axis], 1.0)

    def clamp(self, coordinate: Value, axis: int) -> Value:
        """A coordinate clamped to the image."""
        return self.do(Maximum(), self.do(Minimum(), coordinate, self.last_coordinate(axis)), 0.0)

    def is_inside(self, coordinate: Value, axis: int) -> Value:
        """Whether a coordinate is within the image."""
        above = self.do(GreaterEqual(), coordinate, 0.0)
        return self.do(
            LogicalAnd(), above, self.do(LessEqual(), coordinate, self.last_coordinate(axis))
        )

    def reflect(self, coordinate: Value, axis: int) -> Value:
        """A coordinate mirrored at the image's borders until it is between them."""
        edge = 0.0 if self.corners else -0.5
        # At least 1: between the corners of one element there is nothing.
        span = self.do(
            Maximum(), self.last_coordinate(axis) if self.corners else self.sizes[axis], 1.0
        )
        twice = self.do(Multiply(), span, 2.0)
        away = self.do(FloorMod(), self.do(Abs(), self.do(Subtract(), coordinate, edge)), twice)
        back = self.do(Subtract(), twice, away)
        return self.do(Add(), self.do(Select(), self.do(Greater(), away, span), back, away), edge)

    def apply_padding(self, coordinate: Value, axis: int) -> Value:
        """The coordinate whose neighbours are blended."""
        if self.padding_mode == "zeros":
            return coordinate
        if self.padding_mode == "reflection":
            coordinate = self.reflect(coordinate, axis)
        return self.clamp(coordinate, axis)

    def gather_rows(self, y: Value, x: Value, weight: Value | None) -> Value:
        """Rows [N, h, w, C] at integer coordinates times their weights."""
        at = (y, x)
        if self.padding_mode == "reflection":
            whole = Round("half_to_even")
            at = tuple(self.do(whole, self.reflect(v, axis)) for axis, v in enumerate(at))
        clamped = [self.clamp(v, axis) for axis, v in enumerate(at)]
        wide = [self.patch.add(Convert(DType.i64), v) for v in clamped]
        index = self.do(Add(), self.do(Multiply(), wide[0], self.spatial_sizes[1]), wide[1])
        if self.padding_mode == "zeros":
            # No row, which is 0: the pixel at the border may be infinite, or not a number.
            count = self.do(Multiply(), *self.spatial_sizes)
            inside = self.do(LogicalAnd(), *(self.is_inside(v, n) for n, v in enumerate(at)))
            index = self.do(Select(), inside, index, count)
        rows = self.patch.add(Gather(batch_dims=1), self.rows, index, self.ints(1))
        if weight is None:
            return rows
        weight = self.convert(weight, self.coordinate_type, self.element_type)
        return self.do(Multiply(), rows, self.patch.add(Unsqueeze(), weight, self.ints(3)))


def decompose_sample(graph: Graph, node: int, op: GridSample) -> Patch | MatchFailure | None:
    """The nearest element of each coordinate, or 4 or 16 around it by their weights."""
    data, grid = graph.input(node, 0), graph.input(node, 1)
    mode, outside = op.mode.lower(), op.padding_mode.lower()
    if mode not in ("nearest", *_NEIGHBORS) or outside not in ("zeros", "border", "reflection"):
        return MatchFailure(f"mode {mode} with {outside}")
    types = dtype_of(graph, data), dtype_of(graph, grid)
    if types[0] not in FLOATS or types[1] not in FLOATS:
        return MatchFailure("not in floats")
    if None in (shape_of(graph, data), shape_of(graph, grid)):
        return MatchFailure("a rank is unknown")
    plane = _Plane(data, types, op)
    grid = plane.convert(grid, types[1], plane.coordinate_type)
    y, x = (plane.unnormalize(grid, axis) for axis in (0, 1))
    if mode == "nearest":
        y, x = (plane.do(Round("half_to_even"), v) for v in (y, x))
        found = plane.gather_rows(y, x, None)
    else:
        if mode == "bilinear":
            y, x = (plane.apply_padding(v, axis) for axis, v in enumerate((y, x)))
        rows, columns = (_NEIGHBORS[mode](plane, v) for v in (y, x))
        terms = [
            plane.gather_rows(a, b, plane.do(Multiply(), wa, wb))
            for a, wa in rows
            for b, wb in columns
        ]
        found = terms[0]
        for term in terms[1:]:
            found = plane.do(Add(), found, term)
    made = plane.patch.add(Transpose(), found, plane.ints(0, 3, 1, 2))
    return plane.patch.replace(Value(node), plane.convert(made, plane.element_type, types[0]))


def _find_two_neighbors(plane: _Plane, coordinate: Value) -> list[tuple[Value, Value]]:
    """The integer coordinates before and behind, with their weights."""
    before = plane.do(Floor(), coordinate)
    far = plane.do(Subtract(), coordinate, before)
    near = plane.do(Subtract(), 1.0, far)
    return [(before, near), (plane.do(Add(), before, 1.0), far)]


def _find_four_neighbors(plane: _Plane, coordinate: Value) -> list[tuple[Value, Value]]:
    """The two integer coordinates before and the two behind, with the weights of Keys' cubic
    filter: one polynomial of distances below 1, another of those up to 2."""
    a, before = -0.75, plane.do(Floor(), coordinate)
    right = plane.do(Subtract(), coordinate, before)
    left = plane.do(Subtract(), 1.0, right)
    inner, outer = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    return [
        (plane.do(Add(), before, -1.0), _evaluate(plane, outer, plane.do(Add(), right, 1.0))),
        (before, _evaluate(plane, inner, right)),
        (plane.do(Add(), before, 1.0), _evaluate(plane, inner, left)),
        (plane.do(Add(), before, 2.0), _evaluate(plane, outer, plane.do(Add(), left, 1.0))),
    ]


def _evaluate(plane: _Plane, coefficients: Sequence[float], x: Value) -> Value:
    """A polynomial, by Horner's rule from the highest power."""
    value: Value | float = coefficients[0]
    for coefficient in coefficients[1:]:
        value = plane.do(Multiply(), value, x)
        if coefficient:
            value = plane.do(Add(), value, coefficient)
    assert isinstance(value, Value)
    return value


_NEIGHBORS = {"bilinear": _find_two_neighbors, "bicubic": _find_four_neighbors}


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


def decompose_grid_sample(has_kernel: Callable[[Graph, int], bool]) -> Pass:
    """The pass that decomposes each GridSample for which `has_kernel` is False, and resizing by
    filters."""

    def decompose(graph: Graph, node: int, op: GridSample) -> Patch | MatchFailure | None:
        return None if has_kernel(graph, node) else decompose_sample(graph, node, op)

    rules = (
        op_rule("decompose_grid_sample", (GridSample,), decompose),
        op_rule("decompose_filtered", (Interpolate, Interpolate4), decompose_filtered),
    )
    return Pass("decompose_grid_sample", lambda options: rules)
