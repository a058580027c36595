"""Transposed convolutions (ConvolutionBackpropData) as plain ones.

With stride s, output positions o = s * q + r of one remainder r read the taps k = k0 + s * t alone:
they are a convolution of stride 1 over the data, written to every s-th position. So a transposed
convolution is a step per remainder (of each axis), with its share of the taps, turned around.

Remainders of the last axis that read the same positions are one step with s times the channels,
where remainder and channel are one axis in memory: of a single channel, as decoders of sound have
it, each of many steps would use one lane of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product as each

import numpy as np

from ....ir.dims import Dim, ceil_div, exact_quotient
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array
from ....ir.ops import Constant
from ....ir.ops.nn.pooling_window import Windows
from ....ir.scalar.builder import Builder
from ...legality import window_of
from ...strided_view import View, are_equal, take
from ..build.region_lowering import Operands, RegionLowering
from .convolution import (
    ConvolutionJob,
    Transposed,
    channels_last,
    refuse_convolution,
    to_channels_last,
)
from .matmul import accumulator
from .spatial.dilated_rows import WindowOperands


@dataclass(frozen=True)
class Phase:
    """One remainder of one axis: the taps it reads, in the order of the data, and its padding."""

    rest: int
    taps: tuple[int, ...]
    pad: int


def phases(kernel: int, stride: int, dilation: int, begin: int) -> list[Phase] | None:
    """The remainders of an axis; None where one reads no tap, or steps of taps do not fit."""
    if dilation != 1 and stride != 1:
        return None
    found: list[Phase] = []
    for rest in range(stride):
        first = (rest + begin) % stride
        taps = tuple(reversed(range(first, kernel, stride)))
        if not taps:
            return None
        shift = (rest + begin - first) // stride
        found.append(Phase(rest, taps, (len(taps) - 1) * dilation - shift))
    return found


def windows_of(graph: Graph, node: int, op: Transposed) -> Windows | None:
    """The windows of a transposed convolution; None where their paddings are not known."""
    inputs = graph.inputs(node)
    weights = graph.op(graph.input(node, 1).node)
    assert isinstance(weights, Constant)
    kernel = weights.data.shape[3 if op.grouped else 2 :]
    shaped = len(inputs) > 2 and inputs[2] is not None
    target = graph.shape(Value(node))[2:] if shaped else None
    return op.explicit_windows(kernel, graph.shape(graph.input(node, 0))[2:], target)


def _phases_of(windows: Windows) -> list[list[Phase]] | None:
    found: list[list[Phase]] = []
    for kernel, stride, dilation, begin in zip(
        windows.kernel, windows.strides, windows.dilations, windows.pads_begin, strict=True
    ):
        axis = phases(int(str(kernel)), stride, dilation, begin)
        if axis is None:
            return None
        found.append(axis)
    return found


def refuse_deconvolution(graph: Graph, node: int, op: Transposed) -> str | None:
    """Why no kernels compute this transposed convolution, or None."""
    found = refuse_convolution(graph, node, op)
    if found is not None:
        return found
    windows = windows_of(graph, node, op)
    if windows is None:
        return "paddings that follow from sizes known at run time"
    return "a stride beyond the taps" if _phases_of(windows) is None else None


def lower_deconvolution(lowering: RegionLowering, node: int, op: Transposed) -> None:
    """Emit the steps of a transposed convolution and of the elementwise chain behind it."""
    data_value = lowering.graph.input(node, 0)
    dtype, acc = lowering.tensor(data_value).dtype, accumulator(lowering.tensor(data_value).dtype)
    operands, builder = Operands(lowering.shape(Value(node)), base=1), Builder()
    ref = builder.cast(builder.input(0, acc), dtype)
    stored, ref = lowering.chain(builder, node, ref, operands)
    epilogue = builder.finish(ref)
    out = lowering.result(stored)
    name = lowering.name(stored.node)
    target = out
    if not are_equal(out.strides[1], 1) and not are_equal(out.shape[1], 1):
        target = channels_last(lowering, out.dtype, out.shape, name)
    data = to_channels_last(lowering, lowering.view(data_value), lowering.name(data_value.node))

    source = lowering.constant_op(lowering.graph.input(node, 1))
    assert source is not None
    filters = source.data if op.grouped else source.data[None]
    # [G, C, O, kernel...] as a convolution has them: [G, O, C, kernel...].
    filters = filters.swapaxes(1, 2)
    windows = windows_of(lowering.graph, node, op)
    assert windows is not None
    axes = _phases_of(windows)
    assert axes is not None
    groups, outputs, channels = filters.shape[:3]
    walked = [*operands.views, target]
    merged = (
        [_merge_phases(v, axes[-1], windows.strides[-1]) for v in walked] if groups == 1 else []
    )
    joined = [v for v in merged if v is not None]
    last, steps = axes[-1], windows.strides
    if len(joined) == len(walked):
        walked, outputs, steps = joined, outputs * steps[-1], (*steps[:-1], 1)
        filters = np.concatenate([np.take(filters, p.taps, axis=-1) for p in last], axis=1)
        last = [Phase(0, tuple(range(len(last[0].taps))), last[0].pad)]
    for chosen in each(*axes[:-1], last):
        part: Array = filters
        for axis, phase in enumerate(chosen):
            part = np.take(part, phase.taps, axis=3 + axis)
        views = [_every(v, chosen, steps) for v in walked]
        job = ConvolutionJob(lowering, node, stored, operands, epilogue, dtype, acc)
        plain = Windows(
            part.shape[3:],
            (1,) * len(chosen),
            windows.dilations,
            tuple(p.pad for p in chosen),
            (0,) * len(chosen),
        )
        layout = job.layout(plain, outputs, grouped=True, depthwise=False)
        rounds = job.compute_dtype not in (None, dtype)
        kept = np.ascontiguousarray(part)
        weights = lowering.array(kept, job.compute_dtype or dtype, layout, name, rounds=rounds)
        counts = (groups, channels, outputs)
        taken = WindowOperands(data, tuple(views), window_of(plain), plain.pads_begin)
        job.window(taken, weights, layout, counts, epilogue)
    if target != out:
        lowering.copy(target, out, name, lowering.sources(stored.node))
        lowering.views[stored] = target


def _merge_phases(view: View, phases: Sequence[Phase], stride: int) -> View | None:
    """The view with the remainders of its last axis joined to its channels, remainders before
    channels; None where they are not one axis, or where remainders differ in what they read."""
    positions, channels = view.shape[-1], view.shape[1]
    count = exact_quotient(positions, stride)
    alike = all((len(p.taps), p.pad) == (len(phases[0].taps), phases[0].pad) for p in phases)
    if stride == 1 or not alike or count is None or not isinstance(channels, int):
        return None
    if channels != 1 and not are_equal(view.strides[-1], view.strides[1] * channels):
        return None
    near = view.strides[-1] if channels == 1 else view.strides[1]
    shape = (view.shape[0], channels * stride, *view.shape[2:-1], count)
    strides = (view.strides[0], near, *view.strides[2:-1], view.strides[-1] * stride)
    return replace(view, shape=shape, strides=strides)


def _every(view: View, chosen: Sequence[Phase], strides: Sequence[int]) -> View:
    """The positions of a view that belong to one remainder of every axis."""
    for i, (phase, stride) in enumerate(zip(chosen, strides, strict=True)):
        size: Dim = view.shape[2 + i]
        view = take(view, 2 + i, phase.rest, ceil_div(size - phase.rest, stride), stride)
    return view
