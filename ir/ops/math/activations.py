"""Activation functions as operations; formulas are in activation_table.py."""

from __future__ import annotations

from typing import Any, ClassVar

from ...dims import eq
from ...dims.constraints import require_equal
from ...lazy_dataclass import dataclass
from ...op import Fact, Port
from ...scalar.builder import Builder, Ref
from ...types import Type
from ..shape_inference import Shape, require_rank
from . import activation_table as table
from .elementwise import FLOATS, Elementwise, FloatUnary, Unary


class Relu(Unary):
    kind: ClassVar[str] = "Relu"

    def program(self, b: Builder, *x: Ref) -> Ref:
        return table.relu(b, x[0])


@dataclass(frozen=True)
class Clamp(Unary):
    """x limited to [min, max]; for integers the limits are rounded inwards."""

    kind: ClassVar[str] = "Clamp"
    min: float
    max: float

    def program(self, b: Builder, *x: Ref) -> Ref:
        return table.clip(b, x[0], self.min, self.max)


class Sigmoid(FloatUnary):
    kind: ClassVar[str] = "Sigmoid"
    scalar: ClassVar[str] = "sigmoid"


class Tanh(FloatUnary):
    kind: ClassVar[str] = "Tanh"
    scalar: ClassVar[str] = "tanh"


class SoftPlus(FloatUnary):
    kind: ClassVar[str] = "SoftPlus"
    version: ClassVar[int] = 4
    scalar: ClassVar[str] = "softplus"


class SoftSign(FloatUnary):
    kind: ClassVar[str] = "SoftSign"
    version: ClassVar[int] = 9

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.softsign(b, x)


class Mish(FloatUnary):
    kind: ClassVar[str] = "Mish"
    version: ClassVar[int] = 4

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.mish(b, x)


class HSwish(FloatUnary):
    kind: ClassVar[str] = "HSwish"
    version: ClassVar[int] = 4

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.hard_swish(b, x, 1 / 6, 0.5)


class HSigmoid(FloatUnary):
    kind: ClassVar[str] = "HSigmoid"
    version: ClassVar[int] = 5

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.hard_sigmoid(b, x, 1 / 6, 0.5)


@dataclass(frozen=True)
class Elu(FloatUnary):
    kind: ClassVar[str] = "Elu"
    alpha: float

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.elu(b, x, self.alpha)


class Gelu2(FloatUnary):
    """Gelu of operation set 2: the exact form, with erf."""

    kind: ClassVar[str] = "Gelu"
    version: ClassVar[int] = 2

    def formula(self, b: Builder, x: Ref) -> Ref:
        return table.gelu(b, x)


@dataclass(frozen=True)
class Gelu(FloatUnary):
    """Gelu with erf, or its approximation with tanh."""

    kind: ClassVar[str] = "Gelu"
    version: ClassVar[int] = 7
    approximation_mode: str = "ERF"

    def formula(self, b: Builder, x: Ref) -> Ref:
        return (table.gelu_tanh if self.approximation_mode.upper() == "TANH" else table.gelu)(b, x)


@dataclass(frozen=True)
class Activation(FloatUnary):
    """Any function of ACTIVATIONS by name, with its parameters (dialect)."""

    kind: ClassVar[str] = "Activation"
    version: ClassVar[int] = 0
    function: str = "identity"
    parameters: tuple[float, ...] = ()

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        assert facts[0] is not None
        table.check_activation(self.function, self.parameters, facts[0].tensor.dtype)
        return super().infer(*facts)

    def program(self, b: Builder, *x: Ref) -> Ref:
        return table.apply_activation(b, self.function, self.parameters, x[0])


class _FloatFunction(Elementwise):
    allowed = FLOATS
    rule = "a float type"


SLOPE_ON_CHANNELS = "PRelu's slope is aligned to axis 1"


class PRelu(Elementwise):
    """x, or x * slope below 0. A slope of rank 1 with axis 1's size is on axis 1; where that
    size is not known it has to be the slope's."""

    kind: ClassVar[str] = "PRelu"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("slope"))

    def operand_shapes(self, *shapes: Shape | None) -> tuple[Shape | None, ...]:
        data, slope = shapes
        if data is not None and slope is not None and len(slope) == 1 and len(data) > 1:
            if slope != (1,) and eq(slope[0], data[1]) is not False:
                require_equal(data[1], slope[0], SLOPE_ON_CHANNELS)
                return data, (slope[0], *(1,) * (len(data) - 2))
        return data, slope

    def program(self, b: Builder, *x: Ref) -> Ref:
        return table.slope(b, x[0], x[1])


class Swish(_FloatFunction):
    """x * sigmoid(beta * x); beta is a scalar, 1 where absent."""

    kind: ClassVar[str] = "Swish"
    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("beta", optional=True))

    def program(self, b: Builder, *x: Any) -> Ref:
        inner = x[0] if x[1] is None else b.op("mul", x[0], x[1])
        return table.apply_gate(b, x[0], b.op("sigmoid", inner))


class HardSigmoid(_FloatFunction):
    """alpha * x + beta limited to [0, 1]; alpha and beta are scalars."""

    kind: ClassVar[str] = "HardSigmoid"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("alpha"), Port("beta"))

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        _require_scalars(self, *facts[1:])
        return super().infer(*facts)

    def program(self, b: Builder, *x: Ref) -> Ref:
        line = b.op("add", b.op("mul", x[0], x[1]), x[2])
        return b.op("clip", line, b.const(0, line.dtype), b.const(1, line.dtype))


class Selu(_FloatFunction):
    """lambda * (x, or alpha * (exp(x) - 1) where x <= 0); alpha and lambda are scalars."""

    kind: ClassVar[str] = "Selu"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("alpha"), Port("lambda"))

    def program(self, b: Builder, *x: Ref) -> Ref:
        below = b.op("mul", b.op("expm1", x[0]), x[1])
        positive = b.op("gt", x[0], b.const(0, x[0].dtype))
        return b.op("mul", b.op("select", positive, x[0], below), x[2])


def _require_scalars(op: Elementwise, *facts: Fact | None) -> None:
    for port, fact in zip(op.inputs[1:], facts, strict=True):
        if fact is not None and fact.tensor.shape != (1,):
            require_rank(fact, port.name, 0)
