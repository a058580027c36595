"""Scaled dot product attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dim import eq
from ..dtype import DType
from ..errors import ShapeError
from ..op import Array, Fact, Op, Port
from ..scalar import cast_array
from ..types import Type, broadcast_shapes
from .elementwise import FLOATS
from .rules import one_dtype, require_dtype, same_size, tensor
from .softmax import softmax


@dataclass(frozen=True)
class ScaledDotProductAttention(Op):
    """softmax(query x key^T * scale + mask) x value.

    query [N..., L, E], key [N..., S, E], value [N..., S, Ev]; the mask broadcasts to [N..., L, S]
    and is added (floats) or keeps where it is true (booleans); scale is one number, 1 / sqrt(E)
    where absent. `causal` ignores the mask and lets row i see keys 0..i.
    """

    kind: ClassVar[str] = "ScaledDotProductAttention"
    version: ClassVar[int] = 13
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("query"),
        Port("key"),
        Port("value"),
        Port("attention_mask", optional=True),
        Port("scale", optional=True),
    )
    causal: bool = False

    def infer(
        self,
        query: Fact,
        key: Fact,
        value: Fact,
        attention_mask: Fact | None = None,
        scale: Fact | None = None,
    ) -> tuple[Type, ...]:
        dtype = one_dtype(query, key, value)
        require_dtype(query, "query", FLOATS, "a float type")
        require_dtype(scale, "scale", FLOATS, "a float type")
        require_dtype(attention_mask, "attention_mask", (dtype, DType.boolean), f"{dtype}, boolean")
        q, k, v = (f.tensor.shape for f in (query, key, value))
        if q is None or k is None or v is None:
            return (tensor(dtype, None),)
        if min(len(q), len(k), len(v)) < 2:
            raise ShapeError("attention needs matrices", got=f"{q}, {k}, {v}", expected="rank >= 2")
        same_size(q[-1], k[-1], "query and key differ in their last size")
        same_size(k[-2], v[-2], "key and value differ in their number of rows")
        batch = broadcast_shapes(q[:-2], k[:-2], v[:-2])
        assert batch is not None
        if attention_mask is not None and not self.causal:
            mask = attention_mask.tensor.shape
            if mask is not None and len(mask) > 1:
                for have, want in ((mask[-1], k[-2]), (mask[-2], q[-2])):
                    if eq(have, 1) is False and eq(have, want) is False:
                        raise ShapeError(
                            "the mask does not broadcast to query x key",
                            got=attention_mask.type,
                            expected=f"[..., {q[-2]}, {k[-2]}]",
                        )
        return (tensor(dtype, (*batch, q[-2], v[-1])),)

    def evaluate(
        self,
        query: Array,
        key: Array,
        value: Array,
        attention_mask: Array | None = None,
        scale: Array | None = None,
    ) -> tuple[Array, ...]:
        q, k, v = (a.astype(np.float64) for a in (query, key, value))
        factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale.reshape(-1)[0])
        with np.errstate(all="ignore"):
            scores = np.matmul(q, k.swapaxes(-1, -2)) * factor
            if self.causal:
                keep = np.tri(*scores.shape[-2:], dtype=bool)
                scores = np.where(keep, scores, -np.inf)
            elif attention_mask is not None and attention_mask.dtype == bool:
                scores = np.where(attention_mask, scores, -np.inf)
            elif attention_mask is not None:
                scores = scores + attention_mask.astype(np.float64)
            out = np.matmul(softmax(scores, -1), v)
        return (cast_array(out, DType.from_numpy(query.dtype)),)
