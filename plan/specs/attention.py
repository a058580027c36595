"""The spec of attention: two products and the softmax between them, scores never stored whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ...ir.dtype import DType
from .base import Operand, Size, Spec

# Rows of keys and values beyond this do not fit the kernel's scratch.
MAX_HEAD: Final = 1024


@dataclass(frozen=True)
class AttentionSpec(Spec):
    """out[b, q] = sum over keys of softmax(x[b, q])[key] * value[b, key], where
    x[b, q, key] = scale * (query[b, q] . key[b, key]) + mask[b, q, key], or, with a cap other than
    0, cap * tanh(scale * ...) + mask.

    Operands walk (batch..., queries, size), (batch..., keys, size), (batch..., keys, width),
    (batch..., queries, keys), the sink's (batch..., queries), and (batch..., queries, width);
    strides of 0 share heads, masks and sinks. All last strides but the mask's and the sink's are 1.
    A boolean mask puts `fill` in the place of x where it is false. `causal`: query q sees keys
    0..q + causal only. A row whose every x is -inf, or that sees no key, is NaN, or 0 if `zeros`;
    without any keys it is 0. A sink is one more x per query, whose value is 0.

    Keys are taken in blocks of fixed size from the first on, and every element of a row's result is
    one chain over them. compute_dtype: bf16 rounds queries, keys, values and the softmax's
    exponentials to bf16 before they are multiplied. Buffers: query, key, value, mask?, sink?, out.
    """

    family: ClassVar[str] = "attention"

    batch: tuple[Size, ...]
    queries: Size
    keys: Size
    size: int
    width: int
    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None
    out: Operand
    scale: float
    causal: Size | None = None
    fill: float = -float("inf")
    zeros: bool = False
    compute_dtype: DType | None = None
    cap: float = 0.0
    sink: Operand | None = None

    def operands(self) -> tuple[Operand, ...]:
        given = (o for o in (self.mask, self.sink) if o is not None)
        return (self.query, self.key, self.value, *given, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        rows, keys = (*self.batch, self.queries), (*self.batch, self.keys)
        mask = () if self.mask is None else ((*rows, self.keys),)
        ends = ((*rows, self.size), (*keys, self.size), (*keys, self.width))
        sink = () if self.sink is None else (rows,)
        return [*ends, *mask, *sink, (*rows, self.width)]
