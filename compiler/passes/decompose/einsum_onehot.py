"""Einsum and OneHot in operations that kernels and other patterns know.

A product over letters is one MatMul: letters of both operands and the result are its batches,
letters that the result lacks are summed, the last letter of the left operand alone makes the rows
and those of the right operand alone the columns. Several letters are one axis where their sizes
are known; where they are not, they are batches that the other operand shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import (
    Add,
    Convert,
    Einsum,
    Equal,
    Less,
    MatMul,
    Multiply,
    OneHot,
    OneHot1,
    ReduceSum,
    Reshape,
    Select,
    Squeeze,
    Unsqueeze,
)
from ....ir.types import normalize_axis
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..layout.cancel_transposes import add_transpose
from ..match.values import dtype_of, shape_of

# Axes of "..." get letters of their own, which no equation holds.
_DOT = 0xE000


@dataclass(frozen=True)
class _Term:
    """A value and the letters of its axes."""

    value: Value
    letters: str


def decompose_einsum(graph: Graph, node: int, op: Einsum) -> Patch | MatchFailure | None:
    """Products over letters, two at a time."""
    inputs = [v for v in graph.inputs(node) if v is not None]
    terms, sizes = list[_Term](), dict[str, Dim]()
    written, out = op.terms()
    dots = 0
    for value, text in zip(inputs, written, strict=True):
        shape = shape_of(graph, value)
        if shape is None:
            return MatchFailure("a rank is unknown")
        rest = len(shape) - len(text.replace("...", "")) if "..." in text else 0
        dots = max(dots, rest)
        letters = text.replace("...", _dots(rest))
        if len(set(letters)) < len(letters):
            return MatchFailure("a diagonal")
        for letter, size in zip(letters, shape, strict=True):
            if (sizes.setdefault(letter, size) == 1) != (size == 1):
                return MatchFailure("a size of 1 that broadcasts")
            sizes[letter] = size if isinstance(size, int) else sizes[letter]
        terms.append(_Term(value, letters))
    out = out.replace("...", _dots(dots))
    patch = Patch()
    while len(terms) > 1:
        left, right, *others = terms
        kept_axes = "".join(
            c
            for c in dict.fromkeys(left.letters + right.letters)
            if c in out or any(c in t.letters for t in others)
        )
        kept_axes = out if not others else kept_axes
        made = _product(patch, left, right, kept_axes, sizes)
        if made is None:
            return MatchFailure("several sizes that are summed over are unknown")
        terms = [made, *others]
    found = _sum_letters(patch, terms[0], out)
    return patch.replace(Value(node), _reorder_term(patch, found, out).value)


def _dots(count: int) -> str:
    """Letters of the dots' axes: the last one is the same in every term."""
    return "".join(chr(_DOT + count - i) for i in range(count))


def _product(patch: Patch, a: _Term, b: _Term, out: str, sizes: dict[str, Dim]) -> _Term | None:
    a = _sum_letters(patch, a, b.letters + out)
    b = _sum_letters(patch, b, a.letters + out)
    summed = [c for c in a.letters if c in b.letters and c not in out]
    if not summed:
        order = [c for c in out if c in a.letters or c in b.letters]
        x, y = (_align_letters(patch, t, order) for t in (a, b))
        return _Term(patch.add(Multiply(), x, y), "".join(order))
    if len(summed) > 1 and not _has_known_sizes(summed, sizes):
        return None
    rows = [c for c in out if c in a.letters and c not in b.letters][-1:]
    columns = [c for c in out if c in b.letters and c not in a.letters]
    columns = columns if _has_known_sizes(columns, sizes) else columns[-1:]
    batch = [c for c in out if c in a.letters + b.letters and c not in rows + columns]
    x = _merge_axes(
        patch, _align_letters(patch, a, [*batch, *rows, *summed]), len(batch), rows, summed, sizes
    )
    shared = list(batch)
    while shared and shared[0] not in b.letters:
        shared.pop(0)
    last = len(columns) < 2
    order = [*columns, *summed] if last else [*summed, *columns]
    if not last and len(summed) > 1:
        last, order = True, [*columns, *summed]
    first, second = (columns, summed) if last else (summed, columns)
    y = _merge_axes(
        patch, _align_letters(patch, b, [*shared, *order]), len(shared), first, second, sizes
    )
    made = patch.add(MatMul(transpose_b=last), x, y)
    alone = [*([] if rows else [len(batch)]), *([] if columns else [len(batch) + 1])]
    if alone:
        made = patch.add(Squeeze(), made, patch.integers(alone))
    if len(columns) > 1:
        target = [*[0] * len(batch + rows), *(sizes[c] for c in columns)]
        made = patch.add(Reshape(special_zero=True), made, patch.integers(target))
    return _Term(made, "".join([*batch, *rows, *columns]))


def _merge_axes(
    patch: Patch,
    value: Value,
    batch: int,
    first: Sequence[str],
    second: Sequence[str],
    sizes: dict[str, Dim],
) -> Value:
    """[batch..., first..., second...] as matrices: each group is one axis."""
    if not first or not second:
        axis = batch if not first else batch + len(first)
        value = patch.add(Unsqueeze(), value, patch.integers([axis]))
    if max(len(first), len(second)) < 2:
        return value
    # A first group of one letter keeps its position, whatever its size; besides several letters
    # all sizes are known.
    target = [*[0] * batch, 0 if len(first) < 2 else _count(first, sizes), _count(second, sizes)]
    return patch.add(Reshape(special_zero=True), value, patch.integers(target))


def _count(letters: Sequence[str], sizes: dict[str, Dim]) -> int:
    return math.prod(s for c in letters if isinstance(s := sizes[c], int))


def _has_known_sizes(letters: Sequence[str], sizes: dict[str, Dim]) -> bool:
    """Whether the letters' sizes are known and not 0, which a Reshape takes for another size."""
    return all(isinstance(sizes[c], int) and sizes[c] != 0 for c in letters)


def _sum_letters(patch: Patch, term: _Term, wanted: str) -> _Term:
    """The term, summed over the letters that are not in the output."""
    axes = [i for i, c in enumerate(term.letters) if c not in wanted]
    if not axes:
        return term
    value = patch.add(ReduceSum(keep_dims=False), term.value, patch.integers(axes))
    return _Term(value, "".join(c for c in term.letters if c in wanted))


def _align_letters(patch: Patch, term: _Term, order: Sequence[str]) -> Value:
    """The term with its axes in this order, and one of size 1 for every letter it lacks."""
    found = _reorder_term(patch, term, "".join(c for c in order if c in term.letters))
    missing = [i for i, c in enumerate(order) if c not in term.letters]
    if not missing:
        return found.value
    return patch.add(Unsqueeze(), found.value, patch.integers(missing))


def _reorder_term(patch: Patch, term: _Term, letters: str) -> _Term:
    if letters == term.letters:
        return term
    order = [term.letters.index(c) for c in letters]
    return replace(term, value=add_transpose(patch, term.value, order), letters=letters)


def _as_scalar(graph: Graph, patch: Patch, value: Value) -> Value:
    """A value of one element, which may have any number of axes, without them."""
    if shape_of(graph, value) == ():
        return value
    return patch.add(Reshape(), value, patch.integers([]))


def decompose_one_hot(graph: Graph, node: int, op: OneHot1) -> Patch | MatchFailure | None:
    """Indices compared with every index along the new axis."""
    indices, depth, on, off = (graph.input(node, port) for port in range(4))
    shape, known = shape_of(graph, indices), graph.known_value(depth)
    if shape is None or known is None or known.dtype.kind not in "iu":
        return MatchFailure("the rank or the depth is not known")
    count = int(known.reshape(-1)[0])
    if count > 1 << 16:
        return MatchFailure("a table of indices that is large")
    at = normalize_axis(op.axis, len(shape) + 1)
    patch = Patch()
    on, off = (_as_scalar(graph, patch, v) for v in (on, off))
    i64 = dtype_of(graph, indices) is DType.i64
    value = indices if i64 else patch.add(Convert(DType.i64), indices)
    if isinstance(op, OneHot) and op.negative_indices_mode.lower() == "normalize":
        size, zero = (patch.integers(n) for n in (count, 0))
        below = patch.add(Less(), value, zero)
        value = patch.add(Select(), below, patch.add(Add(), value, size), value)
    wide = patch.add(Unsqueeze(), value, patch.integers([at]))
    positions = np.arange(count, dtype=np.int64).reshape([-1] + [1] * (len(shape) - at))
    same = patch.add(Equal(), wide, patch.constant(positions, DType.i64))
    return patch.replace(Value(node), patch.add(Select(), same, on, off))


_RULES = (
    op_rule("decompose_einsum", (Einsum,), decompose_einsum),
    op_rule("decompose_one_hot", (OneHot1,), decompose_one_hot),
)

decompose_einsum_onehot = Pass("decompose_einsum_onehot", lambda options: _RULES)
