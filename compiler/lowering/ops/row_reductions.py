"""Operations along an axis: softmax, normalisation, reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import LogSoftmax, Softmax, Softmax1
from ....ir.ops.accumulate import computing_dtype
from ....ir.ops.math.reduce import Reduction
from ....ir.ops.nn.normalize import MVN, LayerNorm
from ....ir.ops.shape_inference import known_ints
from ....ir.scalar.builder import Builder, identity
from ....ir.scalar.program import Program
from ....ir.types import TensorType, normalize_axis
from ....plan.specs.rows import NormSpec, ReduceSpec, SoftmaxSpec
from ...strided_view import View, coalesce, memory_order, permute, reshape
from ..build.region_builder import SizeCollector
from ..build.region_lowering import Operands, RegionLowering


def lower_softmax(lowering: RegionLowering, node: int, op: Softmax | Softmax1 | LogSoftmax) -> None:
    """Softmax or its logarithm along one axis."""
    value = lowering.graph.input(node, 0)
    shape = lowering.shape(value)
    axis = normalize_axis(op.axis, len(shape))
    builder, operands = Builder(), Operands(shape)
    ref = lowering.expression(builder, value, operands)
    prologue = builder.finish(builder.cast(ref, computing_dtype(ref.dtype)))
    out = lowering.result(Value(node))
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    views = [permute(v, order) for v in (*operands.views, out)]
    axes, strides = coalesce([shape[i] for i in order], [v.strides for v in views], keep_last=1)
    sizes = SizeCollector()
    walked = [sizes.operand(v, s) for v, s in zip(views, strides, strict=True)]
    spec = SoftmaxSpec(
        sizes.all(axes), tuple(walked[:-1]), walked[-1], prologue, isinstance(op, LogSoftmax)
    )
    work = lowering.vectors(shape, lowering.tensor(value).dtype) * 8
    sources = lowering.sources(*dict.fromkeys(operands.nodes), node)
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), sources)


def norm_axes(graph: Graph, node: int, op: LayerNorm | MVN) -> list[int] | None:
    """The normalised axes of MVN or LayerNorm if they are the last ones, else None."""
    type_ = graph.type(graph.input(node, 0))
    if not isinstance(type_, TensorType) or type_.shape is None:
        return None
    rank = len(type_.shape)
    if isinstance(op, LayerNorm):
        axes: Sequence[int] = range(normalize_axis(op.axis, rank), rank)
    else:
        known = known_ints(graph.fact(graph.input(node, 1)))
        if known is None:
            return None
        axes = known
    found = sorted(normalize_axis(a, rank) for a in axes)
    return found if found and found == list(range(found[0], rank)) else None


def lower_norm(lowering: RegionLowering, node: int, op: LayerNorm | MVN) -> None:
    """MVN over the last axes, and LayerNorm with its scale and bias, and the chain behind them."""
    inputs = lowering.graph.inputs(node)
    value = lowering.graph.input(node, 0)
    shape, dtype = lowering.shape(value), lowering.tensor(value).dtype
    axes = norm_axes(lowering.graph, node, op)
    assert axes is not None
    acc = computing_dtype(dtype)

    before, read = Builder(), Operands(shape)
    x = lowering.expression(before, value, read)
    prologue = before.finish(before.cast(x, acc))

    after, extras = Builder(), Operands(shape, base=1)
    ref = after.input(0, acc)
    centre, scale_variance, eps_outside = True, True, False
    if isinstance(op, LayerNorm):
        centre = op.centre
        for port, name in ((1, "mul"), (2, "add")):
            if len(inputs) > port and (extra := inputs[port]) is not None:
                term = after.cast(lowering.expression(after, extra, extras), acc)
                ref = after.op(name, ref, term)
    else:
        scale_variance = op.normalize_variance
        eps_outside = op.eps_mode.lower() == "outside_sqrt"
    stored, ref = lowering.chain(after, node, after.cast(ref, dtype), extras)
    out = lowering.result(stored)

    split = axes[0]
    views = [*read.views, *extras.views, out]
    merged = [merge_last(lowering, v, split, lowering.name(node)) for v in views]
    row_axes, strides = coalesce(merged[-1].shape, [v.strides for v in merged], keep_last=1)
    sizes = SizeCollector()
    walked = [sizes.operand(v, s) for v, s in zip(merged, strides, strict=True)]
    count = len(read.views)
    spec = NormSpec(
        axes=sizes.all(row_axes),
        inputs=tuple(walked[:count]),
        epilogue_operands=tuple(walked[count:-1]),
        outs=(walked[-1],),
        prologue=prologue,
        epilogue=after.finish(after.cast_stored(ref, out.dtype)),
        eps=op.eps,
        centre=centre,
        scale_variance=scale_variance,
        eps_outside=eps_outside,
    )
    nodes = dict.fromkeys((*read.nodes, node, *extras.nodes))
    work = lowering.vectors(shape, dtype) * 4
    lowering.region.kernel(
        spec, sizes, merged, work, lowering.name(stored.node), lowering.sources(*nodes)
    )


def merge_last(lowering: RegionLowering, view: View, split: int, name: str) -> View:
    """The view with axes from `split` on merged into one, copied if strides can't say it."""
    if split == view.rank - 1:
        return view
    size: Dim = 1
    for dim in view.shape[split:]:
        size = size * dim
    shape = (*view.shape[:split], size)
    found = reshape(view, shape)
    if found is None:
        found = reshape(lowering.contiguous(view, name), shape)
    assert found is not None
    return found


def reduced_axes(graph: Graph, node: int) -> list[int] | None:
    """The known axes of a reduction, or None."""
    type_ = graph.type(graph.input(node, 0))
    known = graph.known_value(graph.input(node, 1))
    if (
        known is None
        or known.dtype == object
        or not isinstance(type_, TensorType)
        or type_.shape is None
    ):
        return None
    return sorted({normalize_axis(int(a), len(type_.shape)) for a in known.reshape(-1)})


# The largest of truth values is whether any is true.
_OF_BOOLEANS = {"max": "any", "min": "all"}


def lower_reduce(lowering: RegionLowering, node: int, op: Reduction) -> None:
    """A reduction over known axes, with the scalar chain behind it."""
    value = lowering.graph.input(node, 0)
    shape, dtype = lowering.shape(value), lowering.tensor(value).dtype
    axes = reduced_axes(lowering.graph, node)
    assert axes is not None
    acc = computing_dtype(dtype)

    before, read = Builder(), Operands(shape)
    x = before.cast(lowering.expression(before, value, read), acc)
    mapped = op.prologue(before, x)
    prologue = before.finish(mapped)

    after, none = Builder(), Operands(lowering.shape(Value(node)), base=2)
    ref = op.epilogue(after, after.input(0, mapped.dtype), after.input(1, mapped.dtype))
    stored, ref = lowering.chain(after, node, after.cast(ref, dtype), none)
    out = lowering.result(stored)

    kept = [i for i in range(len(shape)) if i not in axes]
    kept_out = [out.strides[i] for i in kept] if out.rank == len(shape) else list(out.strides)
    kind = op.reduction
    if mapped.dtype is DType.boolean:
        kind = _OF_BOOLEANS.get(kind, kind)
    nodes = dict.fromkeys((*read.nodes, node, *none.nodes))
    name, sources = lowering.name(stored.node), lowering.sources(*nodes)
    work, programs = lowering.vectors(shape, dtype), (prologue, after.finish(ref))
    add_reduction(lowering, kind, axes, read.views, [out], kept_out, programs, work, name, sources)


# Kinds whose result does not depend on the order of the elements: workers share those of one.
_EXACT = frozenset({"max", "min", "any", "all"})
_MIN_SHARED_ELEMENTS = 1 << 15
_MAX_PIECES = 32


def _count_pieces(reduced: Sequence[Dim]) -> int:
    """Into how many equal pieces the first of these axes is cut, which workers reduce."""
    sizes = [d for d in reduced if isinstance(d, int)]
    if len(sizes) < len(reduced) or math.prod(sizes) < _MIN_SHARED_ELEMENTS:
        return 1
    return max(n for n in range(1, _MAX_PIECES + 1) if sizes[0] % n == 0)


def add_reduction(
    lowering: RegionLowering,
    kind: str,
    axes: Sequence[int],
    ins: Sequence[View],
    outs: Sequence[View],
    kept_out: Sequence[Dim],
    programs: tuple[Program, Program],
    work: Dim,
    name: str,
    sources: Sequence[str],
) -> None:
    """A step that reduces `axes` of views of one shape. kept_out: how all of `outs` walk the other
    axes; programs: what is reduced of the inputs' elements, and what is stored of the results."""
    shape = ins[0].shape
    kept = [i for i in range(len(shape)) if i not in axes]
    walked = replace(outs[0], shape=tuple(shape[i] for i in kept), strides=tuple(kept_out))
    order = memory_order(walked)
    kept = [kept[i] for i in order]
    kept_axes, kept_strides = coalesce(
        [shape[i] for i in kept],
        [*([v.strides[i] for i in kept] for v in ins), [walked.strides[i] for i in order]],
    )
    # The elements that are neighbours in memory are read in vectors, whatever the axes' order.
    across = replace(
        ins[0],
        shape=tuple(shape[i] for i in axes),
        strides=tuple(ins[0].strides[i] for i in axes),
    )
    axes = [axes[i] for i in memory_order(across)]
    reduced, reduced_strides = coalesce(
        [shape[i] for i in axes], [[v.strides[i] for i in axes] for v in ins]
    )
    pieces = 1 if kept_axes or kind not in _EXACT else _count_pieces(reduced)
    if pieces > 1:
        split = (pieces, reduced[0] // pieces, *reduced[1:])
        views = [
            replace(v, shape=split, strides=(walk[0] * split[1], *walk))
            for v, walk in zip(ins, reduced_strides, strict=True)
        ]
        dtype = programs[0].instrs[programs[0].results[0]].dtype
        made = lowering.region.allocate(dtype, (pieces,), name)
        inner, pair = range(1, len(split)), (programs[0], identity(dtype))
        add_reduction(lowering, kind, inner, views, [made], [1], pair, work, name, sources)
        ins, programs, work = [made], (identity(dtype), programs[1]), 1
        kept_strides, reduced, reduced_strides = [(), ()], (pieces,), [(1,)]
    sizes = SizeCollector()
    spec = ReduceSpec(
        kind=kind,
        kept=sizes.all(kept_axes),
        reduced=sizes.all(reduced),
        inputs=tuple(
            sizes.operand(v, (*k, *r))
            for v, k, r in zip(ins, kept_strides[:-1], reduced_strides, strict=True)
        ),
        outs=tuple(sizes.operand(v, kept_strides[-1]) for v in outs),
        prologue=programs[0],
        epilogue=programs[1],
    )
    lowering.region.kernel(spec, sizes, [*ins, *outs], work, name, sources)


def refuse_row(dtype: DType) -> str | None:
    """Why no row kernel computes this type, or None."""
    return None if dtype.is_float else f"no kernel along rows for {dtype}"
