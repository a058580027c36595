"""Chains of convolutions in bands of rows (tile and fuse): what is between them stays in L2.

The layers of a chain are computed for some rows of the last one's result, then for the next rows.
Rows at a band's edge that windows of both bands read are computed twice. An element has the same
factors and the same order of sums in a band as in the whole image, so no bit changes
(docs/dev/tuning/row-bands.md).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Op
from ....ir.ops import Concat, Constant, Slice
from ....ir.ops.math.elementwise import sizes_of
from ....ir.ops.nn.convolution import Convolving
from ....ir.ops.nn.pooling_window import Windows
from ....ir.types import TensorType
from ....plan.target import Target
from .bf16x3 import MIN_ROWS
from .fusion import Fusion

_KINDS: Final = frozenset("Convolution GroupConvolution ConvInteger GroupConvInteger".split())
# The axis of rows in an image [batch, channels, rows, columns].
_ROWS: Final = 2
# More layers leave bands of few rows; more bands take longer to compile than they save.
_MAX_LAYERS: Final = 8
_MAX_BANDS: Final = 256
# Convolutions of a graph, and nodes that bands add to it.
_MAX_CONVOLUTIONS: Final = 2048
_MAX_COPIES: Final = 1 << 15
# A smaller part of L2 between two layers is not worth further steps.
_MIN_JOINED_L2_DIVISOR: Final = 4
# What takes as long as a byte between layers that does not stay in L2: by multiply-adds, by steps,
# and by bytes of weights that are read again.
_WORK_BYTES: Final = 0.4
_STEP_BYTES: Final = 35_000
_WEIGHT_BYTES: Final = 2


@dataclass(frozen=True)
class BandedLayer:
    """A convolution and the elementwise chain behind it.

    rows, out_rows: of the data and of the result. data_bytes, bytes: of the same as stored.
    row_work: multiply-adds of one row of the result, in those of f32: a vector has more of a
    narrower type. weight_bytes: of filters.
    """

    nodes: tuple[int, ...]
    windows: Windows
    pads: tuple[tuple[int, int], ...]
    rows: int
    out_rows: int
    columns: int
    data_bytes: int
    bytes: int
    row_work: int
    weight_bytes: int

    @property
    def result(self) -> Value:
        """What its last node computes."""
        return Value(self.nodes[-1])

    def window_rows(self, made: range) -> range:
        """The rows that windows of these rows of the result reach, in the paddings, too."""
        stride, before = self.windows.strides[0], self.pads[0][0]
        extent = int(str(self.windows.extent(0)))
        return range(made.start * stride - before, (made.stop - 1) * stride - before + extent)

    def read_rows(self, made: range) -> range:
        """The rows of the data that these rows of the result read."""
        reached = self.window_rows(made)
        return range(max(reached.start, 0), min(reached.stop, self.rows))

    def pad_rows(self, made: range) -> tuple[int, int]:
        """How many rows of padding these rows of the result read, before and behind the data."""
        reached = self.window_rows(made)
        return max(-reached.start, 0), max(reached.stop - self.rows, 0)


@dataclass(frozen=True)
class Chain:
    """Layers of which each alone reads what the one before computes, and the rows of a band."""

    layers: tuple[BandedLayer, ...]
    band_rows: int

    @property
    def copies(self) -> int:
        """How many nodes the bands have."""
        bands = -(-self.layers[-1].out_rows // self.band_rows)
        return bands * sum(len(layer.nodes) for layer in self.layers)

    def bands(self) -> Iterator[range]:
        """The bands' rows of the last layer's result."""
        rows = self.layers[-1].out_rows
        for first in range(0, rows, self.band_rows):
            yield range(first, min(first + self.band_rows, rows))

    def made_rows(self, band: range) -> list[range]:
        """By layer, the rows of its result that a band needs."""
        found = [band]
        for layer in reversed(self.layers[1:]):
            found.append(layer.read_rows(found[-1]))
        return found[::-1]


def split_row_bands(
    graph: Graph,
    native: Mapping[int, bool],
    fusion: Fusion,
    rounded: Container[Value],
    kept: Container[int],
    target: Target,
) -> Graph:
    """The graph with chains in bands: itself where there are none, else a copy.

    native: whether a node runs so. rounded: values that are stored as bf16. kept: nodes that stay
    whole.
    """
    layers: dict[int, BandedLayer] = {}
    for node in native:
        if native[node] and graph.op(node).kind in _KINDS and node not in kept:
            layer = _match_layer(graph, node, fusion, rounded)
            if layer is not None:
                layers[node] = layer
    if len(layers) > _MAX_CONVOLUTIONS or not target.l2:
        return graph
    chains, copies = list[Chain](), 0
    for chain in _choose_chains(graph, layers, target):
        copies += chain.copies
        if copies > _MAX_COPIES:
            break
        chains.append(chain)
    if not chains:
        return graph
    graph = graph.copy()
    for chain in chains:
        _split(graph, chain)
    return graph


def _match_layer(
    graph: Graph, node: int, fusion: Fusion, rounded: Container[Value]
) -> BandedLayer | None:
    """The layer of a convolution of one image of known sizes; None for others."""
    op, data = graph.op(node), graph.type(graph.input(node, 0))
    nodes = (node, *fusion.epilogues.get(node, ()))
    result = graph.type(Value(nodes[-1]))
    if not isinstance(data, TensorType) or not isinstance(result, TensorType):
        return None
    if not (data.is_static and result.is_static):
        return None
    shape, made = sizes_of(data.shape), sizes_of(result.shape)
    if len(shape) != 4 or shape[0] != 1 or 0 in (*shape, *made):
        return None
    assert isinstance(op, Convolving)
    filters = graph.tensor(graph.input(node, 1))
    if not filters.is_static:
        return None
    weights = sizes_of(filters.shape)
    windows = op.windows(weights[-2:])
    pads = tuple(windows.pads(shape[2:]))
    if any(p < 0 for pair in pads for p in pair):
        return None
    source = graph.input(node, 0)
    bits = 16 if Value(nodes[-1]) in rounded else result.dtype.bits
    data_bits = 16 if source in rounded else data.dtype.bits
    return BandedLayer(
        nodes,
        windows,
        pads,
        rows=shape[_ROWS],
        out_rows=made[_ROWS],
        columns=made[3],
        data_bytes=math.prod(shape) * data_bits // 8,
        bytes=math.prod(made) * bits // 8,
        row_work=made[3] * math.prod(weights) * bits // 32,
        weight_bytes=math.prod(weights) * filters.dtype.bits // 8,
    )


def _choose_chains(
    graph: Graph, layers: Mapping[int, BandedLayer], target: Target
) -> Iterator[Chain]:
    """The chains that take less time in bands."""
    following = {n: _next_layer(graph, layer, layers) for n, layer in layers.items()}
    behind = set(following.values())
    for node in layers:
        at: int | None = None if node in behind else node
        while at is not None:
            group, chain = [layers[at]], None
            at = following[at]
            # Larger data would pass through L2 in any case.
            while at is not None and group[0].data_bytes <= group[0].bytes:
                longer = _choose_bands([*group, layers[at]], target)
                if longer is None:
                    break
                group.append(layers[at])
                chain, at = longer, following[at]
            if chain is not None and _exceeds_l2(chain, target):
                yield chain


def _next_layer(graph: Graph, layer: BandedLayer, layers: Mapping[int, BandedLayer]) -> int | None:
    """The layer whose data a layer's result is, if nothing else reads it."""
    use = graph.only_use(layer.result)
    return use.node if use is not None and use.port == 0 and use.node in layers else None


def _choose_bands(layers: Sequence[BandedLayer], target: Target) -> Chain | None:
    """Layers as a chain; None where the last is not worth joining to those before."""
    h = target.heuristics
    between = [layer.bytes for layer in layers[:-1]]
    if len(layers) > _MAX_LAYERS or between[-1] * _MIN_JOINED_L2_DIVISOR < target.l2:
        return None
    rows = layers[-1].out_rows
    count = -(-4 * sum(between) // (h.row_band_l2_quarters * target.l2))
    if count > min(rows, _MAX_BANDS):
        return None
    most = -(-rows // count)
    # The last band as full as possible: one of fewer rows has code of its own.
    band_rows = max(range(-(-3 * most // 4), most + 1), key=lambda n: ((rows % n or n) / n, n))
    chain = Chain(tuple(layers), band_rows)
    made = [chain.made_rows(band) for band in chain.bands()]
    if any(not _keeps_sums(layer, some[i]) for some in made for i, layer in enumerate(layers)):
        return None
    work = sum(
        layer.row_work * max(sum(len(some[i]) for some in made) - layer.out_rows, 0)
        for i, layer in enumerate(layers)
    )
    further = len(made) - 1
    cost = work * _WORK_BYTES + further * sum(
        _STEP_BYTES + layer.weight_bytes * _WEIGHT_BYTES for layer in layers
    )
    return chain if cost * h.row_band_min_saving <= sum(between) else None


def _keeps_sums(layer: BandedLayer, made: range) -> bool:
    """Whether some rows of a result have sums in the order of the whole: tiles of AMX multiply f32
    from so many pixels on. Windows in the paddings alone have no data to read."""
    return len(made) * layer.columns >= MIN_ROWS and len(layer.read_rows(made)) > 0


def _exceeds_l2(chain: Chain, target: Target) -> bool:
    """Whether a value between layers does not stay in L2 as a whole."""
    largest = max(layer.bytes for layer in chain.layers[:-1])
    few = chain.band_rows >= chain.layers[-1].out_rows
    return not few and 4 * largest >= target.heuristics.row_band_min_l2_quarters * target.l2


def _split(graph: Graph, chain: Chain) -> None:
    """Replace a chain by its bands and their concatenation."""
    source = graph.input(chain.layers[0].nodes[0], 0)
    result, parts = chain.layers[-1].result, list[Value]()
    for band in chain.bands():
        made = chain.made_rows(band)
        value = _take_rows(graph, source, chain.layers[0].read_rows(made[0]))
        for layer, rows in zip(chain.layers, made, strict=True):
            value = _copy_layer(graph, layer, rows, value)
        parts.append(value)
    joined = _add(graph, Concat(_ROWS), parts, like=result.node)
    for use in graph.uses(result):
        graph.connect(joined, use)
    for layer in reversed(chain.layers):
        for node in reversed(layer.nodes):
            graph.remove(node)


def _copy_layer(graph: Graph, layer: BandedLayer, rows: range, data: Value) -> Value:
    """The layer for some rows of its result, of the rows of data that they read."""
    anchor, *chain = layer.nodes
    inputs: list[Value | None] = [data, *graph.inputs(anchor)[1:]]
    value = _add(graph, _pad_windows(graph.op(anchor), layer, rows), inputs, like=anchor)
    whole = Value(anchor)
    for node in chain:
        inputs = [
            value if v == whole else v and _take_operand(graph, v, rows) for v in graph.inputs(node)
        ]
        value, whole = _add(graph, graph.op(node), inputs, like=node), Value(node)
    return value


def _pad_windows(op: Op, layer: BandedLayer, rows: range) -> Op:
    """The convolution with the paddings of some rows of its result."""
    assert isinstance(op, Convolving)
    (above, below), (left, right) = layer.pad_rows(rows), layer.pads[1]
    return replace(op, pads_begin=(above, left), pads_end=(below, right), auto_pad="explicit")


def _take_operand(graph: Graph, value: Value, rows: range) -> Value:
    """What an elementwise operation reads besides, for some rows: itself where it has one row."""
    shape = graph.shape(value)
    if len(shape) < 2 or shape[-2] == 1:
        return value
    return _take_rows(graph, value, rows)


def _take_rows(graph: Graph, value: Value, rows: range) -> Value:
    """Some rows of a value, whose last axis but one they are; itself if there are no others."""
    shape = graph.shape(value)
    if len(rows) == shape[-2]:
        return value
    axis = len(shape) - 2
    bounds = [
        _add(graph, Constant(np.array([n], np.int64), DType.i64, (1,)), [])
        for n in (rows.start, rows.stop, 1, axis)
    ]
    return _add(graph, Slice(), [value, *bounds], like=value.node)


def _add(graph: Graph, op: Op, inputs: Sequence[Value | None], *, like: int | None = None) -> Value:
    """A new node, with the names of the node `like`."""
    node = graph.add(op, inputs)
    if like is not None:
        record, model = graph.node(node), graph.node(like)
        record.name, record.origin, record.sources = model.name, model.origin, model.sources
    infer_node(graph, node)
    return Value(node)
