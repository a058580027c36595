"""Which operations run natively, on one screen: class -> how it is lowered, which inputs it reads
at run time, and when it has to stay on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir import ops
from ...ir.graph import Graph, Value
from ...ir.op import Op
from ...ir.ops.math.elementwise import Elementwise
from ...ir.ops.math.reduce import Reduction
from ...ir.ops.nn.normalize import MVN, LayerNorm, RMSNorm
from ...ir.types import TensorType
from ..compressed_weights import is_read_compressed
from ..legality import NATIVE
from .build.op_lowering import Lowering
from .ops.attention import lower_attention, refuse_attention
from .ops.convolution import byte_ports, lower_convolution, refuse_convolution
from .ops.data_movement import (
    known_ints,
    known_list,
    lower_broadcast,
    lower_concat,
    lower_gather,
    lower_identity,
    lower_reshape,
    lower_slice,
    lower_split,
    lower_tile,
    lower_transpose,
    slice_starts,
)
from .ops.deconvolution import lower_deconvolution, refuse_deconvolution
from .ops.depth_to_space import lower_arranging
from .ops.elementwise import lower_elementwise
from .ops.gather_scatter_topk import (
    lower_batched_gather,
    lower_gather_elements,
    lower_gather_points,
    lower_rank,
    lower_scan,
    lower_scatter_elements,
    lower_scatter_points,
    lower_scatter_slices,
    refuse_elements,
    refuse_ordered,
    refuse_points,
)
from .ops.group_norm import lower_groups, refuse_groups
from .ops.matmul import lower_matmul, refuse_matmul
from .ops.pooling import lower_pool, refuse_pool
from .ops.recurrent import lower_recurrent, read_ports, refuse_recurrent
from .ops.resample_pad import (
    lower_adaptive,
    lower_interpolate,
    lower_pad,
    refuse_adaptive,
    refuse_interpolate,
    refuse_pad,
)
from .ops.roi_align import lower_regions, refuse_regions
from .ops.row_reductions import (
    lower_norm,
    lower_reduce,
    lower_softmax,
    norm_axes,
    reduced_axes,
    refuse_row,
)
from .ops.shape_and_range import is_known_sizes, lower_known, lower_range, refuse_range
from .ops.stft import lower_frames, refuse_frames
from .ops.weight_only_quant import right_ports

Refuse = Callable[[Graph, int], str | None]


def always_lowerable(graph: Graph, node: int) -> str | None:
    """Nothing speaks against a kernel."""
    return None


@dataclass(frozen=True)
class Lowerer:
    """`data`: the ports read at run time (None: all); the rest is known at compile time.
    `ports` says it node by node, where nothing speaks against a kernel."""

    lower: Callable[[Lowering, int], None]
    data: tuple[int, ...] | None = None
    refuse: Refuse = always_lowerable
    ports: Callable[[Graph, int], tuple[int, ...]] | None = None


def require_known_inputs(*ports: int) -> Refuse:
    """Refuse unless the values of these inputs are known as numbers."""

    def refuse(graph: Graph, node: int) -> str | None:
        inputs = graph.inputs(node)
        for port in ports:
            if port < len(inputs) and inputs[port] is not None:
                if known_ints(graph, node, port) is None:
                    return f"input {port} is known at run time only"
        return None

    return refuse


def _refuse_product(graph: Graph, node: int) -> str | None:
    op = graph.op(node)
    type_ = graph.type(graph.input(node, 0))
    assert isinstance(type_, TensorType)
    if isinstance(op, ops.Gemm) and type_.dtype.is_int:
        if not (op.alpha.is_integer() and op.beta.is_integer()):
            return "an integer Gemm with fractional alpha or beta"
    return refuse_matmul(type_.dtype)


def _refuse_float_row(graph: Graph, node: int) -> str | None:
    type_ = graph.type(graph.input(node, 0))
    assert isinstance(type_, TensorType)
    return refuse_row(type_.dtype)


def _refuse_norm(graph: Graph, node: int) -> str | None:
    if norm_axes(graph, node) is None:
        return "the normalised axes are not the last ones"
    return _refuse_float_row(graph, node)


def _refuse_reduce(graph: Graph, node: int) -> str | None:
    type_ = graph.type(graph.input(node, 0))
    assert isinstance(type_, TensorType)
    if isinstance(graph.op(node), ops.ReduceMean) and type_.dtype.is_int:
        return "the mean of integers divides by a count that may be 0"
    return "the axes are known at run time only" if reduced_axes(graph, node) is None else None


def _lower_gather(low: Lowering, node: int) -> None:
    batched = int(getattr(low.graph.op(node), "batch_dims", 0)) != 0
    (lower_batched_gather if batched else lower_gather)(low, node)


def _refuse_broadcast(graph: Graph, node: int) -> str | None:
    mode = str(getattr(graph.op(node), "mode", "numpy")).lower()
    return None if mode in ("numpy", "bidirectional") else f"broadcast mode {mode}"


def _refuse_slice(graph: Graph, node: int) -> str | None:
    starts = slice_starts(graph, node)
    if starts is None:
        return "starts, steps or axes are known at run time only"
    open_ = any(first is None for _, first, _ in starts)
    return "a start may count from either end" if open_ else None


def _refuse_tile(graph: Graph, node: int) -> str | None:
    if known_list(graph, node, 1) is None:
        return "the repeats are known at run time only"
    return None


def _refuse_dequantize(graph: Graph, node: int) -> str | None:
    return None if is_read_compressed(graph, node) else "no product reads the integers"


def _lower_nothing(low: Lowering, node: int) -> None:
    """What its readers compute themselves."""


_PRODUCT = Lowerer(lower_matmul, refuse=_refuse_product, ports=right_ports)
_DEQUANTIZE = Lowerer(_lower_nothing, (), _refuse_dequantize)
_RESHAPE = Lowerer(lower_reshape, (0,))
_SQUEEZE = Lowerer(lower_reshape, (0,), require_known_inputs(1))
_SOFTMAX = Lowerer(lower_softmax, refuse=_refuse_float_row)
_GATHER = Lowerer(_lower_gather, (0, 1), require_known_inputs(2))
_POINTS = Lowerer(lower_gather_points, refuse=refuse_points)
_PUT_ELEMENTS = Lowerer(lower_scatter_elements, (0, 1, 2), refuse_elements)
_PUT_POINTS = Lowerer(lower_scatter_points, refuse=refuse_points)
_ORDERED = Lowerer(lower_scan, (0,), refuse_ordered)
_RANK = Lowerer(lower_rank, (0,), refuse_ordered)
_SPLIT = Lowerer(lower_split, (0,), require_known_inputs(1))
_CONVOLUTION = Lowerer(lower_convolution, (0,), refuse_convolution)
_BYTES = Lowerer(lower_convolution, (0,), refuse_convolution, byte_ports)
_DECONVOLUTION = Lowerer(lower_deconvolution, (0,), refuse_deconvolution)
_POOL = Lowerer(lower_pool, (0,), refuse_pool)
_INTERPOLATE = Lowerer(lower_interpolate, (0,), refuse_interpolate)
_PAD = Lowerer(lower_pad, (0,), refuse_pad)
_RANGE = Lowerer(lower_range, (), refuse_range)
_KNOWN = Lowerer(lower_known, ())
_RECURRENT = Lowerer(lower_recurrent, refuse=refuse_recurrent, ports=read_ports)
_BROADCAST = Lowerer(lower_broadcast, (0,), _refuse_broadcast)

LOWERERS: dict[type[Op], Lowerer] = {
    ops.MatMul: _PRODUCT,
    ops.Gemm: _PRODUCT,
    ops.MatMulInteger: Lowerer(lower_matmul),
    ops.Dequantize: _DEQUANTIZE,
    ops.AffineDequantize: _DEQUANTIZE,
    ops.Softmax1: _SOFTMAX,
    ops.Softmax: _SOFTMAX,
    ops.LogSoftmax: _SOFTMAX,
    ops.Attention: Lowerer(lower_attention, refuse=refuse_attention),
    LayerNorm: Lowerer(lower_norm, refuse=_refuse_norm),
    RMSNorm: Lowerer(lower_norm, refuse=_refuse_norm),
    MVN: Lowerer(lower_norm, (0,), _refuse_norm),
    ops.GroupNormalization: Lowerer(lower_groups, refuse=refuse_groups),
    ops.Reshape: _RESHAPE,
    **dict.fromkeys((ops.Squeeze, ops.Squeeze1, ops.Unsqueeze), _SQUEEZE),
    ops.Identity: Lowerer(lower_identity),
    ops.Transpose: Lowerer(lower_transpose, (0,), require_known_inputs(1)),
    ops.Broadcast1: _BROADCAST,
    ops.Broadcast: _BROADCAST,
    ops.Slice: Lowerer(lower_slice, (0,), _refuse_slice),
    ops.Split: _SPLIT,
    ops.VariadicSplit: _SPLIT,
    ops.Concat: Lowerer(lower_concat),
    ops.Tile: Lowerer(lower_tile, (0,), _refuse_tile),
    ops.ROIAlign: Lowerer(lower_regions, refuse=refuse_regions),
    ops.Gather1: _GATHER,
    ops.Gather7: _GATHER,
    ops.Gather: _GATHER,
    ops.GatherElements: Lowerer(lower_gather_elements),
    ops.GatherND5: _POINTS,
    ops.GatherND: _POINTS,
    ops.ScatterUpdate: Lowerer(lower_scatter_slices, (0, 1, 2), refuse_elements),
    ops.ScatterElementsUpdate3: _PUT_ELEMENTS,
    ops.ScatterElementsUpdate: _PUT_ELEMENTS,
    ops.ScatterNDUpdate4: _PUT_POINTS,
    ops.ScatterNDUpdate: _PUT_POINTS,
    ops.CumSum: _ORDERED,
    ops.CumProd: _ORDERED,
    **dict.fromkeys((ops.TopK1, ops.TopK3, ops.TopK), _RANK),
    ops.Range1: _RANGE,
    ops.Range: _RANGE,
    ops.LSTMSequence: _RECURRENT,
    ops.PeepholeLSTM: _RECURRENT,
    ops.GRUSequence: _RECURRENT,
    ops.RNNSequence: _RECURRENT,
    ops.Group: Lowerer(lower_elementwise),
    ops.Convolution: _CONVOLUTION,
    ops.GroupConvolution: _CONVOLUTION,
    ops.ConvInteger: _BYTES,
    ops.GroupConvInteger: _BYTES,
    ops.ConvolutionBackpropData: _DECONVOLUTION,
    ops.GroupConvolutionBackpropData: _DECONVOLUTION,
    **dict.fromkeys((ops.MaxPool1, ops.MaxPool8, ops.MaxPool), _POOL),
    **dict.fromkeys((ops.AvgPool1, ops.AvgPool14, ops.AvgPool, ops.AdaptiveAvgPool), _POOL),
    **dict.fromkeys(
        (ops.DepthToSpace, ops.SpaceToDepth, ops.ShuffleChannels), Lowerer(lower_arranging)
    ),
    ops.AdaptiveMaxPool: Lowerer(lower_adaptive, (0,), refuse_adaptive),
    **dict.fromkeys((ops.Interpolate4, ops.Interpolate), _INTERPOLATE),
    **dict.fromkeys((ops.Pad1, ops.Pad), _PAD),
    ops.STFT: Lowerer(lower_frames, (0,), refuse_frames),
}
# Bases whose subclasses are all lowered alike.
_ELEMENTWISE = Lowerer(lower_elementwise)
_REDUCTION = Lowerer(lower_reduce, (0,), _refuse_reduce)


def lowerer_of(graph: Graph, node: int) -> Lowerer | str:
    """How a node is lowered to native code, or why it can't be."""
    op = graph.op(node)
    if is_known_sizes(graph, node):
        return _KNOWN
    found = LOWERERS.get(type(op))
    if found is None and isinstance(op, Elementwise):
        found = _ELEMENTWISE
    if found is None and isinstance(op, Reduction):
        found = _REDUCTION
    if found is None:
        if isinstance(op, ops.OnnxNode):
            return f"onnx.reference evaluates {op.op_type}"
        return f"no kernel for {op.kind}"
    inputs = graph.inputs(node)
    ports = range(len(inputs)) if found.data is None else found.data
    read = [v for p in ports if p < len(inputs) and (v := inputs[p]) is not None]
    for value in (*read, *graph.values(node)):
        type_ = graph.type(value)
        if not isinstance(type_, TensorType) or type_.shape is None:
            return f"{op.kind} of a value that is not a tensor of known rank"
        if type_.dtype not in NATIVE:
            return f"no kernel for {op.kind} of {type_.dtype}"
    reason = found.refuse(graph, node)
    if reason is not None or found.ports is None:
        return reason or found
    return replace(found, data=found.ports(graph, node))


def has_kernel(graph: Graph, node: int) -> bool:
    """Whether a node is lowered to native code."""
    return isinstance(lowerer_of(graph, node), Lowerer)


def runtime_inputs(graph: Graph, node: int, lowerer: Lowerer | None) -> list[Value]:
    """The inputs that a node reads at run time."""
    inputs = graph.inputs(node)
    ports = range(len(inputs)) if lowerer is None or lowerer.data is None else lowerer.data
    return [v for p in ports if p < len(inputs) and (v := inputs[p]) is not None]
