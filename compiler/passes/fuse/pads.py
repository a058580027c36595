"""Pads before windows become paddings of the windows, which copy nothing; and filters lose what
they multiply with nothing but padding.

TensorFlow's and Keras' exporters write Pads, and layers of PyTorch that imitate their padding: a
layer's own paddings in PyTorch are equal at both ends of an axis. Filters that reach beyond an
image are those of DeepLab's dilated convolutions, and of late layers over small images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import AvgPool, Clamp, Constant, Convolution, GroupConvolution, MaxPool, Pad
from ....ir.ops.nn.convolution import Convolving
from ....ir.ops.nn.pooling_window import Windows
from ....ir.ops.quantization.integer_products import ConvInteger, GroupConvInteger
from ....ir.ops.shape_inference import known_ints
from ....ir.ops.tensor.constants import DeferredConstant
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import constant_scalar, shape_of

# What these make is 0 or more, so that a maximum with zeros around is one without.
_NEVER_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp")


@dataclass(frozen=True)
class _Padding:
    """What a Pad puts around the spatial axes of `source`."""

    source: Value
    begin: tuple[int, ...]
    end: tuple[int, ...]
    value: float | int

    @property
    def is_zero(self) -> bool:
        """Whether it is 0, not -0."""
        return self.value == 0 and math.copysign(1, self.value) > 0

    def extend(self, windows: Windows) -> Windows | MatchFailure:
        """The same windows over the source."""
        if windows.is_same_padded:
            return MatchFailure("the paddings follow from the sizes")
        begin = tuple(a + b for a, b in zip(windows.pads_begin, self.begin, strict=True))
        end = tuple(a + b for a, b in zip(windows.pads_end, self.end, strict=True))
        for axis, pads in enumerate(zip(begin, end, strict=True)):
            reach = windows.extent(axis)
            if not isinstance(reach, int) or max(pads) >= reach:
                return MatchFailure("windows would hold nothing but padding")
        return replace(windows, pads_begin=begin, pads_end=end, auto_pad="explicit")


def _match_padding(graph: Graph, value: Value) -> _Padding | MatchFailure | None:
    """The padding that made a value of known rank."""
    node = producer(graph, value, "Pad")
    op = None if node is None else graph.op(node)
    if node is None or not isinstance(op, Pad) or op.pad_mode.lower() != "constant":
        return None
    begin, end = (known_ints(graph.fact(graph.input(node, port))) for port in (1, 2))
    number = graph.inputs(node)[3] if len(graph.inputs(node)) > 3 else None
    added = 0 if number is None else constant_scalar(graph, number)
    if begin is None or end is None or added is None or shape_of(graph, value) is None:
        return MatchFailure("the paddings are known at run time only")
    if any((*begin[:2], *end[:2])) or min(*begin, *end) < 0:
        return MatchFailure("the batch or channels are padded, or an axis is cut")
    return _Padding(graph.input(node, 0), tuple(begin[2:]), tuple(end[2:]), added)


def fold_into_convolution(
    graph: Graph, node: int, op: Convolution | GroupConvolution | ConvInteger | GroupConvInteger
) -> Patch | MatchFailure | None:
    """A convolution of zeros around its data; of bytes, of their zero point."""
    inputs = graph.inputs(node)
    padding, kernel = _match_padding(graph, graph.input(node, 0)), shape_of(graph, inputs[1])
    if not isinstance(padding, _Padding) or kernel is None:
        return padding if isinstance(padding, MatchFailure) else None
    if isinstance(op, ConvInteger | GroupConvInteger) and len(inputs) > 2 and inputs[2] is not None:
        neutral = padding.value == constant_scalar(graph, inputs[2])
    else:
        neutral = padding.is_zero
    if not neutral:
        return MatchFailure("what is added counts")
    windows = padding.extend(op.windows(kernel[2 + op.grouped :]))
    return _replace_windows(graph, node, padding, windows)


def fold_into_max_pool(graph: Graph, node: int, op: MaxPool) -> Patch | MatchFailure | None:
    """A maximum of windows of which each holds data not below what is added."""
    padding = _match_padding(graph, graph.input(node, 0))
    if not isinstance(padding, _Padding):
        return padding
    maker = graph.op(padding.source.node)
    has_no_negative = maker.kind in _NEVER_NEGATIVE or (isinstance(maker, Clamp) and maker.min >= 0)
    if padding.value != -math.inf and not (padding.is_zero and has_no_negative):
        return MatchFailure("what is added may be the largest")
    if graph.use_count(Value(node, 1)) or op.rounding_type.lower() != "floor":
        return MatchFailure("the indices are read, or windows beyond the padding count")
    windows = padding.extend(op.windows())
    if isinstance(windows, Windows) and not windows.hold_data:
        return MatchFailure("windows would hold nothing but padding")
    return _replace_windows(graph, node, padding, windows)


def fold_into_avg_pool(graph: Graph, node: int, op: AvgPool) -> Patch | MatchFailure | None:
    """A mean that counts the zeros around its data."""
    padding = _match_padding(graph, graph.input(node, 0))
    if not isinstance(padding, _Padding):
        return padding
    windows = op.windows()
    has_own = windows.is_same_padded or any((*windows.pads_begin, *windows.pads_end))
    if (op.exclude_pad and has_own) or op.rounding_type.lower() != "floor":
        return MatchFailure("not all of the padding counts, or windows beyond it do")
    if not padding.is_zero:
        return MatchFailure("what is added counts")
    return _replace_windows(graph, node, padding, padding.extend(windows))


def _replace_windows(
    graph: Graph, node: int, padding: _Padding, windows: Windows | MatchFailure
) -> Patch | MatchFailure:
    """The operation with other windows, over what was padded."""
    if isinstance(windows, MatchFailure):
        return windows
    op = graph.op(node)
    assert isinstance(op, Convolving | MaxPool | AvgPool)
    changes = {"exclude_pad": False} if isinstance(op, AvgPool) else {}
    found = replace(
        op,
        pads_begin=windows.pads_begin,
        pads_end=windows.pads_end,
        auto_pad="explicit",
        **changes,
    )
    patch = Patch()
    return patch.replace(Value(node), patch.add(found, padding.source, *graph.inputs(node)[1:]))


def trim_filters(
    graph: Graph, node: int, op: Convolution | GroupConvolution
) -> Patch | MatchFailure | None:
    """A convolution of an image of known size without the taps that read nothing but padding."""
    data, filters = graph.input(node, 0), graph.input(node, 1)
    shape, weights, lead = shape_of(graph, data), graph.op(filters.node), 2 + op.grouped
    if not isinstance(weights, Constant) or isinstance(weights, DeferredConstant) or shape is None:
        return None
    sizes = [size for size in shape[2:] if isinstance(size, int)]
    if len(sizes) != len(shape) - 2:
        return None
    kernel = weights.data.shape[lead:]
    windows = op.windows(kernel)
    axes = _trim_axes(windows, sizes)
    if all(axis.taps == range(k) for axis, k in zip(axes, kernel, strict=True)):
        return None
    if not all(axis.taps and axis.begin >= 0 for axis in axes):
        return MatchFailure("windows begin behind the image's first element, or hold none")
    if not np.isfinite(weights.data).all():
        return MatchFailure("an infinite weight times a padding is not 0")
    inner = tuple(slice(axis.taps.start, axis.taps.stop) for axis in axes)
    kept = np.ascontiguousarray(weights.data[(slice(None),) * lead + inner])
    each = zip(windows.dilations, axes, strict=True)
    found = replace(
        op,
        pads_begin=tuple(axis.begin for axis in axes),
        pads_end=tuple(axis.end for axis in axes),
        dilations=tuple(d if len(axis.taps) > 1 else 1 for d, axis in each),
        auto_pad="explicit",
    )
    if found.windows(kept.shape[lead:]).out_sizes(sizes) != windows.out_sizes(sizes):
        return MatchFailure("windows end before the image's last element")
    patch = Patch()
    trimmed = patch.constant(kept, weights.dtype)
    return patch.replace(Value(node), patch.add(found, data, trimmed))


@dataclass(frozen=True)
class _TrimmedAxis:
    """The taps of an axis that read data for some window, and its paddings with these alone."""

    taps: range
    begin: int
    end: int


def _trim_axes(windows: Windows, sizes: Sequence[int]) -> list[_TrimmedAxis]:
    """Each axis of windows over an image of these sizes."""
    found = list[_TrimmedAxis]()
    counts, pads = windows.out_sizes(sizes), windows.pads(sizes)
    for i, (size, count, (begin, end)) in enumerate(zip(sizes, counts, pads, strict=True)):
        kernel, stride, dilation = windows.kernel[i], windows.strides[i], windows.dilations[i]
        assert isinstance(kernel, int) and isinstance(count, int)
        last = (count - 1) * stride
        live = [t for t in range(kernel) if 0 <= last + t * dilation - begin]
        live = [t for t in live if t * dilation - begin < size]
        if len(live) == kernel:
            found.append(_TrimmedAxis(range(kernel), begin, end))
            continue
        taps = range(live[0], live[-1] + 1) if live else range(0)
        begin -= taps.start * dilation
        reach = last + (len(taps) - 1) * dilation + 1
        found.append(_TrimmedAxis(taps, begin, max(reach - begin - size, 0)))
    return found


_RULES = (
    op_rule(
        "fold_pad_into_convolution",
        (Convolution, GroupConvolution, ConvInteger, GroupConvInteger),
        fold_into_convolution,
    ),
    op_rule("fold_pad_into_max_pool", (MaxPool,), fold_into_max_pool),
    op_rule("fold_pad_into_avg_pool", (AvgPool,), fold_into_avg_pool),
    op_rule("trim_filters", (Convolution, GroupConvolution), trim_filters),
)

fold_pads = Pass("fold_pads", lambda options: _RULES)
