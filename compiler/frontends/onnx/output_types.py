"""Types of a single node's outputs as ONNX's own inference finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....ir.dtype import DType
from ....ir.errors import Error
from ....ir.op import KNOWN_VALUE_LIMIT, Fact
from ....ir.types import SequenceType, TensorType, Type
from .graph_types import type_of_proto
from .schemas import dtype_of_name, find_schema, type_proto

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

_UNKNOWN = TensorType(DType.dynamic, None)


def output_types(
    proto: NodeProto, domain: str, version: int, facts: Sequence[Fact | None]
) -> list[Type]:
    """One type per output of the node: by shape inference, else what its schema alone says."""
    schema = find_schema(proto.op_type, domain, version)
    if schema is None:
        return [_UNKNOWN] * len(proto.output)
    found = _infer_with_onnx(schema, proto, domain, version, facts)
    return [found.get(name) or _formal(schema, i, facts) for i, name in enumerate(proto.output)]


def _infer_with_onnx(
    schema: Any, proto: NodeProto, domain: str, version: int, facts: Sequence[Fact | None]
) -> dict[str, Type]:
    from onnx import helper, shape_inference

    given = [(n, f) for n, f in zip(proto.input, facts, strict=True) if n and f is not None]
    known = {n: t for n, f in given if (t := _known_tensor(n, f)) is not None}
    try:
        protos = shape_inference.infer_node_outputs(
            schema,
            _with_defaults(schema, proto),
            {n: type_proto(f.type) for n, f in given},
            input_data=known,
            opset_imports=[helper.make_opsetid(domain, version)],
        )
    except (shape_inference.InferenceError, RuntimeError, ValueError, TypeError):
        return {}  # evaluation says what is wrong
    types: dict[str, Type] = {}
    for name, made in protos.items():
        try:
            type_ = type_of_proto(made, name)
        except Error:
            continue
        if type_ is not None and not _is_open(type_):
            types[name] = type_
    return types


def _with_defaults(schema: Any, proto: NodeProto) -> NodeProto:
    """The node with its attributes written out: inference takes STFT's `onesided` for 0 where it
    is left out, which means 1."""
    made = type(proto)()
    made.CopyFrom(proto)
    written = {a.name for a in proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in written and attribute.default_value.name:
            made.attribute.append(attribute.default_value)
    return made


def _is_open(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.dtype is DType.dynamic


def _known_tensor(name: str, fact: Fact) -> TensorProto | None:
    """A small value that is known when compiling (sizes, axes)."""
    from onnx import numpy_helper

    value = fact.value
    if value is None or value.dtype.kind not in "iuf" or value.size > KNOWN_VALUE_LIMIT:
        return None
    return numpy_helper.from_array(value, name)


def _formal(schema: Any, i: int, facts: Sequence[Fact | None]) -> Type:
    """An output's type as its schema has it: that of an input, or the only one allowed."""
    outputs = list(schema.outputs)
    output = outputs[min(i, len(outputs) - 1)]
    for formal, fact in zip(schema.inputs, facts, strict=False):
        if fact is not None and formal.type_str == output.type_str:
            if isinstance(fact.type, TensorType):
                return TensorType(fact.type.dtype, None)
            return fact.type
    if len(output.types) != 1:
        return _UNKNOWN
    text = next(iter(output.types))
    wrapped = text.startswith("seq(")
    name = text.removeprefix("seq(").removeprefix("tensor(").rstrip(")")
    dtype = dtype_of_name(name)
    if dtype is None:
        return _UNKNOWN
    tensor = TensorType(dtype, None)
    return SequenceType(tensor) if wrapped else tensor
