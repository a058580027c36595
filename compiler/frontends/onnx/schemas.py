"""What ONNX itself says about its operators: arity, element types, and functions that define one
operator by others. The source is `onnx.defs`, so the rules are those of the installed package.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import ModelFormatError, ShapeError, UnsupportedOperationError
from ....ir.lazy_dataclass import dataclass
from ....ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from ..xml.text import shorten_text
from .files.tensors import KINDS

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto

_DTYPES: dict[str, DType] = {
    "float": DType.f32,
    "double": DType.f64,
    "float16": DType.f16,
    "bfloat16": DType.bf16,
    "bool": DType.boolean,
    "string": DType.string,
    "complex64": DType.c64,
    "complex128": DType.c128,
    "float8e4m3fn": DType.f8e4m3,
    "float8e4m3fnuz": DType.f8e4m3fnuz,
    "float8e5m2": DType.f8e5m2,
    "float8e5m2fnuz": DType.f8e5m2fnuz,
    "float8e8m0": DType.f8e8m0,
    "float4e2m1": DType.f4e2m1,
    **{f"int{b}": DType(f"i{b}") for b in (2, 4, 8, 16, 32, 64)},
    **{f"uint{b}": DType(f"u{b}") for b in (2, 4, 8, 16, 32, 64)},
}
_DATA_TYPES = {kind.dtype: number for number, kind in KINDS.items()}


@dataclass(frozen=True)
class Formal:
    """One formal input: its name, whether it may be absent, the tensors' element types it takes
    (None: not only tensors), and the name of its type, which inputs share that must agree (empty
    where nothing else has to)."""

    name: str
    optional: bool
    dtypes: frozenset[DType] | None
    shared: str = ""


@dataclass(frozen=True)
class Signature:
    """An operator as one version of its operator set defines it."""

    since: int
    inputs: tuple[Formal, ...]
    variadic: bool
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    # Their default values, None where there is none.
    attributes: Mapping[str, AttributeProto | None]


# Names of operators come from models, so the table has an end.
@functools.lru_cache(maxsize=2048)
def signature(op_type: str, domain: str, opset: int) -> Signature | None:
    """The operator in that version of the operator set, or None where ONNX has none."""
    schema = find_schema(op_type, domain, opset)
    if schema is None:
        return None
    formals = tuple(_formal(schema, parameter) for parameter in schema.inputs)
    attributes: dict[str, Any] = dict(schema.attributes)
    variadic = bool(formals) and schema.inputs[-1].option.name == "Variadic"
    return Signature(
        schema.since_version,
        formals,
        variadic,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        {n: a.default_value if a.default_value.type else None for n, a in attributes.items()},
    )


def check_opsets(versions: Mapping[str, int]) -> None:
    """Refuse a version of ONNX's own operators that the onnx package does not know yet."""
    from onnx import defs

    newest, wanted = defs.onnx_opset_version(), versions.get("", 1)
    if wanted < 1:
        raise ModelFormatError(
            "the model imports a version of the operator set that does not exist",
            got=f"ai.onnx {wanted}",
            expected=f"1 to {newest}",
        )
    if wanted > newest:
        raise UnsupportedOperationError(
            "the model needs a newer operator set than the onnx package knows",
            got=f"ai.onnx {wanted}",
            expected=f"at most {newest}",
            fix="upgrade the onnx package, or convert the model with onnx.version_converter",
        )


def find_schema(op_type: str, domain: str, opset: int) -> Any:
    """ONNX's definition of an operator in a version of its operator set, or None."""
    from onnx import defs

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def _formal(schema: Any, parameter: Any) -> Formal:
    dtypes: set[DType] = set()
    only_tensors = True
    for text in parameter.types:
        name = text.removeprefix("tensor(").removesuffix(")")
        only_tensors = only_tensors and text.startswith("tensor(") and name in _DTYPES
        dtypes.add(_DTYPES.get(name, DType.dynamic))
    optional = parameter.option.name != "Single"
    shared = parameter.type_str if parameter.is_homogeneous and only_tensors else ""
    return Formal(parameter.name, optional, frozenset(dtypes) if only_tensors else None, shared)


def check_arity(found: Signature, inputs: int, outputs: int, where: str) -> None:
    """ModelFormatError for a number of inputs or outputs that the operator does not have."""
    for what, count, low, high in (
        ("inputs", inputs, found.min_inputs, found.max_inputs),
        ("outputs", outputs, found.min_outputs, found.max_outputs),
    ):
        if not (count <= high and (count >= low or what == "outputs")):
            bounds = str(low) if low == high else f"{low} to {high}"
            raise ModelFormatError(
                f"a node has the wrong number of {what}", where=where, got=count, expected=bounds
            )


def check_types(found: Signature, types: list[Type | None], where: str) -> None:
    """Refuse missing inputs, element types that this version of the operator does not take, and
    different ones of inputs that must agree."""
    for position, formal in enumerate(found.inputs):
        if formal.optional or (position < len(types) and types[position] is not None):
            continue
        raise ModelFormatError(
            f"input {position} ({formal.name!r}) is missing",
            where=where,
            got="nothing",
            expected="a value",
        )
    for position, type_ in enumerate(types):
        formal = found.inputs[min(position, len(found.inputs) - 1)]
        if not isinstance(type_, TensorType) or formal.dtypes is None:
            continue
        if type_.dtype not in formal.dtypes and type_.dtype is not DType.dynamic:
            allowed = ", ".join(sorted(d.value for d in formal.dtypes))
            raise ShapeError(
                f"input {position} ({formal.name!r}) has an element type that this version of the "
                f"operator (since {found.since}) does not take",
                where=where,
                got=type_.dtype,
                expected=allowed,
            )
    first: dict[str, tuple[str, DType]] = {}
    for position, type_ in enumerate(types):
        formal = found.inputs[min(position, len(found.inputs) - 1)]
        if not isinstance(type_, TensorType) or type_.dtype is DType.dynamic or not formal.shared:
            continue
        other, dtype = first.setdefault(formal.shared, (formal.name, type_.dtype))
        if type_.dtype is not dtype:
            raise ShapeError(
                f"inputs {other!r} and {formal.name!r} must have one element type",
                where=where,
                got=f"{dtype}, {type_.dtype}",
                expected=f"both {dtype}",
                fix="insert a Cast",
            )


def check_attributes(
    found: Signature, given: Mapping[str, AttributeProto], seen: set[str], where: str
) -> None:
    """What an importer did not look at is not an attribute of the operator (ModelFormatError), has
    its default value, or means something that irc does not have (UnsupportedOperationError)."""
    unknown = sorted(given.keys() - seen - found.attributes.keys())
    if unknown:
        raise ModelFormatError(
            "a node has an attribute that its operator does not have",
            where=where,
            got=", ".join(shorten_text(name) for name in unknown[:5]),
            expected=", ".join(sorted(found.attributes)) or "no attributes",
        )
    for name in sorted(given.keys() - seen):
        default = found.attributes[name]
        if default is None or not _attributes_equal(given[name], default):
            raise UnsupportedOperationError(f"its attribute {name!r}", where=where)


def _attributes_equal(a: AttributeProto, b: AttributeProto) -> bool:
    fields = ("f", "i", "s", "floats", "ints", "strings")
    return all(getattr(a, field) == getattr(b, field) for field in fields)


def attribute_defaults(op_type: str, domain: str, opset: int) -> dict[str, AttributeProto]:
    """The default values of an operator's attributes; those without one are left out."""
    found = signature(op_type, domain, opset)
    if found is None:
        return {}
    return {name: value for name, value in found.attributes.items() if value is not None}


def has_function(op_type: str, domain: str, opset: int) -> bool:
    """Whether ONNX defines an operator by a function, at least for some types."""
    schema = find_schema(op_type, domain, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def function_body(
    node: NodeProto, domain: str, opset: int, types: list[Type | None]
) -> FunctionProto | None:
    """The function by which ONNX defines a node's operator, if it does so for these types."""
    from onnx import FunctionProto

    schema = find_schema(node.op_type, domain, opset)
    if schema is None:
        return None
    text: bytes = b""
    if schema.has_function:
        version = _latest_version(schema.function_opset_versions, opset)
        text = b"" if version is None else schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        version = _latest_version(schema.context_dependent_function_opset_versions, opset)
        if version is not None:
            protos = [type_proto(t).SerializeToString() for t in types]
            build = schema.get_context_dependent_function_with_opset_version
            try:
                text = build(version, node.SerializeToString(), protos)
            except (ValueError, RuntimeError) as error:
                raise ModelFormatError(
                    "ONNX can't define this node's operator by a function", got=str(error)[:200]
                ) from error
    if not text:
        return None
    body = FunctionProto()
    body.ParseFromString(text)
    return body


def _latest_version(versions: Any, opset: int) -> int | None:
    """The newest version for an operator set, or the oldest there is: a body names its own set."""
    listed = cast("list[int]", versions)
    return max((v for v in listed if v <= opset), default=min(listed, default=None))


def dtype_of_name(name: str) -> DType | None:
    """The element type that a schema calls so."""
    return _DTYPES.get(name)


def type_proto(type_: Type | None) -> TypeProto:
    """A type as ONNX writes it; None is not a type."""
    from onnx import TypeProto, helper

    if type_ is None:
        return TypeProto()
    if isinstance(type_, SequenceType):
        return helper.make_sequence_type_proto(type_proto(type_.element))
    if isinstance(type_, OptionalType):
        return helper.make_optional_type_proto(type_proto(type_.element))
    if isinstance(type_, MapType):
        return helper.make_map_type_proto(_DATA_TYPES[type_.key], type_proto(type_.element))
    shape = None if type_.shape is None else [_size(d) for d in type_.shape]
    return helper.make_tensor_type_proto(_DATA_TYPES.get(type_.dtype, 0), shape)


def _size(d: Dim) -> int | str:
    return d if isinstance(d, int) else str(d)
