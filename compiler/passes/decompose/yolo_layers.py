"""RegionYolo and ReorgYolo as splits, sigmoids, softmax and transposes."""

from __future__ import annotations

from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Concat,
    Multiply,
    RegionYolo,
    ReorgYolo,
    Sigmoid,
    Softmax,
    Transpose,
)
from ....ir.types import normalize_axis
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import shape_of
from .node_builder import NodeBuilder


def decompose_region(graph: Graph, node: int, op: RegionYolo) -> Patch | MatchFailure | None:
    """Parts of each region's channels through a sigmoid or a softmax of their own."""
    data = graph.input(node, 0)
    shape, channels = shape_of(graph, data), op.regions * op.region_channels
    if shape is None or shape[1] != channels:
        return MatchFailure("the channels are not those of the regions")
    build = NodeBuilder(graph, node)
    images, plane = build.sizes(data, 0, 1), build.sizes(data, 2, 4)
    x = build.reshape(build.read(0), images, op.regions, op.region_channels, plane)
    last = op.coords + 1 if op.do_softmax else op.region_channels
    ends: list[tuple[int, int, Op | None]] = [
        (0, 2, Sigmoid()),
        (2, op.coords, None),
        (op.coords, last, Sigmoid()),
    ]
    if op.do_softmax:
        ends.append((last, op.region_channels, Softmax(2)))
    pieces: list[Value] = []
    for start, stop, function in ends:
        if stop > start:
            piece = build.cut(x, 2, start, stop)
            pieces.append(piece if function is None else build.add(function, piece))
    joined = build.add(Concat(2), *pieces)
    sizes = [images, build.ints([channels]), build.sizes(data, 2, 3), build.sizes(data, 3, 4)]
    if op.do_softmax:
        axis, end = (normalize_axis(a, 4) for a in (op.axis, op.end_axis))
        flat = sizes[axis]
        for size in sizes[axis + 1 : end + 1]:
            flat = build.add(Multiply(), flat, size)
        sizes[axis : end + 1] = [flat]
    return build.done(build.reshape(joined, *sizes))


def decompose_reorg(graph: Graph, node: int, op: ReorgYolo) -> Patch | MatchFailure | None:
    """A transposed view: Darknet reads the data as blocks of stride x stride pixels."""
    data = graph.input(node, 0)
    shape = shape_of(graph, data)
    if shape is None or not all(isinstance(d, int) for d in shape[1:]):
        return MatchFailure("channels, height or width are not known")
    channels, height, width = (d for d in shape[1:] if isinstance(d, int))
    build, s = NodeBuilder(graph, node), op.stride
    images = build.sizes(data, 0, 1)
    split = build.reshape(data, images, channels // (s * s), height, s, width, s)
    moved = build.add(Transpose(), split, build.ints([0, 3, 5, 1, 2, 4]))
    made = build.reshape(moved, images, channels * s * s, height // s, width // s)
    return build.patch.replace(Value(node), made)


_RULES = (
    op_rule("decompose_region_yolo", (RegionYolo,), decompose_region),
    op_rule("decompose_reorg_yolo", (ReorgYolo,), decompose_reorg),
)

decompose_yolo_layers = Pass("decompose_yolo_layers", lambda options: _RULES)
