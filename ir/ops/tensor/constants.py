"""Where values enter and leave a graph: Parameter, Constant, Result."""

from __future__ import annotations

from typing import Any, ClassVar

from ...deferred_array import DeferredArray, StoredArray
from ...dims import Expr
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type


@dataclass(frozen=True)
class Parameter(Op):
    """An input of the graph. `shape` None is an unknown rank."""

    kind: ClassVar[str] = "Parameter"
    element_type: DType
    shape: tuple[int | Expr, ...] | None

    def infer(self) -> tuple[Type, ...]:
        return (TensorType(self.element_type, self.shape),)


@dataclass(frozen=True)
class TypedParameter(Op):
    """An input that is not a tensor: a sequence, an optional, a map (dialect)."""

    kind: ClassVar[str] = "TypedParameter"
    version: ClassVar[int] = 0
    type: Type

    def infer(self) -> tuple[Type, ...]:
        return (self.type,)


@dataclass(frozen=True, eq=False)
class Constant(Op):
    """A fixed array, compared by identity. `data` holds one element per item of NumPy's type for
    `dtype` (4-bit types unpacked) and is never written to."""

    kind: ClassVar[str] = "Constant"
    data: Array
    dtype: DType
    shape: tuple[int | Expr, ...]

    def __post_init__(self) -> None:
        if tuple(self.data.shape) != tuple(self.shape):
            raise ShapeError(
                "a constant's data and shape differ", got=self.data.shape, expected=self.shape
            )

    @classmethod
    def of(cls, data: Any, dtype: DType) -> Constant:
        """A constant of `dtype` from an array already in NumPy's type for it."""
        return cls(data, dtype, tuple(int(d) for d in data.shape))

    def infer(self) -> tuple[Type, ...]:
        return (TensorType(self.dtype, tuple(self.shape)),)

    def evaluate(self) -> tuple[Array, ...]:
        return (self.data,)

    @property
    def content(self) -> StoredArray:
        """The array, or what makes it. It identifies the constant's numbers."""
        return self.data

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.content.nbytes


class DeferredConstant(Constant):
    """A constant whose array is made each time that `data` is read. Passes know its type, and not
    its numbers."""

    _stored: DeferredArray

    def __init__(self, stored: DeferredArray) -> None:
        for name, value in (("_stored", stored), ("dtype", stored.dtype), ("shape", stored.shape)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(name)
        return self._stored.unpack()

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.data, self.dtype, self.shape)

    @property
    def content(self) -> DeferredArray:
        """What makes the array."""
        return self._stored


class Result(Op):
    """An output of the graph; returns its input."""

    kind: ClassVar[str] = "Result"
    inputs: ClassVar[tuple[Port, ...]] = (Port("input"),)
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact) -> tuple[Type, ...]:
        return (data.type,)

    def evaluate(self, data: Any) -> tuple[Any, ...]:
        return (data,)
