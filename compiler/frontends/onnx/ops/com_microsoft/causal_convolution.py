"""onnxruntime's CausalConvWithState and VarlenCausalConvWithState (domain com.microsoft): depthwise
convolutions of past and present tokens, as models with linear attention and Mamba have them.

Sizes: batch B, channels C, positions L, positions of the state S. Source: the operators' schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Broadcast,
    Concat,
    Gather,
    GroupConvolution,
    Less,
    Minimum,
    Reshape,
    Select,
    Subtract,
    Swish,
    Transpose,
    Unsqueeze,
)
from ..elementary import convert_value, size_of, sizes_of
from .packed_sequences import (
    find_sequences,
    pack_sequences,
    pad_sequences,
)

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def causal_conv_with_state(n: ImportContext) -> Imported:
    """Each channel convolved along the last axis over what came before, which is a state."""
    if n.integer("ndim", 1) != 1:
        raise n.unsupported_error(f"{n.op_type} of more than one spatial axis")
    x, last = n.input(0), n.flag("channels_last")
    if n.integer("state_window", 0):
        raise n.unsupported_error(f"{n.op_type} with a window of states (CUDA only)")
    past = n.optional(3)
    shape = sizes_of(n, x)
    if last:
        x, past = _channels_second(n, x), None if past is None else _channels_second(n, past)
    found, whole, state = _convolve(n, x, n.input(1), n.optional(2), past)
    positions = n.add(Add(), size_of(n, x, 2), _offsets(n, state))
    present = n.add(Gather(), whole, positions, n.int_value(2))
    if last:
        found = n.add(Reshape(), n.add(Transpose(), found, n.ints_value([0, 2, 1])), shape)
        present = _channels_last(n, present, n.input(0))
    return [found, present]


def varlen_causal_conv_with_state(n: ImportContext) -> Imported:
    """The same of tokens [T, C] of several sequences, each with a state of its own."""
    x, captured = n.input(0), n.optional(5)
    if any(n.optional(port) is not None for port in (6, 7)):
        raise n.unsupported_error(f"{n.op_type} with dynamic filters (CUDA only)")
    found = find_sequences(n, n.input(2), x)
    batch = pad_sequences(n, found, x)
    rows = n.add(Transpose(), batch, n.ints_value([0, 2, 1]))
    result, whole, state = _convolve(n, rows, n.input(1), n.optional(3), n.input(4))
    result = pack_sequences(n, found, n.add(Transpose(), result, n.ints_value([0, 2, 1])))
    ends = n.add(Add(), n.add(Unsqueeze(), found.lengths, n.ints_value([1])), _offsets(n, state))
    turned = n.add(Transpose(), whole, n.ints_value([0, 2, 1]))
    final = n.add(Gather(batch_dims=1), turned, ends, n.int_value(1))
    outputs = [result, n.add(Transpose(), final, n.ints_value([0, 2, 1]))]
    capacity = n.integer("state_update_capacity", 0)
    if capacity and captured is not None:
        count = n.add(Minimum(), convert_value(n, captured, DType.i64), found.lengths)
        outputs.append(first_rows(n, batch, count, capacity))
    return outputs


def first_rows(n: ImportContext, batch: Value, count: Value, capacity: int) -> Value:
    """[B, capacity, ...] of [B, L, ...]: the first `count`, [B], rows of each, then zeros."""
    every = n.ints_value(range(capacity))
    last = n.add(Subtract(), size_of(n, batch, 1), n.ints_value([1]))
    rows = n.add(Gather(), batch, n.add(Minimum(), every, last), n.int_value(1))
    shown = n.add(Less(), every, n.add(Unsqueeze(), count, n.ints_value([1])))
    shown = n.add(Unsqueeze(), shown, n.ints_value(range(2, n.rank(batch))))
    return n.add(Select(), shown, rows, n.like(batch, 0))


def _convolve(
    n: ImportContext, x: Value, filters: Value, bias: Value | None, past: Value | None
) -> tuple[Value, Value, int]:
    """Result [B, C, L], state and input [B, C, S + L], and S."""
    shape, dilation = n.shape(filters), n.integer("dilation", 1)
    if shape is None or not isinstance(shape[-1], int):
        raise n.unsupported_error(f"{n.op_type} with filters of unknown size")
    if dilation < 1:
        raise n.error("dilation is below 1", got=dilation)
    activation = n.text("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise n.error("unknown activation", got=activation, expected="none, silu or swish")
    state = (shape[-1] - 1) * dilation
    if past is None:
        sizes = n.add(Concat(axis=0), size_of(n, x, 0), size_of(n, x, 1), n.ints_value([state]))
        past = n.add(Broadcast(), n.like(x, 0), sizes)
    whole = n.add(Concat(axis=2), past, x)
    apart = n.add(Unsqueeze(), filters, n.ints_value([1]))
    op = GroupConvolution(strides=(1,), dilations=(dilation,), pads_begin=(0,), pads_end=(0,))
    found = n.add(op, whole, apart)
    if bias is not None:
        found = n.add(Add(), found, n.add(Unsqueeze(), bias, n.ints_value([0, 2])))
    return found if activation == "none" else n.add(Swish(), found), whole, state


def _offsets(n: ImportContext, count: int) -> Value:
    return n.ints_value(range(count))


def _channels_second(n: ImportContext, x: Value) -> Value:
    """[B, L, d...] as [B, C, L]."""
    flat = n.add(Reshape(special_zero=True), x, n.ints_value([0, 0, -1]))
    return n.add(Transpose(), flat, n.ints_value([0, 2, 1]))


def _channels_last(n: ImportContext, state: Value, x: Value) -> Value:
    """[B, C, S] as [B, S, d...], whose axes of channels are those of x."""
    turned = n.add(Transpose(), state, n.ints_value([0, 2, 1]))
    if n.rank(x) == 3:
        return turned
    widths = [size_of(n, x, axis) for axis in range(2, n.rank(x))]
    return n.add(
        Reshape(special_zero=True), turned, n.add(Concat(axis=0), n.ints_value([0, 0]), *widths)
    )


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::CausalConvWithState": {1: causal_conv_with_state},
    "com.microsoft::VarlenCausalConvWithState": {1: varlen_causal_conv_with_state},
}
