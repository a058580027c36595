"""Normalisations that no kernel knows, in operations that kernels do know.

MVN of operation set 2 is that of 6; MVN over inner axes, NormalizeL2, GRN and LRN are reductions
and elementwise operations. f16 and bf16 are computed in f32 and rounded once, as `evaluate` does.
"""

from __future__ import annotations

import numpy as np

from ....ir.graph import Graph, Value
from ....ir.ops import (
    GRN,
    LRN,
    MVN,
    MVN2,
    Add,
    Divide,
    Maximum,
    Multiply,
    NormalizeL2,
    Pad,
    Power,
    ReduceMean,
    ReduceSum,
    Slice,
    Sqrt,
    Subtract,
)
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import known_axes, shape_of
from .node_builder import NodeBuilder

# Windows of more elements than these read too many operands at once.
_MAX_WINDOW_ELEMENTS = 9


def decompose_mvn(graph: Graph, node: int, op: MVN | MVN2) -> Patch | MatchFailure | None:
    """Mean and variance over axes that are not the last ones are reductions."""
    shape = shape_of(graph, graph.input(node, 0))
    if shape is None or not shape:
        return MatchFailure("a rank is unknown")
    build, rank = NodeBuilder(graph, node), len(shape)
    if isinstance(op, MVN2):
        axes = list(op.axes(rank))
        if not axes:
            return MatchFailure("no axis is normalised")
        plain = MVN(op.normalize_variance, op.eps, "INSIDE_SQRT")
        return build.patch.replace(
            Value(node), build.add(plain, graph.input(node, 0), build.ints(axes))
        )
    known = known_axes(graph, graph.input(node, 1), rank)
    if known is None:
        return MatchFailure("the axes are not known")
    axes = sorted(set(known))
    if not axes or axes == list(range(axes[0], rank)):
        return None
    x, over = build.read(0), build.ints(axes)
    y = build.add(Subtract(), x, build.add(ReduceMean(keep_dims=True), x, over))
    if op.normalize_variance:
        squares = build.add(Multiply(), y, y)
        variance = build.add(ReduceMean(keep_dims=True), squares, over)
        eps = build.number(op.eps)
        if op.eps_outside:
            deviation = build.add(Add(), build.add(Sqrt(), variance), eps)
        else:
            deviation = build.add(Sqrt(), build.add(Add(), variance, eps))
        y = build.add(Divide(), y, deviation)
    return build.done(y)


def decompose_normalize_l2(graph: Graph, node: int, op: NormalizeL2) -> Patch | MatchFailure | None:
    """x over the root of a sum of squares."""
    shape = shape_of(graph, graph.input(node, 0))
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if axes is None:
        return MatchFailure("the axes are not known")
    build = NodeBuilder(graph, node)
    x = build.read(0)
    total = build.add(Multiply(), x, x)
    if axes:
        total = build.add(ReduceSum(keep_dims=True), total, build.ints(sorted(set(axes))))
    bound = Add() if op.eps_mode.lower() == "add" else Maximum()
    total = build.add(bound, total, build.number(op.eps))
    return build.done(build.add(Divide(), x, build.add(Sqrt(), total)))


def decompose_lrn(graph: Graph, node: int, op: LRN) -> Patch | MatchFailure | None:
    """The sum over a window is a sum of slices of the padded squares."""
    shape = shape_of(graph, graph.input(node, 0))
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if shape is None or axes is None:
        return MatchFailure("the rank or the axes are not known")
    if not 1 <= op.size <= _MAX_WINDOW_ELEMENTS:
        return MatchFailure("a window of many elements")
    build = NodeBuilder(graph, node)
    x, axes = build.read(0), sorted(set(axes))
    total, before = build.add(Multiply(), x, x), (op.size - 1) // 2
    for axis in axes:
        pads = [[n if a == axis else 0 for a in range(len(shape))] for n in (before, op.size // 2)]
        padded = build.add(Pad(), total, *map(build.ints, pads), build.number(0))
        terms: list[Value] = []
        for i in range(op.size):
            last = i - op.size + 1
            # The slice that ends with the axis has no end that counts from it.
            stop = last if last else np.iinfo(np.int64).max
            bounds = [build.ints([n]) for n in (i, stop, 1, axis)]
            terms.append(build.add(Slice(), padded, *bounds))
        total = terms[0]
        for term in terms[1:]:
            total = build.add(Add(), total, term)
    factor = build.number(op.alpha / op.size ** len(axes))
    scale = build.add(Add(), build.add(Multiply(), total, factor), build.number(op.bias))
    return build.done(build.add(Divide(), x, build.add(Power(), scale, build.number(op.beta))))


def decompose_grn(graph: Graph, node: int, op: GRN) -> Patch | MatchFailure | None:
    """x over the root of the sum of squares over channels."""
    build = NodeBuilder(graph, node)
    x = build.read(0)
    total = build.add(ReduceSum(keep_dims=True), build.add(Multiply(), x, x), build.ints([1]))
    root = build.add(Sqrt(), build.add(Add(), total, build.number(op.bias)))
    return build.done(build.add(Divide(), x, root))


_RULES = (
    op_rule("decompose_grn", (GRN,), decompose_grn),
    op_rule("decompose_mvn", (MVN, MVN2), decompose_mvn),
    op_rule("decompose_normalize_l2", (NormalizeL2,), decompose_normalize_l2),
    op_rule("decompose_lrn", (LRN,), decompose_lrn),
)

decompose_norms = Pass("decompose_norms", lambda options: _RULES)
