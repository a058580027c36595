"""A model as a user holds it: read, described, saved; not compiled yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..ir.dim import Dim
from ..ir.errors import ModelFormatError, UsageError
from ..ir.types import TensorType, Type

if TYPE_CHECKING:
    from ..ir.graph import Graph

# A path, bytes, or an onnx.ModelProto (a class that is not imported for its name alone).
Source: TypeAlias = str | os.PathLike[str] | bytes | Any


@dataclass(frozen=True)
class PortInfo:
    """One input or output of a model: `shape` holds an int or a symbol's text per axis, None for
    an unknown rank; `dtype` is OpenVINO's element name ("f32", "i64", ...)."""

    name: str
    names: tuple[str, ...]
    shape: tuple[int | str, ...] | None
    dtype: str


def describe_port(name: str, names: Sequence[str], type_: Type) -> PortInfo:
    """A port by its first name, all names and type."""
    if not isinstance(type_, TensorType):
        return PortInfo(name, tuple(names), None, str(type_))
    shape = None if type_.shape is None else tuple(_size(d) for d in type_.shape)
    return PortInfo(name, tuple(names), shape, type_.dtype.value)


def _size(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


class Model:
    """A model as read: its portable graph, inferred. `graph` may be inspected, not changed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.graph.name

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """The inputs in the order in which a call takes them."""
        return tuple(self._info(n) for n in self.graph.parameters)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """The outputs in the order in which a call returns them."""
        return tuple(self._info(n) for n in self.graph.results)

    def _info(self, node: int) -> PortInfo:
        record = self.graph.node(node)
        names = sorted(record.names[0]) if record.names else []
        return describe_port(names[0] if names else record.name, names, record.types[0])

    def __repr__(self) -> str:
        return f"<irc.Model {self.name!r}: {len(self.graph)} operations>"


def read_model(
    source: Source,
    weights: str | os.PathLike[str] | bytes | None = None,
    *,
    declared_shapes: Literal["check", "ignore"] = "check",
) -> Model:
    """Read a model: a path (.onnx, .xml), the bytes of either, or an onnx.ModelProto.

    weights: the .bin of an XML file that does not lie beside it. declared_shapes "ignore" accepts
    XML whose declared shapes or types contradict inference.
    Raises ModelFormatError, ShapeError or UnsupportedOperationError.
    """
    if _is_xml(source):
        from .frontends.xml.reader import read_xml

        return Model(read_xml(source, weights, declared_shapes=declared_shapes))  # type: ignore[arg-type]
    from .frontends.onnx.reader import read_onnx  # pyright: ignore[reportUnknownVariableType]

    return Model(read_onnx(source))


def _is_xml(source: Any) -> bool:
    if type(source) in (bytes, bytearray, memoryview):
        return bytes(source[:256]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    path: Any = source
    if not isinstance(source, str | os.PathLike):
        return False
    suffix = Path(path).suffix.lower()
    if suffix not in (".xml", ".onnx"):
        raise ModelFormatError(
            "the file's name does not say what it is",
            where=str(path),
            got=suffix or "no suffix",
            expected=".onnx or .xml" + (" (a .irc file is compiled already)" * (suffix == ".irc")),
        )
    return suffix == ".xml"


def save_model(
    model: Model | Source, path: str | os.PathLike[str], *, compress_to_fp16: bool = False
) -> None:
    """Write IR version 11 (`path` and the .bin beside it) in standard operation sets.

    compress_to_fp16 stores f32 weights as f16 with a decompressing conversion. Both files appear
    whole or not at all. UsageError for a path that does not end in .xml.
    """
    from .export.xml import write_xml

    if Path(path).suffix.lower() != ".xml":
        raise UsageError("the output's name has the wrong ending", got=str(path), expected="*.xml")
    held = model if isinstance(model, Model) else read_model(model)
    write_xml(held.graph, path, compress_to_fp16=compress_to_fp16)
