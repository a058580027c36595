"""Convolutions of every n-th pixel, which are moved next to each other before and back behind, are
dilated convolutions that move nothing.

TensorFlow writes dilated depthwise convolutions so: SpaceToBatch, a convolution, BatchToSpace.
OpenVINO's converter leaves them where the sizes of an image are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.dims import Dim
from ....ir.graph import Graph, Value
from ....ir.ops import BatchToSpace, Convolution, GroupConvolution, SpaceToBatch
from ....ir.ops.shape_inference import known_dims, known_ints
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import shape_of


def fuse_dilation(graph: Graph, node: int, op: BatchToSpace) -> Patch | MatchFailure | None:
    """BatchToSpace(Convolution(SpaceToBatch(x))) of the same blocks."""
    product = graph.input(node, 0)
    conv = graph.op(product.node)
    if not isinstance(conv, Convolution | GroupConvolution):
        return None
    source = graph.input(product.node, 0)
    if not isinstance(graph.op(source.node), SpaceToBatch):
        return None
    blocks = [known_ints(graph.fact(graph.input(n, 1))) for n in (source.node, node)]
    edges = [
        known_dims(graph.fact(graph.input(n, port))) for n in (source.node, node) for port in (2, 3)
    ]
    (by, back), known = blocks, [e for e in edges if e is not None]
    if by is None or by != back or len(known) < len(edges):
        return MatchFailure("the blocks differ, or what is added and cut off is not known")
    if not _reads_each_pixel(conv) or not has_one_use(graph, product):
        return MatchFailure("the convolution has steps or paddings of its own, or other readers")
    kernel = (shape_of(graph, graph.input(product.node, 1)) or ())[2 - len(by) :]
    if len(kernel) != len(by) - 2:
        return MatchFailure("filters of unknown rank")
    windows = [(size - 1) * step + 1 for size, step in zip(kernel, by[2:], strict=True)]
    pads = _find_paddings(known, [1, 1, *windows])
    if pads is None or by[:2] != [1, 1]:
        return MatchFailure("paddings that are not known, negative or longer than a window")
    dilated = replace(
        conv,
        dilations=tuple(by[2:]),
        pads_begin=tuple(begin for begin, _ in pads[2:]),
        pads_end=tuple(end for _, end in pads[2:]),
        auto_pad="explicit",
    )
    patch = Patch()
    x, filters = graph.input(source.node, 0), graph.input(product.node, 1)
    return patch.replace(Value(node), patch.add(dilated, x, filters))


def _find_paddings(
    edges: Sequence[Sequence[Dim]], windows: Sequence[Dim]
) -> list[tuple[int, int]] | None:
    """What is added to each axis, begin and end, less what is cut off behind the convolution; None
    where windows of that size cannot have such paddings."""
    found: list[tuple[int, int]] = []
    for begin, end, cut_begin, cut_end, reach in zip(*edges, windows, strict=True):
        first, last = begin - cut_begin, end - cut_end
        if not (isinstance(first, int) and isinstance(last, int) and isinstance(reach, int)):
            return None
        if not (0 <= first < reach and 0 <= last < reach):
            return None
        found.append((first, last))
    return found


def _reads_each_pixel(conv: Convolution | GroupConvolution) -> bool:
    """Whether the convolution has neither strides nor dilations nor paddings."""
    steps = {*conv.strides, *conv.dilations}
    pads = {*conv.pads_begin, *conv.pads_end}
    mode = conv.auto_pad.lower()
    return steps <= {1} and (mode == "valid" or (not mode.startswith("same") and pads <= {0}))


_RULES = (op_rule("fuse_dilation", (BatchToSpace,), fuse_dilation),)

fuse_dilations = Pass("fuse_dilations", lambda options: _RULES)
