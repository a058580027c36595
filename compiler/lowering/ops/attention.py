"""Attention: one step that never stores the scores."""

from __future__ import annotations

import numpy as np

from ....ir.dims import Dim, product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Attention
from ....ir.scalar.builder import Builder
from ....plan.packing.panel_params import BYTES
from ....plan.specs.attention import AttentionSpec, can_multiply_bytes
from ...legality import head_size_failure
from ...strided_view import View, are_equal, broadcast_to, coalesce
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from ..schedule.fusion import row_bits
from .matmul import rounded_factors
from .recurrent import copy_contiguous


def refuse_attention(graph: Graph, node: int, op: Attention) -> str | None:
    """Why no kernel runs the attention, or None."""
    zeros = [v for v in graph.inputs(node)[5:] if v is not None]
    if any(graph.op(v.node).kind != "Constant" for v in zeros):
        return "zero points are known at run time only"
    multiplies_bytes = graph.tensor(graph.input(node, 0)).dtype in BYTES
    if multiplies_bytes and graph.tensor(graph.input(node, 2)).dtype is not DType.f32:
        return "no kernel mixes values of this type by scores of bytes"
    for port in (2,) if multiplies_bytes else (0, 2):
        value = graph.input(node, port)
        refused = head_size_failure(graph, value, graph.shape(value)[-1])
        if refused:
            return refused
    return None


def lower_attention(lowering: RegionLowering, node: int, op: Attention) -> None:
    """Emit the step; rows of heads that are not contiguous are copied before."""
    inputs, name = lowering.graph.inputs(node), lowering.name(node)
    result = lowering.result(Value(node))
    *batch, rows, width = result.shape
    out = result
    if not are_equal(result.strides[-1], 1) and width != 1:
        out = lowering.region.allocate(result.dtype, result.shape, name)
    query, key, value = (
        make_rows_contiguous(lowering, lowering.view(lowering.graph.input(node, p)), name)
        for p in range(3)
    )
    # Keys are as wide as queries; where inference does not know how wide, a run reads their shape.
    keys, size = key.shape[-2], query.shape[-1]
    numbers = None
    if query.dtype in BYTES and can_multiply_bytes(lowering.target):
        numbers = find_quantization(lowering, node, op)
    elif query.dtype in BYTES:
        query, key = (open_bytes(lowering, node, n, v) for n, v in enumerate((query, key)))
    bits = _absorbed_bits(lowering, node)
    widths = (key.shape[-1], value.shape[-1]) if bits else (size, width)
    given, sink = (*inputs[3:], None, None)[:2]
    views = [
        broadcast_to(query, (*batch, rows, size)),
        broadcast_to(key, (*batch, keys, widths[0])),
        broadcast_to(value, (*batch, keys, widths[1])),
        *([] if given is None else [broadcast_to(lowering.view(given), (*batch, rows, keys))]),
        *([] if sink is None else [broadcast_to(lowering.view(sink), (*batch, rows, 1))]),
        *([] if numbers is None else [broadcast_to(numbers, (*batch, 1, 3))]),
        out,
    ]
    causal: Dim | None = None
    if op.causal and not (op.causal == "last" and rows == 1):
        causal = keys - rows if op.causal == "last" else 0
    axes, strides = coalesce(batch, [v.strides[:-2] for v in views])
    steps = [list(v.strides[-2:]) for v in views]
    if rows == 1 and causal is None and axes and all(are_equal(s[-1], 0) for s in strides[1:3]):
        # Single queries that share keys and values are the rows of one matrix.
        rows, axes = axes[-1], axes[:-1]
        for step, lead in ((steps[i], strides[i]) for i in (0, *range(3, len(views)))):
            step[0] = lead[-1]
        strides = [s[:-1] for s in strides]
    for i in (0, 1, 2, -1):
        steps[i][1] = 1  # also where there is but one element
    sizes = SizeCollector()
    after_sink = 1 + (numbers is not None)
    if sink is not None:
        del steps[-1 - after_sink][1]
    if numbers is not None:
        del steps[-2][0]
    walked = [
        sizes.operand(v, (*s, *step)) for v, s, step in zip(views, strides, steps, strict=True)
    ]
    assert isinstance(size, int) and isinstance(width, int)
    dtype = lowering.tensor(Value(node)).dtype
    spec = AttentionSpec(
        batch=sizes.all(axes),
        queries=sizes(rows),
        keys=sizes(keys),
        head_size=size,
        value_size=width,
        query=walked[0],
        key=walked[1],
        value=walked[2],
        mask=None if given is None else walked[3],
        out=walked[-1],
        scale=op.scale if numbers is None else 1.0,
        causal=None if causal is None else sizes(causal),
        masked_value=op.fill,
        zero_masked_rows=op.zeros,
        softcap=op.cap,
        compute_dtype=rounded_factors(lowering.options, dtype),
        sink=None if sink is None else walked[-1 - after_sink],
        row_bits=bits,
        quantization=None if numbers is None else walked[-2],
    )
    work = product([*axes, rows, keys, size + width]) // lowering.target.lanes(32) + 1
    lowering.region.kernel(spec, sizes, views, work, name, lowering.sources(node))
    if out is not result:
        lowering.copy(out, result, name, lowering.sources(node))


def find_quantization(lowering: RegionLowering, node: int, op: Attention) -> View:
    """The factor of scores and the zero points of queries and keys, in memory: layers that differ
    in them only share a kernel."""
    numbers = [op.scale, *(_zero_point(lowering, node, port) for port in (0, 1))]
    data = np.array(numbers, np.float32)
    return lowering.array(data, DType.f32, None, lowering.name(node))


def open_bytes(lowering: RegionLowering, node: int, port: int, view: View) -> View:
    """A copy of queries or keys of bytes as numbers of f32, less their zero point."""
    builder, name = Builder(), lowering.name(node)
    x = builder.cast(builder.input(0, view.dtype), DType.f32)
    shift = builder.const(_zero_point(lowering, node, port), DType.f32)
    program = builder.finish(builder.op("sub", x, shift))
    made = lowering.region.allocate(DType.f32, view.shape, name)
    lowering.elementwise(program, [view], [made], name, lowering.sources(node))
    return made


def _zero_point(lowering: RegionLowering, node: int, port: int) -> int:
    inputs = lowering.graph.inputs(node)
    zero = inputs[5 + port] if len(inputs) > 5 + port else None
    return 0 if zero is None else int(lowering.scalar(zero) or 0)


def _absorbed_bits(lowering: RegionLowering, node: int) -> int:
    """The bits of the codes that an attention dequantizes itself, or 0."""
    makers = {lowering.graph.input(node, port).node for port in (1, 2)}
    if not makers <= lowering.fusion.absorbed:
        return 0
    return row_bits(lowering.graph, node)


def make_rows_contiguous(lowering: RegionLowering, view: View, name: str) -> View:
    """The view, copied where the elements of a row do not follow one another."""
    if are_equal(view.strides[-1], 1) or view.shape[-1] == 1:
        return view
    return copy_contiguous(lowering, view, name)
