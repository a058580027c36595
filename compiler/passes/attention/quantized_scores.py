"""Attention of dequantised queries and keys multiplies their bytes.

Their scales have become attention's own (`absorb_scale`): the remaining factors are bytes less a
zero point, and their sums are integers, as exact as they can be.
"""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Op
from ....ir.ops import Attention, Constant, MatMul
from ....ir.ops.quantization.integer_products import BYTES
from ....plan.specs.attention import BYTES_PER_CELL, MAX_HEAD
from ...legality import MOVES
from ...rewrite.patch import Patch, producer
from ..match.values import constant_scalar, dtype_of, same_shape, shape_of
from .match_scores import feeds_mixture


def take_codes(graph: Graph, node: int, op: Attention) -> Patch | None:
    """Attention of bytes that were converted, and centred, where they have whole cells."""
    inputs = [*graph.inputs(node), None, None][:5]
    value = inputs[2]
    if value is None or dtype_of(graph, value) is not DType.f32 or len(graph.inputs(node)) > 5:
        return None
    sides = [_find_codes(graph, v) for v in inputs[:2]]
    query, key = sides
    if query is None or key is None:
        return None
    if not has_byte_scores(graph, (query.codes, key.codes), inputs[1], turned=False):
        return None
    patch = Patch()
    made = [_move(graph, patch, c) for c in (query, key)]
    zeros = [
        None if c.zero == 0 else patch.constant(np.array(c.zero), dtype_of(graph, c.codes))
        for c in (query, key)
    ]
    return patch.replace(Value(node), patch.add(op, *made, *inputs[2:], *zeros))


@dataclass(frozen=True)
class _Codes:
    """Bytes less a number, and the operations that move them, the first one first."""

    codes: Value
    zero: int
    moves: tuple[int, ...]


def _find_codes(graph: Graph, value: Value | None) -> _Codes | None:
    """The bytes that a value of f32 is, less a number."""
    moves: list[int] = []
    while value is not None and graph.op(value.node).kind in MOVES:
        moves.insert(0, value.node)
        value = graph.input(value.node, 0)
    zero = 0
    centred = producer(graph, value, "Subtract")
    if centred is not None:
        value, shift = graph.inputs(centred)
        # Zero points are converted, which is not folded yet.
        stored = producer(graph, shift, "Convert")
        known = constant_scalar(graph, shift if stored is None else graph.input(stored, 0))
        if value is None or known is None or not float(known).is_integer():
            return None
        if not same_shape(graph, value, Value(centred)):
            return None
        zero = int(known)
    converted = producer(graph, value, "Convert")
    if converted is None:
        return None
    codes = graph.input(converted, 0)
    dtype = dtype_of(graph, codes)
    is_byte = dtype in BYTES and dtype.min <= zero <= dtype.max
    return _Codes(codes, zero, tuple(moves)) if is_byte else None


def _move(graph: Graph, patch: Patch, found: _Codes) -> Value:
    value = found.codes
    for node in found.moves:
        value = patch.add(graph.op(node), value, *graph.inputs(node)[1:])
    return value


def has_byte_scores(
    graph: Graph, codes: tuple[Value, Value], key: Value | None, *, turned: bool
) -> bool:
    """Whether a kernel multiplies bytes of queries and keys. turned: rows of `key` are columns."""
    shape = shape_of(graph, key)
    types = [dtype_of(graph, v) for v in codes]
    if types[0] not in BYTES or types[1] is not DType.u8 or not shape or len(shape) < 2:
        return False
    size = shape[-2 if turned else -1]
    return isinstance(size, int) and 0 < size <= MAX_HEAD and size % BYTES_PER_CELL == 0


def makes_attention_scores(graph: Graph, node: int, op: Op, query: Value, key: Value) -> bool:
    """Whether attention will multiply these bytes, of which `node` is the product."""
    if not isinstance(op, MatMul) or op.transpose_a:
        return False
    if isinstance(graph.op(query.node), Constant) or isinstance(graph.op(key.node), Constant):
        return False
    if not has_byte_scores(graph, (query, key), key, turned=not op.transpose_b):
        return False
    return feeds_mixture(graph, Value(node), reshaped=True)
