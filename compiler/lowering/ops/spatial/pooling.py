"""Pools: MaxPool without its indices, AvgPool, and adaptive averages."""

from __future__ import annotations

from .....ir.dims import Dim, product
from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.ops import AdaptiveAvgPool, MaxPool1, MaxPool8
from .....ir.ops.nn.pooling import AvgPool1
from .....ir.ops.nn.pooling_window import Windows
from .....ir.ops.shape_inference import known_ints
from .....ir.scalar.builder import Builder
from .....plan.specs.convolution import Window
from .....plan.specs.pooling import PoolSpec
from ....strided_view import are_equal
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..convolution import channels_last, paddings, refuse_pads, to_channels_last
from .resample_pad import lower_adaptive, refuse_adaptive

AnyPool = MaxPool1 | MaxPool8 | AvgPool1 | AdaptiveAvgPool


def refuse_pool(graph: Graph, node: int, op: AnyPool) -> str | None:
    """Why no kernel computes this pool, or None."""
    data = graph.input(node, 0)
    if len(graph.shape(data)) < 3:
        return "there is no axis for a window to slide on"
    if op.output_count() > 1 and graph.use_count(Value(node, 1)):
        return "the indices of the largest elements are read"
    if isinstance(op, AvgPool1):
        if not (dtype := graph.tensor(data).dtype).is_float:
            return f"no kernel averages {dtype}"
        if op.rounding_type.lower() == "ceil_torch" and op.auto_pad.lower().startswith("same"):
            return "paddings that follow from sizes, rounded as Torch does"
    if isinstance(op, AdaptiveAvgPool) and adaptive_windows(graph, node) is None:
        return refuse_adaptive(graph, node, op)
    return refuse_pads(op)


def adaptive_windows(graph: Graph, node: int) -> Windows | None:
    """The windows of an adaptive pool whose pieces are all alike."""
    data, known = graph.input(node, 0), known_ints(graph.fact(graph.input(node, 1)))
    if known is None or not graph.tensor(data).dtype.is_float:
        return None
    pieces: list[int] = []
    for size, count in zip(graph.shape(data)[2:], known, strict=True):
        if not isinstance(size, int) or count < 1 or size % count or not size:
            return None
        pieces.append(size // count)
    return Windows.of(pieces, pieces, (), (), (), "explicit")


def lower_pool(lowering: RegionLowering, node: int, op: AnyPool) -> None:
    """Emit the step of a pool."""
    value, name = lowering.graph.input(node, 0), lowering.name(node)
    if not isinstance(op, AdaptiveAvgPool):
        windows = op.windows()
    elif (windows := adaptive_windows(lowering.graph, node)) is None:
        lower_adaptive(lowering, node, op)
        return
    dtype = lowering.tensor(value).dtype
    mean = isinstance(op, AvgPool1 | AdaptiveAvgPool)
    acc = DType.f32 if dtype.is_float and dtype.bits == 16 else dtype
    counted = "window"
    if isinstance(op, AvgPool1):
        torch = windows.rounding == "ceil_torch"
        counted = "data" if op.exclude_pad else "padded" if torch else "window"

    data = to_channels_last(lowering, lowering.view(value), lowering.name(value.node))
    out = lowering.result(Value(node))
    target = out
    if not are_equal(out.strides[1], 1) and not are_equal(out.shape[1], 1):
        target = channels_last(lowering, out.dtype, out.shape, name)
    pads = paddings(windows, data.shape[2:], out.shape[2:])
    builder = Builder()
    ref = builder.input(0, acc)
    if mean:
        ref = builder.op("div", ref, builder.input(1, acc))
    sizes = SizeCollector()
    kernel = tuple(int(str(k)) for k in windows.kernel)
    ends: tuple[Dim, ...] = windows.pads_end
    spec = PoolSpec(
        kind="sum" if mean else "max",
        batch=sizes(out.shape[0]),
        channels=sizes(out.shape[1]),
        in_sizes=sizes.all(data.shape[2:]),
        out_sizes=sizes.all(out.shape[2:]),
        window=Window(kernel, windows.strides, windows.dilations, sizes.all(pads)),
        pads_end=sizes.all(ends),
        counted=counted,
        data=sizes.operand(data, data.strides),
        out=sizes.operand(target, target.strides),
        acc=acc,
        epilogue=builder.finish(builder.cast_stored(builder.cast(ref, dtype), out.dtype)),
    )
    work = lowering.vectors(out.shape, dtype) * product(kernel)
    lowering.region.kernel(spec, sizes, [data, target], work, name, lowering.sources(node))
    if target != out:
        lowering.copy(target, out, name, lowering.sources(node))
        lowering.views[Value(node)] = target
