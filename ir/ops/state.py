"""State of a request: ReadValue and Assign. A session runs them; they have no `evaluate`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ..dim import Dim
from ..dtype import DType
from ..errors import ShapeError, UnsupportedOperationError
from ..op import Array, Effects, Fact, Op, Port
from ..types import TensorType, Type, merge
from .rules import unknown_dim

_INTERVAL = re.compile(r"(\d*)\.\.(\d*)\Z")


def declared_shape(op: Op, text: str) -> tuple[Dim, ...] | None:
    """OpenVINO's text of a shape (`?,4,2..10`, `...`) with fresh symbols for what is open."""
    inner = text.strip().removeprefix("[").removesuffix("]").strip()
    if inner == "...":
        return None
    return tuple(_declared_size(op, part.strip()) for part in inner.split(",")) if inner else ()


def _declared_size(op: Op, part: str) -> Dim:
    if part in ("?", "-1"):
        return unknown_dim(op)
    interval = _INTERVAL.match(part)
    if interval is not None:
        low, high = interval.groups()
        return unknown_dim(op, int(low or 0), int(high) if high else None)
    if not part.isdecimal():
        raise ShapeError("a declared shape is broken", got=part[:40], expected="a size or ?")
    return int(part)


@dataclass(frozen=True)
class ReadValue(Op):
    """The value of a variable; the input is its value after a reset."""

    kind: ClassVar[str] = "ReadValue"
    version: ClassVar[int] = 6
    effects: ClassVar[Effects] = Effects.STATE
    inputs: ClassVar[tuple[Port, ...]] = (Port("init_value", optional=True),)
    variable_id: str
    variable_type: DType = DType.dynamic
    variable_shape: str = "..."

    def infer(self, init_value: Fact | None = None) -> tuple[Type, ...]:
        declared = TensorType(self.variable_type, declared_shape(self, self.variable_shape))
        if init_value is None or declared.shape is not None:
            return (declared,)
        # The value may have grown since: only rank and element type are the initial value's.
        initial = init_value.tensor
        open_type = TensorType(initial.dtype, None)
        return (merge(declared, open_type),)

    def evaluate(self, init_value: Array | None = None) -> tuple[Array, ...]:
        raise UnsupportedOperationError(
            "a stateful model runs through an infer request",
            got=f"variable {self.variable_id!r}",
            fix="use create_infer_request()",
        )


@dataclass(frozen=True)
class ReadValue3(ReadValue):
    """ReadValue of operation set 3: type and shape are the initial value's."""

    version: ClassVar[int] = 3

    def infer(self, init_value: Fact | None = None) -> tuple[Type, ...]:
        return super().infer() if init_value is None else (init_value.type,)


@dataclass(frozen=True)
class Assign(Op):
    """Give a variable a value for the next run; hands on its input."""

    kind: ClassVar[str] = "Assign"
    version: ClassVar[int] = 6
    effects: ClassVar[Effects] = Effects.STATE
    inputs: ClassVar[tuple[Port, ...]] = (Port("value"),)
    variable_id: str

    def infer(self, value: Fact) -> tuple[Type, ...]:
        return (value.type,)

    def evaluate(self, value: Array) -> tuple[Array, ...]:
        raise UnsupportedOperationError(
            "a stateful model runs through an infer request",
            got=f"variable {self.variable_id!r}",
            fix="use create_infer_request()",
        )


@dataclass(frozen=True)
class Assign3(Assign):
    """Assign of operation set 3."""

    version: ClassVar[int] = 3
