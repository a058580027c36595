"""Types and known values of one node, and of a whole graph in order.

Shape arithmetic is carried by known values: arrays of at most `KNOWN_VALUE_LIMIT` numbers or
symbolic dims, pushed through an operation's own `evaluate` where it declares `evaluates_shapes`.
So the Shape -> Gather -> Concat -> Reshape chains that exporters write are computed here, also
for symbolic models, and sizes that are scaled as floats and rounded, for known ones.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .errors import Error, ShapeError, VerificationError
from .graph import Graph, Node
from .input_check import UNFORESEEN, infer_checked
from .op import KNOWN_VALUE_LIMIT, Array, Fact
from .ops.math.elementwise import sizes_of
from .ops.tensor.constants import Constant, DeferredConstant
from .types import TensorType, coerce_to_dtype


def infer_node(graph: Graph, node: int) -> None:
    """Set `types` and `known` of a node from its inputs.

    Raises ShapeError naming the node where the operation refuses its inputs.
    """
    # Symbols for sizes that depend on data are named after the node, so that inferring a node
    # again gives the same ones.
    infer_record(graph.node(node), [graph.fact(v) for v in graph.inputs(node)], str(node))


def infer_record(record: Node, facts: list[Fact | None], scope: str) -> None:
    """`infer_node` for a record that is not in a graph (yet); `scope` names its symbols."""
    try:
        record.types = infer_checked(record.op, facts, scope)
    except Error as error:
        raise locate_error(error, record) from error
    record.known = _known_values(record, facts, record.op.slots(facts))


def infer_graph(graph: Graph) -> None:
    """Infer every node, producers first; a node whose inputs did not change is done again."""
    for node in graph.order():
        infer_node(graph, node)


def locate_error(error: Error, record: Node) -> Error:
    """The same error with the node named, unless it names its origin already."""
    if error.where is not None:
        return error
    where = record.origin or (f"{record.op.kind} {record.name!r}" if record.name else "")
    kind = ShapeError if isinstance(error, VerificationError) else type(error)
    where = f"{record.op.kind}: {where}" if record.op.kind not in where else where
    return kind(error.what, where=where, got=error.got, expected=error.expected, fix=error.fix)


def _known_values(record: Node, facts: list[Fact | None], slots: list[Any]) -> list[Array | None]:
    """Values of the outputs where the operation can carry them."""
    nothing: list[Array | None] = [None] * record.op.output_count()
    op = record.op
    if isinstance(op, Constant):
        return nothing if isinstance(op, DeferredConstant) else list(op.evaluate())
    if not op.evaluates_shapes or not all(_is_small(t) for t in record.types):
        return nothing
    if op.kind == "ShapeOf":
        fact = facts[0]
        assert fact is not None
        shape = fact.tensor.shape
        return nothing if shape is None else [_convert_to_type(_pack(list(shape)), record.types[0])]
    if any(f is not None and f.value is None for f in facts):
        constant = op.find_constant_result(facts)
        if constant is None:
            return nothing
        (type_,) = record.types
        assert isinstance(type_, TensorType)
        return [np.full(sizes_of(type_.shape), constant, type_.dtype.numpy)]
    if not _are_carried([f.value for f in facts if f is not None and f.value is not None]):
        return nothing
    arrays = [_values(slot) for slot in slots]
    try:
        with np.errstate(all="ignore"):
            outputs = op.evaluate(*arrays)
    except (*UNFORESEEN, Error):
        # Symbolic dims do not support the operation (a comparison, say): the value is unknown.
        return nothing
    return [_convert_to_type(np.asarray(o), t) for o, t in zip(outputs, record.types, strict=True)]


def _values(slot: Fact | tuple[Fact, ...] | None) -> Any:
    """The known value of a slot, by port as `evaluate` takes it."""
    if isinstance(slot, tuple):
        return tuple(f.value for f in slot)
    return None if slot is None else slot.value


def _is_small(type_: Any) -> bool:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return False
    numbers = [d for d in type_.shape if isinstance(d, int)]
    # A product of symbolic sizes takes longer to make than most inferences.
    known = len(numbers) == len(type_.shape) or 0 in numbers
    return known and prod(numbers) <= KNOWN_VALUE_LIMIT


def _are_carried(arrays: list[Array]) -> bool:
    """Whether these values are pushed through an operation: few numbers, or integers with symbolic
    dims, which have no arithmetic with floats."""
    kinds = {array.dtype.kind for array in arrays}
    allowed = "iubO" if "O" in kinds else "iubf"
    return kinds <= set(allowed) and all(a.size <= KNOWN_VALUE_LIMIT for a in arrays)


def _pack(dims: list[Any]) -> Array:
    packed = np.empty(len(dims), dtype=object)
    packed[:] = dims
    return packed


def _convert_to_type(array: Array, type_: Any) -> Array:
    """Arrays of the value's type, unless an element is a symbolic size."""
    if array.dtype == object and not all(isinstance(d, int | np.integer) for d in array.flat):
        return array
    return coerce_to_dtype(array.astype(type_.dtype.numpy, copy=False), type_.dtype)
