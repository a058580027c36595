"""What an IR file says, as plain records: no meaning yet, only the schema of versions 10 and 11.

Records keep the line they came from, so that every later message can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from ....ir.errors import ModelFormatError
from .text import BadText, shorten_text

_T = TypeVar("_T")


Info = Mapping[str, dict[str, str]]
# Most layers and ports have none: they share one.
NO_INFO: Info = MappingProxyType({})
_NO_DATA: Mapping[str, str] = MappingProxyType({})
_NO_BODIES: Mapping[str, Net] = MappingProxyType({})
_NO_MAPS: Mapping[str, list[MapEntry]] = MappingProxyType({})


def tag_text(tag: str, attributes: Mapping[str, str]) -> str:
    """The start of an element for messages, not too long: <port id="1">."""
    pairs = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return shorten_text(f"<{tag}{pairs}>")[1:-1]


@dataclass(slots=True)
class XmlPort:
    """One `<port>`. `dims` are the declared sizes, -1 for a size that is not static."""

    id: int
    precision: str | None
    dims: tuple[int, ...]
    names: frozenset[str]
    rt_info: Info


@dataclass(slots=True)
class MapEntry:
    """One `<input>` or `<output>` of a port map: attributes as written, and the line."""

    output: bool
    attributes: dict[str, str]
    line: int


@dataclass(slots=True)
class XmlLayer:
    """One `<layer>` with the bodies it holds, by element name ("body", "then_body", ...)."""

    file: str
    line: int
    id: int
    name: str
    type: str
    version: str
    output_names: frozenset[str] | None
    data: Mapping[str, str] = field(default_factory=lambda: _NO_DATA)
    rt_info: Info = field(default_factory=lambda: NO_INFO)
    inputs: Sequence[XmlPort] = ()
    outputs: Sequence[XmlPort] = ()
    bodies: Mapping[str, Net] = field(default_factory=lambda: _NO_BODIES)
    maps: Mapping[str, list[MapEntry]] = field(default_factory=lambda: _NO_MAPS)
    back_edges: Sequence[tuple[int, int]] = ()

    @property
    def origin(self) -> str:
        """The layer for messages: 'layer 4 "fc1" (line 12)'."""
        return f"layer {self.id} {shorten_text(self.name)} (line {self.line})"

    @property
    def location(self) -> str:
        """File, layer and type for messages."""
        return f"{self.file}: {self.origin}, {self.type}"

    def error(
        self, what: str, *, got: object = None, expected: object = None, fix: str | None = None
    ) -> ModelFormatError:
        """An error that names this layer."""
        return ModelFormatError(what, where=self.location, got=got, expected=expected, fix=fix)

    def lacks(self, what: str, name: str) -> ModelFormatError:
        """The error for an attribute that <data> does not have."""
        return self.error(what, got=tag_text("data", self.data), expected=f'{name}="..." in it')

    def read(self, attribute: str, text: str, parse: Callable[[str], _T]) -> _T:
        """An attribute's value; a ModelFormatError names layer and attribute where it is bad."""
        try:
            return parse(text)
        except BadText as bad:
            raise self.error(
                f"attribute {attribute!r} has a bad value",
                got=shorten_text(text),
                expected=bad.expected,
            ) from None


@dataclass(slots=True)
class Edge:
    """One `<edge>`: layer ids and port ids, as written."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int
    line: int


# A tree of rt_info: a leaf's value, or its children by key.
RtTree = dict[str, "str | RtTree"]


@dataclass(slots=True)
class Net:
    """One `<net>`, or the body of a layer, which has neither name nor version of its own."""

    file: str
    name: str
    version: int
    line: int
    layers: list[XmlLayer] = field(default_factory=list[XmlLayer])
    edges: list[Edge] = field(default_factory=list[Edge])
    rt_info: RtTree = field(default_factory=RtTree)
