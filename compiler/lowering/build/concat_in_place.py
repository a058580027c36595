"""Concatenations without copies: what is written straight into its part of the result.

An input that only the concatenation reads always is (output_placement.py). One with other readers
is if all of the concatenation's memory, which then is taken when the first of its inputs is made,
fits under the peak that the region has anyway: a U-Net's skip would otherwise hold the decoder's
half as long as its own. Lifetimes are estimated by nodes, before there are steps; only memory
depends on how well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from ....ir.dims import evaluate, product
from ....ir.dtype import DType
from ....ir.errors import ShapeError
from ....ir.graph import Value
from ....ir.ops import Concat
from ....ir.types import TensorType
from ...rewrite.patch import has_one_use
from ...strided_view import View, has_same_strides
from ..ops.data_movement import parts_of_view
from .range_maximum import RangeMaximum
from .region_lowering import RegionLowering

# What shows the memory of its first input, nearly always.
_SPLITS = frozenset({"Split", "VariadicSplit"})
_VIEWS = _SPLITS | frozenset(
    "Identity Reshape Squeeze Unsqueeze Transpose Slice StridedSlice".split()
)
# A dynamic size counts as so many.
_ASSUMED_DYNAMIC_SIZE = 64
# Concats of more inputs are not searched for others.
_MAX_CONCAT_INPUTS = 64


def concat_buffer_of(
    lowering: RegionLowering, node: int, values: Sequence[Value], whole: Value
) -> View | None:
    """The memory of `whole` if its parts, `values`, are placed side by side in their order."""
    placed = [lowering.placed.get(v) for v in values]
    if not placed or placed[0] is None:
        return None
    view = replace(placed[0], shape=lowering.shape(whole))
    for have, want in zip(placed, parts_of_view(lowering, node, values, view), strict=True):
        if have is None or have.shape != want.shape or not has_same_strides(have, want):
            return None
    return view


def stored_dtype(lowering: RegionLowering, value: Value) -> DType:
    """The type that a value has in memory."""
    return DType.bf16 if value in lowering.schedule.rounded else lowering.tensor(value).dtype


def concats_in_place(lowering: RegionLowering, nodes: Sequence[int]) -> frozenset[int]:
    """The Concats of a region, whose nodes are given in order, whose inputs are written in place
    though others read them, too."""
    concats = [
        n
        for n in nodes
        if isinstance(lowering.graph.op(n), Concat) and lowering.schedule.roles[n].native
    ]
    if not concats:
        return frozenset()
    at = {n: i for i, n in enumerate(nodes)}
    lives = _LivenessEstimate(lowering, nodes, at)
    listed = {tuple(inputs_of(lowering, n)): Value(n) for n in concats}
    readers, found = NativeReaders(lowering, at), set[int]()
    for node in reversed(concats):
        whole, values = Value(node), inputs_of(lowering, node)
        shared = [v for v in values if sharable(lowering, whole, v, readers)]
        if shared and lives.join(whole, [*shared, *_list_nested_concats(values, listed)]):
            found.add(node)
    return frozenset(found)


def _list_nested_concats(
    values: Sequence[Value], listed: Mapping[tuple[Value, ...], Value]
) -> list[Value]:
    """The Concats of the first, or the last, of a Concat's inputs: they lie within it."""
    several = range(2, len(values)) if len(values) <= _MAX_CONCAT_INPUTS else range(0)
    parts = [tuple(part) for n in several for part in (values[:n], values[-n:])]
    return [listed[p] for p in dict.fromkeys(parts) if p in listed]


class _LivenessEstimate:
    """Estimated lifetimes: by value with memory of its own in the arena when it is made, when it is
    read last, and its bytes. What is in a Concat's memory is part of that."""

    def __init__(
        self, lowering: RegionLowering, nodes: Sequence[int], at: Mapping[int, int]
    ) -> None:
        self.born: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        self.size: dict[Value, int] = {}
        graph = lowering.graph
        self.inside = {
            v: Value(n)
            for n in nodes
            if isinstance(graph.op(n), Concat)
            for v in inputs_of(lowering, n)
            if v.node in at and has_one_use(graph, v)
        }
        shown: dict[Value, Value] = {}
        for node in nodes:
            source = graph.input(node, 0) if graph.op(node).kind in _VIEWS else None
            merged = node in lowering.fusion.skipped or node in lowering.fusion.absorbed
            for value in graph.values(node):
                owner = self.owner(value if source is None else shown.get(source, source))
                shown[value] = owner
                type_ = graph.type(owner)
                if owner.node not in at or merged or owner in lowering.placed:
                    continue
                if not isinstance(type_, TensorType) or type_.shape is None:
                    continue
                reads = [at[use.node] for use in graph.uses(value) if use.node in at]
                self.born.setdefault(owner, at[node])
                self.last[owner] = max(self.last.get(owner, 0), at[node], *reads)
                self.size[owner] = _bytes(lowering, owner)
        change = [0] * (len(nodes) + 1)
        for value, begin in self.born.items():
            change[begin] += self.size[value]
            change[self.last[value] + 1] -= self.size[value]
        self.live = RangeMaximum(list(accumulate(change)))
        self.peak = self.live.maximum()

    def owner(self, value: Value) -> Value:
        """The value in whose memory a value is stored."""
        chain: list[Value] = []
        while value in self.inside:
            chain.append(value)
            value = self.inside[value]
        # Concats of Concats nest deep: the next search ends at once.
        self.inside.update(dict.fromkeys(chain, value))
        return value

    def join(self, whole: Value, parts: Sequence[Value]) -> bool:
        """Put parts into the memory of a Concat, if the peak allows for that."""
        owner, parts = self.owner(whole), [v for v in dict.fromkeys(parts) if v in self.born]
        if owner in self.born and parts:
            begin = min(self.born[v] for v in (owner, *parts))
            end = max(self.last[v] for v in (owner, *parts))
            size = self.size[owner]
            changes = [
                (begin, self.born[owner], size),
                (self.last[owner] + 1, end + 1, size),
                *((self.born[v], self.last[v] + 1, -self.size[v]) for v in parts),
            ]
            for first, after, amount in changes:
                self.live.add(first, after, amount)
            if self.live.maximum() > self.peak:
                for first, after, amount in changes:
                    self.live.add(first, after, -amount)
                return False
            self.born[owner], self.last[owner] = begin, end
        for v in parts:
            del self.born[v]
            self.inside[v] = whole
        return True


def inputs_of(lowering: RegionLowering, node: int) -> list[Value]:
    return [v for v in lowering.graph.inputs(node) if v is not None]


class NativeReaders:
    """Whether native nodes among `nodes` alone read a value; its readers are visited once, however
    many Concats they are."""

    def __init__(self, lowering: RegionLowering, nodes: Container[int]) -> None:
        self.graph, self.nodes, self.roles = lowering.graph, nodes, lowering.schedule.roles
        self._known: dict[Value, bool] = {}

    def has(self, node: int) -> bool:
        """Whether a node is native and among the nodes."""
        return node in self.nodes and self.is_native(node)

    def is_native(self, node: int) -> bool:
        """Whether a node is native."""
        return node in self.roles and self.roles[node].native

    def are_only_readers(self, value: Value) -> bool:
        """Whether such nodes alone read a value."""
        if value not in self._known:
            self._known[value] = all(map(self.has, self.graph.readers(value)))
        return self._known[value]


def sharable(lowering: RegionLowering, whole: Value, value: Value, readers: NativeReaders) -> bool:
    """Whether a value that others read too could be in its part of a Concat's result."""
    return (
        not has_one_use(lowering.graph, value)
        and lowering.graph.op(value.node).kind not in _VIEWS - _SPLITS
        and readers.has(value.node)
        and value not in lowering.placed
        and readers.are_only_readers(value)
        and stored_dtype(lowering, value) is stored_dtype(lowering, whole)
        and (value in lowering.schedule.channels_last) == (whole in lowering.schedule.channels_last)
    )


def _bytes(lowering: RegionLowering, value: Value) -> int:
    count = product(lowering.shape(value))
    if not isinstance(count, int):
        try:
            count = evaluate(count, {s.name: _ASSUMED_DYNAMIC_SIZE for s in count.symbols()})
        except ShapeError:  # no size that this model can have
            return 0
    return count * stored_dtype(lowering, value).bits // 8
