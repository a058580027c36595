"""Legality: what passes may assume of kernels - element types, epilogues, windows, head sizes."""

from __future__ import annotations

from ..ir.dims import Dim
from ..ir.dtype import DType
from ..ir.graph import Graph, Value
from ..ir.ops import (
    Group,
)
from ..ir.ops.math.elementwise import Elementwise
from ..ir.ops.nn.pooling_window import Windows
from ..ir.types import TensorType
from ..plan.specs.attention import MAX_HEAD
from ..plan.specs.convolution import Window

# Anchors by what their epilogue may read besides the result: anything, or only numbers.
EPILOGUE_ANCHORS = frozenset(
    "MatMul Gemm MatMulInteger LayerNorm RMSNorm MVN Convolution GroupConvolution ConvInteger "
    "GroupConvInteger ConvolutionBackpropData GroupConvolutionBackpropData "
    "GroupNormalization".split()
)


# Element types that kernels load and store. Values of any other type stay on the host.
NATIVE = frozenset(
    {
        *(DType.boolean, DType.f16, DType.bf16, DType.f32, DType.f64),
        *(DType.i8, DType.i16, DType.i32, DType.i64),
        *(DType.u8, DType.u16, DType.u32, DType.u64),
    }
)


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
    """Whether windows slide over what a node reads, so that its result lies channels-last."""
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


def window_of(windows: Windows) -> Window:
    """The windows, but for their paddings."""
    kernel = tuple(int(str(k)) for k in windows.kernel)
    return Window(kernel, windows.strides, windows.dilations, (0,) * len(kernel))
