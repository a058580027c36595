"""What a decoder's graph is built from: sizes, features and weights."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ...ir.op import Array
from .matrix import Matrix


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotation of the first `dims` numbers of a head by position * frequency.

    Pair i is (x[i], x[i + dims / 2]); its frequency is base^(-2 i / dims) / factors[i].
    long_factors replace `factors` in a run with a position of `original_length` or more.
    magnitude: what cosines and sines are multiplied by.
    """

    dims: int
    base: float = 10000.0
    factors: Array | None = None
    long_factors: Array | None = None
    original_length: int = 0
    magnitude: float = 1.0

    def frequencies(self, factors: Array | None) -> Array:
        """f32 [dims / 2]."""
        powers = np.arange(0, self.dims, 2).astype(np.float32) / np.float32(self.dims)
        found = 1.0 / np.power(np.float32(self.base), powers)
        return (found if factors is None else found / factors).astype(np.float32)


@dataclass(frozen=True, eq=False)
class DecoderFeatures:
    """Sizes and features of a decoder.

    windows: per layer, how many keys a query sees (its own and those before it), None for all.
    local_rotary: the rotation of layers with a window, where it differs. embedding_scale,
    residual_scale: factors of the embeddings and of what each half of a layer adds; logit_scale: a
    factor of the logits. score_cap, logit_cap: c * tanh(x / c) of attention's scores and of the
    logits, 0 for none.
    """

    layers: int
    width: int
    inner_width: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    rotary: Rotary
    windows: tuple[int | None, ...]
    attention_scale: float
    local_rotary: Rotary | None = None
    activation: str = "silu"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    score_cap: float = 0.0
    logit_cap: float = 0.0

    @property
    def common_window(self) -> int | None:
        """The window of every layer, None where one has another or none."""
        found = set(self.windows)
        return found.pop() if len(found) == 1 else None


class DecoderWeights(Protocol):
    """Weights by GGUF's names (`blk.0.attn_q.weight`), rows of queries and keys in the order that
    `Rotary` rotates, weights of norms as factors."""

    def __contains__(self, name: str) -> bool: ...

    def matrix(self, name: str) -> Matrix:
        """A matrix. ModelFormatError where it has another number of axes."""
        ...

    def vector(self, name: str) -> Array:
        """A vector in f32."""
        ...


def llama3_factors(
    rotary_dims: int, base: float, factor: float, low: float, high: float, length: int
) -> Array:
    """Factors of Llama 3's scaling: low frequencies are divided by `factor`, high ones stay, and
    those between are interpolated. `length`: the context that the model was first trained with."""
    waves = 2 * math.pi * base ** (np.arange(0, rotary_dims, 2) / rotary_dims)
    smooth = np.clip((length / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
