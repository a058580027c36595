"""Squeeze-and-excite as one kernel: global means of an image's channels, two small products with
what stands behind them, and the product of the image and the gates with the chain behind it.

The means are a ReduceMean, or an adaptive pool to one place, the products convolutions of one
place or products of matrices, with reshapes between [N, C, 1, 1] and [N, C] wherever they stand.
The image lies channels-last, as convolutions write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....ir.dims import Dim, product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import AdaptiveAvgPool, Convolution, Gemm, MatMul, ReduceMean
from ....ir.scalar.builder import Builder, Ref
from ....ir.scalar.program import Program
from ....ir.types import TensorType
from ....plan.packing.layouts import PackedB, PackedConv, PackedLayout
from ....plan.specs.squeeze_excite import CHUNKS, MAX_EXCITED, SqueezeExciteSpec, excite_panels
from ...compressed_weights import compressed_weight
from ...legality import is_elementwise
from ...rewrite.patch import has_one_use
from ...strided_view import View, are_equal, coalesce
from ..build.region_builder import SizeCollector
from ..build.region_lowering import Operands, RegionLowering
from ..build.scalar_programs import node_program
from ..schedule.fusion import Excite, Fusion, same_shape
from .convolution import channels_last, to_channels_last
from .matmul import own_epilogue, rounded_factors
from .row_reductions import reduced_axes

_RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
_POOLS = (ReduceMean, AdaptiveAvgPool)


@dataclass(frozen=True)
class Site:
    """Where blocks are looked for: what runs natively, in which region, and what is fused."""

    graph: Graph
    native: Mapping[int, bool]
    home: Mapping[int, int]
    fusion: Fusion


def decide_excites(
    graph: Graph,
    native: Mapping[int, bool],
    home: Mapping[int, int],
    fusion: Fusion,
    last: frozenset[Value],
) -> Fusion:
    """The fusions with the blocks of a graph; `last`: the values that lie channels-last."""
    for node in graph.order():
        if native.get(node, False) and is_elementwise(graph, node):
            found = find_excite(Site(graph, native, home, fusion), node, last)
            if isinstance(found, Excite):
                excites, skipped = (
                    {**fusion.excites, node: found},
                    fusion.skipped.union(found.inner),
                )
                fusion = replace(fusion, excites=excites, skipped=skipped)
    return fusion


def find_excite(site: Site, node: int, last: frozenset[Value]) -> Excite | str:
    """The block that ends at an elementwise node, or why there is none."""
    graph, fusion = site.graph, site.fusion
    if node in fusion.absorbed or node in fusion.skipped or node in fusion.anchor_of:
        return "something else computes the node"
    inputs = list(dict.fromkeys(v for v in graph.inputs(node) if v is not None))
    reason = "no input is a gate of channels"
    for gate in inputs:
        source, moved = _source(site, gate)
        up = fusion.anchor_of.get(source.node, source.node)
        if graph.op(up).kind not in ("Convolution", "MatMul", "Gemm"):
            continue
        found = _block(site, node, gate, up, [*moved, source.node], last)
        if isinstance(found, Excite):
            return found
        reason = found
    return reason


def _block(
    site: Site, node: int, gate: Value, up: int, inner: list[int], last: frozenset[Value]
) -> Excite | str:
    graph, fusion = site.graph, site.fusion
    shape = _shape(graph, Value(node))
    if len(shape) < 3 or not isinstance(channels := shape[1], int):
        return "the number of channels is known at run time only"
    if not _per_channel(graph, gate, shape[0], channels):
        return "the gate is not one number per channel"
    if (reason := _refuse_product(graph, up, channels)) is not None:
        return reason
    inner += [up, *fusion.epilogues.get(up, ())]
    state, moved = _source(site, graph.input(up, 0))
    down = fusion.anchor_of.get(state.node, state.node)
    hidden = _columns(graph, up)[0]
    if (reason := _refuse_product(graph, down, hidden)) is not None:
        return reason
    inner += [*moved, state.node, down, *fusion.epilogues.get(down, ())]
    means, moved = _source(site, graph.input(down, 0))
    pool = fusion.anchor_of.get(means.node, means.node)
    inner += [*moved, means.node, pool, *fusion.epilogues.get(pool, ())]
    if not isinstance(graph.op(pool), _POOLS):
        return "the multiplied values are not means"
    data = graph.input(pool, 0)
    if data not in graph.inputs(node) or data not in last:
        return "the means are not of the image that is scaled, or it does not lie channels-last"
    if not _is_global(graph, pool, len(shape)) or _columns(graph, down)[0] != channels:
        return "the means are not of all places of a channel"
    if not same_shape(graph, data, Value(node)) or _dtype(graph, Value(node)) is not DType.f32:
        return "the scaled image has another type or shape"
    if max(channels, hidden) > MAX_EXCITED:
        return "channels are too many"
    ends = (means, state, Value(inner[inner.index(up) - 1]))
    for n in inner:
        if not site.native.get(n, False) or site.home[n] != site.home[node]:
            return "a part of the block runs elsewhere"
        if n in fusion.absorbed or _dtype(graph, Value(n)) is not DType.f32:
            return "a part of the block is of another type, or something else's"
    for value in (*ends, *(Value(n) for n in inner if graph.op(n).kind in _RESHAPES)):
        if graph.only_reader(value) is None:
            return "something else reads means, states or gates"
    return Excite(data, gate, pool, down, up, tuple(dict.fromkeys(inner)))


def _source(site: Site, value: Value) -> tuple[Value, list[int]]:
    """What a value is before it is reshaped, and the nodes that reshape it."""
    moved: list[int] = []
    while site.graph.op(value.node).kind in _RESHAPES and has_one_use(site.graph, value):
        moved.append(value.node)
        value = site.graph.input(value.node, 0)
    return value, moved


def _shape(graph: Graph, value: Value) -> Sequence[Dim]:
    type_ = graph.type(value)
    return (type_.shape or ()) if isinstance(type_, TensorType) else ()


def _dtype(graph: Graph, value: Value) -> DType | None:
    type_ = graph.type(value)
    return type_.dtype if isinstance(type_, TensorType) else None


def _per_channel(graph: Graph, value: Value, batch: Dim, channels: int) -> bool:
    """Whether a value is [batch, channels, 1...]."""
    shape = _shape(graph, value)
    if len(shape) < 2 or shape[1] != channels or any(d != 1 for d in shape[2:]):
        return False
    return are_equal(shape[0], batch)


def _columns(graph: Graph, node: int) -> tuple[int, int]:
    """K and N of a product's constant matrix; zeros where it has none."""
    shape = _shape(graph, graph.input(node, 1))
    if len(shape) < 2 or not isinstance(a := shape[0], int) or not isinstance(b := shape[1], int):
        return 0, 0
    op = graph.op(node)
    turned_ = isinstance(op, Convolution) or (isinstance(op, MatMul | Gemm) and op.transpose_b)
    return (b, a) if turned_ else (a, b)


def _refuse_product(graph: Graph, node: int, columns: int) -> str | None:
    """Why a node is not a product of rows [N, K] with a constant matrix of so many columns, or
    None."""
    op = graph.op(node)
    if not isinstance(op, Convolution | MatMul | Gemm):
        return "the gates are not the result of a product"
    weights, shape = graph.input(node, 1), _shape(graph, graph.input(node, 1))
    if graph.op(weights.node).kind != "Constant":
        return "the weights are known at run time only"
    if isinstance(op, Convolution):
        if any(d != 1 for d in (*shape[2:], *_shape(graph, graph.input(node, 0))[2:])):
            return "a convolution sees several places"
    elif len(shape) != 2 or len(_shape(graph, Value(node))) != 2 or op.transpose_a:
        return "a product of several matrices"
    elif compressed_weight(graph, node) is not None:
        return "the weights are compressed"
    k, n = _columns(graph, node)
    return None if n == columns and k > 0 else "the product's columns are not the channels"


def _is_global(graph: Graph, node: int, rank: int) -> bool:
    """Whether a pool's windows are whole images."""
    if isinstance(graph.op(node), ReduceMean):
        return reduced_axes(graph, node) == list(range(2, rank))
    known = graph.known_value(graph.input(node, 1))
    return known is not None and all(d == 1 for d in known.reshape(-1).tolist())


def lower_excite(low: RegionLowering, node: int) -> None:
    """Emit the step of the block that ends at a node."""
    found, graph = low.fusion.excites[node], low.graph
    name, shape = low.name(node), low.shape(Value(node))
    batch, channels = shape[:2]
    assert isinstance(channels, int)
    hidden = _columns(graph, found.up)[0]
    factors = rounded_factors(low.options, DType.f32)
    panels = excite_panels(channels, hidden, low.target.lanes(32))

    squeezed, gated = (Operands(low.shape(Value(n)), base=1) for n in (found.down, found.up))
    squeeze = _product_program(low, found.down, squeezed, factors)
    gate = _product_program(low, found.up, gated, None)
    image = Operands(shape, base=2)
    builder = Builder()
    image.computed[found.data] = builder.input(0, DType.f32)
    image.computed[found.gate] = builder.input(1, DType.f32)
    args = [low.expression(builder, v, image) for v in graph.inputs(node) if v is not None]
    (ref,) = builder.inline(node_program(graph, node), *args)
    wanted = low.result(Value(node))
    out = (
        wanted if are_equal(wanted.strides[1], 1) else channels_last(low, wanted.dtype, shape, name)
    )
    scale = builder.finish(builder.cast_stored(ref, out.dtype))

    data = to_channels_last(low, low.view(found.data), low.name(found.data.node))
    sums = low.region.allocate(DType.f32, (batch, CHUNKS, channels), name)
    states = low.region.allocate(DType.f32, (batch, hidden), name)
    gates = low.region.allocate(DType.f32, (batch, channels), name)
    down, up = (
        _weights(low, n, p, factors) for n, p in zip((found.down, found.up), panels, strict=True)
    )
    order = [*range(2, len(shape)), 1]
    walked = [data, *image.views, out]
    places, steps = coalesce(
        [shape[i] for i in order[:-1]], [[v.strides[i] for i in order[:-1]] for v in walked]
    )
    sizes = SizeCollector()
    rows = [
        sizes.operand(v, (v.strides[0], *s, v.strides[1]))
        for v, s in zip(walked, steps, strict=True)
    ]
    spec = SqueezeExciteSpec(
        batch=sizes(batch),
        places=sizes.all(places),
        channels=channels,
        hidden=hidden,
        data=rows[0],
        down=sizes.operand(down, (1,)),
        up=sizes.operand(up, (1,)),
        down_panels=panels[0],
        up_panels=panels[1],
        sums=sizes.operand(sums, sums.strides),
        states=sizes.operand(states, states.strides),
        gates=sizes.operand(gates, gates.strides),
        out=rows[-1],
        mean=_mean_program(low, found.pool, factors),
        squeeze=squeeze,
        gate=gate,
        scale=scale,
        squeeze_extras=tuple(sizes.operand(v, v.strides[:2]) for v in squeezed.views),
        gate_extras=tuple(sizes.operand(v, v.strides[:2]) for v in gated.views),
        epilogue_operands=tuple(rows[1:-1]),
        compute_dtype=factors,
    )
    views = [data, down, up, *squeezed.views, *gated.views, *image.views, sums, states, gates, out]
    each = low.vectors(shape[1:], DType.f32) * 2 + 2 * channels * hidden // low.target.lanes(32)
    sources = low.sources(*reversed(found.inner), *image.nodes, node)
    low.region.kernel(spec, sizes, views, product([batch]) * each + 1, name, sources)
    if out != wanted:
        low.copy(out, wanted, name, low.sources(node))
        low.views[Value(node)] = out


def _round_operand(b: Builder, ref: Ref, factors: DType | None) -> Ref:
    """A product's left factor, in f32."""
    return ref if factors is None else b.cast(b.cast_stored(ref, factors), DType.f32)


def _mean_program(low: RegionLowering, pool: int, factors: DType | None) -> Program:
    """The mean of a sum (0) and a count (1), and what of numbers stands behind it."""
    b, none = Builder(), Operands(low.shape(Value(pool)), base=2)
    ref = b.op("div", b.input(0, DType.f32), b.input(1, DType.f32))
    _, ref = low.chain(b, pool, ref, none)
    assert not none.views
    return b.finish(_round_operand(b, ref, factors))


def _product_program(
    low: RegionLowering, node: int, operands: Operands, factors: DType | None
) -> Program:
    """What stands behind a product."""
    b = Builder()
    if isinstance(low.graph.op(node), Convolution):
        ref = b.input(0, DType.f32)
    else:
        ref = own_epilogue(low, b, node, operands, DType.f32, DType.f32)
    _, ref = low.chain(b, node, ref, operands)
    return b.finish(_round_operand(b, ref, factors))


def _weights(low: RegionLowering, node: int, panels: PackedB, factors: DType | None) -> View:
    """A product's constant matrix in panels."""
    value, op = low.graph.input(node, 1), low.graph.op(node)
    layout, transposed = PackedConv(panels.nr), False
    if not isinstance(op, Convolution):
        assert isinstance(op, MatMul | Gemm)
        layout, transposed = panels, op.transpose_b
    view = low.constant(value, layout, transposed, factors)
    assert view is not None
    k, n = _columns(low.graph, node)
    return replace(view, shape=(PackedLayout.of(panels, k, n).size,), strides=(1,))
