"""A model from whatever the caller has: a path, bytes or a ModelProto."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

from .....ir.errors import ModelFormatError
from .....ir.op import Array
from ...xml.source import HeldBytes, OpenFile, require_size
from ..names import check_names
from .zero_copy_weights import lift_payloads

if TYPE_CHECKING:
    from onnx import ModelProto

Source: TypeAlias = "ModelProto | bytes | bytearray | memoryview | str | PathLike[str]"

_LFS = b"version https://git-lfs"
_PROTO = "an onnx.ModelProto in protobuf's binary form"
_MAX_PROTOBUF = 2**31 - 1


@dataclass
class ModelFile:
    """A parsed model. `folder` holds its external data, None where it did not come from a file.

    `payloads` are the raw bytes of initialisers, by position, that the proto was parsed without:
    large weights are read where they are in the file.
    """

    proto: ModelProto
    label: str
    folder: str | None = None
    payloads: dict[int, Array] = field(default_factory=dict[int, Array])


def load_model(source: Source, *, max_memory: int | None = None) -> ModelFile:
    """Read and parse a model. ModelFormatError where it is none, MemoryLimitError where it is
    larger than `max_memory`."""
    from onnx import ModelProto

    if isinstance(source, ModelProto):
        model = ModelFile(source, "<ModelProto>")
    elif isinstance(source, bytes | bytearray | memoryview):
        model = _parse(HeldBytes(source), "<bytes>", None)
    elif isinstance(source, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        path = os.fspath(source)
        with OpenFile(path, "the model", max_memory=max_memory) as file:
            model = _parse(file, path, os.path.dirname(os.path.abspath(path)))
    else:
        raise ModelFormatError(
            "this is not an ONNX model",
            got=type(source).__name__,
            expected="a path, bytes or an onnx.ModelProto",
        )
    _check(model)
    return model


def _parse(data: OpenFile | HeldBytes, label: str, folder: str | None) -> ModelFile:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    start = data.part(0, min(64, data.size)).tobytes()
    if not data.size:
        raise ModelFormatError("the model is empty", where=label, got="0 bytes", expected=_PROTO)
    if start.startswith(_LFS):
        raise ModelFormatError(
            "this is a git-lfs pointer, not the model itself",
            where=label,
            got=f"{data.size} bytes that begin with {start[:16]!r}",
            expected=_PROTO,
            fix="git lfs pull",
        )
    require_size(data.size, _MAX_PROTOBUF, "a protobuf", label, "save it with external data")
    text, payloads = lift_payloads(data)
    proto = ModelProto()
    try:
        proto.ParseFromString(text)
    except (DecodeError, UnicodeDecodeError) as error:  # the latter of protobuf in Python alone
        deep = "MaxDepth" in str(error)
        said = "messages nested beyond protobuf's limit" if deep else str(error)[:80]
        if isinstance(error, UnicodeDecodeError):
            said = "a text that is not UTF-8"
        raise ModelFormatError(
            "the file is damaged, cut short, or no ONNX model",
            where=label,
            got=f"{data.size} bytes that begin with {start[:16]!r} ({said})",
            expected=_PROTO,
        ) from None
    return ModelFile(proto, label, folder, payloads)


def _check(model: ModelFile) -> None:
    proto = model.proto
    if not proto.HasField("graph"):
        raise ModelFormatError(
            "this is not an ONNX model, or one without a graph",
            where=model.label,
            got="no graph",
            expected="a ModelProto with a graph",
        )
    _check_version(proto.ir_version, model.label)
    check_names(proto, model.label)
    if not proto.graph.output:
        raise ModelFormatError(
            "the model has no outputs",
            where=model.label,
            got=f"{len(proto.graph.node)} nodes without a graph output",
            expected="at least one graph output",
        )


def _check_version(version: int, label: str) -> None:
    """ModelFormatError where the file format is none that the onnx package knows: its checker
    refuses as much."""
    from onnx import IR_VERSION

    if version < 1:
        raise ModelFormatError(
            "the model does not say its IR version",
            where=label,
            got=f"ir_version {version}",
            expected="ir_version >= 1",
        )
    if version > IR_VERSION:
        raise ModelFormatError(
            "the model's IR version is newer than the onnx package knows",
            where=label,
            got=f"ir_version {version}",
            expected=f"at most {IR_VERSION}",
            fix="upgrade the onnx package, or save the model in an older IR version",
        )


def opset_imports(model: ModelFile) -> dict[str, int]:
    """The version of each operator set that a model imports; "" is ONNX's own."""
    proto = model.proto
    if not proto.opset_import and proto.ir_version >= 3:
        raise ModelFormatError(
            "the model imports no operator set",
            where=model.label,
            got="no opset_import",
            expected="at least one opset_import",
        )
    versions: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = canonical_domain(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelFormatError(
                "the model imports one operator set in two versions",
                where=model.label,
                got=f"{domain or 'ai.onnx'} {versions[domain]} and {entry.version}",
                expected="one version of each",
            )
    if not proto.opset_import:
        return {"": 1}
    # onnxruntime's optimiser gives models in memory its own operators without this import.
    return {"com.microsoft": 1, **versions}


def canonical_domain(domain: str) -> str:
    """ "ai.onnx" and "" are the same domain."""
    return "" if domain == "ai.onnx" else domain
