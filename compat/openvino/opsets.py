"""openvino.opset1 to opset16: functions that make operations, from one table of signatures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING
from types import ModuleType
from typing import Any

import numpy as np

from ...builder.tensor import Tensor as Built
from ...builder.tensor import add_node, constant
from ...compiler.frontends.xml.attributes import parser_of
from ...compiler.frontends.xml.text import BadText
from ...ir import ops as o
from ...ir.dtype import DType
from ...ir.errors import UsageError
from ...ir.op import Op
from ..nearest import module_attributes
from .control_flow import if_op, loop, tensor_iterator
from .nodes import Node, Output, find_tensor
from .opset_signatures import FunctionSignature, read_signatures
from .types import Dimension, PartialShape, Type

LAST_OPSET = 16
_ALIASES = {"abs": "absolute", "ceil": "ceiling", "cumsum": "cum_sum"}


def parameter(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Node:
    """An input of a model."""
    known = PartialShape(shape)
    label = name or f"Parameter_{id(known)}"
    sizes = None
    if known.rank.is_static:
        sizes = tuple(d.to_dim(f"{label}.{n}") for n, d in enumerate(known))
    element = dtype.dtype if isinstance(dtype, Type) else _element_type(dtype)
    names = [frozenset([label])]
    return Node(None, -1, add_node(o.Parameter(element, sizes), (), label, names))


def constant_of(value: Any, dtype: Any = None, name: str | None = None, **options: Any) -> Node:
    """A constant: of an array's own element type, or of another."""
    array = value.data if hasattr(value, "bytes_data") else np.asarray(value)
    wanted = None if dtype is None else _element_type(dtype)
    made = constant(array, wanted, name=name or "")
    return Node(None, -1, [made])


def result(data: Any, name: str | None = None) -> Node:
    """An output of a model."""
    return Node(None, -1, add_node(o.Result(), [_as_tensor(data)], name or ""))


def _element_type(dtype: Any) -> DType:
    if isinstance(dtype, Type | DType):
        return Type(dtype).dtype
    if isinstance(dtype, str):
        return DType(dtype) if dtype in {d.value for d in DType} else Type(np.dtype(dtype)).dtype
    return Type(dtype).dtype


def _as_tensor(value: Any, partner: DType | None = None) -> Built:
    """The builder's tensor of a node, an output, an array or a number."""
    if isinstance(value, Node | Output):
        return find_tensor(value)
    array = np.asarray(value)
    if array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic):
        array = array.astype(np.float32)
    return constant(array, partner if not isinstance(value, np.ndarray) else None)


def _make_function(signature: FunctionSignature, kind: type[Op]) -> Callable[..., Node]:
    def function(*args: Any, name: str | None = None, **named: Any) -> Node:
        given = signature.bind(args, named)
        values: list[Any] = []
        attributes: dict[str, Any] = {}
        for parameter in signature.parameters:
            value = given[parameter.name]
            if parameter.kind == "input":
                values.append(value)
            elif parameter.kind == "inputs":
                values += list(value)
            elif parameter.kind == "attributes":
                attributes.update(value or {})
            elif value is not None:
                attributes[parameter.xml] = value
        partner = _find_partner(values) if signature.is_elementwise else None
        tensors = [None if v is None else _as_tensor(v, partner) for v in values]
        op = _make_op(kind, attributes)
        return Node(None, -1, add_node(op, tensors, name or ""))

    function.__name__ = function.__qualname__ = signature.name
    function.__doc__ = f"{kind.kind}-{kind.version}({', '.join(map(str, signature.parameters))})"
    return function


def _find_partner(values: list[Any]) -> DType | None:
    """The element type of the first node among the operands, which numbers take."""
    found = [find_tensor(v) for v in values if isinstance(v, Node | Output)]
    return found[0]._dtype if found else None


def _make_op(kind: type[Op], attributes: dict[str, Any]) -> Op:
    """An operation with attributes by their names in XML. UsageError for a bad one."""
    fields: dict[str, Any] = {}
    left = dict(attributes)
    for attribute in kind.attributes():
        if attribute.xml not in left:
            if attribute.required and attribute.default is MISSING:
                raise UsageError("an attribute is missing", where=kind.kind, expected=attribute.xml)
            continue
        text = _attribute_text(left.pop(attribute.xml))
        fields[attribute.name] = _parse(kind, attribute, text)
    unused = {k: v for k, v in left.items() if k != "auto_broadcast" or str(v).upper() != "NUMPY"}
    if unused:
        raise UsageError(
            "an operation has no such attribute",
            where=kind.kind,
            got=", ".join(unused),
            expected=", ".join(a.xml for a in kind.attributes()),
        )
    return kind(**fields)


def _parse(kind: type[Op], attribute: Any, text: str) -> Any:
    parse = parser_of(kind, attribute)
    for form in (text, text.lower()):
        try:
            return parse(form)
        except (BadText, ValueError):
            continue
    raise UsageError(
        "an attribute cannot be read",
        where=f"{kind.kind}, {attribute.xml}",
        got=text,
        expected=str(attribute.annotation),
    )


def _attribute_text(value: Any) -> str:
    """A value as XML has it."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Type | DType):
        return Type(value).get_type_name()
    if isinstance(value, type) and issubclass(value, np.generic | bool | int | float):
        return Type(np.dtype(value)).get_type_name()
    if isinstance(value, np.dtype):
        return Type(value).get_type_name()
    if isinstance(value, list | tuple | np.ndarray):
        return ",".join(_attribute_text(v) for v in value)
    if isinstance(value, Dimension):
        return str(value)
    return str(value)


def make_modules(package: str) -> dict[str, ModuleType]:
    """The modules opset1, opset2, ..., importable as submodules of `package`."""
    signatures = read_signatures()
    made: dict[str, ModuleType] = {}
    for number in range(1, LAST_OPSET + 1):
        module = ModuleType(f"{package}.opset{number}", f"Operations of set {number}.")
        functions = _functions_of(signatures, number)
        vars(module).update(functions, __all__=sorted(functions))
        module.__getattr__ = module_attributes(module.__name__, functions)  # pyright: ignore
        sys.modules[module.__name__] = made[f"opset{number}"] = module
    return made


def _functions_of(signatures: list[FunctionSignature], number: int) -> dict[str, Any]:
    """The functions of an operation set: of each name, the latest one that is in the set."""
    found: dict[str, Any] = {"parameter": parameter, "constant": constant_of, "result": result}
    for signature in signatures:
        kind = o.find(signature.kind, number)
        if signature.opset <= number and kind is not None:
            found[signature.name] = _make_function(signature, kind)
    for since, node in ((8, if_op), (5, loop), (1, tensor_iterator)):
        if since <= number:
            found[node.__name__] = node
    found.update({alias: found[name] for alias, name in _ALIASES.items() if name in found})
    return found
