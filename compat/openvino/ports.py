"""Inputs and outputs of models, and finding one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.dtype import DType
from ...ir.errors import UsageError
from ...ir.types import TensorType
from ...ir.types import Type as IrType
from ..nearest import NamesNearest
from .types import PartialShape, Shape, Type


class ConstOutput(NamesNearest):
    """An input or output of a compiled model."""

    def __init__(self, name: str, names: Sequence[str], type_: IrType | None, index: int) -> None:
        self.port_name, self.index = name, index
        self._names, self._type = tuple(names), type_

    @property
    def type(self) -> IrType:
        """irc's type."""
        assert self._type is not None
        return self._type

    def get_index(self) -> int:
        """Its position among the inputs or outputs."""
        return self.index

    def get_any_name(self) -> str:
        """A tensor name. UsageError where there is none."""
        names = sorted(self.get_names())
        if not names and not self.port_name:
            raise UsageError("the port has no names", got=self.index, fix="take it by its index")
        return self.port_name if self.port_name in names or not names else names[0]

    def get_names(self) -> set[str]:
        """All tensor names."""
        return set(self._names)

    def get_partial_shape(self) -> PartialShape:
        """Its shape."""
        return PartialShape.of(self.type.shape if isinstance(self.type, TensorType) else None)

    def get_shape(self) -> Shape:
        """Its shape. ShapeError where a size is unknown."""
        return self.get_partial_shape().to_shape()

    def get_element_type(self) -> Type:
        """Its element type."""
        return Type(self.type.dtype if isinstance(self.type, TensorType) else DType.dynamic)

    any_name = property(get_any_name)
    names = property(get_names)
    partial_shape = property(get_partial_shape)
    shape = property(get_shape)
    element_type = property(get_element_type)

    @property
    def element_dtype(self) -> DType | None:
        """irc's element type; None for what is not a tensor, or of any type."""
        dtype = self.type.dtype if isinstance(self.type, TensorType) else DType.dynamic
        return None if dtype is DType.dynamic else dtype

    def get_node(self) -> Any:
        """The Parameter or Result, as far as its name is."""
        return PortNode(self.port_name)

    node = property(get_node)

    def describe(self) -> str:
        """The port for a message."""
        dtype = self.element_type.get_type_name()
        return f"{self.port_name!r} ({dtype}{self.partial_shape})"

    def has_name(self, name: str) -> bool:
        """Whether that is one of its names."""
        return name == self.port_name or name in self.get_names()

    def __repr__(self) -> str:
        names, dtype = ", ".join(sorted(self.get_names())), self.element_type.get_type_name()
        kind = type(self).__name__
        return f"<{kind}: names[{names}] shape{self.partial_shape} type: {dtype}>"


class PortNode(NamesNearest):
    """The node of a compiled model's port."""

    def __init__(self, name: str) -> None:
        self.name = self.friendly_name = name

    def get_friendly_name(self) -> str:
        """Its name."""
        return self.name

    get_name = get_friendly_name


def name_of_port(key: Any) -> Any:
    """The name of a port, also of one of OpenVINO itself; another key as given."""
    named = getattr(key, "get_any_name", None)
    return key if named is None else named()


def find_port(ports: Sequence[ConstOutput], key: Any = None) -> ConstOutput:
    """A port by position, name or itself; the only one where `key` is None. UsageError else."""
    if isinstance(key, ConstOutput) and key in ports:
        return key
    key = name_of_port(key)
    if key is None and len(ports) == 1:
        return ports[0]
    if isinstance(key, int) and 0 <= key < len(ports):
        return ports[key]
    found = [p for p in ports if isinstance(key, str) and p.has_name(key)]
    if not found:
        names = ", ".join(p.get_any_name() for p in ports)
        raise UsageError("no such input or output", got=key, expected=names)
    return found[0]


class HasPorts(NamesNearest):
    """Inputs and outputs, and finding one of them."""

    inputs: Sequence[ConstOutput]
    outputs: Sequence[ConstOutput]

    def input(self, key: Any = None) -> Any:
        """An input by name or position, or the only one."""
        return find_port(self.inputs, key)

    def output(self, key: Any = None) -> Any:
        """An output by name or position, or the only one."""
        return find_port(self.outputs, key)
