"""Operations that users define: found by their names in files, besides those of ir/ops.

A class as in ir/ops (`infer` and `evaluate`, or a subclass of Elementwise with a scalar program)
with two class variables more, both optional:

    domain      its ONNX domain (default: "")
    opset       its version in IR, such as "extension" (the default) or "my_opset"
    file_type   its type in files, where that is not `kind`

`read_model(..., extensions=[...])` registers classes for the process; a later class of the same
kind replaces an earlier one. Models that were read keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .dtype import DType
from .errors import UnsupportedOperationError, UsageError
from .graph import Graph
from .op import Op

DEFAULT_OPSET = "extension"
ATTRIBUTES: tuple[Any, ...] = (
    *(bool, int, float, str, DType),
    *(tuple[int, ...], tuple[float, ...], tuple[str, ...]),
)

_registered: dict[str, type[Op]] = {}
# Those that were replaced as well: models hold instances of theirs.
_classes: set[type[Op]] = set()


def register_operations(classes: Iterable[type[Op]]) -> None:
    """Make operations known under their names. UsageError for a class that cannot be one."""
    for cls in classes:
        _check(cls)
        _registered[cls.kind.lower()] = cls
        _classes.add(cls)


def has_extensions() -> bool:
    """Whether any operation of users is registered."""
    return bool(_classes)


def _check(cls: type[Op]) -> None:
    name = cls.__name__
    if not cls.kind or not cls.kind.isidentifier():
        raise UsageError("an extension needs a name", where=name, got=repr(cls.kind), fix="kind")
    if cls.version < 1:
        raise UsageError("an extension's version is 1 or more", where=name, got=cls.version)
    for attribute in cls.attributes():
        if attribute.annotation not in ATTRIBUTES:
            raise UsageError(
                f"attribute {attribute.name!r} of an extension has a type that files do not hold",
                where=name,
                got=attribute.annotation,
                expected="bool, int, float, str, DType, or a tuple of one of the first four",
            )


def file_type(cls: type[Op]) -> str:
    """The type of an extension in files."""
    return str(getattr(cls, "file_type", "") or cls.kind)


def onnx_domain(cls: type[Op]) -> str:
    """The ONNX domain of an extension."""
    return str(getattr(cls, "domain", ""))


def ir_opset(cls: type[Op]) -> str:
    """The version of an extension in IR."""
    return str(getattr(cls, "opset", DEFAULT_OPSET))


def is_extension(op: Op) -> bool:
    """Whether an operation is one that a user defined."""
    return type(op) in _classes


def find_by_kind(kind: str, version: int) -> type[Op] | None:
    """The extension of a kind and version."""
    cls = _registered.get(kind.lower())
    return cls if cls is not None and cls.version == version else None


def find_in_onnx(op_type: str, domain: str) -> type[Op] | None:
    """The extension that an ONNX node names."""
    found = (c for c in _registered.values() if (file_type(c), onnx_domain(c)) == (op_type, domain))
    return next(found, None)


def find_in_ir(layer_type: str, version: str) -> type[Op] | None:
    """The extension that a layer of an IR names."""
    found = (
        c for c in _registered.values() if (file_type(c), ir_opset(c)) == (layer_type, version)
    )
    return next(found, None)


def extensions_of(graph: Graph) -> list[str]:
    """The kinds of a graph's extensions, those in bodies included."""
    kinds: set[str] = set()
    pending = [graph]
    while pending:
        each = pending.pop()
        for node in each.ids():
            op = each.op(node)
            if is_extension(op):
                kinds.add(op.kind)
            pending.extend(op.bodies())
    return sorted(kinds)


def require_extensions(kinds: Sequence[str], where: str) -> None:
    """UnsupportedOperationError naming the extensions that a file needs and none registered."""
    missing = [k for k in kinds if k.lower() not in _registered]
    if missing:
        raise UnsupportedOperationError(
            "the file was made with extensions that are not given",
            where=where,
            got=", ".join(missing),
            fix="compile_model(path, extensions=[...]), or --extension MODULE",
        )
