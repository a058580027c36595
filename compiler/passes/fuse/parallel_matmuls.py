"""Products of one left operand with constant weights become one product, whose parts are read
where they lie.

Queries, keys and values come from the same rows. Their weights side by side are one weight: rows
are packed (or rounded) once instead of three times, and threads share one step instead of three.
Every element is summed along K as before, so that results keep their bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ....ir.dims import bounds
from ....ir.dims import product as product_of_sizes
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array
from ....ir.ops import Constant, Convert, Gemm, MatMul, VariadicSplit
from ....ir.provenance import FileSlice, file_slice_of, note
from ...legality import is_elementwise
from ...options import Options
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ...strided_view import View, permute, reshape, row_major
from ..layout.cancel_transposes import order_of
from ..match.values import dtype_of, shape_of

_MOVES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
# In a product of more multiply-adds a step of its own and rows that are packed again are less than
# what is measurable; dense rows of a result read faster (docs/dev/tuning/gemm-fuse-parallel.md).
_MAX_MERGED_FLOPS = 1 << 26
# Each consumer of a part of a moved part computes from it, or would copy it anyway.
_PARTS = frozenset({"Slice", "Split", "VariadicSplit"})


# What products that one product computes have in common: attributes, the size that is summed over,
# the type of the weight as stored, and its conversion.
_Key: TypeAlias = tuple[Gemm, int, DType, Convert | None]


@dataclass(frozen=True)
class _Product:
    """A product with a constant weight of rank 2. `gemm`: as if it had an addend; `converts`: what
    its weight is converted to where it is read."""

    gemm: Gemm
    weight: Constant
    converts: Convert | None

    @property
    def depth(self) -> int:
        return int(self.weight.data.shape[-1 if self.gemm.transpose_b else -2])

    @property
    def columns(self) -> int:
        return int(self.weight.data.shape[-2 if self.gemm.transpose_b else -1])

    @property
    def key(self) -> _Key:
        return self.gemm, self.depth, self.weight.dtype, self.converts


@dataclass(frozen=True)
class _Member:
    """A product that could be a part of another."""

    node: int
    product: _Product
    addend: Array | None

    @property
    def columns(self) -> int:
        return self.product.columns


def make_rules(options: Options) -> Sequence[Rule]:
    """The rule, which remembers the products of each left operand: where one operand has many, each
    of them looks only at those that it could join."""
    known: dict[Value, _Siblings] = {}

    def merge(graph: Graph, node: int) -> Patch | MatchFailure | None:
        """The product and those next to it, as one product and a split."""
        rows = graph.input(node, 0)
        if graph.use_count(rows) < 2:
            return None
        if rows not in known:
            known[rows] = _Siblings(graph, rows)
        if known[rows].count < 2:
            return None
        first = _match_member(graph, node)
        if first is None or isinstance(first, MatchFailure):
            return first
        found = [_match_member(graph, n) for n in known[rows].list_mergeable(graph, first)]
        group = [m for m in found if isinstance(m, _Member)]
        if len(group) < 2:
            return None
        known[rows].count -= len(group) - 1
        return _merge_matmuls(graph, rows, group)

    return (Rule("merge", ("MatMul", "Gemm"), merge),)


class _Siblings:
    """The nodes that read a left operand. A product that was merged is read by a VariadicSplit, so
    it never is a part of another, and need not be added."""

    def __init__(self, graph: Graph, rows: Value) -> None:
        readers = sorted({u.node for u in graph.uses(rows) if u.port == 0})
        self.count = len(readers)
        self._by_key: dict[_Key, list[int]] = {}
        for node in readers:
            product = _product(graph, node)
            if product is not None:
                self._by_key.setdefault(product.key, []).append(node)

    def list_mergeable(self, graph: Graph, member: _Member) -> list[int]:
        """The products that one product could compute together with `member`, ascending."""
        return [n for n in self._by_key.get(member.product.key, ()) if n in graph]


def _product(graph: Graph, node: int) -> _Product | None:
    op, inputs = graph.op(node), graph.inputs(node)
    if not isinstance(op, Gemm | MatMul) or inputs[1] is None:
        return None
    source, converts = graph.op(inputs[1].node), None
    if isinstance(source, Convert):
        source, converts = graph.op(graph.input(inputs[1].node, 0).node), source
    if not isinstance(source, Constant) or source.data.ndim != 2:
        return None
    if isinstance(op, MatMul):
        op = Gemm(transpose_a=op.transpose_a, transpose_b=op.transpose_b)
    if len(inputs) < 3 or inputs[2] is None:
        op = replace(op, beta=1.0)
    return _Product(op, source, converts)


def _match_member(graph: Graph, node: int) -> _Member | MatchFailure | None:
    product, inputs = _product(graph, node), graph.inputs(node)
    if product is None or len(shape_of(graph, inputs[0]) or ()) < 2:
        return None
    weight, source = graph.input(node, 1), product.weight
    if not has_one_use(graph, weight):
        return None
    if product.converts is not None and not has_one_use(graph, graph.input(weight.node, 0)):
        return None
    if not dtype_of(graph, weight).is_float or not source.dtype.is_float:
        return MatchFailure("only weights of floats are merged")
    addend, columns = None, product.columns
    if len(inputs) > 2 and inputs[2] is not None:
        given = graph.op(inputs[2].node)
        if not isinstance(given, Constant) or given.data.size != columns:
            return MatchFailure("the addend is not a constant row")
        if given.data.shape and given.data.shape[-1] != columns:
            return MatchFailure("the addend is not a constant row")
        addend = given.data.reshape(-1)
    shape = shape_of(graph, Value(node))
    assert shape is not None
    least = bounds(product_of_sizes([*shape, product.depth]))[0]
    if least is not None and least > _MAX_MERGED_FLOPS:
        return MatchFailure("a large product gains nothing from others next to it")
    # In its layout besides another part.
    strides = row_major((*shape[:-1], 2 * columns))
    if refused := _explain_copy(graph, Value(node), View(0, DType.f32, shape, strides)):
        return MatchFailure(refused)
    return _Member(node, product, addend)


def _explain_copy(graph: Graph, value: Value, view: View) -> str:
    """Why a reader would copy a part of layout `view`, or need it as a product of its own; ""
    where all read it in that layout."""
    pending = [(value, view)]
    while pending:
        at, current = pending.pop()
        for use in graph.uses(at):
            node, kind = use.node, graph.op(use.node).kind
            moved: View | None = None
            if kind == "Transpose" and (order := order_of(graph, node)) is not None:
                moved = permute(current, order)
            elif kind in _MOVES and (shape := shape_of(graph, Value(node))) is not None:
                moved = reshape(current, shape)
            elif kind == "Attention":
                continue
            elif (kind in _PARTS or is_elementwise(graph, node)) and _is_moved(graph, at):
                continue
            else:
                return f"{kind} reads a product's result as it lies"
            if moved is None:
                return f"{kind} would copy a part"
            pending.append((Value(node), moved))
    return ""


def _is_moved(graph: Graph, value: Value) -> bool:
    """Whether a value is a product's no more: an elementwise reader is not its epilogue."""
    return graph.op(value.node).kind not in ("MatMul", "Gemm")


def _merge_matmuls(graph: Graph, rows: Value, group: Sequence[_Member]) -> Patch:
    """One product of all weights side by side."""
    first, patch = group[0].product, Patch()
    axis = 0 if first.gemm.transpose_b else 1
    arrays = [m.product.weight.data for m in group]
    weight = patch.add(_side_by_side(arrays, first.weight.dtype, axis))
    if first.converts is not None:
        weight = patch.add(first.converts, weight)
    addend = None
    if any(m.addend is not None for m in group):
        # -0 is what changes no sum, of 0 and -0 either.
        dtype = dtype_of(graph, Value(group[0].node))
        empty = np.asarray(-0.0, dtype.numpy)
        arrays = [
            np.broadcast_to(empty, m.columns) if m.addend is None else m.addend for m in group
        ]
        addend = patch.add(_side_by_side(arrays, dtype, 0))
    merged = patch.add(first.gemm, rows, weight, addend)
    numbers = (-1, [m.columns for m in group])
    given = (patch.integers(n) for n in numbers)
    split = patch.add(VariadicSplit(len(group)), merged, *given)
    for port, member in enumerate(group):
        patch.replace(Value(member.node), Value(split.node, port))
    return patch


def _side_by_side(arrays: Sequence[Array], dtype: DType, axis: int) -> Constant:
    """Arrays as one. Where all come from files, so does it: models of equal files share it."""
    joined = np.concatenate(arrays, axis)
    slices: list[FileSlice | None] = [file_slice_of(a) for a in arrays]
    if all(p is not None for p in slices):
        note(joined, ("side by side", axis, *slices))
    return Constant.of(joined, dtype)


fuse_parallel_matmuls = Pass("fuse_parallel_matmuls", make_rules)
