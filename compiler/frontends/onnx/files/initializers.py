"""Initialisers of a graph: its constants by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .....ir.dtype import DType
from .....ir.errors import ModelFormatError
from .....ir.op import Array
from ...xml.text import shorten_text
from .external_data import ExternalData
from .tensors import read_sparse, read_tensor

if TYPE_CHECKING:
    from onnx import GraphProto

Constants: TypeAlias = dict[str, tuple[DType, Array]]


def read_constants(
    graph: GraphProto, payloads: dict[int, Array], external: ExternalData
) -> Constants:
    """All initialisers by name. ModelFormatError for a name given twice or no name at all."""
    constants: Constants = {}
    external.expect(graph.initializer)
    for position, tensor in enumerate(graph.initializer):
        where = f"initialiser {shorten_text(tensor.name) if tensor.name else position}"
        _check_name_is_new(constants, tensor.name, where)
        payload = payloads.get(position)
        constants[tensor.name] = read_tensor(tensor, where, external=external, payload=payload)
    for position, sparse in enumerate(graph.sparse_initializer):
        name = sparse.values.name
        where = f"sparse initialiser {shorten_text(name) if name else position}"
        _check_name_is_new(constants, name, where)
        constants[name] = read_sparse(sparse, where, external=external)
    return constants


def _check_name_is_new(constants: Constants, name: str, where: str) -> None:
    if not name:
        raise ModelFormatError(
            "an initialiser has no name", where=where, got="an empty name", expected="a name"
        )
    if name in constants:
        raise ModelFormatError(
            "two initialisers have one name",
            where=where,
            got=f"{shorten_text(name)} again",
            expected="each name once",
        )
