"""Batch normalisation with known statistics becomes a scale and a shift per channel; scales of a
convolution's output go into its filters, shifts into one addend.

Factors are computed in f64 and rounded once. The filters' products round differently than the
operations they replace (docs/numerics.md allows it: no promise of bits across passes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Add, Constant, Multiply
from ....ir.ops.nn.normalize import BatchNormInference, BatchNormInference1
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import dtype_of, same_shape, shape_of

Array = npt.NDArray[Any]

# Narrower floats would round a scale before it is used.
_WIDE = (DType.f32, DType.f64)
_CONVOLUTIONS = ("Convolution", "GroupConvolution")


def _array(graph: Graph, value: Value) -> Array | None:
    op = graph.op(value.node)
    return op.data.astype(np.float64) if isinstance(op, Constant) else None


def _add_constant(patch: Patch, array: Array, dtype: DType) -> Value:
    # A scale beyond the type's range is infinite, as it is for the operations replaced.
    with np.errstate(over="ignore"):
        return patch.constant(array, dtype)


def decompose_batch_norm(
    graph: Graph, node: int, op: BatchNormInference
) -> Patch | MatchFailure | None:
    """x * scale + shift, both [C, 1, ...]."""
    inputs = graph.inputs(node)
    data = 2 if isinstance(op, BatchNormInference1) else 0
    x = inputs[data]
    assert x is not None
    shape, dtype = shape_of(graph, x), dtype_of(graph, x)
    if shape is None or dtype not in _WIDE:
        return MatchFailure("the rank is unknown, or the type is narrow")
    known = [_array(graph, v) for i, v in enumerate(inputs) if i != data and v is not None]
    if any(k is None for k in known):
        return MatchFailure("the statistics are not constants")
    gamma, beta, mean, variance = (k.reshape(-1) for k in known if k is not None)
    ones = (1,) * (len(shape) - 2)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + op.epsilon)
        shift = beta - mean * scale
    patch = Patch()
    scaled = patch.add(Multiply(), x, _add_constant(patch, scale.reshape(-1, *ones), dtype))
    moved = patch.add(Add(), scaled, _add_constant(patch, shift.reshape(-1, *ones), dtype))
    return patch.replace(Value(node), moved)


def per_channel(graph: Graph, value: Value, shape: Sequence[object]) -> Array | None:
    """The values of a constant that differs along axis 1 of `shape` only: [C], else None."""
    array = _array(graph, value)
    channels = shape[1] if len(shape) > 2 else None
    if array is None or array.ndim > len(shape) or not isinstance(channels, int):
        return None
    full = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(n != 1 for i, n in enumerate(full.shape) if i != 1):
        return None
    found = full.reshape(-1)
    return np.broadcast_to(found, (channels,)) if found.size in (1, channels) else None


def _operands(graph: Graph, node: int) -> list[tuple[Value, Array]]:
    """(the other operand, values per channel) for each constant operand of a commutative one."""
    found: list[tuple[Value, Array]] = []
    left, right = graph.input(node, 0), graph.input(node, 1)
    for value, constant in ((left, right), (right, left)):
        shape = shape_of(graph, value)
        array = None if shape is None else per_channel(graph, constant, shape)
        if array is not None and same_shape(graph, value, Value(node)):
            found.append((value, array))
    return found


def scale_filters(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A convolution times a number per channel: the filters take it."""
    for value, scale in _operands(graph, node):
        op = graph.op(value.node)
        if op.kind not in _CONVOLUTIONS:
            continue
        dtype, (data, filters) = dtype_of(graph, value), graph.inputs(value.node)
        weights = None if filters is None else _array(graph, filters)
        if weights is None or dtype not in _WIDE:
            return MatchFailure("the filters are not constants, or are narrow")
        if not has_one_use(graph, value):
            return MatchFailure("the convolution has other readers")
        lead = weights.shape[: 2 if op.kind == "GroupConvolution" else 1]
        factors = scale.reshape(*lead, *(1,) * (weights.ndim - len(lead)))
        patch = Patch()
        with np.errstate(all="ignore"):
            scaled = _add_constant(patch, weights * factors, dtype)
        return patch.replace(Value(node), patch.add(op, data, scaled))
    return None


def _match_shift(graph: Graph, value: Value) -> tuple[Value, Array] | None:
    """A convolution and the addend per channel of an Add that alone reads it."""
    if graph.op(value.node).kind != "Add" or not has_one_use(graph, value):
        return None
    for inner, shift in _operands(graph, value.node):
        if graph.op(inner.node).kind in _CONVOLUTIONS and has_one_use(graph, inner):
            return inner, shift
    return None


def scale_shifted(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(convolution + b) * s = convolution * s + b * s."""
    for value, scale in _operands(graph, node):
        found = _match_shift(graph, value)
        dtype, shape = dtype_of(graph, value), shape_of(graph, value)
        if found is None or shape is None or dtype not in _WIDE:
            continue
        inner, shift = found
        ones, patch = (1,) * (len(shape) - 2), Patch()
        scaled = patch.add(Multiply(), inner, _add_constant(patch, scale.reshape(-1, *ones), dtype))
        with np.errstate(all="ignore"):
            moved = _add_constant(patch, (shift * scale).reshape(-1, *ones), dtype)
        return patch.replace(Value(node), patch.add(Add(), scaled, moved))
    return None


def join_shifts(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(convolution + a) + b = convolution + (a + b)."""
    for value, second in _operands(graph, node):
        found = _match_shift(graph, value)
        dtype, shape = dtype_of(graph, value), shape_of(graph, value)
        if found is None or shape is None or dtype not in _WIDE:
            continue
        inner, first = found
        patch = Patch()
        with np.errstate(all="ignore"):
            both = (first + second).reshape(-1, *(1,) * (len(shape) - 2))
        return patch.replace(
            Value(node), patch.add(Add(), inner, _add_constant(patch, both, dtype))
        )
    return None


_RULES = (
    op_rule("decompose_batch_norm", (BatchNormInference,), decompose_batch_norm),
    Rule("scale_filters", ("Multiply",), scale_filters),
    Rule("scale_shifted", ("Multiply",), scale_shifted),
    Rule("join_shifts", ("Add",), join_shifts),
)

fold_batch_norm = Pass("fold_batch_norm", lambda options: _RULES)
