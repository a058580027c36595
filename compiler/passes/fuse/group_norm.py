"""Fuses normalisation over groups of a convolution's channels into GroupNormalization.

Pattern: Reshape [N, groups, ...], MVN of what follows, and Reshape back; or MVN over all positions
of each channel. Elementwise operations may be between them and a convolution.
Exporter: torch 2.13, `torch.onnx.export` of nn.GroupNorm: Reshape, InstanceNormalization, Reshape;
with one channel per group (wav2vec 2.0's first layer), InstanceNormalization over positions alone.
Gain: the norm is computed where the convolution wrote, channels last; otherwise transposes
surround it (docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import MVN, GroupNormalization
from ...legality import is_elementwise, is_windowed
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import Patch, has_one_use, producer
from ..match.values import Shape, dtype_of, known_axes, same_shape, shape_of
from .batch_norm import per_channel

# How many elementwise operations may be between a convolution and the norm, or between the norm
# and the reshape.
_MAX_ELEMENTWISE_DEPTH = 4
_WIDE = (DType.f32, DType.f64)


def find_reshaped(graph: Graph, node: int) -> Patch | None:
    """Reshape back of a scaled and shifted MVN of groups."""
    value, scale, shift = graph.input(node, 0), np.ones(1), np.zeros(1)
    for _ in range(_MAX_ELEMENTWISE_DEPTH):
        shape, kind = shape_of(graph, value), graph.op(value.node).kind
        if shape is None or kind not in ("Add", "Multiply") or not has_one_use(graph, value):
            break
        step = _constant_per_group(graph, value.node, shape)
        if step is None:
            return None
        value, term = step
        # From the last operation to the first: what is before is scaled by all behind it.
        scale, shift = (scale, shift + term * scale) if kind == "Add" else (scale * term, shift)
    norm = producer(graph, value, "MVN")
    back = None if norm is None else producer(graph, graph.input(norm, 0), "Reshape")
    if norm is None or back is None or not has_one_use(graph, value):
        return None
    data, split = graph.input(back, 0), shape_of(graph, graph.input(norm, 0))
    data_shape, eps = shape_of(graph, data), _epsilon(graph, norm)
    if data_shape is None or split is None or len(data_shape) < 3 or len(split) < 3 or eps is None:
        return None
    groups, channels = split[1], data_shape[1]
    if not isinstance(groups, int) or not isinstance(channels, int) or not groups:
        return None
    fits = (
        split[0] == data_shape[0]
        and channels % groups == 0
        and same_shape(graph, data, Value(node))
    )
    if not fits or not _is_of_windows(graph, data):
        return None
    each = channels // groups
    vectors = (np.repeat(np.broadcast_to(a, (groups,)), each) for a in (scale, shift))
    return _build_norm(graph, node, data, groups, eps, *vectors)


def _constant_per_group(graph: Graph, node: int, shape: Shape) -> tuple[Value, Array] | None:
    """The other operand, and a constant one that differs between groups only."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    for value, constant in ((left, right), (right, left)):
        term = per_channel(graph, constant, shape)
        if term is not None and same_shape(graph, value, Value(node)):
            return value, term
    return None


def find_channels(graph: Graph, node: int) -> Patch | None:
    """MVN over all pixels of each channel."""
    data = graph.input(node, 0)
    shape, eps = shape_of(graph, data), _epsilon(graph, node)
    if shape is None or len(shape) < 3 or eps is None or not _is_of_windows(graph, data):
        return None
    channels = shape[1]
    if not isinstance(channels, int) or not channels:
        return None
    return _build_norm(graph, node, data, channels, eps, np.ones(channels), np.zeros(channels))


def _build_norm(
    graph: Graph, node: int, data: Value, groups: int, eps: float, scale: Array, shift: Array
) -> Patch | None:
    dtype, patch = dtype_of(graph, data), Patch()
    if dtype not in _WIDE:
        return None
    vectors = (patch.constant(v, dtype) for v in (scale, shift))
    made = patch.add(GroupNormalization(groups, eps), data, *vectors)
    return patch.replace(Value(node), made)


def _epsilon(graph: Graph, node: int) -> float | None:
    """Epsilon of an MVN of all axes behind the first two; None for another one."""
    op, shape = graph.op(node), shape_of(graph, Value(node))
    if not isinstance(op, MVN) or op.eps_outside or not op.normalize_variance or shape is None:
        return None
    axes = known_axes(graph, graph.input(node, 1), len(shape))
    return op.eps if axes is not None and sorted(axes) == list(range(2, len(shape))) else None


def _is_of_windows(graph: Graph, value: Value) -> bool:
    """Whether a value is a convolution's or pool's, or elementwise made of one: channels last. A
    residual sum has its convolution on either side."""
    found = [value]
    for _ in range(_MAX_ELEMENTWISE_DEPTH):
        if any(is_windowed(graph, v.node) for v in found):
            return True
        made = [v for v in found if is_elementwise(graph, v.node)]
        inputs = [(i, v) for v in made for i in graph.inputs(v.node) if i is not None]
        found = list(dict.fromkeys(i for i, v in inputs if same_shape(graph, i, v)))
    return False


_RULES = (
    Rule("find_reshaped", ("Reshape",), find_reshaped),
    Rule("find_channels", ("MVN",), find_channels),
)

fuse_group_norm = Pass("fuse_group_norm", lambda options: _RULES)
