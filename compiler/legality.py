"""Legality: what passes may assume of kernels - element types, epilogues, windows, head sizes, and
products of 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import Dim, eq, product
from ..ir.dtype import DType
from ..ir.graph import Graph, Value
from ..ir.op import Op
from ..ir.ops import (
    ConvInteger,
    Convolution,
    Gemm,
    Group,
    GroupConvInteger,
    GroupConvolution,
    MatMul,
    MatMulInteger,
)
from ..ir.ops.math.elementwise import Elementwise
from ..ir.ops.nn.pooling_window import Windows
from ..ir.types import TensorType
from ..plan.specs.attention import MAX_HEAD
from ..plan.specs.convolution import Window
from .passes.match.values import broadcasts_to

# Anchors by what their epilogue may read besides the result: anything, or only numbers.
EPILOGUE_ANCHORS = frozenset(
    "MatMul Gemm MatMulInteger LayerNorm RMSNorm MVN Convolution GroupConvolution ConvInteger "
    "GroupConvInteger ConvolutionBackpropData GroupConvolutionBackpropData "
    "GroupNormalization".split()
)


# Operations that give elements another shape, and those that only move them.
RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
MOVES = RESHAPES | {"Transpose"}
# Convolutions of floats, whose filters are constants in packed layouts.
CONVOLUTIONS = frozenset(
    "Convolution GroupConvolution ConvolutionBackpropData GroupConvolutionBackpropData".split()
)
# Recurrent layers: sequences, and cells, which become sequences of one step.
RECURRENT = frozenset("LSTMSequence GRUSequence RNNSequence LSTMCell GRUCell RNNCell".split())
# Element types that kernels load and store. Values of any other type stay on the host.
NATIVE = frozenset(
    {
        *(DType.boolean, DType.f16, DType.bf16, DType.f32, DType.f64),
        *(DType.i8, DType.i16, DType.i32, DType.i64),
        *(DType.u8, DType.u16, DType.u32, DType.u64),
    }
)


# Products of fewer terms per sum are not rounded to bf16.
_MIN_ROUNDED_TERMS = 8


def is_elementwise(graph: Graph, node: int) -> bool:
    """Whether the node is an elementwise operation with one output and plain broadcasting."""
    op = graph.op(node)
    if isinstance(op, Group):
        return op.output_count() == 1
    if not isinstance(op, Elementwise):
        return False
    shapes = tuple(
        t.shape if isinstance(t := graph.type(v), TensorType) else None
        for v in graph.inputs(node)
        if v is not None
    )
    return op.operand_shapes(*shapes) == shapes


WINDOWED_KINDS = frozenset(
    "Convolution GroupConvolution ConvInteger GroupConvInteger ConvolutionBackpropData "
    "GroupConvolutionBackpropData MaxPool AvgPool AdaptiveAvgPool ROIAlign".split()
)


def is_windowed(graph: Graph, node: int) -> bool:
    """Whether windows slide over what a node reads, so that its result is channels-last."""
    return graph.op(node).kind in WINDOWED_KINDS


TYPES = (DType.f32, DType.f16, DType.bf16)


def head_size_failure(graph: Graph, value: Value, size: Dim) -> str | None:
    """Why no kernel takes queries, keys or values with rows of this size, or None."""
    type_ = graph.type(value)
    if not isinstance(type_, TensorType) or type_.dtype not in TYPES:
        return f"no attention kernel for {type_.dtype if isinstance(type_, TensorType) else type_}"
    if not isinstance(size, int) or not 1 <= size <= MAX_HEAD:
        return f"no attention kernel for heads of size {size}"
    return None


def rounds_factors(graph: Graph, node: int) -> bool:
    """Whether precision bf16 rounds the factors of a product or a convolution: a few terms are
    coordinates as a rule, whose digits are needed, and no time would be gained."""
    op = graph.op(node)
    if isinstance(op, Convolution):
        terms = product(graph.shape(graph.input(node, 1))[1:])
    elif isinstance(op, MatMul | Gemm):
        shape = graph.shape(graph.input(node, 0))
        terms = shape[-2 if op.transpose_a and len(shape) > 1 else -1]
    else:
        return True
    return not isinstance(terms, int) or terms >= _MIN_ROUNDED_TERMS


def window_of(windows: Windows) -> Window:
    """The windows, but for their paddings."""
    kernel = tuple(int(str(k)) for k in windows.kernel)
    return Window(kernel, windows.strides, windows.dilations, (0,) * len(kernel))


def integer_form(op: Op) -> Op | None:
    """The product of 8-bit integers that goes with a plain product; None where there is none."""
    if isinstance(op, MatMul):
        return MatMulInteger(op.transpose_a, op.transpose_b)
    if isinstance(op, Convolution | GroupConvolution):
        kind = GroupConvInteger if isinstance(op, GroupConvolution) else ConvInteger
        return kind(op.strides, op.pads_begin, op.pads_end, op.dilations, op.auto_pad)
    return None


Shapes = Sequence[tuple[Dim, ...] | None]


def integer_product_failure(
    op: Op, shapes: Shapes, zero_points: Shapes, scales: Shapes = ((), ())
) -> str | None:
    """Why no kernel computes a product of 8-bit integers, or None.

    `shapes`: of its operands. `zero_points`, `scales`: theirs; () for one that is absent. They may
    differ along the axes that the product keeps. None: not known.
    """
    for given in (zero_points, scales):
        for side, (shape, own) in enumerate(zip(shapes, given, strict=True)):
            if shape is None or own is None:
                return "a rank is unknown"
            if isinstance(op, MatMulInteger) and len(shape) < 2:
                return "an operand is a vector"
            if broadcasts_to(own, shape) is not True:
                return "a scale or zero point does not broadcast to its operand"
            kept = _kept_axes(op, side, len(shape))
            if given is scales and side == 0 and _is_depthwise(op, shapes[1]):
                kept = {1 - len(shape)}
            if any(eq(own[i], 1) is not True and i not in kept for i in range(-len(own), 0)):
                return "a scale or zero point varies along an axis that is summed"
    if isinstance(op, ConvInteger | GroupConvInteger) and shapes[1] is not None:
        kernel = shapes[1][3 if op.grouped else 2 :]
        if (
            not all(isinstance(d, int) for d in kernel)
            or not window_of(op.windows(kernel)).copyable
        ):
            return "no kernel of bytes has windows that reach so far"
    return None


def _is_depthwise(op: Op, filters: tuple[Dim, ...] | None) -> bool:
    """Whether each output channel of a convolution is of one input channel, its own."""
    return isinstance(op, GroupConvInteger) and filters is not None and filters[1:3] == (1, 1)


def _kept_axes(op: Op, side: int, rank: int) -> set[int]:
    """Axes of an operand that a product does not sum over, from the end."""
    if isinstance(op, MatMulInteger):
        summed = (-2 if op.transpose_a else -1, -1 if op.transpose_b else -2)[side]
        return {i for i in range(-rank, 0) if i != summed}
    lead = 2 if isinstance(op, GroupConvInteger) else 1
    return {i - rank for i in range(lead)} if side else set[int]()
