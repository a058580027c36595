"""The long tail: operators that onnx.reference evaluates, one node at a time.

This is a list, not a net: what is neither here nor in another table stays unsupported. An importer
of another family calls `by_reference` for the forms of an operator that no class of ours can say.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .....ir.dims import symbol
from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import OnnxNode as Reference
from .....ir.types import TensorType
from ..output_types import output_types
from ..schemas import signature

if TYPE_CHECKING:
    from onnx import AttributeProto

    from ..import_context import ImportContext, ImportFunction

_EXTERNAL = 1

# Operator -> the version of its operator set from which on onnx.reference evaluates it.
_ONNX = {
    "DeformConv": 19,
    "Det": 11,
    "ImageDecoder": 20,
    "MaxUnpool": 9,
    "MelWeightMatrix": 17,
    "RegexFullMatch": 20,
    "StringConcat": 20,
    "StringNormalizer": 10,
    "StringSplit": 20,
    "TfIdfVectorizer": 9,
}
_TRAINING = {"Adagrad": 1, "Adam": 1, "Momentum": 1}


def by_reference(n: ImportContext) -> list[Value]:
    """The node as it is, to be evaluated by onnx.reference."""
    for attribute in n.proto.attribute:
        if _is_external(attribute):
            raise n.unsupported_error(f"external data in its attribute {attribute.name[:40]!r}")
    known = signature(n.op_type, n.domain, n.version)
    if known is not None:
        n.seen |= n.attributes.keys() & known.attributes.keys()
    facts = [None if v is None else n.fact(v) for v in n.inputs]
    types = output_types(n.proto, n.domain, n.version, facts)
    return _add_node(n, [str(t) for t in types])


def tokenizer(n: ImportContext) -> list[Value]:
    """onnxruntime's Tokenizer: [..., C] texts to [..., C, D] words."""
    n.seen |= {"mark", "mincharnum", "pad_value", "separators", "tokenexp"}
    type_ = n.fact(n.input(0)).tensor
    if type_.dtype is not DType.string or type_.shape is None:
        raise n.unsupported_error(f"an input of {type_}")
    return by_own_evaluation(n, [TensorType(type_.dtype, (*type_.shape, symbol("words")))])


def by_own_evaluation(n: ImportContext, types: Sequence[TensorType]) -> list[Value]:
    """The node as it is, of an operator that OnnxNode evaluates itself, with outputs of types."""
    return _add_node(n, [str(t) for t in types])


def _add_node(n: ImportContext, types: list[str]) -> list[Value]:
    """A reference node whose outputs have these types."""
    count = len(n.proto.output)
    while count > 1 and not n.proto.output[count - 1]:
        count -= 1
    op = Reference(
        n.op_type,
        n.domain,
        base64.b64encode(n.proto.SerializeToString(deterministic=True)).decode(),
        (f"{n.domain}={n.version}",),
        tuple(types[:count]),
    )
    return n.add_all(op, *n.inputs)


def _is_external(attribute: AttributeProto) -> bool:
    """Whether an attribute names a file: only the reader of tensors may follow that."""
    tensors = [attribute.t, *attribute.tensors]
    sparse = [attribute.sparse_tensor, *attribute.sparse_tensors]
    tensors += [part for s in sparse for part in (s.values, s.indices)]
    graphs = attribute.HasField("g") or bool(attribute.graphs)
    return graphs or any(t.data_location == _EXTERNAL for t in tensors)


def _table(domain: str, versions: dict[str, int]) -> dict[str, dict[int, ImportFunction]]:
    prefix = f"{domain}::" if domain else ""
    return {f"{prefix}{name}": {since: by_reference} for name, since in versions.items()}


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    **_table("", _ONNX),
    "com.microsoft::Tokenizer": {1: tokenizer},
    **_table("ai.onnx.preview.training", _TRAINING),
}
