"""What ports, shapes and types look like in OpenVINO's Python API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..api import PortInfo
from ..ir.dtype import DType
from ..ir.errors import ShapeError, UsageError


class Type:
    """An element type; `Type.f32` and its like, or of a NumPy dtype."""

    f16: Type
    bf16: Type
    f32: Type
    f64: Type
    i8: Type
    i16: Type
    i32: Type
    i64: Type
    u8: Type
    u16: Type
    u32: Type
    u64: Type
    boolean: Type
    string: Type

    def __init__(self, dtype: Any) -> None:
        known = dtype if isinstance(dtype, DType) else DType.from_numpy(np.dtype(dtype))
        self._dtype = known

    def get_type_name(self) -> str:
        """As "f32"."""
        return self._dtype.value

    def to_dtype(self) -> Any:
        """NumPy's type."""
        return self._dtype.numpy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and other._dtype is self._dtype

    def __hash__(self) -> int:
        return hash(self._dtype)

    def __repr__(self) -> str:
        return f"<Type: '{self.to_dtype().name}'>"


for _name in Type.__annotations__:
    setattr(Type, _name, Type(DType(_name)))


class Shape(tuple[int, ...]):
    """A shape without unknown sizes; equal to lists, too."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple) and tuple(self) == tuple(other)

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"<Shape: {self}>"

    def __str__(self) -> str:
        return f"[{','.join(map(str, self))}]"

    def to_string(self) -> str:
        """As "[1,3]"."""
        return str(self)


class Dimension:
    """One size, known or not."""

    def __init__(self, size: int | str) -> None:
        self._size = size

    @property
    def is_dynamic(self) -> bool:
        """Whether the size is unknown."""
        return isinstance(self._size, str) or self._size < 0

    @property
    def is_static(self) -> bool:
        """Whether the size is known."""
        return not self.is_dynamic

    def get_length(self) -> int:
        """The known size. ShapeError else."""
        if isinstance(self._size, str) or self._size < 0:
            raise ShapeError(
                "a dynamic dimension has no length",
                got=self._size,
                fix="check is_static first, or fix the shape with Model.reshape",
            )
        return self._size

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dimension):
            return str(self) == str(other)
        return self.is_static and self._size == other

    def __hash__(self) -> int:
        return hash(self._size)

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def __str__(self) -> str:
        return "?" if self.is_dynamic else str(self._size)


class PartialShape:
    """Sizes, some perhaps unknown; None for an unknown rank."""

    def __init__(self, sizes: Sequence[Any] | None) -> None:
        self._dims = None if sizes is None else [Dimension(s) for s in sizes]

    @property
    def is_dynamic(self) -> bool:
        """Whether any size is unknown."""
        return self._dims is None or any(d.is_dynamic for d in self._dims)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return not self.is_dynamic

    @property
    def rank(self) -> Dimension:
        """The number of axes."""
        return Dimension("?" if self._dims is None else len(self._dims))

    def to_shape(self) -> Shape:
        """The sizes as ints. ShapeError where one is unknown."""
        if self.is_dynamic:
            raise ShapeError(
                "to_shape was called on a dynamic shape", got=self, fix="use partial_shape"
            )
        return Shape(d.get_length() for d in self)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self._dims or ())

    def __len__(self) -> int:
        return len(self._dims or ())

    def __getitem__(self, axis: int) -> Dimension:
        return (self._dims or [])[axis]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartialShape):
            return str(self) == str(other)
        return isinstance(other, list | tuple) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"

    def __str__(self) -> str:
        return "[...]" if self._dims is None else f"[{','.join(map(str, self._dims))}]"

    def to_string(self) -> str:
        """As "[?,3]"."""
        return str(self)


class ConstOutput:
    """An input or output of a model."""

    def __init__(self, port: PortInfo, index: int) -> None:
        self._port, self.index = port, index

    def get_index(self) -> int:
        """Its position among the inputs or outputs."""
        return self.index

    def get_any_name(self) -> str:
        """A tensor name."""
        if not self._port.names and not self._port.name:
            raise UsageError("the port has no names", got=self.index, fix="take it by its index")
        return self._port.names[0] if self._port.names else self._port.name

    def get_names(self) -> set[str]:
        """All tensor names."""
        return set(self._port.names)

    def get_partial_shape(self) -> PartialShape:
        """Its shape."""
        return PartialShape(self._port.shape)

    def get_shape(self) -> Shape:
        """Its shape. ShapeError where a size is unknown."""
        return self.get_partial_shape().to_shape()

    def get_element_type(self) -> Type:
        """Its element type."""
        return Type(DType(self._port.dtype))

    any_name = property(get_any_name)
    names = property(get_names)
    partial_shape = property(get_partial_shape)
    shape = property(get_shape)
    element_type = property(get_element_type)

    @property
    def element_dtype(self) -> DType | None:
        """irc's element type; None for what is not a tensor, or of any type."""
        known = {d.value: d for d in DType if d is not DType.dynamic}
        return known.get(self._port.dtype)

    def describe(self) -> str:
        """The port for a message."""
        return f"{self._port.name!r} ({self._port.dtype}{self.partial_shape})"

    def answers_to(self, name: str) -> bool:
        """Whether that is one of its names."""
        return name == self._port.name or name in self._port.names

    def __repr__(self) -> str:
        names, kind = ", ".join(self._port.names), self._port.dtype
        return f"<ConstOutput: names[{names}] shape{self.partial_shape} type: {kind}>"


def find_port(ports: Sequence[ConstOutput], key: Any = None) -> ConstOutput:
    """A port by position, name or itself; the only one where `key` is None. UsageError else."""
    if isinstance(key, ConstOutput):
        return key
    if key is None and len(ports) == 1:
        return ports[0]
    if isinstance(key, int) and 0 <= key < len(ports):
        return ports[key]
    found = [p for p in ports if isinstance(key, str) and p.answers_to(key)]
    if not found:
        names = ", ".join(p.get_any_name() for p in ports)
        raise UsageError("no such input or output", got=key, expected=names)
    return found[0]
