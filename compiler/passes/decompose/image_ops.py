"""Image operations as slices, elementwise operations and convolutions: colour conversions,
ExtractImagePatches, BinaryConvolution."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Add,
    BinaryConvolution,
    Clamp,
    Concat,
    Constant,
    Convert,
    Convolution,
    Equal,
    ExtractImagePatches,
    I420toRGB,
    Multiply,
    NV12toRGB,
    Pad,
    Select,
    Subtract,
    Unsqueeze,
)
from ....ir.ops.vision.color_conversion import (
    YUV_OFFSETS,
    YUV_TO_RGB,
    ConvertColor,
    I420toBGR,
    NV12toBGR,
)
from ....ir.ops.vision.deformable_convolution import signs_of_bits
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of
from .node_builder import NodeBuilder

# Windows of more taps than these are gathered on the host.
_MAX_TAPS = 64


def decompose_patches(
    graph: Graph, node: int, op: ExtractImagePatches
) -> Patch | MatchFailure | None:
    """One strided slice of the padded image per tap of the window."""
    image = graph.input(node, 0)
    windows, shape = op.windows(), shape_of(graph, image)
    if shape is None or op.sizes[0] * op.sizes[1] > _MAX_TAPS:
        return MatchFailure("the rank is unknown, or the window has many taps")
    build = NodeBuilder(graph, node)
    data = image
    if windows.is_same_padded:
        sizes = [d for d in shape[2:] if isinstance(d, int)]
        if len(sizes) != 2:
            return MatchFailure("the paddings depend on a dynamic size")
        data = _add_pad(build, data, windows.pads(sizes), 0)
    pieces: list[Value] = []
    rates, strides = windows.dilations, windows.strides
    extents = [(n - 1) * rate + 1 for n, rate in zip(op.sizes, rates, strict=True)]
    for i in range(op.sizes[0]):
        for j in range(op.sizes[1]):
            piece = data
            for axis, (at, extent, rate, step) in enumerate(
                zip((i, j), extents, rates, strides, strict=True), start=2
            ):
                behind = extent - 1 - at * rate
                piece = build.cut(piece, axis, at * rate, -behind if behind else None, step)
            pieces.append(piece)
    return build.patch.replace(Value(node), build.add(Concat(1), *pieces))


def _add_pad(build: NodeBuilder, data: Value, pads: list[tuple[int, int]], fill: float) -> Value:
    if not any(map(any, pads)):
        return data
    begins, ends = ([0, 0, *(p[side] for p in pads)] for side in (0, 1))
    value = build.patch.constant(fill, build.own)
    return build.add(Pad(), data, build.ints(begins), build.ints(ends), value)


def decompose_color(graph: Graph, node: int, op: ConvertColor) -> Patch | MatchFailure | None:
    """Planes of U and V repeated to the image's size, and a product with three factors."""
    build = NodeBuilder(graph, node)
    planes = _planes(build, op, len(graph.inputs(node)))
    if planes is None:
        return MatchFailure("one plane of dynamic size holds all three")
    y, u, v = planes
    wide = [
        build.add(
            Subtract(),
            build.add(Convert(DType.f32), plane),
            build.patch.constant(offset, DType.f32),
        )
        for plane, offset in zip((y, u, v), YUV_OFFSETS.tolist(), strict=True)
    ]
    sides = build.sizes(y, 0, 3)
    wide[1:] = [_repeat_elements(build, plane, sides) for plane in wide[1:]]
    colours: list[Value] = []
    for factors in YUV_TO_RGB:
        terms = [
            build.add(Multiply(), plane, build.patch.constant(factor, DType.f32))
            for plane, factor in zip(wide, factors, strict=True)
            if factor
        ]
        total = terms[0]
        for term in terms[1:]:
            total = build.add(Add(), total, term)
        colours.append(total)
    made = build.add(Concat(3), *(colours[::-1] if op.is_bgr else colours))
    if build.own.is_int:
        # Conversion truncates.
        made = build.add(Add(), made, build.patch.constant(0.5, DType.f32))
    made = build.add(Clamp(0.0, 255.0), made)
    return build.patch.replace(Value(node), build.add(Convert(build.own), made))


def _planes(build: NodeBuilder, op: ConvertColor, inputs: int) -> list[Value] | None:
    """Y [N, H, W, 1], U and V [N, H / 2, W / 2, 1]; None where the sizes are needed and dynamic."""
    arg = build.graph.input(build.node, 0)
    if inputs > 1:
        others = [build.graph.input(build.node, port) for port in range(1, inputs)]
        if isinstance(op, I420toRGB):
            return [arg, *others]
        return [arg, *(build.cut(others[0], 3, n, n + 1) for n in (0, 1))]
    shape = shape_of(build.graph, arg)
    if shape is None or not isinstance(shape[1], int) or not isinstance(shape[2], int):
        return None
    height, width = shape[1] * 2 // 3, shape[2]
    area, half = height * width, (height // 2, width // 2)
    images = build.sizes(arg, 0, 1)
    y = build.cut(arg, 1, 0, height)
    flat = build.reshape(build.cut(arg, 1, height), images, area // 2)
    if isinstance(op, NV12toRGB):
        both = build.reshape(flat, images, *half, 2)
        return [y, *(build.cut(both, 3, n, n + 1) for n in (0, 1))]
    quarter = area // 4
    pieces = [build.cut(flat, 1, n * quarter, (n + 1) * quarter) for n in (0, 1)]
    return [y, *(build.reshape(piece, images, *half, 1) for piece in pieces)]


def _repeat_elements(build: NodeBuilder, plane: Value, sides: Value) -> Value:
    """A plane [N, h, w, 1] with every element twice on both sides: [N, *sides, 1]."""
    split = build.add(Unsqueeze(), plane, build.ints([2, 4]))
    rows = build.add(Concat(2), split, split)
    return build.reshape(build.add(Concat(4), rows, rows), sides, 1)


def decompose_binary(graph: Graph, node: int, op: BinaryConvolution) -> Patch | MatchFailure | None:
    """A convolution in f32 of signs, padded with signs."""
    data = graph.input(node, 0)
    filters = graph.input(node, 1)
    shape, kernel = shape_of(graph, data), shape_of(graph, filters)
    own = dtype_of(graph, data)
    bits = graph.op(filters.node)
    if shape is None or kernel is None or own.bits > 32 or not isinstance(bits, Constant):
        return MatchFailure("a rank or the filters are unknown, or the data have 64 bits")
    sizes, spatial = ([d for d in s[2:] if isinstance(d, int)] for s in (shape, kernel))
    windows = op.windows(kernel[2:])
    if windows.is_same_padded and len(sizes) + len(spatial) != 4:
        return MatchFailure("the paddings depend on a dynamic size")
    build = NodeBuilder(graph, node)

    plain = build.add(Convert(DType.f32), data)
    ones = [build.patch.constant(n, DType.f32) for n in (1, -1)]
    x = build.add(Select(), build.add(Equal(), plain, ones[0]), *ones)
    pads = windows.pads(sizes) if windows.is_same_padded else windows.pads((0, 0))
    build.own = DType.f32
    x = _add_pad(build, x, pads, op.pad_value)
    signs = build.patch.constant(signs_of_bits(bits.data), DType.f32)
    made = build.add(Convolution(op.strides, (0, 0), (0, 0), op.dilations), x, signs)
    return build.patch.replace(Value(node), build.add(Convert(own), made))


_RULES = (
    op_rule("decompose_image_patches", (ExtractImagePatches,), decompose_patches),
    op_rule(
        "decompose_color_conversion", (NV12toRGB, NV12toBGR, I420toRGB, I420toBGR), decompose_color
    ),
    op_rule("decompose_binary_convolution", (BinaryConvolution,), decompose_binary),
)

decompose_image_ops = Pass("decompose_image_ops", lambda options: _RULES)
