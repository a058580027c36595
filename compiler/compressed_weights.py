"""Recognize constant right operands of products that kernels read compressed (weight-only
quantization)."""

from __future__ import annotations

import math

import numpy as np

from ..ir.deferred_array import DeferredArray
from ..ir.dtype import DType
from ..ir.graph import Graph, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.op import Array
from ..ir.ops import (
    AffineDequantize,
    Constant,
    Convert,
    DeferredConstant,
    Dequantize,
    Gemm,
    MatMul,
)
from ..ir.types import TensorType, normalize_axis
from ..plan.packing.panel_params import compressible

_FLOATS = (DType.f32, DType.f16, DType.bf16)


@dataclass(frozen=True, eq=False)
class CompressedWeight:
    """A K x N weight (of batch 1), stored as `codes` or, `transposed`, as codes of N x K.

    scale, zero and offset are [groups, N], one row for each `group` rows of K; a zero that is the
    same everywhere is a number. An offset is added behind the scaling.
    """

    codes: Constant
    transposed: bool
    k: int
    n: int
    group: int
    scale: Array
    zero: Array | int
    offset: Array | None = None


def compressed_weight(graph: Graph, node: int) -> CompressedWeight | None:
    """The right operand of a MatMul or Gemm, if kernels can read it compressed."""
    op = graph.op(node)
    if not isinstance(op, MatMul | Gemm):
        return None
    made = _dequantize(graph, graph.input(node, 1))
    if made is None:
        return None
    form = graph.op(made)
    ops = [None if v is None else graph.op(v.node) for v in graph.inputs(made)]
    codes, scale, zero = (*ops, None)[:3]
    if not isinstance(form, Dequantize | AffineDequantize) or not isinstance(codes, Constant):
        return None
    if not isinstance(scale, Constant) or scale.dtype not in _FLOATS:
        return None
    if zero is not None and not isinstance(zero, Constant):
        return None
    shape = codes.content.shape
    if len(shape) < 2 or math.prod(shape[:-2]) != 1:
        return None
    k, n = shape[::-1][:2] if op.transpose_b else shape[-2:]
    rows = len(shape) - (1 if op.transpose_b else 2)
    group = form.group
    if group and normalize_axis(form.axis, len(shape)) != rows:
        return None
    size = -(-k // group) if group else 1
    if not compressible(k, n, codes.dtype, group or k):
        return None
    wanted = [*shape]
    wanted[rows] = size
    factors = _broadcast_to_groups(scale.data, wanted, op.transpose_b)
    centre: Array | int | None = 0
    if zero is not None and isinstance(form, AffineDequantize):
        offset = _broadcast_to_groups(zero.data, wanted, op.transpose_b)
        if factors is None or offset is None:
            return None
        return CompressedWeight(codes, op.transpose_b, k, n, group or k, factors, 0, offset)
    if zero is not None:
        narrow = zero.data.astype(np.int8 if codes.dtype.is_signed else np.uint8)
        centre = _broadcast_to_groups(narrow, wanted, op.transpose_b)
    if factors is None or centre is None:
        return None
    if isinstance(centre, np.ndarray) and (centre == centre.flat[0]).all():
        centre = int(centre.flat[0])
    return CompressedWeight(codes, op.transpose_b, k, n, group or k, factors, centre)


def _dequantize(graph: Graph, value: Value) -> int | None:
    """The Dequantize behind a product's operand, also through a conversion that widens."""
    op = graph.op(value.node)
    if isinstance(op, Convert) and op.destination_type is DType.f32:
        value = graph.input(value.node, 0)
        type_ = graph.type(value)
        if not isinstance(type_, TensorType) or type_.dtype not in _FLOATS:
            return None
    known = isinstance(graph.op(value.node), Dequantize | AffineDequantize)
    return value.node if known else None


def _broadcast_to_groups(array: Array, shape: list[int], transposed: bool) -> Array | None:
    """An array that broadcasts to `shape` as [groups, N], or None if it does not."""
    try:
        expanded = np.broadcast_to(array, shape)
    except ValueError:
        return None
    matrix = expanded.reshape(expanded.shape[-2:])
    return np.ascontiguousarray(matrix.T if transposed else matrix)


def narrow_to_f16(array: Array) -> Array:
    """f32 numbers as f16 where that has them all: formats store f16 scales of weights that are
    computed in f32, and products are as fast as their weights are read."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float16)
    return narrow if np.array_equal(narrow.astype(np.float32), array) else array


def find_weight_of_table(graph: Graph, table: DeferredArray) -> CompressedWeight | None:
    """The compressed weight of a product whose codes, row by row, have the bytes of a table."""
    for node in sorted(graph.nodes_of_kinds({"MatMul", "Gemm"})):
        made = _dequantize(graph, graph.input(node, 1))
        codes = None if made is None else graph.op(graph.input(made, 0).node)
        if isinstance(codes, DeferredConstant) and codes.content.has_bytes_of(table):
            found = compressed_weight(graph, node)
            if found is not None and found.transposed:
                return found
    return None


def is_read_compressed(graph: Graph, node: int) -> bool:
    """Whether all that reads a Dequantize, or its conversion, are products that expand it."""
    readers = graph.consumers(node)
    for reader in readers:
        if graph.op(reader).kind == "Convert":
            if not is_read_compressed(graph, reader):
                return False
        elif Value(node) in (graph.inputs(reader)[0], *graph.inputs(reader)[2:]):
            return False
        elif compressed_weight(graph, reader) is None:
            return False
    return bool(readers)
