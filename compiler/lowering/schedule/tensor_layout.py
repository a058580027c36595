"""Which values lie channels-last in memory, decided once for the graph.

Convolutions, pools and GridSample compute vectors of channels, so what they write lies (batch,
spatial..., channel) in memory; elementwise operations, concatenations and views of it stay so, and
reductions that keep the channels and a spatial axis. The graph's axes keep their order: only the
strides of a View say it. Conversions are where such a chain begins (an input of the model with many
channels) and where it ends (a result).
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops.math.reduce import Reduction
from ....ir.ops.shape_inference import known_ints
from ....ir.types import TensorType, normalize_axis
from ...legality import WINDOWED_KINDS, is_elementwise
from .fusion import same_shape

# Operations whose kernels write vectors of channels.
_VECTORS_OF_CHANNELS = WINDOWED_KINDS | {"GridSample"}
# Operations whose result has the layout of their first input.
_FOLLOWING = frozenset(
    "Identity Slice StridedSlice Split VariadicSplit Interpolate Pad AdaptiveMaxPool "
    "DepthToSpace SpaceToDepth ShuffleChannels GroupNormalization".split()
)
# Those that are as well turned for what reads them: vectors of channels, not of single pixels.
_RESAMPLING = frozenset({"Interpolate", "Pad"})
# Fewer channels do not fill a vector; convolutions read those from planes.
MIN_NHWC_CHANNELS = 8


def channels_last_values(graph: Graph, native: Mapping[int, bool]) -> frozenset[Value]:
    """The values that are to be computed channels-last; `native` by node."""
    found: set[Value] = set()
    grouped: set[Value] = set()  # images whose channels are two axes, groups and their channels
    for node in graph.order():
        if not native.get(node, False):
            continue
        kind = graph.op(node).kind
        inputs = [v for v in graph.inputs(node) if v is not None]
        if kind in _VECTORS_OF_CHANNELS:
            chosen = True
        elif kind == "Concat":
            chosen = any(v in found for v in inputs)
        elif kind in _FOLLOWING:
            chosen = bool(inputs) and inputs[0] in found
            if kind in _RESAMPLING:
                chosen = chosen or _for_windows(graph, node)
        elif kind in ("Reshape", "Unsqueeze"):
            chosen = _tokens_to_image(graph, node)
            if inputs[0] in found:
                chosen = chosen or _keeps_first_axes(graph, node)
                if _groups_channels(graph, node):
                    grouped.add(Value(node))
        elif kind == "Transpose":
            chosen = inputs[0] not in found and _moves_channels_first(graph, node)
        elif is_elementwise(graph, node):
            alike = [v for v in inputs if same_shape(graph, v, Value(node))]
            chosen = any(v in found for v in alike)
            if any(v in grouped for v in alike):
                grouped.add(Value(node))
        elif isinstance(graph.op(node), Reduction):
            chosen = _keeps_channels(graph, node, found, grouped)
        else:
            chosen = False
        if chosen:
            found.update(v for v in graph.values(node) if has_channels(graph, v))
    return frozenset(found)


def _tokens_to_image(graph: Graph, node: int) -> bool:
    """Whether [batch, pixels, channels], turned and reshaped to an image, lies so as it was."""
    turned = graph.input(node, 0)
    if graph.op(turned.node).kind != "Transpose":
        return False
    order = known_ints(graph.fact(graph.input(turned.node, 1)))
    have, made = graph.type(turned), graph.type(Value(node))
    assert isinstance(have, TensorType) and isinstance(made, TensorType)
    if order != [0, 2, 1]:
        return False
    if have.shape is None or made.shape is None or len(made.shape) < 4:
        return False
    return all(eq(a, b) is True for a, b in zip(have.shape[:2], made.shape[:2], strict=True))


def _keeps_first_axes(graph: Graph, node: int) -> bool:
    """Whether an image [batch, channels, spatial...] gets other spatial axes."""
    have, made = graph.type(graph.input(node, 0)), graph.type(Value(node))
    assert isinstance(have, TensorType) and isinstance(made, TensorType)
    if have.shape is None or made.shape is None or len(made.shape) < 3:
        return False
    return all(eq(a, b) is True for a, b in zip(have.shape[:2], made.shape[:2], strict=True))


def _moves_channels_first(graph: Graph, node: int) -> bool:
    """Whether [batch, spatial..., channels] becomes an image: its memory is that of one."""
    order = known_ints(graph.fact(graph.input(node, 1)))
    if order is None or len(order) < 4:
        return False
    return order == [0, len(order) - 1, *range(1, len(order) - 1)]


def _groups_channels(graph: Graph, node: int) -> bool:
    """Whether an image [batch, channels, spatial...] becomes [batch, groups, channels of a group,
    spatial...]."""
    have, made = graph.type(graph.input(node, 0)), graph.type(Value(node))
    assert isinstance(have, TensorType) and isinstance(made, TensorType)
    if have.shape is None or made.shape is None or len(made.shape) != len(have.shape) + 1:
        return False
    old, new = (have.shape[0], *have.shape[2:]), (made.shape[0], *made.shape[3:])
    return all(eq(a, b) is True for a, b in zip(old, new, strict=True))


def _keeps_channels(graph: Graph, node: int, found: set[Value], grouped: set[Value]) -> bool:
    """Whether a reduction of an image keeps its channels and a spatial axis: it reduces spatial
    axes, or the groups of channels."""
    data = graph.input(node, 0)
    axes, type_ = known_ints(graph.fact(graph.input(node, 1))), graph.type(data)
    if axes is None or not isinstance(type_, TensorType) or type_.shape is None:
        return False
    rank, op = len(type_.shape), graph.op(node)
    reduced = {normalize_axis(a, rank) for a in axes}
    if data in grouped:
        return reduced == {1} and isinstance(op, Reduction) and not op.keep_dims
    return data in found and min(reduced, default=0) >= 2 and len(reduced) < rank - 2


def _for_windows(graph: Graph, node: int) -> bool:
    """Whether windows slide over the many channels of a node's result."""
    type_ = graph.type(Value(node))
    assert isinstance(type_, TensorType)
    channels = type_.shape[1] if has_channels(graph, Value(node)) and type_.shape else 0
    kinds = {graph.op(reader).kind for reader in graph.readers(Value(node))}
    return (
        isinstance(channels, int) and channels >= MIN_NHWC_CHANNELS and bool(kinds & WINDOWED_KINDS)
    )


def has_channels(graph: Graph, value: Value) -> bool:
    """Whether a value has a batch, a channel and a spatial axis."""
    type_ = graph.type(value)
    return isinstance(type_, TensorType) and type_.shape is not None and len(type_.shape) >= 3
