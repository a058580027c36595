"""STFT: frames that overlap in memory, times a constant matrix of windowed cosines and sines."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import STFT, Constant
from ....ir.ops.nn.signal import MAX_DFT_MATMUL_SIZE, pad_window, waves
from ....ir.scalar.builder import Builder, cast_array
from ....plan.packing.panel_params import packed_layout
from ....plan.specs.gemm import GemmSpec
from ...strided_view import View, merged_axes, permute
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from .data_movement import known_ints
from .matmul import product_work


def refuse_frames(graph: Graph, node: int, op: STFT) -> str | None:
    """Why no product transforms these frames, or None."""
    dtype = graph.tensor(graph.input(node, 0)).dtype
    if dtype not in (DType.f32, DType.f64):
        return f"no kernel for STFT of {dtype}"
    if not isinstance(graph.op(graph.input(node, 1).node), Constant):
        return "the window is known at run time only"
    size = known_ints(graph, node, 2)
    if size is None or known_ints(graph, node, 3) is None:
        return "the frames are known at run time only"
    if size[0] > MAX_DFT_MATMUL_SIZE:
        return (
            f"frames of more than {MAX_DFT_MATMUL_SIZE} samples: NumPy transforms them in less time"
        )
    return None


def lower_frames(lowering: RegionLowering, node: int, op: STFT) -> None:
    """One product: [frames, frame size] whose rows overlap, times [frame size, bins * 2]."""
    x = lowering.view(lowering.graph.input(node, 0))
    ((size,), (step,)) = (known_ints(lowering.graph, node, port) or [1] for port in (2, 3))
    out = lowering.result(Value(node))
    if op.transpose_frames:
        out = permute(out, [*range(out.rank - 3), out.rank - 2, out.rank - 3, out.rank - 1])
    *batch, frames, _, _ = out.shape
    window = lowering.constant_op(lowering.graph.input(node, 1))
    assert window is not None
    matrix = cast_array(pad_window(window.data, size)[:, None] * waves(size), x.dtype)
    columns = matrix.shape[1]
    layout = packed_layout(size, columns, x.dtype, lowering.target)
    b = lowering.array(matrix, x.dtype, layout, lowering.name(node))
    parts = merged_axes(View(out.buffer, out.dtype, out.shape[-2:], out.strides[-2:]))
    sizes, builder = SizeCollector(), Builder()
    rows = (*x.strides[:-1], x.strides[-1] * step, x.strides[-1])
    spec = GemmSpec(
        batch=sizes.all(batch),
        m=sizes(frames),
        n=columns,
        k=size,
        a=sizes.operand(x, rows),
        b=sizes.operand(b, (*(0 for _ in batch), 0, 0)),
        out=sizes.operand(out, (*out.strides[:-2], *(stride for _, stride in parts))),
        acc=x.dtype,
        packed=layout,
        epilogue=builder.finish(builder.cast_stored(builder.input(0, x.dtype), out.dtype)),
        out_n_split=sizes.add_split(parts),
    )
    work = product_work(lowering, batch, frames, columns, size, x.dtype.bits)
    lowering.region.kernel(
        spec, sizes, [x, b, out], work, lowering.name(node), lowering.sources(node)
    )
