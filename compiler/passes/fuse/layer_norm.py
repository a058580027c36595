"""Recognise normalisation over the last axes written in primitive operations.

First the centre: (x - mean) / sqrt(var + eps) becomes MVN, x / sqrt(mean x^2 + eps) RMSNorm. Then
a scale and a bias of the normalised shape join it: LayerNorm or RMSNorm with three inputs.
"""

from __future__ import annotations

import math

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import MVN, LayerNorm, ReduceMean, RMSNorm
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..match.values import (
    SMOOTH,
    constant_scalar,
    dtype_of,
    known_axes,
    same_shape,
    shape_of,
    split_constant_operand,
)


@dataclass(frozen=True)
class _Scale:
    """What a value is divided by: sqrt(mean(square) + eps), or sqrt(mean(square)) + eps."""

    mean: int  # the ReduceMean
    eps: float
    outside: bool = False


def fuse_centre(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """d / sqrt(mean d^2 + eps), where d is x - mean x (MVN) or x itself (RMSNorm)."""
    found = _quotient(graph, node)
    if found is None:
        return None
    value, scale = found
    if not _is_square(graph, graph.input(scale.mean, 0), value):
        return None
    if dtype_of(graph, value) not in SMOOTH or not same_shape(graph, value, Value(node)):
        return MatchFailure("the normalised value is not a float tensor, or it is broadcast")
    axes = _last_axes(graph, scale.mean)
    if isinstance(axes, MatchFailure):
        return axes
    patch = Patch()
    centred = _match_centering(graph, value)
    if centred is None:
        if scale.outside:
            return MatchFailure("epsilon is added outside of the root")
        made = patch.add(RMSNorm(-len(axes), scale.eps), value, None, None)
        return patch.replace(Value(node), made)
    x, mean = centred
    if _last_axes(graph, mean) != axes:
        return MatchFailure("mean and variance are taken over different axes")
    listed = patch.integers(axes)
    op = MVN(True, scale.eps, "OUTSIDE_SQRT" if scale.outside else "INSIDE_SQRT")
    return patch.replace(Value(node), patch.add(op, x, listed))


def _quotient(graph: Graph, node: int) -> tuple[Value, _Scale] | None:
    """What is divided, and by which root of a mean: x / r, x * (1 / r) or x * s ** -0.5."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    if graph.op(node).kind == "Divide":
        root = _match_root(graph, right)
        return None if root is None else (left, root)
    for value, other in ((left, right), (right, left)):
        root = _inverse_root(graph, other)
        if root is not None:
            return value, root
    return None


def _inverse_root(graph: Graph, value: Value) -> _Scale | None:
    kind = graph.op(value.node).kind
    if kind == "Divide" and constant_scalar(graph, graph.input(value.node, 0)) == 1:
        return _match_root(graph, graph.input(value.node, 1))
    if kind == "Power":
        base, exponent = (
            graph.input(value.node, 0),
            constant_scalar(graph, graph.input(value.node, 1)),
        )
        if exponent == -1:
            return _match_root(graph, base)
        if exponent == -0.5:
            return _mean_and_epsilon(graph, base)
    return None


def _match_root(graph: Graph, value: Value) -> _Scale | None:
    """sqrt(mean + eps), or sqrt(mean) + eps."""
    kind = graph.op(value.node).kind
    if kind == "Sqrt":
        return _mean_and_epsilon(graph, graph.input(value.node, 0))
    if kind == "Power" and constant_scalar(graph, graph.input(value.node, 1)) == 0.5:
        return _mean_and_epsilon(graph, graph.input(value.node, 0))
    if kind == "Add":
        found = split_constant_operand(graph, value.node)
        inner = None if found is None else _match_root(graph, found[0])
        if found is not None and inner is not None and inner.eps == 0 and not inner.outside:
            return _Scale(inner.mean, float(found[1]), outside=True)
    return None


def _mean_and_epsilon(graph: Graph, value: Value) -> _Scale | None:
    eps = 0.0
    if graph.op(value.node).kind == "Add":
        found = split_constant_operand(graph, value.node)
        if found is None:
            return None
        value, eps = found[0], float(found[1])
    if graph.op(value.node).kind != "ReduceMean" or not (math.isfinite(eps) and eps >= 0):
        return None
    return _Scale(value.node, eps)


def _is_square(graph: Graph, square: Value, value: Value) -> bool:
    """Whether `square` is value ** 2 in one of its forms."""
    kind, inputs = graph.op(square.node).kind, graph.inputs(square.node)
    if kind == "Multiply":
        return inputs == [value, value]
    if kind == "Power":
        return inputs[0] == value and constant_scalar(graph, inputs[1]) == 2
    centre = producer(graph, value, "Subtract")
    return (
        kind == "SquaredDifference"
        and centre is not None
        and set(graph.inputs(centre)) == set(inputs)
    )


def _match_centering(graph: Graph, value: Value) -> tuple[Value, int] | None:
    """(x, the ReduceMean of x) where `value` is x - mean x."""
    centre = producer(graph, value, "Subtract")
    if centre is None:
        return None
    x = graph.input(centre, 0)
    mean = producer(graph, graph.input(centre, 1), "ReduceMean")
    return (x, mean) if mean is not None and graph.input(mean, 0) == x else None


def _last_axes(graph: Graph, mean: int) -> list[int] | MatchFailure:
    """The axes of a ReduceMean, which keeps them and takes the last ones."""
    op, shape = graph.op(mean), shape_of(graph, graph.input(mean, 0))
    assert isinstance(op, ReduceMean)
    axes = None if shape is None else known_axes(graph, graph.input(mean, 1), len(shape))
    if shape is None or axes is None:
        return MatchFailure("the axes are unknown")
    if not op.keep_dims:
        return MatchFailure("the mean drops its axes")
    if not axes or sorted(axes) != list(range(len(shape) - len(axes), len(shape))):
        return MatchFailure("the normalised axes are not the last ones")
    return sorted(axes)


def take_scale(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Multiply of a normalisation without scale and bias."""
    return _join(graph, node, 1)


def take_bias(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Add to a normalisation without bias."""
    return _join(graph, node, 2)


def _join(graph: Graph, node: int, port: int) -> Patch | MatchFailure | None:
    """Make the other operand of `node` input `port` of the normalisation."""
    refused: MatchFailure | None = None
    left, right = graph.input(node, 0), graph.input(node, 1)
    for value, other in ((left, right), (right, left)):
        found = _norm(graph, value)
        if found is None:
            continue
        op, inputs = found
        if inputs[2] is not None:
            continue  # it is complete: a residual sum, say
        if inputs[port] is not None:
            refused = MatchFailure("the normalisation has a scale already")
        elif not has_one_use(graph, value):
            refused = MatchFailure("the normalised value has other readers")
        elif not _has_normalised_shape(graph, value, other, -op.axis):
            refused = MatchFailure("the operand does not have the normalised shape")
        else:
            inputs[port] = other
            patch = Patch()
            return patch.replace(Value(node), patch.add(op, *inputs))
    return refused


def _norm(graph: Graph, value: Value) -> tuple[LayerNorm, list[Value | None]] | None:
    """The normalisation that makes `value` as LayerNorm or RMSNorm with three inputs."""
    op, inputs = graph.op(value.node), graph.inputs(value.node)
    shape = shape_of(graph, value)
    if shape is None:
        return None
    if isinstance(op, LayerNorm):
        axis = op.axis if op.axis < 0 else op.axis - len(shape)
        named = type(op)(axis, op.eps)
        return named, [*inputs, *[None] * (3 - len(inputs))]
    if not isinstance(op, MVN) or not op.normalize_variance or op.eps_outside:
        return None
    axes = known_axes(graph, inputs[1], len(shape))
    if not axes or sorted(axes) != list(range(len(shape) - len(axes), len(shape))):
        return None
    return LayerNorm(-len(axes), op.eps), [inputs[0], None, None]


def _has_normalised_shape(graph: Graph, value: Value, other: Value, count: int) -> bool:
    """Whether `other` varies along the last `count` axes only, and broadcasts to them."""
    shape, data = shape_of(graph, other), shape_of(graph, value)
    if shape is None or data is None or len(shape) > len(data):
        return False
    if dtype_of(graph, other) is not dtype_of(graph, value):
        return False
    split = max(0, len(shape) - count)
    leading, last = shape[:split], shape[split:]
    pairs = zip(reversed(last), reversed(data), strict=False)
    return all(eq(d, 1) is True for d in leading) and all(
        eq(have, 1) is True or eq(have, want) is True for have, want in pairs
    )


_RULES = (
    Rule("fuse_centre", ("Divide", "Multiply"), fuse_centre),
    Rule("take_scale", ("Multiply",), take_scale),
    Rule("take_bias", ("Add",), take_bias),
)

fuse_layer_norm = Pass("fuse_layer_norm", lambda options: _RULES)
