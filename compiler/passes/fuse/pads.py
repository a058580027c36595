"""Pads before windows become paddings of the windows, which copy nothing.

TensorFlow's and Keras' exporters write them, and layers of PyTorch that imitate their padding: a
layer's own paddings in PyTorch are equal at both ends of an axis.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import AvgPool, Clamp, Convolution, GroupConvolution, MaxPool, Pad
from ....ir.ops.nn.convolution import Convolving
from ....ir.ops.nn.pooling_window import Windows
from ....ir.ops.quantization.integer_products import ConvInteger, GroupConvInteger
from ....ir.ops.shape_inference import known_ints
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


_RULES = (
    op_rule(
        "fold_pad_into_convolution",
        (Convolution, GroupConvolution, ConvInteger, GroupConvInteger),
        fold_into_convolution,
    ),
    op_rule("fold_pad_into_max_pool", (MaxPool,), fold_into_max_pool),
    op_rule("fold_pad_into_avg_pool", (AvgPool,), fold_into_avg_pool),
)

fold_pads = Pass("fold_pads", lambda options: _RULES)
