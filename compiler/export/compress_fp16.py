"""Float weights as f16 with a Convert behind them, as OpenVINO's compress_to_fp16 writes them."""

from __future__ import annotations

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.infer import infer_node
from ...ir.op import Array
from ...ir.ops import Constant, Convert
from .bodies import with_bodies

DECOMPRESSION = {"decompression": {"version": "0"}}
# The share of values whose underflow keeps a tensor as it is: OpenVINO's figure.
_MAX_UNDERFLOW_SHARE = 0.75
_QUANTISED = frozenset(["FakeQuantize", "QuantizeLinear", "DequantizeLinear", "QLinearMatMul"])


def compress_weights(graph: Graph) -> None:
    """Replace f32 and f64 constants in place, in bodies (which are copied) too.

    Left alone: models that are quantised already, as OpenVINO leaves them, single numbers, and
    constants with a finite value that f16 cannot hold, which OpenVINO would clamp.
    """
    if any(graph.op(node).kind in _QUANTISED for node in graph.ids()):
        return
    for node in graph.ids():
        record = graph.node(node)
        op = record.op = with_bodies(record.op, _compress_body)
        if isinstance(op, Constant) and op.dtype in (DType.f32, DType.f64) and _worth_it(op.data):
            _compress(graph, node, op)


def _compress_body(body: Graph) -> Graph:
    body = body.copy()
    compress_weights(body)
    return body


def _worth_it(data: Array) -> bool:
    """Not: single numbers (nothing to save, and an epsilon would become 0), values that f16 cannot
    hold, and tensors most of whose values would become 0."""
    if data.size < 2:
        return False
    with np.errstate(over="ignore", under="ignore"):
        small = data.astype(np.float16)
    if (np.isinf(small) & np.isfinite(data)).any():
        return False
    lost = int(np.count_nonzero((small == 0) & (data != 0)))
    return lost == 0 or bool(lost < _MAX_UNDERFLOW_SHARE * np.count_nonzero(data))


def _compress(graph: Graph, node: int, op: Constant) -> None:
    record = graph.node(node)
    small = graph.add(
        Constant.of(op.data.astype(np.float16), DType.f16),
        name=f"{record.name}_compressed",
        origin=record.origin,
    )
    uses = graph.uses(Value(node))
    convert = graph.add(
        Convert(op.dtype),
        [Value(small)],
        name=record.name,
        origin=record.origin,
        names=record.names,
    )
    graph.node(convert).rt_info = {**record.rt_info, **DECOMPRESSION}
    infer_node(graph, small)
    infer_node(graph, convert)
    for use in uses:
        graph.connect(Value(convert), use)
    graph.remove(node)
