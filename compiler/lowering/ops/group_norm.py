"""Normalisation over groups of channels, in the order of the data's layout.

The kernel of norms takes rows of neighbours. Groups of channels are none where channels lie last,
which is how convolutions write them, so statistics are a reduction here, which reads the data
once; then one elementwise step, with the chain behind it. Nothing is turned for it. Groups of
several channels are summed by channel first, in vectors of channels.

Deviations are from the first element p of each group, and all sums are in f64: the variance, the
mean of (x - p)^2 less the square of the mean of x - p, loses the bits of (mean - p)^2 / variance,
which is below the number of elements whatever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops.accumulate import computing_dtype
from ....ir.ops.nn.normalize import GroupNormalization
from ....ir.scalar.builder import Builder, Ref
from ....ir.scalar.program import Program
from ...strided_view import View, permute, reshape
from ..build.region_lowering import Operands, RegionLowering
from .row_reductions import add_reduction, refuse_row


def refuse_groups(graph: Graph, node: int, op: GroupNormalization) -> str | None:
    """Why no kernels normalise these groups, or None."""
    data = graph.input(node, 0)
    if not isinstance(graph.shape(data)[1], int):
        return "the number of channels is known at run time only"
    return refuse_row(graph.tensor(data).dtype)


def lower_groups(lowering: RegionLowering, node: int, op: GroupNormalization) -> None:
    """Emit the steps of a GroupNormalization, and the chain behind it."""
    value = lowering.graph.input(node, 0)
    mean, factor = _statistics(lowering, node, op)
    acc = mean.dtype
    b, operands = Builder(), Operands(lowering.shape(value))
    ref = b.cast(lowering.expression(b, value, operands), acc)
    ref = b.op("sub", ref, b.input(operands.add(mean), acc))
    ref = b.op("mul", ref, b.input(operands.add(factor), acc))
    for port, name, neutral in ((1, "mul", 1), (2, "add", 0)):
        given = lowering.graph.input(node, port)
        known = lowering.constant_op(given)
        if known is None or not np.all(known.data == neutral):
            term = b.input(
                operands.add(_per_channel(lowering, given, node)), lowering.tensor(given).dtype
            )
            ref = b.op(name, ref, b.cast(term, acc))
    stored, ref = lowering.chain(b, node, b.cast(ref, lowering.tensor(value).dtype), operands)
    out = lowering.result(stored)
    program = b.finish(b.cast_stored(ref, out.dtype))
    sources = lowering.sources(*dict.fromkeys((node, *operands.nodes)))
    lowering.elementwise(program, operands.views, [out], lowering.name(stored.node), sources)


def _per_channel(lowering: RegionLowering, value: Value, node: int) -> View:
    """A vector of channels as it broadcasts to the data."""
    rank, (channels,) = len(lowering.shape(Value(node))), lowering.shape(value)
    view = lowering.contiguous(lowering.view(value), lowering.name(value.node))
    found = reshape(view, (channels, *(1,) * (rank - 2)))
    assert found is not None
    return found


def _statistics(lowering: RegionLowering, node: int, op: GroupNormalization) -> tuple[View, View]:
    """Means, and 1 / sqrt(variance + epsilon), as they broadcast to the data."""
    value = lowering.graph.input(node, 0)
    data, shape, name = lowering.view(value), lowering.shape(value), lowering.name(node)
    channels, groups = shape[1], op.num_groups
    assert isinstance(channels, int)
    acc = computing_dtype(lowering.tensor(value).dtype)
    several = 1 < groups < channels
    read = [data]
    if several and data.strides[1] == 1:
        read = [lowering.region.allocate(DType.f64, shape[:2], name) for _ in range(2)]
        _reduce(lowering, node, [data], read, _finish_statistics(None, DType.f64))
    made = [lowering.region.allocate(acc, (shape[0], groups), name) for _ in range(2)]
    split = [_split_groups(v, groups, channels // groups) for v in read]
    _reduce(lowering, node, split, made, _finish_statistics(op.epsilon, acc))
    if several:
        sources = lowering.sources(node)
        made = [_expand_to_channels(lowering, v, channels, name, sources) for v in made]
    mean, factor = (_append_unit_axes(v, len(shape)) for v in made)
    return mean, factor


def _sum_deviations(types: Sequence[DType]) -> Program:
    """What is summed, in f64: x, its deviation from the second operand, and the square of that,
    with the variance of what x is the mean of (the third operand, if any)."""
    b = Builder()
    x, first, *spread = (b.cast(b.input(i, t), DType.f64) for i, t in enumerate(types))
    away = b.op("sub", x, first)
    square = b.op("mul", away, away)
    for variance in spread:
        square = b.op("add", square, variance)
    return b.finish(x, away, square)


def _finish_statistics(eps: float | None, dtype: DType) -> Program:
    """The mean and the variance of three sums and their count; with `eps` the mean and
    1 / sqrt(variance + eps)."""
    b = Builder()
    *sums, count = (b.input(i, DType.f64) for i in range(4))
    mean, away, square = (b.op("div", x, count) for x in sums)
    found: Ref = b.op("sub", square, b.op("mul", away, away))
    if eps is not None:
        root = b.op("sqrt", b.op("add", found, b.const(eps, DType.f64)))
        found = b.op("div", b.const(1.0, DType.f64), root)
    return b.finish(b.cast(mean, dtype), b.cast(found, dtype))


def _split_groups(view: View, groups: int, each: int) -> View:
    """[N, C, ...] as [N, groups, C / groups, ...]."""
    shape, strides = view.shape, view.strides
    parts = (strides[1] * each, strides[1])
    return View(
        view.buffer,
        view.dtype,
        (shape[0], groups, each, *shape[2:]),
        (strides[0], *parts, *strides[2:]),
        view.offset,
    )


def _reduce(
    lowering: RegionLowering,
    node: int,
    views: Sequence[View],
    outs: Sequence[View],
    last: Program,
) -> None:
    """A step that sums all axes behind the first two, neighbours last. views: the data, or means
    and variances."""
    data, *spread = views
    name, rank = lowering.name(node), data.rank
    rest = list(range(2, rank))
    near = [i for i in rest if data.strides[i] == 1]
    order = [0, 1, *(i for i in rest if i not in near[:1]), *near[:1]]
    first = replace(data, strides=(*data.strides[:2], *(0 for _ in rest)))
    walked = [permute(v, order) for v in (data, first, *spread)]
    work = lowering.vectors(data.shape, DType.f64) * 2
    programs = (_sum_deviations([v.dtype for v in walked]), last)
    kept, sources = outs[0].strides, lowering.sources(node)
    add_reduction(lowering, "sum", rest, walked, outs, kept, programs, work, name, sources)


def _expand_to_channels(
    lowering: RegionLowering, made: View, channels: int, name: str, sources: Sequence[str]
) -> View:
    """One number per group as one per channel."""
    rows, groups = made.shape
    assert isinstance(groups, int)
    each = channels // groups
    out = lowering.region.allocate(made.dtype, (rows, channels), name)
    source = View(made.buffer, made.dtype, (rows, groups, each), (*made.strides, 0), made.offset)
    target = reshape(out, (rows, groups, each))
    assert target is not None
    lowering.copy(source, target, name, sources)
    return out


def _append_unit_axes(view: View, rank: int) -> View:
    """[N, C] or [N, 1] with axes of size 1 behind it."""
    extra = rank - 2
    return View(
        view.buffer,
        view.dtype,
        (*view.shape, *(1,) * extra),
        (*view.strides, *(0,) * extra),
        view.offset,
    )
