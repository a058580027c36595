"""Tensors and results of OpenVINO's Python API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.errors import InputError, UsageError, memory_errors
from ..nearest import NamesNearest
from .ports import ConstOutput, find_port
from .types import Shape, Type


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    """An array of zeros. UsageError for sizes that no array has, MemoryLimitError for too many."""
    with memory_errors():
        try:
            return np.zeros(tuple(shape), dtype)
        except ValueError as error:
            raise UsageError(
                "a tensor of this shape can't be made",
                got=f"{np.dtype(dtype).name}{list(shape)}: {error}",
                expected="sizes from 0 on whose product an array may have",
                fix="set a smaller shape, or pass an array",
            ) from error


class Tensor(NamesNearest):
    """An array; of an array (copied unless `shared_memory`), of a type and a shape, or of an array
    whose memory has another shape and type."""

    def __init__(self, first: Any, shape: Any = None, type: Any = None, **options: Any) -> None:
        shared = options.pop("shared_memory", False)
        if options:
            raise UsageError("a Tensor has no such argument", got=", ".join(options),
                             expected="shared_memory")  # fmt: skip
        if isinstance(shape, bool):
            shape, shared = None, shape
        if isinstance(first, Type):
            self.data = _zeros(shape, first.to_dtype())
        elif isinstance(first, Tensor):
            self.data = first.data
        elif isinstance(first, ConstOutput):
            sizes = [0 if d.is_dynamic else d.get_length() for d in first.partial_shape]
            self.data = _zeros(sizes, first.element_type.to_dtype())
        elif shape is not None:
            flat = np.ascontiguousarray(first).reshape(-1)
            typed = flat if type is None else flat.view(type.to_dtype())
            self.data = typed[: int(np.prod(shape))].reshape(tuple(shape))
        else:
            self.data = np.asarray(first) if shared else np.array(first)

    @property
    def shape(self) -> Shape:
        """Its shape; setting another one makes another array."""
        return Shape(self.data.shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        if tuple(shape) != self.data.shape:
            self.data = _zeros(shape, self.data.dtype)

    def get_shape(self) -> Shape:
        """Its shape."""
        return self.shape

    def set_shape(self, shape: Sequence[int]) -> None:
        """Another shape, of another array."""
        self.shape = shape

    @property
    def element_type(self) -> Type:
        """Its element type."""
        return Type(self.data.dtype)

    def get_element_type(self) -> Type:
        """Its element type."""
        return self.element_type

    def get_size(self) -> int:
        """Elements."""
        return self.data.size

    def get_byte_size(self) -> int:
        """Bytes."""
        return self.data.nbytes

    def get_strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, by axis."""
        return self.data.strides

    size = property(get_size)
    byte_size = property(get_byte_size)
    strides = property(get_strides)

    def is_continuous(self) -> bool:
        """Whether the elements are in memory one after the other."""
        return self.data.flags.c_contiguous

    @property
    def bytes_data(self) -> Any:
        """The elements' bytes."""
        return self.data.reshape(-1).view(np.uint8)

    @bytes_data.setter
    def bytes_data(self, value: Any) -> None:
        self.data.reshape(-1).view(np.uint8)[:] = np.asarray(value).reshape(-1)

    @property
    def str_data(self) -> Any:
        """The elements of a tensor of text."""
        return self.data.astype(str)

    @str_data.setter
    def str_data(self, value: Any) -> None:
        self.data = np.array(value)

    def copy_from(self, source: Any) -> None:
        """Take the elements of a Tensor or an array of the same type, and its shape."""
        source = as_tensor(source)
        array = source.data if isinstance(source, Tensor) else np.asarray(source)
        if array.dtype != self.data.dtype:
            raise InputError(
                "a Tensor of another element type cannot be copied",
                got=array.dtype,
                expected=self.data.dtype,
            )
        self.shape = array.shape
        self.data[...] = array

    def copy_to(self, target: Tensor) -> None:
        """Give another Tensor these elements."""
        target.copy_from(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.data, dtype)

    def __repr__(self) -> str:
        return f"<Tensor: shape{self.shape} type: {self.element_type.get_type_name()}>"


def as_tensor(value: Any) -> Any:
    """A Tensor of OpenVINO itself as one of this module on the same memory; others as given."""
    native = type(value).__module__.partition(".")[0] == "openvino"
    return Tensor(value.data, shared_memory=True) if native and hasattr(value, "data") else value


class OVDict(Mapping[ConstOutput, Any]):
    """Results by output, name or position."""

    def __init__(self, ports: Sequence[ConstOutput], arrays: Sequence[Any]) -> None:
        self._ports, self._arrays = ports, list(arrays)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._arrays[find_port(self._ports, key).index]
        except UsageError as error:
            raise KeyError(key) from error

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def names(self) -> tuple[set[str], ...]:
        """The names of each output."""
        return tuple(p.get_names() for p in self._ports)

    def to_dict(self) -> dict[ConstOutput, Any]:
        """A plain dict."""
        return dict(self.items())

    def to_tuple(self) -> tuple[Any, ...]:
        """The arrays in order."""
        return tuple(self._arrays)

    def __repr__(self) -> str:
        return repr(self.to_dict())
