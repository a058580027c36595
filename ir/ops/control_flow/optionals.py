"""Optionals as values (dialect): a value, or none. None is Python's None.

Source: ONNX operators Optional 15, OptionalGetElement and OptionalHasElement 15 and 18.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ExecutionError, ShapeError
from ...lazy_dataclass import dataclass
from ...op import Fact, Op, Port
from ...types import OptionalType, TensorType, Type
from .sequences import common_type, refresh_symbols


@dataclass(frozen=True)
class Optional(Op):
    """The input as an optional of type `element`; without an input, none."""

    kind: ClassVar[str] = "Optional"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("value", optional=True),)
    element: Type

    def infer(self, value: Fact | None = None) -> tuple[Type, ...]:
        if value is None:
            return (OptionalType(self.element),)
        return (OptionalType(refresh_symbols(self, common_type(self, value.type, self.element))),)

    def evaluate(self, value: Any = None) -> tuple[Any, ...]:
        return (value,)


class OptionalGetElement(Op):
    """The value that an optional holds; ExecutionError for none."""

    kind: ClassVar[str] = "OptionalGetElement"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("optional"),)

    def infer(self, optional: Fact) -> tuple[Type, ...]:
        if not isinstance(optional.type, OptionalType):
            raise ShapeError("an optional is needed here", got=optional.type)
        return (refresh_symbols(self, optional.type.element),)

    def evaluate(self, optional: Any) -> tuple[Any, ...]:
        if optional is None:
            raise ExecutionError("an optional without a value has no element")
        return (optional,)


class OptionalHasElement(Op):
    """Whether an optional holds a value; an absent input holds none."""

    kind: ClassVar[str] = "OptionalHasElement"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("optional", optional=True),)

    def infer(self, optional: Fact | None = None) -> tuple[Type, ...]:
        return (TensorType(DType.boolean, ()),)

    def evaluate(self, optional: Any = None) -> tuple[Any, ...]:
        return (np.array(optional is not None),)
