"""Concatenations without copies: what is written straight into its part of the result.

An input that only the concatenation reads always is (output_placement.py). One with other readers
is if all of the concatenation's memory, which then is taken when the first of its inputs is made,
fits under the peak that the region has anyway: a U-Net's skip would otherwise hold the decoder's
half as long as its own. Lifetimes are estimated by nodes, before there are steps; only memory
depends on how well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....ir.dims import evaluate, product
from ....ir.dtype import DType
from ....ir.errors import ShapeError
from ....ir.graph import Value
from ....ir.ops import Concat
from ....ir.types import TensorType
from ...rewrite.patch import has_one_use
from ...strided_view import View, has_same_strides
from ..build.op_lowering import Lowering
from ..ops.data_movement import places
from .role import Role

# What shows the memory of its first input, nearly always.
_SPLITS = frozenset({"Split", "VariadicSplit"})
_VIEWS = _SPLITS | frozenset(
    "Identity Reshape Squeeze Unsqueeze Transpose Slice StridedSlice".split()
)
# A dynamic size counts as so many.
_TYPICAL = 64
# Concats of more inputs are not asked whether they hold others.
_MOST = 64


def around(low: Lowering, node: int, values: Sequence[Value], whole: Value) -> View | None:
    """The memory of `whole` if its parts, `values`, are placed side by side in their order."""
    placed = [low.placed.get(v) for v in values]
    if not placed or placed[0] is None:
        return None
    view = replace(placed[0], shape=low.shape(whole))
    for have, want in zip(placed, places(low, node, values, view), strict=True):
        if have is None or have.shape != want.shape or not has_same_strides(have, want):
            return None
    return view


def stored_dtype(low: Lowering, value: Value) -> DType:
    """The type that a value has in memory."""
    return DType.bf16 if value in low.rounded else low.tensor(value).dtype


def concats_in_place(
    low: Lowering, home: Mapping[int, int], index: int, roles: Mapping[int, Role]
) -> frozenset[int]:
    """The Concats of a region whose inputs are written in place though others read them, too."""
    nodes = [n for n, where in home.items() if where == index]
    concats = [n for n in nodes if isinstance(low.graph.op(n), Concat) and _native(roles, n)]
    if not concats:
        return frozenset()
    at = {n: i for i, n in enumerate(nodes)}
    lives = _LivenessEstimate(low, nodes, at)
    listed = {tuple(inputs_of(low, n)): Value(n) for n in concats}
    found: set[int] = set()
    for node in reversed(concats):
        whole, values = Value(node), inputs_of(low, node)
        shared = [v for v in values if sharable(low, whole, v, at, roles)]
        if shared and lives.join(whole, [*shared, *_joined_before(values, listed)]):
            found.add(node)
    return frozenset(found)


def _joined_before(
    values: Sequence[Value], listed: Mapping[tuple[Value, ...], Value]
) -> list[Value]:
    """The Concats of the first, or the last, of a Concat's inputs: they lie within it."""
    several = range(2, len(values)) if len(values) <= _MOST else range(0)
    parts = [tuple(part) for n in several for part in (values[:n], values[-n:])]
    return [listed[p] for p in dict.fromkeys(parts) if p in listed]


class _LivenessEstimate:
    """Estimated lifetimes: by value with memory of its own in the arena when it is made, when it is
    read last, and its bytes. What is in a Concat's memory is part of that."""

    def __init__(self, low: Lowering, nodes: Sequence[int], at: Mapping[int, int]) -> None:
        self.born: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        self.size: dict[Value, int] = {}
        graph = low.graph
        self.inside = {
            v: Value(n)
            for n in nodes
            if isinstance(graph.op(n), Concat)
            for v in inputs_of(low, n)
            if v.node in at and has_one_use(graph, v)
        }
        shown: dict[Value, Value] = {}
        for node in nodes:
            source = graph.input(node, 0) if graph.op(node).kind in _VIEWS else None
            merged = node in low.fusion.skipped or node in low.fusion.absorbed
            for value in graph.values(node):
                owner = self.owner(value if source is None else shown.get(source, source))
                shown[value] = owner
                type_ = graph.type(owner)
                if owner.node not in at or merged or owner in low.placed:
                    continue
                if not isinstance(type_, TensorType) or type_.shape is None:
                    continue
                reads = [at[use.node] for use in graph.uses(value) if use.node in at]
                self.born.setdefault(owner, at[node])
                self.last[owner] = max(self.last.get(owner, 0), at[node], *reads)
                self.size[owner] = _bytes(low, owner)
        # Estimates in f64: bytes of symbolic sizes may exceed 64 bits.
        self.live = np.zeros(len(nodes) + 1, np.float64)
        for value, begin in self.born.items():
            self.live[begin : self.last[value] + 1] += self.size[value]
        self.peak = self.live.max()

    def owner(self, value: Value) -> Value:
        """The value in whose memory a value lies."""
        while value in self.inside:
            value = self.inside[value]
        return value

    def join(self, whole: Value, parts: Sequence[Value]) -> bool:
        """Put parts into the memory of a Concat, if the peak allows for that."""
        owner, parts = self.owner(whole), [v for v in dict.fromkeys(parts) if v in self.born]
        if owner in self.born and parts:
            begin = min(self.born[v] for v in (owner, *parts))
            end = max(self.last[v] for v in (owner, *parts))
            live = self.live[begin : end + 1].copy()
            live[: self.born[owner] - begin] += self.size[owner]
            live[self.last[owner] + 1 - begin :] += self.size[owner]
            for v in parts:
                live[self.born[v] - begin : self.last[v] + 1 - begin] -= self.size[v]
            if live.max() > self.peak:
                return False
            self.live[begin : end + 1] = live
            self.born[owner], self.last[owner] = begin, end
        for v in parts:
            del self.born[v]
            self.inside[v] = whole
        return True


def _native(roles: Mapping[int, Role], node: int) -> bool:
    role = roles.get(node)
    return role is not None and role.lowerer is not None


def inputs_of(low: Lowering, node: int) -> list[Value]:
    return [v for v in low.graph.inputs(node) if v is not None]


def sharable(
    low: Lowering, whole: Value, value: Value, at: Mapping[int, int], roles: Mapping[int, Role]
) -> bool:
    """Whether a value that others read too could are in its part of a Concat's result."""
    readers = {use.node for use in low.graph.uses(value)}
    return (
        not has_one_use(low.graph, value)
        and low.graph.op(value.node).kind not in _VIEWS - _SPLITS
        and value.node in at
        and _native(roles, value.node)
        and value not in low.placed
        and all(n in at and _native(roles, n) for n in readers)
        and stored_dtype(low, value) is stored_dtype(low, whole)
        and (value in low.channels_last) == (whole in low.channels_last)
    )


def _bytes(low: Lowering, value: Value) -> int:
    count = product(low.shape(value))
    if not isinstance(count, int):
        try:
            count = evaluate(count, {s.name: _TYPICAL for s in count.symbols()})
        except ShapeError:  # no size that this model can have
            return 0
    return count * stored_dtype(low, value).bits // 8
