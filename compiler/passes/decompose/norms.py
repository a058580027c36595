"""Normalisations that no kernel knows, in operations that kernels do know.

MVN of operation set 2 is that of 6; MVN over inner axes, NormalizeL2 and LRN are reductions and
elementwise operations. Halves are computed in f32 and rounded once, as `evaluate` does in f64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    LRN,
    MVN,
    MVN2,
    Add,
    Convert,
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
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, known_axes, shape_of

# Windows of more elements than these read too many operands at once.
_MOST = 9


class _Spelling:
    """A patch that replaces a normalisation, computing in f32 where the data are halves."""

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node, self.patch = graph, node, Patch()
        self.own = dtype_of(graph, graph.input(node, 0))
        self.dtype = DType.f32 if self.own.is_float and self.own.bits < 32 else self.own

    def add(self, op: Op, *inputs: Value) -> Value:
        return self.patch.add(op, *inputs)

    def read(self, port: int) -> Value:
        """An input in the type that is computed in."""
        value = self.graph.input(self.node, port)
        return value if self.dtype is self.own else self.add(Convert(self.dtype), value)

    def number(self, value: float) -> Value:
        return self.patch.constant(value, self.dtype)

    def ints(self, values: Sequence[int]) -> Value:
        return self.patch.integers(values)

    def done(self, value: Value) -> Patch:
        if self.dtype is not self.own:
            value = self.add(Convert(self.own), value)
        return self.patch.replace(Value(self.node), value)


def spell_mvn(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Mean and variance over axes that are not the last ones are reductions."""
    op, shape = graph.op(node), shape_of(graph, graph.input(node, 0))
    assert isinstance(op, MVN | MVN2)
    if shape is None or not shape:
        return MatchFailure("a rank is unknown")
    spell, rank = _Spelling(graph, node), len(shape)
    if isinstance(op, MVN2):
        axes = list(op.axes(rank))
        if not axes:
            return MatchFailure("no axis is normalised")
        plain = MVN(op.normalize_variance, op.eps, "INSIDE_SQRT")
        return spell.patch.replace(
            Value(node), spell.add(plain, graph.input(node, 0), spell.ints(axes))
        )
    known = known_axes(graph, graph.input(node, 1), rank)
    if known is None:
        return MatchFailure("the axes are not known")
    axes = sorted(set(known))
    if not axes or axes == list(range(axes[0], rank)):
        return None
    x, over = spell.read(0), spell.ints(axes)
    y = spell.add(Subtract(), x, spell.add(ReduceMean(keep_dims=True), x, over))
    if op.normalize_variance:
        squares = spell.add(Multiply(), y, y)
        variance = spell.add(ReduceMean(keep_dims=True), squares, over)
        eps = spell.number(op.eps)
        if op.eps_outside:
            deviation = spell.add(Add(), spell.add(Sqrt(), variance), eps)
        else:
            deviation = spell.add(Sqrt(), spell.add(Add(), variance, eps))
        y = spell.add(Divide(), y, deviation)
    return spell.done(y)


def spell_normalize_l2(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """x over the root of a sum of squares."""
    op, shape = graph.op(node), shape_of(graph, graph.input(node, 0))
    assert isinstance(op, NormalizeL2)
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if axes is None:
        return MatchFailure("the axes are not known")
    spell = _Spelling(graph, node)
    x = spell.read(0)
    total = spell.add(Multiply(), x, x)
    if axes:
        total = spell.add(ReduceSum(keep_dims=True), total, spell.ints(sorted(set(axes))))
    bound = Add() if op.eps_mode.lower() == "add" else Maximum()
    total = spell.add(bound, total, spell.number(op.eps))
    return spell.done(spell.add(Divide(), x, spell.add(Sqrt(), total)))


def spell_lrn(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """The sum over a window is a sum of slices of the padded squares."""
    op, shape = graph.op(node), shape_of(graph, graph.input(node, 0))
    assert isinstance(op, LRN)
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if shape is None or axes is None:
        return MatchFailure("the rank or the axes are not known")
    if not 1 <= op.size <= _MOST:
        return MatchFailure("a window of many elements")
    spell = _Spelling(graph, node)
    x, axes = spell.read(0), sorted(set(axes))
    total, before = spell.add(Multiply(), x, x), (op.size - 1) // 2
    for axis in axes:
        pads = [[n if a == axis else 0 for a in range(len(shape))] for n in (before, op.size // 2)]
        padded = spell.add(Pad(), total, *map(spell.ints, pads), spell.number(0))
        parts: list[Value] = []
        for i in range(op.size):
            last = i - op.size + 1
            # The slice that ends with the axis has no end that counts from it.
            stop = last if last else np.iinfo(np.int64).max
            bounds = [spell.ints([n]) for n in (i, stop, 1, axis)]
            parts.append(spell.add(Slice(), padded, *bounds))
        total = parts[0]
        for part in parts[1:]:
            total = spell.add(Add(), total, part)
    factor = spell.number(op.alpha / op.size ** len(axes))
    scale = spell.add(Add(), spell.add(Multiply(), total, factor), spell.number(op.bias))
    return spell.done(spell.add(Divide(), x, spell.add(Power(), scale, spell.number(op.beta))))


_RULES = (
    Rule("spell_mvn", ("MVN",), spell_mvn),
    Rule("spell_normalize_l2", ("NormalizeL2",), spell_normalize_l2),
    Rule("spell_lrn", ("LRN",), spell_lrn),
)

decompose_norms = Pass("decompose_norms", lambda options: _RULES)
