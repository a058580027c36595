"""onnxruntime's operators of images and windows (domain com.microsoft) that ONNX does not have.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Broadcast,
    Concat,
    Convolution,
    Divide,
    Equal,
    Gather,
    Greater,
    GreaterEqual,
    GridSample,
    Identity,
    Less,
    LessEqual,
    LogicalOr,
    Maximum,
    Multiply,
    Range,
    ReduceMax,
    ReduceSum,
    Reshape,
    Select,
    Slice,
    Squeeze,
    Subtract,
    Tanh,
    Transpose,
    Unsqueeze,
)
from ..elementary import convert_value, size_of, sizes_of, unary
from ..nn.convolution import conv_transpose

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def _scalar(n: ImportContext, value: Value) -> Value:
    return n.add(Reshape(), convert_value(n, value, DType.i64), n.ints_value([]))


def _count_up(n: ImportContext, stop: Value) -> Value:
    return n.add(Range(DType.i64), n.int_value(0), stop, n.int_value(1))


def unfold_tensor(n: ImportContext) -> Value:
    """Windows of `size` along one axis, `step` apart; their elements are the last axis."""
    x, size, step = n.input(0), n.integer("size"), n.integer("step", 1)
    rank = n.rank(x)
    axis = n.axis(n.integer("dim", -1), rank)
    if min(size, step) < 1:
        raise n.error("size and step are at least 1", got=(size, step))
    room = n.add(Subtract(), size_of(n, x, axis), n.ints_value([size]))
    count = n.add(Add(), n.add(Divide(), room, n.ints_value([step])), n.ints_value([1]))
    starts = n.add(Multiply(), _count_up(n, _scalar(n, count)), n.int_value(step))
    column = n.add(Unsqueeze(), starts, n.ints_value([1]))
    index = n.add(Add(), column, n.ints_value(range(size)))
    windows = n.add(Gather(), x, index, n.int_value(axis))
    order = [i for i in range(rank + 1) if i != axis + 1] + [axis + 1]
    return windows if axis == rank - 1 else n.add(Transpose(), windows, n.ints_value(order))


def crop_and_resize(n: ImportContext) -> Value:
    """Boxes [y1, x1, y2, x2] of images, 1 being the last pixel, resized to one size."""
    x, boxes, size = n.input(0), n.input(1), convert_value(n, n.input(3), DType.i64)
    mode, outside = n.text("mode", "bilinear"), n.number("extrapolation_value", 0.0)
    if mode not in ("bilinear", "nearest"):
        raise n.error("unknown mode", got=mode, expected="bilinear or nearest")
    images = n.add(Gather(), x, convert_value(n, n.input(2), DType.i64), n.int_value(0))
    grids: list[Value] = []
    lost: list[Value] = []
    for i in (0, 1):
        count = n.add(Gather(), size, n.int_value(i), n.int_value(0))
        pixels = n.add(Subtract(), size_of(n, x, 2 + i), n.ints_value([1]))
        last = convert_value(n, pixels, DType.f32)
        samples = _crop_samples(n, boxes, i, count, last)
        bad = n.add(LogicalOr(), n.add(Less(), samples, n.like(samples, 0)),
                    n.add(Greater(), samples, last))  # fmt: skip
        half = n.add(Divide(), n.add(Maximum(), last, n.like(last, 1)), n.like(last, 2))
        grids.append(n.add(Subtract(), n.add(Divide(), samples, half), n.like(samples, 1)))
        lost.append(bad)
    shape = n.add(Concat(axis=0), size_of(n, boxes, 0), size)
    down = n.add(Unsqueeze(), grids[0], n.ints_value([2, 3]))
    across = n.add(Unsqueeze(), grids[1], n.ints_value([1, 3]))
    full = n.add(Concat(axis=0), shape, n.ints_value([1]))
    grid = n.add(Concat(axis=3), *(n.add(Broadcast(), v, full) for v in (across, down)))
    found = n.add(GridSample(True, mode, "border"), images, grid)
    bad = n.add(LogicalOr(), n.add(Unsqueeze(), lost[0], n.ints_value([2])),
                n.add(Unsqueeze(), lost[1], n.ints_value([1])))  # fmt: skip
    bad = n.add(Unsqueeze(), bad, n.ints_value([1]))
    return n.add(Select(), bad, n.like(x, outside), found)


def _crop_samples(n: ImportContext, boxes: Value, i: int, count: Value, last: Value) -> Value:
    """[boxes, count]: the pixels that an axis of each crop samples; one sample is the middle."""
    first, end = (
        n.add(Multiply(), n.add(Slice(), boxes, n.ints_value([at]), n.ints_value([at + 1]),
                                n.ints_value([1]), n.ints_value([1])), last)
        for at in (i, i + 2)
    )  # fmt: skip
    steps = n.add(Subtract(), count, n.int_value(1))
    divisor = convert_value(n, n.add(Maximum(), steps, n.int_value(1)), DType.f32)
    step = n.add(Divide(), n.add(Subtract(), end, first), divisor)
    every = convert_value(n, _count_up(n, count), DType.f32)
    samples = n.add(Add(), first, n.add(Multiply(), every, step))
    middle = n.add(Multiply(), n.add(Add(), first, end), n.like(first, 0.5))
    return n.add(Select(), n.add(Equal(), steps, n.int_value(0)), middle, samples)


def conv_transpose_with_dynamic_pads(n: ImportContext) -> Value:
    """ConvTranspose whose pads are an input: what they cut off is cut off behind it."""
    if n.text("auto_pad", "NOTSET") != "NOTSET":
        raise n.unsupported_error(f"{n.op_type} with auto_pad")
    found = conv_transpose(replace(n, inputs=[n.input(0), n.input(1), n.optional(3)]))
    pads = n.optional(2)
    if pads is None:
        return found
    spatial = n.rank(found) - 2
    half, one, zero = n.ints_value([spatial]), n.ints_value([1]), n.ints_value([0])
    begin = n.add(Slice(), pads, zero, half, one)
    tail = n.add(Slice(), pads, half, n.ints_value([2 * spatial]), one)
    whole = n.add(Slice(), sizes_of(n, found), n.ints_value([2]), n.ints_value([2 + spatial]), one)
    end = n.add(Subtract(), whole, tail)
    axes = n.ints_value(range(2, 2 + spatial))
    return n.add(Slice(), found, begin, end, n.ints_value([1] * spatial), axes)


def word_conv_embedding(n: ImportContext) -> Value:
    """Words [count, letters] as the largest tanh of a convolution over embeddings of their letters;
    letter 0 ends a word."""
    words, filters, bias, table = (n.input(i) for i in range(4))
    for name in ("char_embedding_size", "conv_window_size", "embedding_size"):
        n.has(name)  # the sizes of the inputs
    shape = n.shape(filters)
    if shape is None or len(shape) != 4 or not isinstance(shape[2], int):
        raise n.unsupported_error(f"{n.op_type} with filters of unknown size")
    window = shape[2]
    used = n.add(Greater(), words, n.constant(0, n.dtype(words)))
    length = n.add(ReduceSum(True), convert_value(n, used, DType.i64), n.ints_value([1]))
    embedded = n.add(Gather(), table, words, n.int_value(0))
    rows = n.add(Unsqueeze(), embedded, n.ints_value([1]))
    op = Convolution(strides=(1, 1), dilations=(1, 1), pads_begin=(0, 0), pads_end=(0, 0))
    found = n.add(Squeeze(), n.add(op, rows, filters), n.ints_value([3]))
    found = n.add(Tanh(), n.add(Add(), found, n.add(Unsqueeze(), bias, n.ints_value([0, 2]))))
    # Windows that lie within the word; a word that is shorter has the first one.
    last = n.add(Maximum(), length, n.int_value(window))
    every = _count_up(n, _scalar(n, size_of(n, found, 2)))
    inside = n.add(LessEqual(), n.add(Add(), every, n.int_value(window)), last)
    inside = n.add(Unsqueeze(), inside, n.ints_value([1]))
    best = n.add(ReduceMax(), n.add(Select(), inside, found, n.like(found, -2)), n.ints_value([2]))
    # A word without letters is zeros.
    return n.add(Select(), n.add(GreaterEqual(), length, n.int_value(1)), best, n.like(best, 0))


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}UnfoldTensor": {1: unfold_tensor},
    f"{_MS}CropAndResize": {1: crop_and_resize},
    f"{_MS}ConvTransposeWithDynamicPads": {1: conv_transpose_with_dynamic_pads},
    f"{_MS}WordConvEmbedding": {1: word_conv_embedding},
    # An example for those who write operators.
    f"{_MS}SampleOp": {1: unary(Identity)},
}
