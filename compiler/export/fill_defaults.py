"""What irc lets a graph leave out and OpenVINO wants written: inputs, and attributes per axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Node, Value
from ...ir.op import Op
from ...ir.ops import (
    Add,
    Clamp,
    Convert,
    Convolution,
    ConvolutionBackpropData,
    Einsum,
    GroupConvolution,
    GroupConvolutionBackpropData,
    GRUCell,
    GRUSequence,
    LSTMCell,
    LSTMSequence,
    Range,
    Reshape,
    RNNCell,
    RNNSequence,
    Round,
    Select,
)
from .graph_builder import Build

# Attributes with one number per spatial axis, and what they are where they are left out.
_PER_AXIS = {
    "strides": 1,
    "dilations": 1,
    "pads_begin": 0,
    "pads_end": 0,
    "output_padding": 0,
}
_WITH_FILTERS = (
    Convolution,
    GroupConvolution,
    ConvolutionBackpropData,
    GroupConvolutionBackpropData,
)
_CELLS = (RNNCell, GRUCell, LSTMCell)
_SEQUENCES = (RNNSequence, GRUSequence, LSTMSequence)
# Inputs that mean the same where they are 0: port -> element type (None: the first input's).
_ZERO: dict[str, dict[int, DType | None]] = {
    "ScaledDotProductAttention": {3: None},
    "NonMaxSuppression": {2: DType.i64, 3: DType.f32, 4: DType.f32},
}


def completed_op(op: Op, build: Build, inputs: Sequence[Value | None]) -> Op:
    """The operation with its attributes per axis written out."""
    if isinstance(op, Einsum):  # OpenVINO takes no spaces
        return dataclasses.replace(op, equation=op.equation.replace(" ", ""))
    empty = {name for name in _PER_AXIS if getattr(op, name, None) == ()}
    if not empty:
        return op
    axes = len(getattr(op, "kernel", ()))
    data = inputs[0]
    if isinstance(op, _WITH_FILTERS) and data is not None:
        axes = (build.tensor(data).rank or 2) - 2
    filled = {name: (_PER_AXIS[name],) * axes for name in empty}
    return dataclasses.replace(op, **filled) if axes else op


def completed_inputs(
    build: Build, record: Node, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """Inputs left out as constants that mean the same: IR has no gaps before other inputs."""
    op, filled = record.op, list(inputs)
    if isinstance(op, _CELLS + _SEQUENCES):
        return _with_bias(op, build, filled)
    if isinstance(op, Convert):
        return [None if v is None else _clamp_to(build, v, op.destination_type) for v in filled]
    if isinstance(op, Range):
        return [None if v is None else _scalar(build, v) for v in filled]
    if all(value is not None for value in filled):
        return filled
    zeros = _ZERO.get(op.kind, {})
    for port, value in enumerate(filled):
        if value is None and port in zeros:
            dtype = zeros[port] or build.dtype(next(v for v in filled if v is not None))
            filled[port] = build.number(0, dtype)
    return filled


def _clamp_to(build: Build, value: Value, to: DType) -> Value:
    """A rounded float limited to the integers of a small type, where OpenVINO's conversion would
    wrap and irc's saturates: the end of quantisation. Other conversions are left as they are."""
    if not (build.dtype(value).is_float and to.is_int and to.bits <= 16):
        return value
    if not is_rounded(build.graph, value):
        return value
    return build.op(Clamp(float(to.min), float(to.max)), value)


def is_rounded(graph: Graph, value: Value) -> bool:
    """Round, or Round + zero point, or a choice between that and the zero point."""
    for _ in range(3):
        op = graph.op(value.node)
        if isinstance(op, Round):
            return True
        if not isinstance(op, Add | Select):
            return False
        value = graph.input(value.node, 2 if isinstance(op, Select) else 0)
    return False


def _scalar(build: Build, value: Value) -> Value:
    """A value of one element without axes."""
    if build.tensor(value).rank in (0, None):
        return value
    return build.op(Reshape(), value, build.constant(np.empty(0, np.int64), DType.i64))


def _with_bias(
    op: RNNCell | GRUCell | LSTMCell | RNNSequence | GRUSequence | LSTMSequence,
    build: Build,
    inputs: list[Value | None],
) -> list[Value | None]:
    port = next(i for i, p in enumerate(op.inputs) if p.name == "B")
    if port < len(inputs) and inputs[port] is not None:
        return inputs
    first = inputs[0]
    assert first is not None
    dtype = build.dtype(first)
    rows = op.bias_rows() * op.hidden_size
    shape = (op.directions(), rows) if isinstance(op, _SEQUENCES) else (rows,)
    bias = build.constant(np.zeros(shape, dtype.numpy), dtype)
    return [*inputs[:port], bias, *inputs[port + 1 :]]
