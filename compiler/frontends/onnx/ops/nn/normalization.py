"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    LRN,
    MVN,
    Add,
    BatchNormInference,
    Divide,
    Equal,
    GroupNormalization,
    LayerNorm,
    Multiply,
    ReduceL1,
    ReduceL2,
    ReduceMean,
    RMSNorm,
    Select,
    Sqrt,
    Subtract,
)
from ..elementary import convert_value, unsqueeze_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def layer_normalization(n: ImportContext) -> Imported:
    """Further outputs are the mean and 1 / sqrt(variance + epsilon)."""
    x, axis, eps = n.input(0), n.integer("axis", -1), n.number("epsilon", 1e-5)
    stash = n.integer("stash_type", 1)
    result = n.add(LayerNorm(axis, eps), x, n.input(1), n.optional(2))
    if not (n.wants(1) or n.wants(2)):
        return result
    if stash == 1 and n.dtype(x) is not DType.f64:
        x = convert_value(n, x, DType.f32)
    return [result, *mean_and_deviation(n, x, axis, eps)]


def mean_and_deviation(n: ImportContext, x: Value, axis: int, eps: float) -> list[Value]:
    """The mean over the axes from `axis` on, and 1 / sqrt(variance + eps)."""
    rank = n.rank(x)
    axes = n.ints_value(range(n.axis(axis, rank), rank))
    mean = n.add(ReduceMean(keep_dims=True), x, axes)
    centred = n.add(Subtract(), x, mean)
    variance = n.add(ReduceMean(keep_dims=True), n.add(Multiply(), centred, centred), axes)
    deviation = n.add(Sqrt(), n.add(Add(), variance, n.like(x, eps)))
    return [mean, n.add(Divide(), n.like(x, 1), deviation)]


def rms_normalization(n: ImportContext) -> Value:
    x, axis, eps = n.input(0), n.integer("axis", -1), n.number("epsilon", 1e-5)
    n.has("stash_type")
    scale, dtype = n.input(1), n.dtype(n.input(1))
    result = n.add(RMSNorm(axis, eps), x, convert_value(n, scale, n.dtype(x)))
    return convert_value(n, result, dtype)


def batch_normalization(n: ImportContext) -> Imported:
    x, *parameters = (n.input(i) for i in range(5))
    if n.version < 9 and not n.flag("spatial", True):
        raise n.unsupported_error("BatchNormalization with spatial=0")
    if n.flag("training_mode"):
        return _trained_normalization(n)
    if (n.version < 7 and not n.flag("is_test")) or any(n.wants(i) for i in range(1, 5)):
        raise n.unsupported_error("BatchNormalization in training mode")
    n.has("momentum")
    op = BatchNormInference(n.number("epsilon", 1e-5))
    return n.add(op, x, *(convert_value(n, p, n.dtype(x)) for p in parameters))


def _trained_normalization(n: ImportContext) -> Imported:
    """Mean and variance of the batch itself, and their running averages."""
    x, scale, bias, *running = (n.input(i) for i in range(5))
    momentum, own = n.number("momentum", 0.9), n.dtype(running[0])
    axes = n.ints_value(i for i in range(n.rank(x)) if i != 1)
    mean = n.add(ReduceMean(), x, axes)
    centred = n.add(Subtract(), x, n.add(ReduceMean(keep_dims=True), x, axes))
    variance = n.add(ReduceMean(), n.add(Multiply(), centred, centred), axes)
    parameters = [convert_value(n, v, n.dtype(x)) for v in (scale, bias)]
    op = BatchNormInference(n.number("epsilon", 1e-5))
    result = n.add(op, x, *parameters, mean, variance)
    averages: list[Value] = []
    for before, now in zip(running, (mean, variance), strict=True):
        decayed = n.add(Multiply(), before, n.like(before, momentum))
        fresh = n.add(Multiply(), convert_value(n, now, own), n.like(before, 1 - momentum))
        averages.append(n.add(Add(), decayed, fresh))
    return [result, *averages]


def instance_normalization(n: ImportContext) -> Value:
    x, eps = n.input(0), n.number("epsilon", 1e-5)
    n.has("consumed_inputs")  # before version 6: inputs whose memory may be reused
    spatial = range(2, n.rank(x))
    normal = n.add(MVN(True, eps, "INSIDE_SQRT"), x, n.ints_value(spatial))
    scale, bias = (unsqueeze_value(n, n.input(i), range(1, n.rank(x) - 1)) for i in (1, 2))
    return n.add(Add(), n.add(Multiply(), normal, scale), bias)


def group_normalization(n: ImportContext) -> Value:
    """Since version 21, scale and bias are per channel."""
    x, dtype = n.input(0), n.dtype(n.input(0))
    n.has("stash_type")
    op = GroupNormalization(n.integer("num_groups"), n.number("epsilon", 1e-5))
    return n.add(op, x, *(convert_value(n, n.input(i), dtype) for i in (1, 2)))


def mean_variance_normalization(n: ImportContext) -> Value:
    axes = n.ints_value(n.integers("axes", [0, 2, 3]))
    return n.add(MVN(True, 1e-9, "OUTSIDE_SQRT"), n.input(0), axes)


def lp_normalization(n: ImportContext) -> Value:
    """x / its norm along an axis, 0 where the norm is 0."""
    x, p = n.input(0), n.integer("p", 2)
    if p not in (1, 2):
        raise n.error("LpNormalization takes the norms 1 and 2", got=p)
    axis = n.ints_value([n.integer("axis", -1)])
    norm = n.add((ReduceL1 if p == 1 else ReduceL2)(keep_dims=True), x, axis)
    empty = n.add(Equal(), norm, n.like(x, 0))
    return n.add(Divide(), x, n.add(Select(), empty, n.like(x, 1), norm))


def lrn(n: ImportContext) -> Value:
    op = LRN(
        n.number("alpha", 1e-4), n.number("beta", 0.75), n.number("bias", 1.0), n.integer("size")
    )
    return n.add(op, n.input(0), n.ints_value([1]))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    # 1: onnxruntime writes it into models of older operator sets.
    "LayerNormalization": {1: layer_normalization},
    "RMSNormalization": {23: rms_normalization},
    "BatchNormalization": {1: batch_normalization},
    "InstanceNormalization": {1: instance_normalization},
    "GroupNormalization": {21: group_normalization},
    "MeanVarianceNormalization": {9: mean_variance_normalization},
    "LpNormalization": {1: lp_normalization},
    "LRN": {1: lrn},
}
