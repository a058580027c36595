"""onnxruntime's operators whose channels are the last axis (domain com.microsoft), as their forms
with channels on axis 1 between two transposes, which passes fold into layouts.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ......ir.graph import Value
from ......ir.ops import Add, GroupNormalization, Multiply, Reshape, Sigmoid, Transpose
from ..elementary import convert_value, unsqueeze_value
from ..nn.convolution import conv
from ..nn.pooling import max_pool
from ..quantization import qlinear_conv
from .elementary import fused_conv
from .quantized import average_pool

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def _to_second(n: ImportContext, x: Value) -> Value:
    rank = n.rank(x)
    return n.add(Transpose(), x, n.ints_value([0, rank - 1, *range(1, rank - 1)]))


def _to_last(n: ImportContext, x: Value) -> Value:
    return n.add(Transpose(), x, n.ints_value([0, *range(2, n.rank(x)), 1]))


def channels_last(importer: ImportFunction, *more: int) -> ImportFunction:
    """The importer with input 0, inputs `more` and output 0 in the other layout."""

    def load(n: ImportContext) -> Value:
        moved = list(n.inputs)
        for port in (0, *more):
            value = n.optional(port)
            if value is not None:
                moved[port] = _to_second(n, value)
        found = importer(replace(n, inputs=moved))
        first = found if isinstance(found, Value) else found[0]
        assert first is not None
        return _to_last(n, first)

    return load


def by_flag(importer: ImportFunction) -> ImportFunction:
    """The layout that the attribute channels_last names."""
    return lambda n: (channels_last(importer) if n.flag("channels_last") else importer)(n)


def group_norm(n: ImportContext) -> Value:
    """Normalized groups of channels, scaled and shifted by channel; activation 1: x sigmoid(x)."""
    x, last = n.input(0), n.flag("channels_last", True)
    result = _group_norm(n, _to_second(n, x) if last else x)
    return _to_last(n, result) if last else result


def skip_group_norm(n: ImportContext) -> Imported:
    """The same of x + skip + bias, which is output 1."""
    x, skip, last = n.input(0), n.input(3), n.flag("channels_last", True)
    rank = n.rank(x)
    x = _to_second(n, x) if last else x
    if n.rank(skip) == 2:
        skip = n.add(Reshape(special_zero=True), skip, n.ints_value([0, 0, *[1] * (rank - 2)]))
    elif last:
        skip = _to_second(n, skip)
    total, bias = n.add(Add(), x, skip), n.optional(4)
    if bias is not None:
        total = n.add(Add(), total, unsqueeze_value(n, bias, range(1, rank - 1)))
    result = _group_norm(n, total)
    return [_to_last(n, v) if last else v for v in (result, total)]


def _group_norm(n: ImportContext, x: Value) -> Value:
    op = GroupNormalization(n.integer("groups"), n.number("epsilon", 1e-5))
    result = n.add(op, x, *(convert_value(n, n.input(i), n.dtype(x)) for i in (1, 2)))
    activation = n.integer("activation", 0)
    if activation not in (0, 1):
        raise n.error("unknown activation of GroupNorm", got=activation, expected="0 or 1")
    return n.add(Multiply(), result, n.add(Sigmoid(), result)) if activation else result


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}NhwcConv": {1: channels_last(conv)},
    f"{_MS}NhwcFusedConv": {1: channels_last(fused_conv, 3)},
    f"{_MS}NhwcMaxPool": {1: channels_last(max_pool)},
    f"{_MS}QLinearConv": {1: by_flag(qlinear_conv)},
    f"{_MS}QLinearAveragePool": {1: by_flag(average_pool)},
    f"{_MS}GroupNorm": {1: group_norm},
    f"{_MS}SkipGroupNorm": {1: skip_group_norm},
}
