"""DepthToSpace, SpaceToDepth, ShuffleChannels: one copy, between views that split the axes."""

from __future__ import annotations

from ....ir.dims import Dim
from ....ir.graph import Value
from ....ir.ops import DepthToSpace, ShuffleChannels, SpaceToDepth
from ....ir.types import normalize_axis
from ...strided_view import permute, reshape
from ..build.region_lowering import RegionLowering

Arranging = DepthToSpace | SpaceToDepth | ShuffleChannels


def lower_arranging(lowering: RegionLowering, node: int, op: Arranging) -> None:
    """Copy the elements of each output pixel from the input."""
    split, order = split_axes(lowering, node, op)
    name, sources = lowering.name(node), lowering.sources(node)
    view, out = lowering.view(lowering.graph.input(node, 0)), lowering.result(Value(node))
    source = reshape(view, split)
    if source is None:
        source = reshape(lowering.contiguous(view, name), split)
    assert source is not None
    source = permute(source, order)
    target = reshape(out, source.shape)
    if target is not None:
        lowering.copy(source, target, name, sources)
        return
    copied = lowering.region.allocate(out.dtype, source.shape, name)
    lowering.copy(source, copied, name, sources)
    back = reshape(copied, out.shape)
    assert back is not None
    lowering.copy(back, out, name, sources)


def split_axes(lowering: RegionLowering, node: int, op: Arranging) -> tuple[list[Dim], list[int]]:
    """The input's axes split into blocks, and the order in which they make up the output's."""
    data, out = lowering.shape(lowering.graph.input(node, 0)), lowering.shape(Value(node))
    if isinstance(op, ShuffleChannels):
        at = normalize_axis(op.axis, len(data))
        rest = data[at] // op.group
        split = [*data[:at], op.group, rest, *data[at + 1 :]]
        order = list(range(len(split)))
        order[at], order[at + 1] = at + 1, at
        return split, order
    count = len(data) - 2
    blocks: list[Dim] = [op.block_size] * count
    first = op.mode.lower() == "blocks_first"
    if isinstance(op, DepthToSpace):
        depth = [*blocks, out[1]] if first else [out[1], *blocks]
        at = 1 if first else 2  # of the first block
        pairs = [a for i in range(count) for a in (2 + count + i, at + i)]
        return [data[0], *depth, *data[2:]], [0, 1 + count if first else 1, *pairs]
    inside = [a for i in range(count) for a in (out[2 + i], op.block_size)]
    spatial, parts = [2 + 2 * i for i in range(count)], [3 + 2 * i for i in range(count)]
    depth_order = [*parts, 1] if first else [1, *parts]
    return [data[0], data[1], *inside], [0, *depth_order, *spatial]
