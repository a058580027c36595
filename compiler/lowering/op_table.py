"""Which operations run natively, on one screen: class -> how it is lowered, which inputs it reads
at run time, and when it has to stay on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ...ir import ops
from ...ir.errors import VerificationError
from ...ir.graph import Graph
from ...ir.lazy_dataclass import dataclass
from ...ir.op import Op
from ...ir.ops.math.elementwise import Elementwise
from ...ir.ops.math.reduce import Reduction
from ...ir.ops.nn.normalize import MVN, LayerNorm, RMSNorm
from ...ir.types import TensorType
from ..compressed_weights import is_read_compressed
from ..legality import NATIVE
from .build.region_lowering import RegionLowering
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
from .ops.fourier import lower_frames, lower_transform, refuse_frames, refuse_transform
from .ops.group_norm import lower_groups, refuse_groups
from .ops.indexing.ctc_decode import lower_ctc_decode, refuse_ctc_decode
from .ops.indexing.gather_scatter_topk import (
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
from .ops.indexing.suppress_boxes import lower_suppress_boxes, refuse_suppress_boxes
from .ops.matmul import lower_matmul, refuse_matmul
from .ops.ml.tree_ensemble import lower_trees, refuse_trees
from .ops.recurrent import lower_recurrent, read_ports, refuse_recurrent
from .ops.row_codes import lower_row_codes
from .ops.row_reductions import (
    lower_norm,
    lower_reduce,
    lower_softmax,
    norm_axes,
    reduced_axes,
    refuse_row,
)
from .ops.shape_and_range import is_known_sizes, lower_known, lower_range, refuse_range
from .ops.spatial.col2im import lower_col2im, refuse_col2im
from .ops.spatial.grid_sample import lower_grid_sample, refuse_grid_sample
from .ops.spatial.pooling import lower_pool, refuse_pool
from .ops.spatial.resample_pad import (
    lower_adaptive,
    lower_interpolate,
    lower_pad,
    refuse_adaptive,
    refuse_interpolate,
    refuse_pad,
)
from .ops.spatial.roi_align import lower_regions, refuse_regions
from .ops.spatial.roi_pool import lower_roi_pool, refuse_roi_pool
from .ops.weight_only_quant import right_ports

# The operations that an entry of the table is for.
OpT = TypeVar("OpT", bound=Op)
Refuse = Callable[[Graph, int, Op], str | None]


def always_lowerable(graph: Graph, node: int, op: Op) -> str | None:
    """No reason to refuse: a kernel exists."""
    return None


@dataclass(frozen=True)
class Lowerer(Generic[OpT]):
    """How nodes of the classes `ops` are lowered: each function gets the node's operation, typed.

    data: the ports read at run time (None: all); the rest is known at compile time. `ports` says it
    node by node, where a kernel is not refused.
    """

    ops: tuple[type[OpT], ...]
    lower: Callable[[RegionLowering, int, OpT], None]
    data: tuple[int, ...] | None = None
    refuse: Callable[[Graph, int, OpT], str | None] = always_lowerable
    ports: Callable[[Graph, int, OpT], tuple[int, ...]] | None = None


def require_known_inputs(*ports: int) -> Refuse:
    """Refuse unless the values of these inputs are known as numbers."""

    def refuse(graph: Graph, node: int, op: Op) -> str | None:
        inputs = graph.inputs(node)
        for port in ports:
            if port < len(inputs) and inputs[port] is not None:
                if known_ints(graph, node, port) is None:
                    return f"input {port} is known at run time only"
        return None

    return refuse


def _refuse_product(graph: Graph, node: int, op: ops.MatMul | ops.Gemm) -> str | None:
    dtype = graph.tensor(graph.input(node, 0)).dtype
    if isinstance(op, ops.Gemm) and dtype.is_int:
        if not (op.alpha.is_integer() and op.beta.is_integer()):
            return "an integer Gemm with fractional alpha or beta"
    return refuse_matmul(dtype)


def _refuse_float_row(graph: Graph, node: int, op: Op) -> str | None:
    return refuse_row(graph.tensor(graph.input(node, 0)).dtype)


def _refuse_norm(graph: Graph, node: int, op: LayerNorm | MVN) -> str | None:
    if norm_axes(graph, node, op) is None:
        return "the normalised axes are not the last ones"
    return _refuse_float_row(graph, node, op)


def _refuse_reduce(graph: Graph, node: int, op: Reduction) -> str | None:
    if isinstance(op, ops.ReduceMean) and graph.tensor(graph.input(node, 0)).dtype.is_int:
        return "the mean of integers divides by a count that may be 0"
    return "the axes are known at run time only" if reduced_axes(graph, node) is None else None


def _lower_gather(
    lowering: RegionLowering, node: int, op: ops.Gather1 | ops.Gather7 | ops.Gather
) -> None:
    if isinstance(op, ops.Gather1) or op.batch_dims == 0:
        lower_gather(lowering, node, op)
    else:
        lower_batched_gather(lowering, node, op)


def _refuse_broadcast(graph: Graph, node: int, op: ops.Broadcast1 | ops.Broadcast) -> str | None:
    mode = op.mode.lower()
    return None if mode in ("numpy", "bidirectional") else f"broadcast mode {mode}"


def _refuse_slice(graph: Graph, node: int, op: ops.Slice) -> str | None:
    starts = slice_starts(graph, node)
    if starts is None:
        return "starts, steps or axes are known at run time only"
    open_ = any(first is None for _, first, _ in starts)
    return "a start may count from either end" if open_ else None


def _refuse_tile(graph: Graph, node: int, op: ops.Tile) -> str | None:
    if known_list(graph, node, 1) is None:
        return "the repeats are known at run time only"
    return None


def _refuse_dequantize(graph: Graph, node: int, op: Op) -> str | None:
    return None if is_read_compressed(graph, node) else "no product reads the integers"


def _lower_nothing(lowering: RegionLowering, node: int, op: Op) -> None:
    """What its readers compute themselves."""


_ENTRIES = (
    Lowerer((ops.MatMul, ops.Gemm), lower_matmul, None, _refuse_product, right_ports),
    Lowerer((ops.MatMulInteger,), lower_matmul),
    Lowerer((ops.Dequantize, ops.AffineDequantize), _lower_nothing, (), _refuse_dequantize),
    Lowerer((ops.QuantizeRows, ops.DequantizeRows), lower_row_codes),
    Lowerer((ops.Softmax1, ops.Softmax, ops.LogSoftmax), lower_softmax, None, _refuse_float_row),
    Lowerer((ops.Attention,), lower_attention, (0, 1, 2, 3, 4), refuse_attention),
    Lowerer((LayerNorm, RMSNorm), lower_norm, None, _refuse_norm),
    Lowerer((MVN,), lower_norm, (0,), _refuse_norm),
    Lowerer((ops.GroupNormalization,), lower_groups, None, refuse_groups),
    Lowerer((ops.Reshape,), lower_reshape, (0,)),
    Lowerer(
        (ops.Squeeze, ops.Squeeze1, ops.Unsqueeze), lower_reshape, (0,), require_known_inputs(1)
    ),
    Lowerer((ops.Identity,), lower_identity),
    Lowerer((ops.Transpose,), lower_transpose, (0,), require_known_inputs(1)),
    Lowerer((ops.Broadcast1, ops.Broadcast), lower_broadcast, (0,), _refuse_broadcast),
    Lowerer((ops.Slice,), lower_slice, (0,), _refuse_slice),
    Lowerer((ops.Split, ops.VariadicSplit), lower_split, (0,), require_known_inputs(1)),
    Lowerer((ops.Concat,), lower_concat),
    Lowerer((ops.Tile,), lower_tile, (0,), _refuse_tile),
    Lowerer((ops.ROIAlign,), lower_regions, None, refuse_regions),
    Lowerer((ops.SuppressBoxes,), lower_suppress_boxes, refuse=refuse_suppress_boxes),
    Lowerer((ops.ROIPooling,), lower_roi_pool, refuse=refuse_roi_pool),
    Lowerer((ops.GridSample,), lower_grid_sample, refuse=refuse_grid_sample),
    Lowerer((ops.Gather1, ops.Gather7, ops.Gather), _lower_gather, (0, 1), require_known_inputs(2)),
    Lowerer((ops.GatherElements,), lower_gather_elements),
    Lowerer((ops.GatherND5, ops.GatherND), lower_gather_points, None, refuse_points),
    Lowerer((ops.ScatterUpdate,), lower_scatter_slices, (0, 1, 2), refuse_elements),
    Lowerer(
        (ops.ScatterElementsUpdate3, ops.ScatterElementsUpdate),
        lower_scatter_elements,
        (0, 1, 2),
        refuse_elements,
    ),
    Lowerer((ops.ScatterNDUpdate4, ops.ScatterNDUpdate), lower_scatter_points, None, refuse_points),
    Lowerer((ops.CumSum, ops.CumProd), lower_scan, (0,), refuse_ordered),
    Lowerer((ops.TopK1, ops.TopK3, ops.TopK), lower_rank, (0,), refuse_ordered),
    Lowerer((ops.Range1, ops.Range), lower_range, (), refuse_range),
    Lowerer(
        (ops.LSTMSequence, ops.PeepholeLSTM, ops.GRUSequence, ops.RNNSequence),
        lower_recurrent,
        None,
        refuse_recurrent,
        read_ports,
    ),
    Lowerer((ops.Group,), lower_elementwise),
    Lowerer((ops.Convolution, ops.GroupConvolution), lower_convolution, (0,), refuse_convolution),
    Lowerer(
        (ops.ConvInteger, ops.GroupConvInteger),
        lower_convolution,
        (0,),
        refuse_convolution,
        byte_ports,
    ),
    Lowerer(
        (ops.ConvolutionBackpropData, ops.GroupConvolutionBackpropData),
        lower_deconvolution,
        (0,),
        refuse_deconvolution,
    ),
    Lowerer((ops.MaxPool1, ops.MaxPool8, ops.MaxPool), lower_pool, (0,), refuse_pool),
    Lowerer((ops.AvgPool1, ops.AvgPool14, ops.AvgPool), lower_pool, (0,), refuse_pool),
    Lowerer((ops.AdaptiveAvgPool,), lower_pool, (0,), refuse_pool),
    Lowerer((ops.AdaptiveMaxPool,), lower_adaptive, (0,), refuse_adaptive),
    Lowerer((ops.DepthToSpace, ops.SpaceToDepth, ops.ShuffleChannels), lower_arranging),
    Lowerer((ops.Interpolate4, ops.Interpolate), lower_interpolate, (0,), refuse_interpolate),
    Lowerer((ops.Pad1, ops.Pad), lower_pad, (0,), refuse_pad),
    Lowerer(
        (ops.CTCGreedyDecoder, ops.CTCGreedyDecoderSeqLen),
        lower_ctc_decode,
        (0, 1),
        refuse_ctc_decode,
    ),
    Lowerer((ops.TreeEnsemble,), lower_trees, (0,), refuse_trees),
    Lowerer((ops.Col2Im,), lower_col2im, (0,), refuse_col2im),
    Lowerer((ops.STFT,), lower_frames, (0,), refuse_frames),
    Lowerer((ops.DFT, ops.IDFT, ops.RDFT, ops.IRDFT), lower_transform, (0,), refuse_transform),
)
LOWERERS: dict[type[Op], Lowerer[Any]] = {op: entry for entry in _ENTRIES for op in entry.ops}
# Entries for all subclasses of a class, as far as they have no entry of their own.
_FAMILIES = (
    Lowerer((Elementwise,), lower_elementwise),
    Lowerer((Reduction,), lower_reduce, (0,), _refuse_reduce),
)
# Sizes of the inputs, whatever computes them.
_KNOWN = Lowerer((Op,), lower_known, ())


def _entry_of(op: Op) -> Lowerer[Any] | None:
    """The table's entry for an operation."""
    families = (entry for entry in _FAMILIES if isinstance(op, entry.ops))
    return LOWERERS.get(type(op)) or next(families, None)


def lower_node(lowering: RegionLowering, node: int) -> None:
    """Add the steps of a native node without bodies."""
    op = lowering.graph.op(node)
    entry = _KNOWN if is_known_sizes(lowering.graph, node) else _entry_of(op)
    if entry is None:
        raise VerificationError("a node without a kernel is lowered", got=op.kind)
    entry.lower(lowering, node, op)


def lowerer_of(graph: Graph, node: int) -> Lowerer[Any] | str:
    """How a node is lowered to native code, or why it can't be."""
    op = graph.op(node)
    if is_known_sizes(graph, node):
        return _KNOWN
    found = _entry_of(op)
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
    reason = found.refuse(graph, node, op)
    if reason is not None or found.ports is None:
        return reason or found
    return replace(found, data=found.ports(graph, node, op))


def has_kernel(graph: Graph, node: int) -> bool:
    """Whether a node is lowered to native code."""
    return isinstance(lowerer_of(graph, node), Lowerer)
