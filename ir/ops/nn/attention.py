"""Scaled dot product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import eq
from ...dims.constraints import require_broadcast, require_equal
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type, broadcast_shapes
from ..math.elementwise import FLOATS, sizes_of
from ..quantization.integer_products import BYTES
from ..shape_inference import one_dtype, require_dtype, require_single, same_size, tensor
from .softmax import softmax


def _infer_attention(
    query: Fact, key: Fact, value: Fact, mask: Fact | None, sink: Fact | None = None
) -> tuple[Type, ...]:
    """The type of the values mixed for every query."""
    dtype = one_dtype(query, key, value)
    require_dtype(query, "query", FLOATS, "a float type")
    require_dtype(mask, "mask", (dtype, DType.boolean), f"{dtype}, boolean")
    q, k, v = (f.tensor.shape for f in (query, key, value))
    if q is None or k is None or v is None:
        return (tensor(dtype, None),)
    if min(len(q), len(k), len(v)) < 2:
        raise ShapeError("attention needs matrices", got=f"{q}, {k}, {v}", expected="rank >= 2")
    same_size(q[-1], k[-1], "query and key differ in their last size")
    same_size(k[-2], v[-2], "key and value differ in their number of rows")
    shape = None if mask is None else mask.tensor.shape
    ends = None if sink is None else sink.tensor.shape
    batch = broadcast_shapes(q[:-2], k[:-2], v[:-2], (shape or ())[:-2], (ends or ())[:-2])
    assert batch is not None
    if sink is not None and ends is not None:
        require_dtype(sink, "sink", (dtype,), str(dtype))
        what = "a sink is not one score per query"
        if len(ends) < 2:
            raise ShapeError(what, got=sink.type, expected=f"[..., {q[-2]}, 1]")
        require_equal(ends[-1], 1, what)
        require_broadcast(ends[-2], q[-2], what)
    if mask is not None and shape:
        for have, want in zip(reversed(shape), (k[-2], q[-2]), strict=False):
            if eq(have, 1) is False and eq(have, want) is False:
                raise ShapeError(
                    "the mask does not broadcast to query x key",
                    got=mask.type,
                    expected=f"[..., {q[-2]}, {k[-2]}]",
                )
            require_broadcast(have, want, "the mask does not broadcast to query x key")
    return (tensor(dtype, (*batch, q[-2], v[-1])),)


def _open_bytes(name: str, given: Fact, zero: Fact | None, value: Fact) -> Fact:
    """Queries or keys of bytes as they are multiplied: numbers of the values' type."""
    dtype = given.tensor.dtype
    require_dtype(given, name, BYTES, "u8 or i8, as the other one of queries and keys")
    require_dtype(zero, f"{name}_zero", (dtype,), f"{dtype}, as what it centres")
    if zero is not None:
        require_single(zero, f"{name}_zero")
    return Fact(tensor(value.tensor.dtype, given.tensor.shape))


def _scratch_bytes(inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> int:
    """Operands and results in f64; scores before and after each operation on them, in f64."""
    query, key = inputs[:2]
    if query is None or key is None or not outputs[0].is_static or not key.is_static:
        return 0
    rows = outputs[0].elements // max(sizes_of(outputs[0].shape)[-1], 1)
    known = sum(t.elements for t in (*inputs, *outputs) if t is not None)
    return 8 * known + 44 * rows * sizes_of(key.shape)[-2]


def _append_sink(scores: Array, sink: Array | None) -> Array:
    """The scores, and that of the sink behind them in each row."""
    if sink is None:
        return scores
    batch = np.broadcast_shapes(scores.shape[:-2], sink.shape[:-2])
    last = np.broadcast_to(sink.astype(np.float64), (*batch, scores.shape[-2], 1))
    return np.concatenate([np.broadcast_to(scores, (*batch, *scores.shape[-2:])), last], -1)


def _weights(scores: Array, query: Array) -> Array:
    """The weights of scores, in f32 at least: one that is 0 there makes NaN of an infinite value,
    however little more than 0 it was before it was rounded, as with a Softmax of its own."""
    found = softmax(scores, -1)
    return found if query.dtype == np.float64 else found.astype(np.float32)


@dataclass(frozen=True)
class ScaledDotProductAttention(Op):
    """softmax(query x key^T * scale + mask) x value.

    query [N..., L, E], key [N..., S, E], value [N..., S, Ev]; the mask broadcasts to [N..., L, S]
    and is added (floats) or keeps where it is true (booleans); scale is one number, 1 / sqrt(E)
    where absent. `causal` ignores the mask and lets row i see keys 0..i. A sink [N..., L or 1, 1]
    is one more score of each row, after the mask, of a key whose value is zero: OpenVINO 2026.4
    writes it (of GPT-OSS), its specification does not mention it.
    """

    kind: ClassVar[str] = "ScaledDotProductAttention"
    version: ClassVar[int] = 13
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("query"),
        Port("key"),
        Port("value"),
        Port("attention_mask", optional=True),
        Port("scale", optional=True),
        Port("sink", optional=True),
    )
    causal: bool = False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _scratch_bytes(inputs, outputs)

    def infer(
        self,
        query: Fact,
        key: Fact,
        value: Fact,
        attention_mask: Fact | None = None,
        scale: Fact | None = None,
        sink: Fact | None = None,
    ) -> tuple[Type, ...]:
        require_dtype(scale, "scale", FLOATS, "a float type")
        if scale is not None:
            require_single(scale, "scale")
        return _infer_attention(query, key, value, None if self.causal else attention_mask, sink)

    def evaluate(
        self,
        query: Array,
        key: Array,
        value: Array,
        attention_mask: Array | None = None,
        scale: Array | None = None,
        sink: Array | None = None,
    ) -> tuple[Array, ...]:
        q, k, v = (a.astype(np.float64) for a in (query, key, value))
        factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale.reshape(()))
        with np.errstate(all="ignore"):
            scores = np.matmul(q, k.swapaxes(-1, -2)) * factor
            if self.causal:
                keep = np.tri(*scores.shape[-2:], dtype=bool)
                scores = np.where(keep, scores, -np.inf)
            elif attention_mask is not None and attention_mask.dtype == bool:
                scores = np.where(attention_mask, scores, -np.inf)
            elif attention_mask is not None:
                scores = scores + attention_mask.astype(np.float64)
            found = _weights(_append_sink(scores, sink), query)
            out = np.matmul(found[..., : scores.shape[-1]], v)
        return (cast_array(out, DType.from_numpy(query.dtype)),)


@dataclass(frozen=True)
class Attention(Op):
    """softmax(scale * query x key^T + mask) x value (dialect).

    With a `cap` above 0, scores are cap * tanh(scale * query x key^T) before the mask is added.

    query [N..., L, E], key [N..., S, E], value [N..., S, Ev], mask [N..., L or 1, S or 1]; batches
    broadcast. The mask is added (floats), or puts `fill` where it is false (booleans).
    Queries and keys of floats have the values' type. Both may be bytes instead (u8 or i8), less
    their zero points, each one number of its operand's type (absent: 0).
    causal: "first" lets row i see keys 0..i, "last" keys 0..i + S - L, "" all. A row whose scores
    are all -inf is NaN, or 0 if `zeros`. A sink [N..., L or 1, 1] is one more score of each row,
    after the masks, of a key whose value is zero.
    """

    kind: ClassVar[str] = "Attention"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("query"),
        Port("key"),
        Port("value"),
        Port("mask", optional=True),
        Port("sink", optional=True),
        Port("query_zero", optional=True),
        Port("key_zero", optional=True),
    )
    scale: float = 1.0
    causal: str = ""
    fill: float = -math.inf
    zeros: bool = False
    cap: float = 0.0

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _scratch_bytes(inputs, outputs)

    def infer(
        self,
        query: Fact,
        key: Fact,
        value: Fact,
        mask: Fact | None = None,
        sink: Fact | None = None,
        query_zero: Fact | None = None,
        key_zero: Fact | None = None,
    ) -> tuple[Type, ...]:
        sides = [("query", query, query_zero), ("key", key, key_zero)]
        if any(f.tensor.dtype in BYTES for _, f, _ in sides):
            query, key = (_open_bytes(*side, value) for side in sides)
        elif zeros := [f.type for f in (query_zero, key_zero) if f is not None]:
            raise ShapeError("only bytes have zero points", got=zeros[0])
        if self.causal not in ("", "first", "last"):
            raise ShapeError("no such causal mask", got=self.causal, expected="first or last")
        return _infer_attention(query, key, value, mask, sink)

    def evaluate(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None = None,
        sink: Array | None = None,
        query_zero: Array | None = None,
        key_zero: Array | None = None,
    ) -> tuple[Array, ...]:
        q, k, v = (a.astype(np.float64) for a in (query, key, value))
        q, k = (
            a if zero is None else a - zero.astype(np.float64).reshape(())
            for a, zero in ((q, query_zero), (k, key_zero))
        )
        with np.errstate(all="ignore"):
            scores = np.matmul(q, k.swapaxes(-1, -2)) * self.scale
            if self.cap:
                scores = np.tanh(scores) * self.cap
            if mask is not None and mask.dtype == bool:
                scores = np.where(mask, scores, self.fill)
            elif mask is not None:
                scores = scores + mask.astype(np.float64)
            rows, keys = scores.shape[-2:]
            if self.causal:
                last = keys - rows if self.causal == "last" else 0
                scores = np.where(np.tri(rows, keys, last, dtype=bool), scores, -np.inf)
            scores = _append_sink(scores, sink)
            found = _weights(scores, value)
            if self.zeros:
                found = np.where((scores == -np.inf).all(-1, keepdims=True), 0.0, found)
            found = found[..., :keys]
            out = np.matmul(found, v)
        return (cast_array(out, DType.from_numpy(value.dtype)),)
