"""SliceScatter as ScatterUpdate, one axis after another; ConvertPromoteTypes as two Converts."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Graph, Value
from ....ir.ops import Broadcast, Convert, ScatterUpdate
from ....ir.ops.shape_inference import known_ints, unique_axes
from ....ir.slice_bounds import index_slice
from ....ir.types import TensorType
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of
from .node_builder import NodeBuilder

# Longer lists of indices are constants that cost more than the copy on the host.
_MAX_INDICES = 1 << 16


def decompose_slice_scatter(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Update the slice on the first axis with what the other axes make of it."""
    data, updates, *bounds = graph.inputs(node)
    assert data is not None and updates is not None
    shape = shape_of(graph, data)
    known = [None if v is None else known_ints(graph.fact(v)) for v in bounds]
    if shape is None or any(k is None for k, v in zip(known, bounds, strict=True) if v is not None):
        return MatchFailure("the rank or the slice is known at run time only")
    starts, stops, steps, *axes = ([] if k is None else k for k in known)
    listed = unique_axes(axes[0] if axes else range(len(starts)), len(shape))
    cuts: list[tuple[int, range]] = []
    for axis, start, stop, step in zip(listed, starts, stops, steps, strict=True):
        size = shape[axis]
        if not isinstance(size, int):
            return MatchFailure("the size of a sliced axis is known at run time only")
        found = index_slice(start, stop, step, size)
        cuts.append((axis, range(*found.indices(size))))
    if any(len(cut) > _MAX_INDICES for _, cut in cuts):
        return MatchFailure("a long slice")
    build = NodeBuilder(graph, node)
    slice_shape = list(shape)
    for axis, cut in cuts:
        slice_shape[axis] = len(cut)
    have = shape_of(graph, updates)
    if have is None or list(have) != slice_shape:
        if not all(isinstance(d, int) for d in slice_shape):
            return MatchFailure("updates may broadcast to a size known at run time only")
        updates = build.add(
            Broadcast(), updates, build.ints([d for d in slice_shape if isinstance(d, int)])
        )
    return build.patch.replace(Value(node), _scatter(build, data, updates, cuts))


def _scatter(
    build: NodeBuilder, data: Value, updates: Value, cuts: Sequence[tuple[int, range]]
) -> Value:
    if not cuts:
        return updates
    (axis, cut), *rest = cuts
    if rest:
        # A slice that no element is in has no step to count with.
        first, step = (cut[0], cut.step) if len(cut) else (0, 1)
        stop = first + len(cut) * step
        inner = build.cut(data, axis, first, stop if stop >= 0 else -(1 << 62), step)
        updates = _scatter(build, inner, updates, rest)
    indices = build.ints(list(cut))
    return build.add(ScatterUpdate(), data, indices, updates, build.patch.integers(axis))


def decompose_promotion(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Each input converted to the common type."""
    patch = Patch()
    for port in (0, 1):
        value, out = graph.input(node, port), Value(node, port)
        type_ = graph.type(out)
        assert isinstance(type_, TensorType)
        if dtype_of(graph, value) is not type_.dtype:
            value = patch.add(Convert(type_.dtype), value)
        patch.replace(out, value)
    return patch


_RULES = (
    Rule("decompose_slice_scatter", ("SliceScatter",), decompose_slice_scatter),
    Rule("decompose_convert_promote_types", ("ConvertPromoteTypes",), decompose_promotion),
)

decompose_slice_scatter_promotion = Pass("decompose_slice_scatter", lambda options: _RULES)
