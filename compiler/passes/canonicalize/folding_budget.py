"""What evaluating an operation of constants costs, before it is evaluated.

Growth alone does not bound folding: along a chain of operations of one size it is 0. The unit is
what NumPy spends on an element of an addition, some nanoseconds at most.
"""

from __future__ import annotations

import math

from ....ir.dims import Dim, bounds, product
from ....ir.dtype import DType
from ....ir.graph import Graph
from ....ir.ops import Constant, Elementwise, OnnxNode, Reduction
from ....ir.ops.math.einsum import Einsum
from ....ir.types import TensorType
from ...inspect.flops import operation_flops

# A product of matrices multiplies and adds so often in the time of one addition of arrays.
_FLOPS_PER_WORK = 16
# Element by element in Python; erf, a series, and what may hold it; taps of a resampling, and the
# comparisons of a sort.
_PYTHON_ELEMENT_WORK, _SERIES_WORK, _TAP_WORK = 256, 64, 16
_FUNCTION_WORK = 8
_FUNCTIONS = (
    "Power Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Tanh Sigmoid SoftPlus "
    "Elu Selu Swish Mish HSwish HSigmoid Softmax LogSoftmax Mod FloorMod MVN LayerNorm RMSNorm "
    "GroupNormalization FakeQuantize Quantize"
)
_WEIGHTS: dict[str, int] = {
    **dict.fromkeys(_FUNCTIONS.split(), _FUNCTION_WORK),
    **dict.fromkeys(("TopK", "Unique", "Interpolate"), _TAP_WORK),
    **dict.fromkeys(("Erf", "Gelu", "Activation", "Group"), _SERIES_WORK),
}
# What touches each element of its inputs and outputs a few times. Any other operation may read all
# of its input for each output.
_TOUCHES = frozenset(
    "Concat Split VariadicSplit Slice StridedSlice Broadcast Tile Gather GatherElements GatherND "
    "ScatterUpdate ScatterElementsUpdate ScatterNDUpdate Pad Reverse ReverseSequence Roll "
    "Reshape Squeeze Unsqueeze Transpose DepthToSpace SpaceToDepth BatchToSpace SpaceToBatch "
    "ShuffleChannels ShapeOf Range Eye OneHot NonZero CumSum CumProd Bucketize TopK Unique BitCast "
    "Softmax LogSoftmax MVN BatchNormInference LayerNorm RMSNorm GroupNormalization NormalizeL2 "
    "FakeQuantize Quantize Dequantize AffineDequantize ConvertE8M0 ConvertLike FakeConvert "
    "Interpolate".split()
)
UNKNOWN_WORK = 1 << 62


def folding_work(graph: Graph, node: int) -> int:
    """Units that evaluation takes at most, UNKNOWN where sizes do not determine them."""
    op = graph.op(node)
    values = [v for v in graph.inputs(node) if v is not None]
    sizes = [most_elements(graph.type(v)) for v in (*values, *graph.values(node))]
    if UNKNOWN_WORK in sizes:
        return UNKNOWN_WORK
    touched, read = sum(sizes), max(1, sum(sizes[: len(values)]))
    if isinstance(op, Elementwise | Reduction) or op.kind in _TOUCHES:
        return max(1, touched) * _WEIGHTS.get(op.kind, 1)
    flops = (
        _count_einsum_elements(graph, node, op)
        if isinstance(op, Einsum)
        else operation_flops(graph, node)
    )
    flops = bounds(flops)[1]
    if flops:
        return touched + flops // _FLOPS_PER_WORK
    return max(1, touched - read) * read * (_PYTHON_ELEMENT_WORK if isinstance(op, OnnxNode) else 1)


def _count_einsum_elements(graph: Graph, node: int, op: Einsum) -> Dim:
    """The product of the sizes of all subscripts, and of the axes that an ellipsis denotes in each
    operand: the multiply-adds of an evaluation without intermediate results."""
    sizes: dict[object, Dim] = {}
    for n, (term, value) in enumerate(zip(op.terms()[0], graph.inputs(node), strict=True)):
        type_ = None if value is None else graph.type(value)
        shape = (isinstance(type_, TensorType) and type_.shape) or ()
        before, dots, after = term.partition("...")
        end = len(shape) - len(after)
        sizes |= zip((*before, *after), (*shape[: len(before)], *shape[end:]), strict=True)
        if dots:
            sizes[n] = product(shape[len(before) : end])
    return product(sizes.values())


def reads_text(graph: Graph, node: int) -> bool:
    """Whether the work depends on the contents of strings, as that of a regular expression does."""
    ops = [graph.op(v.node) for v in graph.inputs(node) if v is not None]
    return any(isinstance(op, Constant) and op.dtype is DType.string for op in ops)


def most_elements(type_: object) -> int:
    """The most elements that a value of this type has."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return UNKNOWN_WORK
    most = [bounds(dim)[1] for dim in type_.shape]
    return math.prod(m for m in most if m is not None) if None not in most else UNKNOWN_WORK
