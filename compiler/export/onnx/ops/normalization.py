"""Normalisations."""

from __future__ import annotations

from typing import Any

from .....ir.dims import eq
from .....ir.ops import (
    LRN,
    MVN,
    MVN2,
    BatchNormInference,
    BatchNormInference1,
    GroupNormalization,
    LayerNorm,
)
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output, widen_input


def _batch_norm(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, BatchNormInference1 | BatchNormInference)
    order = (2, 0, 1, 3, 4) if isinstance(op, BatchNormInference1) else range(5)
    names = [n.input(port) for port in order]
    return n.add("BatchNormalization", *names, epsilon=op.epsilon)


def _layer_norm(n: ExportContext) -> Exported:
    """Scale and bias have the shape of the axes that are normalised; else it is decomposed."""
    op = n.cast_op(LayerNorm)
    op_type = "LayerNormalization" if op.centre else "RMSNormalization"
    shape = n.shape(0)
    if shape is None or n.optional(1) is None or not n.takes(op_type, n.dtype(0)):
        return None
    inner = shape[normalize_axis(op.axis, len(shape)) :]
    given = [port for port in (1, 2) if n.optional(port) is not None]
    if not op.centre and len(given) > 1:
        return None
    for port in given:
        own = n.shape(port)
        if own is None or len(own) != len(inner):
            return None
        if not all(eq(a, b) is True for a, b in zip(own, inner, strict=True)):
            return None
    return n.add(op_type, *n.names[:3], axis=op.axis, epsilon=op.eps)


def _mvn(n: ExportContext) -> Exported:
    op, rank = n.op, n.rank(0)
    assert isinstance(op, MVN2 | MVN)
    axes = list(op.axes(rank)) if isinstance(op, MVN2) else n.ints_of(1, "axes")
    axes = sorted({normalize_axis(a, rank) for a in axes})
    outside = isinstance(op, MVN) and op.eps_outside
    x, wide = widen_input(n)
    if not axes:
        return None
    centred = n.add("Sub", x, n.reduce("ReduceMean", x, axes))
    if not op.normalize_variance:
        return narrow_output(n, centred, wide)
    variance = n.reduce("ReduceMean", n.add("Mul", centred, centred), axes)
    eps = n.scalar(op.eps, wide)
    if outside:
        deviation = n.add("Add", n.add("Sqrt", variance), eps)
    else:
        deviation = n.add("Sqrt", n.add("Add", variance, eps))
    return narrow_output(n, n.add("Div", centred, deviation), wide)


def _group_norm(n: ExportContext) -> Exported:
    """From operator set 21 on scale and bias are one number per channel, as ours; before, groups
    are the channels of an InstanceNormalization."""
    op, rank = n.cast_op(GroupNormalization), n.rank(0)
    if n.opset >= 21:
        attributes: dict[str, Any] = {"num_groups": op.num_groups, "epsilon": op.epsilon}
        return n.add("GroupNormalization", *n.names, **attributes)
    dtype = n.dtype(0)
    groups = n.add("Reshape", n.input(0), n.ints([0, op.num_groups, -1]))
    one, zero = (n.constant([v] * op.num_groups, dtype) for v in (1, 0))
    found = n.add("InstanceNormalization", groups, one, zero, epsilon=op.epsilon)
    found = n.add("Reshape", found, n.add("Shape", n.input(0)))
    ends = n.ints([-1, *[1] * (rank - 2)])
    scale, bias = (n.add("Reshape", n.input(port), ends) for port in (1, 2))
    return n.add("Add", n.add("Mul", found, scale), bias)


def _lrn(n: ExportContext) -> Exported:
    """Over channels it is ONNX's."""
    op, axes = n.cast_op(LRN), n.known_ints(1)
    if axes is None or [normalize_axis(a, n.rank(0)) for a in axes] != [1]:
        return None
    if not n.takes("LRN", n.dtype(0)):
        return None
    attributes: dict[str, Any] = {
        "alpha": op.alpha,
        "beta": op.beta,
        "bias": op.bias,
        "size": op.size,
    }
    return n.add("LRN", n.input(0), **attributes)


EXPORTERS: dict[str, ExportFunction] = {
    "BatchNormInference": _batch_norm,
    "LayerNorm": _layer_norm,
    "RMSNorm": _layer_norm,
    "MVN": _mvn,
    "GroupNormalization": _group_norm,
    "LRN": _lrn,
}
