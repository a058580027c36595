"""Operators that onnxruntime had (domain com.microsoft) before ONNX had them, and their like.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Inverse,
    Range,
    ReduceSum,
    Reshape,
    Sqrt,
    SquaredDifference,
    Unique,
    Unsqueeze,
)
from ..elementary import convert_value, unary
from ..indexing import gather_nd
from ..nn.sampling import grid_sample
from ..padding import pad as onnx_pad
from ..ranking import triangle

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def pad(n: ImportContext) -> Value:
    """ONNX's; `pads` may also be one row."""
    if n.rank(n.input(1)) == 2:
        flat = n.add(Reshape(), n.input(1), n.ints_value([-1]))
        n = replace(n, inputs=[n.inputs[0], flat, *n.inputs[2:]])
    return onnx_pad(n)


def expand_dims(n: ImportContext) -> Value:
    axis = n.add(Reshape(), convert_value(n, n.input(1), DType.i64), n.ints_value([1]))
    return n.add(Unsqueeze(), n.input(0), axis)


def range_(n: ImportContext) -> Value:
    """Like ONNX's; each bound may be a vector of one element, and the step may be left out."""
    given = [n.input(0), n.input(1), n.optional(2) or n.like(n.input(0), 1)]
    bounds = [v if n.shape(v) == () else n.add(Reshape(), v, n.ints_value([])) for v in given]
    return n.add(Range(n.dtype(n.input(0))), *bounds)


def unique(n: ImportContext) -> Imported:
    """Distinct elements in order of first occurrence, which of them each is, and their counts."""
    values, _, inverse, counts = n.add_all(Unique(sorted=False), n.input(0), None)
    return [values, inverse, counts]


def pairwise_distances(n: ImportContext) -> Value:
    """Distances of each row of A [M, N] from each row of B [K, N]."""
    metric = n.text("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise n.unsupported_error(f"CDist with metric {metric[:40]}")
    a, b = (n.add(Unsqueeze(), n.input(i), n.ints_value([axis])) for i, axis in ((0, 1), (1, 0)))
    found = n.add(ReduceSum(), n.add(SquaredDifference(), a, b), n.ints_value([2]))
    return n.add(Sqrt(), found) if metric == "euclidean" else found


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}Inverse": {1: unary(Inverse)},
    f"{_MS}Trilu": {1: triangle},
    f"{_MS}GatherND": {1: gather_nd},
    f"{_MS}GridSample": {1: grid_sample},
    f"{_MS}Pad": {1: pad},
    f"{_MS}ExpandDims": {1: expand_dims},
    f"{_MS}Range": {1: range_},
    f"{_MS}Unique": {1: unique},
    f"{_MS}CDist": {1: pairwise_distances},
}
