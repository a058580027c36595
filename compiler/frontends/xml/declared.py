"""Declared output types of layers against inferred ones.

OpenVINO ignores what ports declare. Here a declared size or element type that contradicts
inference is an error, because it says that the file was made for another meaning; what inference
cannot know is compatible with everything.
"""

from __future__ import annotations

import functools

from ....ir.dims import eq
from ....ir.dtype import DType, parse_precision
from ....ir.errors import ShapeError
from ....ir.types import TensorType, Type
from .schema_records import XmlLayer, XmlPort

# Element types that OpenVINO lacks, as irc's dialect names them.
_OWN_TYPES = {t.ir_precision: t for t in DType if not t.in_openvino}
IGNORE = 'declared_shapes="ignore"'


def check_precision_names(layer: XmlLayer) -> None:
    """Refuse output ports whose precision is not an element type, whatever is inferred."""
    for port in layer.outputs:
        precision(layer, port)


def precision(layer: XmlLayer, port: XmlPort) -> DType:
    """The declared element type of an output port."""
    text = port.precision or ""
    try:
        return _parse(text)
    except ValueError as error:
        raise layer.error(
            f"output port {port.id} has an unknown precision",
            got=repr(text[:40]),
            expected=str(error).partition("; allowed: ")[2] or None,
        ) from None


@functools.lru_cache(256)
def _parse(text: str) -> DType:
    return _OWN_TYPES[text] if text in _OWN_TYPES else parse_precision(text)


def dims_agree(declared: tuple[int, ...], type_: Type) -> bool:
    """Whether declared sizes (-1 for any) may be those of a value.

    No declared size at all means a scalar or an unknown rank, so it agrees with everything.
    """
    if not isinstance(type_, TensorType) or type_.shape is None or not declared:
        return True
    if len(declared) != len(type_.shape):
        return False
    return all(d == -1 or eq(d, s) is not False for d, s in zip(declared, type_.shape, strict=True))


def check_declared(layer: XmlLayer, types: list[Type]) -> None:
    """Raise ShapeError, naming layer and option, where a port contradicts inference."""
    for port, type_ in zip(layer.outputs, types, strict=False):
        if not isinstance(type_, TensorType):
            continue
        declared = precision(layer, port)
        if declared is not type_.dtype and DType.dynamic not in (declared, type_.dtype):
            raise _contradiction(layer, port, f"element type {declared}", str(type_))
        if not dims_agree(port.dims, type_):
            raise _contradiction(layer, port, f"shape {format_dims(port.dims)}", str(type_))


def _contradiction(layer: XmlLayer, port: XmlPort, declared: str, inferred: str) -> ShapeError:
    return ShapeError(
        f"output port {port.id} declares a type that contradicts inference",
        where=layer.location,
        got=declared,
        expected=inferred,
        fix=f"{IGNORE} uses the inferred type",
    )


def format_dims(dims: tuple[int, ...]) -> str:
    """Declared sizes for messages."""
    return "[" + ", ".join("?" if d == -1 else str(d) for d in dims) + "]"
