"""The graph of a decoder with its cache in variables (llm/language_model.py has its interface).

Sizes: batch B, new tokens S, past tokens P, all tokens T = P + S, heads N, key and value heads M,
head size H.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import builder as ops
from ...builder import Tensor
from ...compiler.model import Model
from ...ir import ops as o
from ...ir.dtype import DType
from ...ir.errors import ModelFormatError
from ...ir.op import Array
from .decoder import DecoderFeatures, DecoderWeights, Rotary
from .matrix import Matrix, join_rows


def build_decoder(decoder: DecoderFeatures, weights: DecoderWeights, name: str) -> Model:
    """The model. ModelFormatError for a weight that is missing or of another shape."""
    return _DecoderBuilder(decoder, weights).build(name)


class _DecoderBuilder:
    def __init__(self, decoder: DecoderFeatures, weights: DecoderWeights) -> None:
        self.d, self.weights = decoder, weights
        self.ids = ops.parameter("input_ids", ["batch", "sequence"], "i64")
        self.attention_mask = ops.parameter("attention_mask", ["batch", "total"], "i64")
        self.positions = ops.parameter("position_ids", ["batch", "sequence"], "i64")
        self.beams = ops.parameter("beam_idx", ["batch"], "i32")
        self._integers: dict[tuple[int, ...], Tensor] = {}
        # What every variable holds at first: no tokens. All are one value, so their lengths are
        # seen to be equal.
        sizes = [
            ops.shape_of(self.beams),
            np.array([decoder.kv_heads, 0, decoder.head_size], np.int64),
        ]
        self.empty = ops.broadcast_to(np.float32(0), ops.concat(sizes))
        self.visible = ops.unsqueeze(ops.not_equal(self.attention_mask, np.int64(0)), [1, 2, 3])
        self.masks: dict[int | None, Tensor] = {None: self.visible}
        self.tables = {
            id(r): self._rotation(r) for r in (decoder.rotary, decoder.local_rotary) if r
        }

    def build(self, name: str) -> Model:
        table = self._matrix("token_embd.weight", None, self.d.width)
        x = table.pick_rows(self.ids)
        if self.d.embedding_scale != 1:
            x = x * self.d.embedding_scale
        for layer in range(self.d.layers):
            x = self._layer(x, layer)
        x = self._norm(x, "output_norm")
        head = table
        if "output.weight" in self.weights:
            head = self._matrix("output.weight", table.shape[0], self.d.width)
        x = head.multiply(x)
        if self.d.logit_scale != 1:
            x = x * self.d.logit_scale
        if self.d.logit_cap:
            x = ops.tanh(x * (1 / self.d.logit_cap)) * self.d.logit_cap
        inputs = [self.ids, self.attention_mask, self.positions, self.beams]
        return ops.model({"logits": x}, inputs=inputs, name=name)

    def _layer(self, x: Tensor, layer: int) -> Tensor:
        prefix = f"blk.{layer}."
        found = self._attention(self._norm(x, prefix + "attn_norm"), layer)
        x = x + self._scale_residual(found, prefix + "post_attention_norm")
        found = self._feed_forward(self._norm(x, prefix + "ffn_norm"), prefix)
        return x + self._scale_residual(found, prefix + "post_ffw_norm")

    def _scale_residual(self, x: Tensor, norm: str) -> Tensor:
        if norm + ".weight" in self.weights:
            x = self._norm(x, norm)
        return x if self.d.residual_scale == 1 else x * self.d.residual_scale

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return ops.rms_norm(x, self._vector(name + ".weight", self.d.width), eps=self.d.eps)

    def _attention(self, x: Tensor, layer: int) -> Tensor:
        """[B, S, width] of normalized x."""
        d, prefix = self.d, f"blk.{layer}."
        window = d.windows[layer]
        rotary = d.local_rotary if window is not None and d.local_rotary is not None else d.rotary
        query, key, value = self._split_heads(x, prefix)
        query, key = (
            self._rotate(self._head_norm(v, prefix + n), rotary)
            for v, n in ((query, "attn_q_norm"), (key, "attn_k_norm"))
        )
        key, value = (self._remember(v, layer, n) for v, n in ((key, "key"), (value, "value")))
        # Queries of one key head side by side, [B, M, N / M, S, H]: keys are never repeated.
        groups = d.heads // d.kv_heads
        query = self._reshape(query, 0, 0, d.kv_heads, groups, d.head_size)
        query = self._transpose(query, 0, 2, 3, 1, 4)
        cap = d.score_cap
        form = o.Attention(d.attention_scale / (cap or 1.0), causal="last", zeros=True, cap=cap)
        keys, values = (ops.apply(o.Unsqueeze(), v, self._ints(2)) for v in (key, value))
        found = ops.apply(form, query, keys, values, self._mask(window))
        found = self._transpose(found, 0, 3, 1, 2, 4)
        found = self._reshape(found, 0, 0, d.heads * d.head_size)
        return self._linear(found, prefix + "attn_output", d.width)

    def _split_heads(self, x: Tensor, prefix: str) -> list[Tensor]:
        """Queries [B, S, N, H], keys and values [B, S, M, H]."""
        d = self.d
        counts = (d.heads, d.kv_heads, d.kv_heads)
        sizes = [n * d.head_size for n in counts]
        if prefix + "attn_qkv.weight" in self.weights:
            parts = self._split(self._linear(x, prefix + "attn_qkv", sum(sizes)), sizes)
        else:
            names = [prefix + n for n in ("attn_q", "attn_k", "attn_v")]
            parts = self._linear_several(x, names, sizes)
        return [self._reshape(v, 0, 0, n, d.head_size) for v, n in zip(parts, counts, strict=True)]

    def _head_norm(self, x: Tensor, name: str) -> Tensor:
        name += ".weight"
        if name not in self.weights:
            return x
        return ops.rms_norm(x, self._vector(name, self.d.head_size), eps=self.d.eps)

    def _feed_forward(self, x: Tensor, prefix: str) -> Tensor:
        names, d = [prefix + "ffn_gate", prefix + "ffn_up"], self.d
        if names[0] + ".weight" in self.weights:
            # Two products: the second one's epilogue has the gate, and writes half as much.
            parts = [self._linear(x, n, d.inner_width) for n in names]
        else:
            both = self._linear(x, names[1], 2 * d.inner_width)
            parts = self._split(both, [d.inner_width] * 2)
        gate, other = parts
        if d.activation == "silu":
            gate = ops.apply(o.Swish(), gate)
        else:
            gate = ops.gelu(gate, "tanh")
        return self._linear(gate * other, prefix + "ffn_down", d.width)

    def _linear(self, x: Tensor, name: str, rows: int) -> Tensor:
        matrix = self._matrix(name + ".weight", rows, None)
        return self._add_bias(matrix.multiply(x), [name], [rows])

    def _linear_several(
        self, x: Tensor, names: Sequence[str], sizes: Sequence[int]
    ) -> list[Tensor]:
        """Products of one x with several matrices: one product where their forms are equal."""
        found = [self._matrix(n + ".weight", s, None) for n, s in zip(names, sizes, strict=True)]
        joined = join_rows(found)
        if joined is not None:
            return self._split(self._add_bias(joined.multiply(x), names, sizes), sizes)
        return [
            self._add_bias(m.multiply(x), [n], [s])
            for m, n, s in zip(found, names, sizes, strict=True)
        ]

    def _add_bias(self, x: Tensor, names: Sequence[str], sizes: Sequence[int]) -> Tensor:
        given = [n + ".bias" in self.weights for n in names]
        if not any(given):
            return x
        parts = [
            self._vector(name + ".bias", size) if there else np.zeros(size, np.float32)
            for name, size, there in zip(names, sizes, given, strict=True)
        ]
        return x + np.concatenate(parts)

    def _vector(self, name: str, size: int) -> Array:
        if name not in self.weights:
            raise _missing_tensor_error(name)
        found = self.weights.vector(name)
        if found.shape != (size,):
            raise _wrong_shape_error(name, found.shape, (size,))
        return found

    def _matrix(self, name: str, rows: int | None, columns: int | None) -> Matrix:
        if name not in self.weights:
            raise _missing_tensor_error(name)
        found = self.weights.matrix(name)
        pairs = zip(found.shape, (rows, columns), strict=True)
        wanted = tuple(have if want is None else want for have, want in pairs)
        if found.shape != wanted:
            raise _wrong_shape_error(name, found.shape, wanted)
        return found

    def _split(self, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        axis, lengths = self._ints(-1), self._ints(*sizes)
        return list(ops.apply(o.VariadicSplit(num_outputs=len(sizes)), x, axis, lengths))

    def _ints(self, *values: int) -> Tensor:
        """A constant vector, one for all nodes that read the same."""
        if values not in self._integers:
            self._integers[values] = ops.constant(np.array(values, np.int64))
        return self._integers[values]

    def _reshape(self, x: Tensor, *sizes: int) -> Tensor:
        """Reshape where 0 keeps a size."""
        return ops.apply(o.Reshape(True), x, self._ints(*sizes))

    def _transpose(self, x: Tensor, *order: int) -> Tensor:
        return ops.apply(o.Transpose(), x, self._ints(*order))

    def _remember(self, x: Tensor, layer: int, kind: str) -> Tensor:
        """Keys or values of all tokens, [B, M, T, H], of the new ones, [B, S, M, H]."""
        d = self.d
        name = f"past_key_values.{layer}.{kind}.present.{layer}.{kind}"
        read = o.ReadValue(name, DType.f32, f"?,{d.kv_heads},?,{d.head_size}")
        past = ops.gather(ops.apply(read, self.empty, name=name), self.beams)
        present = ops.concat([past, self._transpose(x, 0, 2, 1, 3)], 2)
        return ops.apply(o.Assign(name), present)

    def _mask(self, window: int | None) -> Tensor:
        """Which keys a query sees besides causality: [B, 1, 1, 1, T], with a window
        [B, 1, 1, S, T]."""
        if window not in self.masks:
            assert window is not None
            total = ops.squeeze(ops.gather(ops.shape_of(self.attention_mask), [1]), 0)
            new = ops.squeeze(ops.gather(ops.shape_of(self.ids), [1]), 0)
            keys = ops.apply(o.Range(DType.i64), np.int64(0), total, np.int64(1))
            queries = ops.apply(o.Range(DType.i64), total - new, total, np.int64(1))
            first = ops.unsqueeze(queries, 1) - np.int64(window)
            near = ops.greater(ops.unsqueeze(keys, 0), first)
            self.masks[window] = ops.logical_and(self.visible, near)
        return self.masks[window]

    def _rotation(self, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the new tokens, [B, S, 1, dims / 2]."""
        frequencies: Tensor | Array = rotary.frequencies(rotary.factors)
        if rotary.long_factors is not None:
            last = ops.reduce_max(self.positions, [0, 1])
            far = ops.greater_equal(last, np.int64(rotary.original_length))
            frequencies = ops.where(far, rotary.frequencies(rotary.long_factors), frequencies)
        angles = ops.unsqueeze(ops.convert(self.positions, "f32"), [2, 3]) * frequencies
        tables = ops.cos(angles), ops.sin(angles)
        if rotary.magnitude == 1:
            return tables
        return tables[0] * rotary.magnitude, tables[1] * rotary.magnitude

    def _rotate(self, x: Tensor, rotary: Rotary) -> Tensor:
        """Heads [B, S, heads, H] rotated by the positions of their tokens."""
        cosines, sines = self.tables[id(rotary)]
        half = rotary.dims // 2
        a, b, *rest = self._split(x, [half, half, *_remainder(self.d.head_size - rotary.dims)])
        turned = [a * cosines - b * sines, b * cosines + a * sines]
        return ops.concat([*turned, *rest], 3)


def _remainder(size: int) -> list[int]:
    return [size] if size else []


def _missing_tensor_error(name: str) -> ModelFormatError:
    return ModelFormatError(
        "the model lacks a tensor that its architecture has",
        where=name,
        expected="all tensors of one model in the file or folder",
    )


def _wrong_shape_error(
    name: str, got: tuple[int, ...], wanted: tuple[int, ...]
) -> ModelFormatError:
    return ModelFormatError(
        "a tensor has another shape than the model's sizes say",
        where=name,
        got=got,
        expected=wanted,
    )
