"""Normalisation over groups of channels, in the order of the data's layout.

The kernel of norms takes rows of neighbours. Groups of channels are none where channels lie last,
which is how convolutions write them, so statistics are reductions here: means, then roots of
variances about them, summed in f64; then one elementwise step, with the chain behind it. Nothing
is turned for it. Groups of several channels are summed by channel first, in vectors of channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops.accumulate import computing_dtype
from ....ir.ops.nn.normalize import GroupNormalization
from ....ir.scalar.builder import Builder, Ref, identity
from ....ir.scalar.program import Program
from ...strided_view import View, broadcast_to, permute, reshape
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
    data, shape = lowering.view(value), lowering.shape(value)
    channels, groups = shape[1], op.num_groups
    assert isinstance(channels, int)
    acc = computing_dtype(lowering.tensor(value).dtype)
    several = 1 < groups < channels
    by_channel = several and data.strides[1] == 1

    def reduce_groups(squares: View | None, last: Program, name: str) -> View:
        """One number per group, as it broadcasts: the mean of the data, or of its squares about
        `squares`, put through `last`."""
        made = lowering.region.allocate(acc, (shape[0], groups), name)
        walked = [data] if squares is None else [data, broadcast_to(squares, shape)]
        prologue = _build_statistic([v.dtype for v in walked], acc)
        if by_channel:
            part = lowering.region.allocate(DType.f64, shape[:2], name)
            _reduce(lowering, node, walked, part, prologue, _mean(None, DType.f64))
            walked, prologue = [part], identity(DType.f64)
        split = [_split_groups(v, groups, channels // groups) for v in walked]
        _reduce(lowering, node, split, made, prologue, last)
        whole = (
            _expand_to_channels(lowering, made, channels, name, lowering.sources(node))
            if several
            else made
        )
        return _append_unit_axes(whole, len(shape))

    name = lowering.name(node)
    mean = reduce_groups(None, _mean(None, acc), f"{name}/mean")
    return mean, reduce_groups(mean, _mean(op.epsilon, acc), f"{name}/deviation")


def _build_statistic(types: Sequence[DType], acc: DType) -> Program:
    """What is summed, in f64: x, or the square of x about a second operand."""
    b = Builder()
    x = b.cast(b.input(0, types[0]), acc)
    if len(types) > 1:
        centred = b.op("sub", x, b.input(1, types[1]))
        x = b.op("mul", centred, centred)
    return b.finish(b.cast(x, DType.f64))


def _mean(eps: float | None, dtype: DType) -> Program:
    """Sum / count; with `eps` 1 / sqrt(that + eps)."""
    b = Builder()
    found: Ref = b.op("div", b.input(0, DType.f64), b.input(1, DType.f64))
    if eps is not None:
        root = b.op("sqrt", b.op("add", found, b.const(eps, DType.f64)))
        found = b.op("div", b.const(1.0, DType.f64), root)
    return b.finish(b.cast(found, dtype))


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
    views: list[View],
    out: View,
    prologue: Program,
    last: Program,
) -> None:
    """A step that sums all axes behind the first two, neighbours last."""
    name, rank = lowering.name(node), views[0].rank
    rest = list(range(2, rank))
    near = [i for i in rest if views[0].strides[i] == 1]
    order = [0, 1, *(i for i in rest if i not in near[:1]), *near[:1]]
    walked = [permute(v, order) for v in views]
    work = lowering.vectors(views[0].shape, DType.f64) * 2
    kept: Sequence[Dim] = out.strides
    add_reduction(
        lowering,
        "sum",
        rest,
        walked,
        out,
        kept,
        (prologue, last),
        work,
        name,
        lowering.sources(node),
    )


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
