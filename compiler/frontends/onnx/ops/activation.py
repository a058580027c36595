"""Activation functions and softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.graph import Value
from .....ir.ops import (
    Activation,
    Elu,
    Gelu,
    HardSigmoid,
    HSwish,
    LogSoftmax,
    Mish,
    PRelu,
    Relu,
    Reshape,
    Selu,
    Sigmoid,
    Softmax,
    SoftPlus,
    SoftSign,
    Swish,
    Tanh,
)
from .elementary import flatten_value, sizes_of, unary, unsqueeze_value

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def leaky_relu(n: ImportContext) -> Value:
    x = n.input(0)
    return n.add(PRelu(), x, n.like(x, n.number("alpha", 0.01)))


def prelu(n: ImportContext) -> Value:
    """The slope broadcasts as NumPy's do: a vector is aligned to the last axis. Ours would put a
    vector on axis 1, so it gets the data's rank."""
    x, slope = n.input(0), n.input(1)
    missing = n.rank(x) - n.rank(slope)
    if n.rank(slope) == 1 and missing > 0 and n.shape(slope) != (1,):
        slope = unsqueeze_value(n, slope, range(missing))
    return n.add(PRelu(), x, slope)


def prelu_by_channel(n: ImportContext) -> Value:
    """Before version 7: one slope, or one per channel (axis 1)."""
    return n.add(PRelu(), n.input(0), n.input(1))


def selu(n: ImportContext) -> Value:
    x = n.input(0)
    alpha = n.like(x, n.number("alpha", _SELU_ALPHA))
    return n.add(Selu(), x, alpha, n.like(x, n.number("gamma", _SELU_GAMMA)))


def hard_sigmoid(n: ImportContext) -> Value:
    x = n.input(0)
    alpha = n.like(x, n.number("alpha", 0.2))
    return n.add(HardSigmoid(), x, alpha, n.like(x, n.number("beta", 0.5)))


def celu(n: ImportContext) -> Value:
    return n.add(Activation("celu", (n.number("alpha", 1.0),)), n.input(0))


def thresholded_relu(n: ImportContext) -> Value:
    return n.add(Activation("thresholded_relu", (n.number("alpha", 1.0),)), n.input(0))


def gelu(n: ImportContext) -> Value:
    mode = n.text("approximate", "none")
    if mode not in ("none", "tanh"):
        raise n.error("unknown approximation of Gelu", got=mode, expected="none or tanh")
    return n.add(Gelu("TANH" if mode == "tanh" else "ERF"), n.input(0))


def swish(n: ImportContext) -> Value:
    x, alpha = n.input(0), n.number("alpha", 1.0)
    return n.add(Swish(), x, None if alpha == 1 else n.like(x, alpha))


def softmax(cls: type[Softmax | LogSoftmax]) -> ImportFunction:
    return lambda n: n.add(cls(axis=n.integer("axis", -1)), n.input(0))


def flat_softmax(cls: type[Softmax | LogSoftmax]) -> ImportFunction:
    """Before version 13: over all axes from `axis` on, as if they were one."""

    def load(n: ImportContext) -> Value:
        x, axis = n.input(0), n.integer("axis", 1)
        if axis == -1:
            return n.add(cls(axis=-1), x)
        rank = n.rank(x)
        axis = n.axis(axis, rank)
        if axis == rank - 1:
            return n.add(cls(axis=axis), x)
        result = n.add(cls(axis=1), flatten_value(n, x, axis))
        return n.add(Reshape(), result, sizes_of(n, x))

    return load


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Relu": {1: unary(Relu)},
    "Sigmoid": {1: unary(Sigmoid)},
    "Tanh": {1: unary(Tanh)},
    "Softplus": {1: unary(SoftPlus)},
    "Softsign": {1: unary(SoftSign)},
    "Mish": {18: unary(Mish)},
    "HardSwish": {14: unary(HSwish)},
    "Elu": {1: lambda n: n.add(Elu(n.number("alpha", 1.0)), n.input(0))},
    "Selu": {1: selu},
    "Celu": {12: celu},
    "LeakyRelu": {1: leaky_relu},
    "ThresholdedRelu": {10: thresholded_relu},
    "PRelu": {1: prelu_by_channel, 7: prelu},
    "HardSigmoid": {1: hard_sigmoid},
    "Gelu": {20: gelu},
    "Swish": {24: swish},
    "Softmax": {1: flat_softmax(Softmax), 13: softmax(Softmax)},
    "LogSoftmax": {1: flat_softmax(LogSoftmax), 13: softmax(LogSoftmax)},
}
