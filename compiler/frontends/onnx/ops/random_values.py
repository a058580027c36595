"""Random values: RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial.

All are built of RandomUniform, so they are saved as OpenVINO IR. With the attribute `seed`, a node
draws the same values in every run; without it, others each time, unless `set_seed` was called
(ir/ops/random_seed.py). The values are neither onnxruntime's nor OpenVINO's.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Add,
    Concat,
    Cos,
    CumSum,
    Exp,
    Less,
    LessEqual,
    Log,
    Minimum,
    Multiply,
    RandomUniform,
    ReduceMax,
    ReduceSum,
    Sqrt,
    Subtract,
    Unsqueeze,
)
from ..files.tensors import element_type
from .elementary import convert_value, size_of, sizes_of

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

_FLOATS = (DType.f16, DType.bf16, DType.f32, DType.f64)


def random_uniform(n: ImportContext) -> Value:
    return _scaled_uniform(n, _given_shape(n), _declared_type(n))


def random_uniform_like(n: ImportContext) -> Value:
    x = n.input(0)
    return _scaled_uniform(n, sizes_of(n, x), _type_like(n, x))


def random_normal(n: ImportContext) -> Value:
    return _normal(n, _given_shape(n), _declared_type(n))


def random_normal_like(n: ImportContext) -> Value:
    x = n.input(0)
    return _normal(n, sizes_of(n, x), _type_like(n, x))


def bernoulli(n: ImportContext) -> Value:
    """1 with the probability that the input holds, as the operator's text and onnx.reference have
    it; the function in its schema, and so onnxruntime, draws 0 with that probability."""
    x = n.input(0)
    dtype = element_type(n.integer("dtype"), n.origin) if n.has("dtype") else n.dtype(x)
    drawn = _uniform(n, sizes_of(n, x), _require_float(n, n.dtype(x)), 0.0, 1.0)
    return convert_value(n, n.add(Less(), drawn, x), dtype)


def multinomial(n: ImportContext) -> Value:
    """Samples of classes by the inverse of the cumulative distribution: the class of a number in
    [0, sum of weights) is how many partial sums it has reached. Inputs are logarithms of weights.
    """
    logits, count = n.input(0), n.integer("sample_size", 1)
    if n.rank(logits) != 2:
        raise n.type_error("Multinomial takes rows of classes", got=n.fact(logits).type)
    if count < 1:
        raise n.error("sample_size is too small", got=count, expected="at least 1")
    dtype = element_type(n.integer("dtype", 6), n.origin)
    if dtype not in (DType.i32, DType.i64):
        raise n.type_error(
            "the samples of Multinomial are integers", got=dtype, expected="i32, i64"
        )
    logits = convert_value(n, logits, DType.f64)
    axis = n.ints_value([1])
    peak = n.add(ReduceMax(keep_dims=True), logits, axis)
    weights = n.add(Exp(), n.add(Subtract(), logits, peak))
    sums = n.add(CumSum(), weights, n.int_value(1))
    total = n.add(ReduceSum(keep_dims=True), weights, axis)
    shape = n.add(Concat(axis=0), size_of(n, logits, 0), n.ints_value([count]))
    drawn = n.add(Multiply(), _uniform(n, shape, DType.f64, 0.0, 1.0), total)
    reached = n.add(
        LessEqual(),
        n.add(Unsqueeze(), sums, n.ints_value([1])),
        n.add(Unsqueeze(), drawn, n.ints_value([2])),
    )
    classes = n.add(ReduceSum(), convert_value(n, reached, dtype), n.ints_value([2]))
    last = n.add(Subtract(), size_of(n, logits, 1), n.ints_value([1]))
    return n.add(Minimum(), classes, convert_value(n, last, dtype))


def _given_shape(n: ImportContext) -> Value:
    return n.ints_value(n.integers("shape"))


def _declared_type(n: ImportContext) -> DType:
    return _require_float(n, element_type(n.integer("dtype", 1), n.origin))


def _type_like(n: ImportContext, x: Value) -> DType:
    declared = n.has("dtype")
    dtype = element_type(n.integer("dtype"), n.origin) if declared else n.dtype(x)
    return _require_float(n, dtype)


def _require_float(n: ImportContext, dtype: DType) -> DType:
    if dtype not in _FLOATS:
        expected = ", ".join(map(str, _FLOATS)) + " (the attribute dtype)"
        raise n.type_error(f"{n.op_type} of this element type", got=dtype, expected=expected)
    return dtype


def _scaled_uniform(n: ImportContext, shape: Value, dtype: DType) -> Value:
    return _uniform(n, shape, dtype, n.number("low", 0.0), n.number("high", 1.0))


def _normal(n: ImportContext, shape: Value, dtype: DType) -> Value:
    """The transform of Box and Muller, in f32 or f64: sqrt(-2 ln u) cos(2 pi v)."""
    wide = DType.f64 if dtype is DType.f64 else DType.f32
    # Not 0, whose logarithm is infinite.
    u = _uniform(n, shape, wide, float(np.finfo(np.float32).tiny), 1.0)
    v = _uniform(n, shape, wide, 0.0, 2 * math.pi, stream=2)
    radius = n.add(Sqrt(), n.add(Multiply(), n.add(Log(), u), n.like(u, -2.0)))
    drawn = n.add(Multiply(), radius, n.add(Cos(), v))
    scaled = n.add(Multiply(), drawn, n.like(drawn, n.number("scale", 1.0)))
    return convert_value(n, n.add(Add(), scaled, n.like(scaled, n.number("mean", 0.0))), dtype)


def _uniform(
    n: ImportContext, shape: Value, dtype: DType, low: float, high: float, stream: int = 1
) -> Value:
    """Values in [low, high). Draws of one node differ by `stream`, which is not 0: two seeds of 0
    mean none."""
    seeds = (0, 0)
    if n.has("seed"):
        (bits,) = struct.unpack("<I", struct.pack("<f", n.number("seed")))
        seeds = (bits, stream)
    bounds = (n.constant(low, dtype), n.constant(high, dtype))
    return n.add(RandomUniform(dtype, *seeds), shape, *bounds)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Bernoulli": {15: bernoulli},
    "Multinomial": {7: multinomial},
    "RandomNormal": {1: random_normal},
    "RandomNormalLike": {1: random_normal_like},
    "RandomUniform": {1: random_uniform},
    "RandomUniformLike": {1: random_uniform_like},
}
