"""State of a request: ReadValue and Assign.

`evaluate` is a run of its own, as a plain call of a model is: variables have their initial values,
and what is assigned is dropped. A request carries values from run to run:
compiler/lowering/control/variables.py makes them inputs and outputs of the plan.
"""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np

from ...dims import Dim, symbol
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Effects, Fact, Op, Port
from ...types import TensorType, Type, merge
from ..shape_inference import fresh_symbol, unknown_shape

_INTERVAL = re.compile(r"(\d*)\.\.(\d*)\Z")


def _declared_sizes(text: str) -> list[tuple[int, int | None]] | None:
    """(least, largest or None) per axis of OpenVINO's text of a shape; None for `...`."""
    inner = text.strip().removeprefix("[").removesuffix("]").strip()
    if inner == "...":
        return None
    return [_declared_size(part.strip()) for part in inner.split(",")] if inner else []


def _declared_size(part: str) -> tuple[int, int | None]:
    if part in ("?", "-1"):
        return 0, None
    interval = _INTERVAL.match(part)
    if interval is not None:
        low, high = interval.groups()
        return int(low or 0), int(high) if high else None
    if not part.isdecimal():
        raise ShapeError("a declared shape is broken", got=part[:40], expected="a size or ?")
    return int(part), int(part)


def declared_shape(op: Op, text: str) -> tuple[Dim, ...] | None:
    """OpenVINO's text of a shape (`?,4,2..10`, `...`) with fresh symbols for what is open."""
    sizes = _declared_sizes(text)
    if sizes is None:
        return None
    return tuple(low if low == high else fresh_symbol(op, low, high) for low, high in sizes)


@dataclass(frozen=True)
class ReadValue(Op):
    """The value of a variable; the input is its value after a reset. Without one that is zeros, of
    the least size along open axes."""

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
        rank = None if initial.shape is None else unknown_shape(self, len(initial.shape))
        return (merge(declared, TensorType(initial.dtype, rank)),)

    def evaluate(self, init_value: Array | None = None) -> tuple[Array, ...]:
        return (self.empty_value() if init_value is None else init_value,)

    def empty_value(self) -> Array:
        """What the variable holds after a reset without an initial value. ShapeError where type
        or rank are not declared."""
        sizes = _declared_sizes(self.variable_shape)
        if sizes is None or self.variable_type is DType.dynamic:
            raise ShapeError(
                f"variable {self.variable_id!r} has neither an initial value nor a declared type",
                got=f"{self.variable_type}[{self.variable_shape}]",
                expected="variable_type and variable_shape of known rank",
            )
        return np.zeros([low for low, _ in sizes], self.variable_type.numpy)


@dataclass(frozen=True)
class ReadCache(ReadValue):
    """The value of a variable that grows along one axis, whose rows a run may choose: what the
    compiler makes of ReadValue, Gather, Concat and Assign (compiler/shape_analysis/grow_caches.py).

    Axis i of the result is axis axes[i] of the variable; axis 0 grows, and its size is the symbol
    `length`. Where there are indices, row i along `batch_axis` of the result is row indices[i] of
    the value; an index out of range gives zeros. No file holds this operation.
    """

    kind: ClassVar[str] = "ReadCache"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("init_value"), Port("indices", optional=True))
    axes: tuple[int, ...] = ()
    length: str = ""
    batch_axis: int = 0

    def infer(
        self, init_value: Fact | None = None, indices: Fact | None = None
    ) -> tuple[Type, ...]:
        assert init_value is not None
        shape = list(init_value.tensor.shape or ())
        shape[0] = symbol(self.length)
        if indices is not None:
            (shape[self.batch_axis],) = indices.tensor.shape or (symbol(f"{self.length}_rows"),)
        return (TensorType(init_value.tensor.dtype, tuple(shape)),)

    def evaluate(
        self, init_value: Array | None = None, indices: Array | None = None
    ) -> tuple[Array, ...]:
        assert init_value is not None
        if indices is None:
            return (init_value,)
        return (take_rows(init_value, indices, self.batch_axis),)


def take_rows(value: Array, indices: Array, axis: int) -> Array:
    """The rows at these indices along an axis, as Gather takes them: a negative index counts from
    the end, one out of range gives zeros."""
    count = value.shape[axis]
    found = np.where(indices < 0, indices + count, indices)
    valid = (found >= 0) & (found < count)
    if valid.all():
        return np.take(value, found, axis)
    shape = [len(found) if n == axis else size for n, size in enumerate(value.shape)]
    taken = np.zeros(shape, value.dtype)
    leading = (slice(None),) * axis
    taken[(*leading, valid)] = np.take(value, found[valid], axis)
    return taken


class ReadValue3(ReadValue):
    """ReadValue of operation set 3: type and shape are the initial value's."""

    version: ClassVar[int] = 3

    def infer(self, init_value: Fact | None = None) -> tuple[Type, ...]:
        return super().infer() if init_value is None else (init_value.type,)


@dataclass(frozen=True)
class Assign(Op):
    """Assigns a variable its value for the next run, and returns its input."""

    kind: ClassVar[str] = "Assign"
    version: ClassVar[int] = 6
    effects: ClassVar[Effects] = Effects.STATE
    inputs: ClassVar[tuple[Port, ...]] = (Port("value"),)
    variable_id: str

    def infer(self, value: Fact) -> tuple[Type, ...]:
        return (value.type,)

    def evaluate(self, value: Array) -> tuple[Array, ...]:
        return (value,)


class Assign3(Assign):
    """Assign of operation set 3."""

    version: ClassVar[int] = 3
