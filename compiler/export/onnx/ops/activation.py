"""Activations, softmax."""

from __future__ import annotations

import math
from typing import Any

from .....ir.dtype import DType
from .....ir.ops import Clamp, Elu, Gelu, LogSoftmax, Softmax, Softmax1
from ..context import ExportContext, Exported, ExportFunction
from .elementary import write_as, write_widened


def _clamp(n: ExportContext) -> Exported:
    op, dtype = n.cast_op(Clamp), n.dtype(0)
    if not n.takes("Clip", dtype):
        return None
    low, high = op.min, op.max
    if dtype.is_int:
        low, high = max(math.ceil(max(low, -(2.0**63))), dtype.min), min(high, dtype.max)
        high = math.floor(high)
    limits = (
        [None if math.isinf(v) else n.scalar(v, dtype) for v in (float(low), float(high))]
        if not dtype.is_int
        else [n.scalar(int(low), dtype), n.scalar(int(high), dtype)]
    )
    return n.add("Clip", n.input(0), *limits)


def _prelu(n: ExportContext) -> Exported:
    """A slope of one number is LeakyRelu's; one of rank 1 is aligned to the channels."""
    shape, slope, dtype = n.shape(0), n.shape(1), n.dtype(0)
    known = n.known(1)
    if known is not None and known.size == 1 and n.takes("LeakyRelu", dtype):
        return n.add("LeakyRelu", n.input(0), alpha=float(known.reshape(-1)[0]))
    if shape is None or slope is None or not n.takes("PRelu", dtype):
        return None
    if len(slope) > len(shape):
        return None
    if len(slope) == 1 and len(shape) > 2 and slope != (1,) and slope[0] == shape[1]:
        ends = [-1, *[1] * (len(shape) - 2)]
        return n.add("PRelu", n.input(0), n.add("Reshape", n.input(1), n.ints(ends)))
    pairs = zip(reversed(slope), reversed(shape), strict=False)
    if any(s != 1 and s != d for s, d in pairs):
        return None  # the data broadcasts to the slope
    return n.add("PRelu", n.input(0), n.input(1))


def _elu(n: ExportContext) -> Exported:
    op = n.cast_op(Elu)
    return n.add("Elu", n.input(0), alpha=op.alpha) if n.takes("Elu", n.dtype(0)) else None


def _with_scalars(op_type: str, *names: str) -> ExportFunction:
    """Inputs that are attributes in ONNX, where they are known."""

    def export(n: ExportContext) -> Exported:
        known = [n.known(port + 1) for port in range(len(names))]
        if any(k is None for k in known) or not n.takes(op_type, n.dtype(0)):
            return None
        values = [float(k.reshape(-1)[0]) for k in known if k is not None]
        attributes: dict[str, Any] = dict(zip(names, values, strict=True))
        return n.add(op_type, n.input(0), **attributes)

    return export


def _gelu(n: ExportContext) -> Exported:
    op = n.op
    tanh = isinstance(op, Gelu) and op.approximation_mode.upper() == "TANH"
    if n.takes("Gelu", n.dtype(0)):
        return n.add("Gelu", n.input(0), approximate="tanh" if tanh else "none")
    dtype = n.dtype(0)
    if tanh or dtype not in (DType.f32, DType.f64):
        return None
    # x / 2 * (1 + erf(x / sqrt 2))
    inner = n.add("Erf", n.add("Mul", n.input(0), n.scalar(math.sqrt(0.5), dtype)))
    half = n.add("Mul", n.input(0), n.scalar(0.5, dtype))
    return n.add("Mul", half, n.add("Add", inner, n.scalar(1, dtype)))


def _hard_sigmoid(n: ExportContext) -> Exported:
    """clip(x / 6 + 1 / 2)"""
    if not n.takes("HardSigmoid", n.dtype(0)):
        return None
    return n.add("HardSigmoid", n.input(0), alpha=1 / 6, beta=0.5)


def _swish(n: ExportContext) -> Exported:
    if not n.takes("Sigmoid", n.dtype(0)):
        return None
    beta = n.optional(1)
    inner = n.input(0)
    known = n.known(1) if beta is not None else None
    if beta is not None and not (known is not None and float(known.reshape(-1)[0]) == 1):
        inner = n.add("Mul", inner, n.flatten_scalar(1))
    return n.add("Mul", n.input(0), n.add("Sigmoid", inner))


def _mish(n: ExportContext) -> Exported:
    if n.takes("Mish", n.dtype(0)):
        return n.add("Mish", n.input(0))
    if not n.takes("Softplus", n.dtype(0)):
        return None
    return n.add("Mul", n.input(0), n.add("Tanh", n.add("Softplus", n.input(0))))


def _softmax(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, Softmax1 | Softmax | LogSoftmax)
    op_type = "LogSoftmax" if isinstance(op, LogSoftmax) else "Softmax"
    if not n.takes(op_type, n.dtype(0)):
        return None
    return n.add(op_type, n.input(0), axis=op.axis)


EXPORTERS: dict[str, ExportFunction] = {
    "Relu": write_widened("Relu", DType.i32, DType.i64, DType.f32),
    "PRelu": _prelu,
    "Clamp": _clamp,
    "Sigmoid": write_as("Sigmoid"),
    "Tanh": write_as("Tanh"),
    "Elu": _elu,
    "Selu": _with_scalars("Selu", "alpha", "gamma"),
    "HardSigmoid": _with_scalars("HardSigmoid", "alpha", "beta"),
    "Gelu": _gelu,
    "HSigmoid": _hard_sigmoid,
    "HSwish": write_as("HardSwish"),
    "Swish": _swish,
    "Mish": _mish,
    "SoftPlus": write_as("Softplus"),
    "SoftSign": write_as("Softsign"),
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
