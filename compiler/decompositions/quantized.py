"""Operations on quantised values in plain ones: what the writer and the passes replace them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.op import Op
from ...ir.ops import (
    Add,
    AffineDequantize,
    Constant,
    Convert,
    ConvInteger,
    Convolution,
    Dequantize,
    Divide,
    Gather,
    GroupConvInteger,
    GroupConvolution,
    IsNaN,
    MatMul,
    MatMulInteger,
    Multiply,
    Quantize,
    Reshape,
    Round,
    Select,
    Subtract,
    Unsqueeze,
)
from ...ir.types import TensorType, normalize_axis


class AddNode(Protocol):
    """Adds an operation and returns its first output: Patch.add, Build.op."""

    def __call__(self, op: Op, *inputs: Value | None) -> Value: ...


class PlainForm(Protocol):
    """The value that an operation makes, of plain operations on the same inputs (values of
    `graph`); None where there are none that say it."""

    def __call__(
        self, graph: Graph, add: AddNode, op: Op, inputs: Sequence[Value | None]
    ) -> Value | None: ...


def _dtype(graph: Graph, value: Value) -> DType:
    type_ = graph.type(value)
    assert isinstance(type_, TensorType)
    return type_.dtype


def _cast(graph: Graph, add: AddNode, value: Value, dtype: DType) -> Value:
    return value if _dtype(graph, value) is dtype else add(Convert(dtype), value)


def integer_product(
    graph: Graph, add: AddNode, op: Op, inputs: Sequence[Value | None]
) -> Value | None:
    """The product of both operands as i32 without their zero points."""
    if isinstance(op, MatMulInteger):
        plain: Op = MatMul(op.transpose_a, op.transpose_b)
    else:
        assert isinstance(op, ConvInteger | GroupConvInteger)
        kind = GroupConvolution if op.grouped else Convolution
        plain = kind(op.strides, op.pads_begin, op.pads_end, op.dilations, op.auto_pad)
    sides: list[Value] = []
    given = (*inputs, None, None)
    for value, zero in ((given[0], given[2]), (given[1], given[3])):
        assert value is not None
        side = add(Convert(DType.i32), value)
        if zero is not None:
            side = add(Subtract(), side, add(Convert(DType.i32), zero))
        sides.append(side)
    return add(plain, *sides)


def dequantize(graph: Graph, add: AddNode, op: Op, inputs: Sequence[Value | None]) -> Value | None:
    """Convert, Subtract, Multiply, or Convert, Multiply, Add. Groups get an axis of their own
    meanwhile, as OpenVINO writes compressed weights ([N, groups, group]); where they do not divide
    it, scales are repeated."""
    x, scale, shift = (*inputs, None)[:3]
    assert isinstance(op, Dequantize | AffineDequantize) and x is not None and scale is not None
    zero, offset = (shift, None) if isinstance(op, Dequantize) else (None, shift)
    type_ = graph.type(x)
    shape = type_.shape if isinstance(type_, TensorType) else None

    def align(value: Value) -> Value:
        return value

    split = sizes = None
    given = x
    if op.group:
        if shape is None or not all(isinstance(d, int) for d in shape):
            return None
        sizes = tuple(d for d in shape if isinstance(d, int))
        axis = normalize_axis(op.axis, len(sizes))
        size = sizes[axis]
        if size % op.group:
            group_indices = np.arange(size, dtype=np.int64) // op.group
            picks = [add(_ints(p)) for p in (group_indices, np.array(axis, np.int64))]

            def align(value: Value) -> Value:
                return add(Gather(), value, *picks)
        else:
            split = (*sizes[:axis], size // op.group, op.group, *sizes[axis + 1 :])
            stored = graph.op(x.node)
            if isinstance(stored, Constant):  # takes the shape on itself
                given = add(Constant(stored.data.reshape(split), stored.dtype, split))
            else:
                given = _add_reshape(add, x, split)
            behind = add(_ints(np.array([axis + 1])))

            def align(value: Value) -> Value:
                return add(Unsqueeze(), value, behind)

    dtype = _dtype(graph, scale)
    # What the smaller floats hold exactly needs no wider type in between.
    exact = _dtype(graph, x).bits <= 8 and dtype in (DType.f16, DType.bf16)
    wide = dtype if exact or dtype in (DType.f32, DType.f64) else DType.f32
    value = given if _dtype(graph, x) is wide else add(Convert(wide), given)
    if zero is not None:
        value = add(Subtract(), value, add(Convert(wide), align(zero)))
    product = add(Multiply(), value, align(_cast(graph, add, scale, wide)))
    if offset is not None:
        product = add(Add(), product, align(offset))
    found = product if wide is dtype else add(Convert(dtype), product)
    return found if split is None or sizes is None else _add_reshape(add, found, sizes)


def _ints(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Constant:
    return Constant.of(values, DType.i64)


def _add_reshape(add: AddNode, value: Value, shape: tuple[int, ...]) -> Value:
    return add(Reshape(False), value, add(_ints(np.array(shape, np.int64))))


def quantize(graph: Graph, add: AddNode, op: Op, inputs: Sequence[Value | None]) -> Value | None:
    """Divide, Round, Add the zero point, and choose it for NaN."""
    x, scale, zero = (*inputs, None, None)[:3]
    assert isinstance(op, Quantize) and x is not None
    ratio = x if scale is None else add(Divide(), x, scale)
    value = add(Round("half_to_even"), ratio)
    if zero is not None:
        shift = add(Convert(DType.f32), zero)
        value = add(Select(), add(IsNaN(), ratio), shift, add(Add(), value, shift))
    return add(Convert(op.destination_type), value)


DECOMPOSITIONS: Mapping[str, PlainForm] = {
    "MatMulInteger": integer_product,
    "ConvInteger": integer_product,
    "GroupConvInteger": integer_product,
    "Dequantize": dequantize,
    "AffineDequantize": dequantize,
    "Quantize": quantize,
}
