"""A model as a user holds it: read, described, saved; not compiled yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ..ir.dims import Dim
from ..ir.errors import ModelFormatError, UsageError, memory_errors
from ..ir.lazy_dataclass import dataclass
from ..ir.types import TensorType, Type
from .metadata import HasMetadata

if TYPE_CHECKING:
    from ..ir.graph import Graph
    from .frontends.xml.source import FileState

# A path, bytes, or an onnx.ModelProto (a class that is not imported for its name alone).
Source: TypeAlias = str | os.PathLike[str] | bytes | Any
# A tree of texts.
RtInfo: TypeAlias = Mapping[str, "str | RtInfo"]


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


@dataclass(frozen=True)
class Origin:
    """The files that a model was read from, and how to read them again: a compiled model need not
    keep weights that its kernels hold in another order."""

    read: Callable[[], Model]
    files: tuple[FileState, ...]

    def reload(self) -> Model:
        """The same model. ModelFormatError if one of its files is not what it was."""
        for file in self.files:
            if (change := file.describe_change()) is not None:
                raise ModelFormatError(
                    "the compiled model's file is needed again, and it is not what it was",
                    where=repr(file.path),
                    got=change,
                    expected="the file that was compiled",
                    fix="restore it, or compile the result of irc.read_model, which is kept",
                )
        return self.read()


class Model(HasMetadata):
    """A model as read: its portable graph, inferred. `graph` may be inspected, not changed.

    origin: the files it came from, None for bytes and for models made in Python.
    """

    def __init__(self, graph: Graph, origin: Origin | None = None) -> None:
        self.graph, self.origin = graph, origin
        self.rt_info: RtInfo = graph.rt_info

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
        name = names[0] if names and record.name not in names else record.name
        return describe_port(name, names, record.types[0])

    def __repr__(self) -> str:
        return f"<irc.Model {self.name!r}: {len(self.graph)} operations>"


def read_model(
    source: Source,
    weights: str | os.PathLike[str] | bytes | None = None,
    *,
    declared_shapes: Literal["check", "ignore"] = "check",
    max_memory: int | None = None,
    extensions: Sequence[Any] = (),
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> Model:
    """Read a model: a path (.onnx, .xml), the bytes of either, an onnx.ModelProto or an
    openvino.Model.

    weights: the .bin of an XML file that is not next to it. declared_shapes "ignore" accepts
    a model whose declared shapes or types contradict inference. max_memory: bytes for any file and
    any constant. extensions: operations (classes) and passes (functions) of the caller. inputs and
    outputs cut and reshape the model (cut.py).
    Raises ModelFormatError, ShapeError, MemoryLimitError or UnsupportedOperationError.
    """
    from .frontends.xml.source import record_files

    passes: list[Any] = []
    if extensions:
        from .user_extensions import register_extensions

        passes = register_extensions(extensions)

    def read(given: Source) -> Graph:
        graph = _read_graph(given, weights, declared_shapes, max_memory)
        if passes:
            from .user_extensions import apply_passes

            apply_passes(graph, passes)
        if inputs or outputs:
            from .cut import cut_graph

            graph = cut_graph(graph, inputs, outputs)
        return graph

    with memory_errors(), record_files() as files:
        graph = read(source)
    if not isinstance(source, str | os.PathLike):
        return Model(graph)
    path: str = os.path.abspath(cast("str | os.PathLike[str]", source))
    return Model(graph, Origin(lambda: Model(read(path)), tuple(files)))


def _read_graph(
    source: Source,
    weights: str | os.PathLike[str] | bytes | None,
    declared_shapes: Literal["check", "ignore"],
    max_memory: int | None,
) -> Graph:
    from .frontends.openvino_objects import is_openvino_model, serialize_model

    if is_openvino_model(source):
        with serialize_model(source) as path:
            return _read_graph(path, None, declared_shapes, max_memory)
    if _is_xml(source):
        from .frontends.xml.reader import read_xml

        return read_xml(  # pyright: ignore[reportUnknownVariableType]
            source, weights, declared_shapes=declared_shapes, max_memory=max_memory
        )
    from .frontends.onnx.reader import read_onnx  # pyright: ignore[reportUnknownVariableType]

    return read_onnx(source, declared_shapes=declared_shapes, max_memory=max_memory)


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
    model: Model | Source,
    path: str | os.PathLike[str],
    *,
    compress_to_fp16: bool = False,
    dialect: bool = False,
    opset: int | None = None,
) -> tuple[Path, ...]:
    """Write IR version 11 (`path` and the .bin next to it) or ONNX, by the ending of `path`.

    In standard operations, unless `dialect` (IR only) keeps irc's own as they are, which irc reads
    and OpenVINO does not: a model that the standard sets cannot say is kept so. compress_to_fp16
    stores f32 weights as f16 with a decompressing conversion. opset: of ONNX, 21 by default; its
    constants are in `path` + ".data" where they are larger than protobuf holds (2 GiB). Returns the
    files, which appear whole or not at all. UsageError for a path that ends otherwise.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".xml", ".onnx"):
        expected = "*.xml or *.onnx"
        raise UsageError("the output's name has the wrong ending", got=str(path), expected=expected)
    if suffix == ".onnx" and dialect:
        raise UsageError("ONNX has no dialect", got="dialect=True", expected="a path *.xml")
    if suffix == ".xml" and opset is not None:
        raise UsageError("an operator set is ONNX's", got=f"opset={opset}", expected="*.onnx")
    source = model if isinstance(model, Model) else read_model(model)
    with memory_errors():
        if suffix == ".onnx":
            from .export.onnx.model_writer import DEFAULT_OPSET, write_onnx

            wanted = DEFAULT_OPSET if opset is None else opset
            return write_onnx(source.graph, path, opset=wanted, compress_to_fp16=compress_to_fp16)
        from .export.xml import write_xml

        write_xml(source.graph, path, compress_to_fp16=compress_to_fp16, dialect=dialect)
    return Path(path), Path(path).with_suffix(".bin")
