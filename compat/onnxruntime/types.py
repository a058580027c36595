"""Types as onnxruntime names them: element types, ports of a model, metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...api import PortInfo
from ...compiler.metadata import DESCRIPTION, read_section
from ...ir.dtype import DType
from ...ir.errors import InputError

# Element types: onnxruntime's name, and the number in TensorProto.DataType.
_ELEMENTS = {
    DType.f32: ("float", 1),
    DType.u8: ("uint8", 2),
    DType.i8: ("int8", 3),
    DType.u16: ("uint16", 4),
    DType.i16: ("int16", 5),
    DType.i32: ("int32", 6),
    DType.i64: ("int64", 7),
    DType.string: ("string", 8),
    DType.boolean: ("bool", 9),
    DType.f16: ("float16", 10),
    DType.f64: ("double", 11),
    DType.u32: ("uint32", 12),
    DType.u64: ("uint64", 13),
    DType.c64: ("complex64", 14),
    DType.c128: ("complex128", 15),
    DType.bf16: ("bfloat16", 16),
    DType.f8e4m3: ("float8e4m3fn", 17),
    DType.f8e4m3fnuz: ("float8e4m3fnuz", 18),
    DType.f8e5m2: ("float8e5m2", 19),
    DType.f8e5m2fnuz: ("float8e5m2fnuz", 20),
    DType.u4: ("uint4", 21),
    DType.i4: ("int4", 22),
    DType.f4e2m1: ("float4e2m1", 23),
    DType.u2: ("uint2", 25),
    DType.i2: ("int2", 26),
}
_NAMES = {dtype.value: name for dtype, (name, _) in _ELEMENTS.items()}
_BY_NUMBER = {number: dtype for dtype, (_, number) in _ELEMENTS.items()}
# What onnxruntime says of a model that has no version.
_NO_VERSION = (1 << 63) - 1


@dataclass(frozen=True)
class NodeArg:
    """An input or output: `type` as "tensor(float)"; `shape` with ints, names of symbols, and None
    for a size without a name."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What the model says of itself. `custom_metadata_map`: its `metadata_props`."""

    graph_name: str
    custom_metadata_map: dict[str, str] = field(default_factory=dict[str, str])
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    producer_name: str = ""
    version: int = _NO_VERSION


def describe_model(
    name: str, metadata: dict[str, str], rt_info: Mapping[str, Any]
) -> ModelMetadata:
    """Metadata of a model with this name and rt_info."""
    said = read_section(rt_info, DESCRIPTION)
    version = said.get("version", "")
    return ModelMetadata(
        graph_name=name,
        custom_metadata_map=dict(metadata),
        description=said.get("description", ""),
        domain=said.get("domain", ""),
        graph_description=said.get("graph_description", ""),
        producer_name=said.get("producer_name", ""),
        version=int(version) if re.fullmatch(r"-?\d{1,19}", version) else _NO_VERSION,
    )


def describe_input(port: PortInfo, names: Sequence[str] | None = None) -> NodeArg:
    """An input as onnxruntime describes it. `names`: those that the model gives to its sizes, ""
    for a size without one."""
    shape = _describe_shape(port)
    if names is not None and len(names) == len(shape):
        shape = [name or size for name, size in zip(names, shape, strict=True)]
    return NodeArg(port.name, _describe_type(port), shape)


def describe_output(port: PortInfo, names: Sequence[str] | None = None) -> NodeArg:
    """An output as onnxruntime describes it: an inferred number counts more than a name."""
    shape = _describe_shape(port)
    if names is not None and len(names) == len(shape):
        pairs = zip(names, shape, strict=True)
        shape = [size if isinstance(size, int) else name or size for name, size in pairs]
    return NodeArg(port.name, _describe_type(port), shape)


def _describe_shape(port: PortInfo) -> list[int | str | None]:
    return [d if isinstance(d, int) or not _is_made_up(port, d) else None for d in port.shape or ()]


def _describe_type(port: PortInfo) -> str:
    if port.dtype in _NAMES:
        return f"tensor({_NAMES[port.dtype]})"
    kind = re.sub(r"\b([a-z]+\d*)\[[^]]*\]", lambda m: f"tensor({_name(m)})", port.dtype)
    return re.sub(r"\bmap\(([a-z]+\d*), ", lambda m: f"map({_name(m)},", kind)


def _name(match: re.Match[str]) -> str:
    return _NAMES.get(match[1], match[1])


def _is_made_up(port: PortInfo, symbol: str) -> bool:
    """Whether irc named the size itself, after the input and the axis."""
    return not symbol.isidentifier() or bool(re.fullmatch(rf"{re.escape(port.name)}_\d+", symbol))


def element_type(given: Any, where: str | None = None) -> DType:
    """The element type of a NumPy type or a number of TensorProto.DataType. InputError."""
    try:
        if isinstance(given, int) and not isinstance(given, bool):
            return _BY_NUMBER[given]
        return DType.from_numpy(given)
    except (KeyError, TypeError) as error:
        expected = "a NumPy type, or a number of onnx.TensorProto.DataType"
        raise InputError(
            "unknown element type", where=where, got=repr(given)[:80], expected=expected
        ) from error


def element_number(dtype: DType) -> int:
    """Its number in TensorProto.DataType."""
    return _ELEMENTS[dtype][1]


def tensor_type(dtype: DType) -> str:
    """As "tensor(float)"."""
    return f"tensor({_NAMES.get(dtype.value, dtype.value)})"
