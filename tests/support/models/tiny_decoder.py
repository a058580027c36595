"""Small decoders with random weights, in the stateful form that optimum-intel exports."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from irc_compiler import ops
from irc_compiler.builder.tensor import Tensor
from irc_compiler.compiler.model import Model
from irc_compiler.ir import ops as o
from irc_compiler.ir.dtype import DType
from irc_compiler.llm import LanguageModel, ModelConfig

LETTERS = "abcdefghijklmnopqrstuvwxyz .,!?"
EOS = len(LETTERS)
VOCABULARY = EOS + 1


class LetterTokenizer:
    """One token per letter; the last token ends a text."""

    vocabulary = VOCABULARY

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        return [LETTERS.index(c) for c in text if c in LETTERS]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return "".join(LETTERS[i] for i in ids if i != EOS)

    def tokens(self) -> dict[str, int]:
        return {letter: number for number, letter in enumerate(LETTERS)} | {"</s>": EOS}

    def token_id(self, token: str) -> int | None:
        return EOS if token == "</s>" else None

    def stream(self, skip_special: bool = True) -> Any:
        return SimpleNamespace(step=lambda token: self.decode([token]), flush=lambda: "")


class LetterTemplate:
    """`role: content.` per message."""

    def render(self, messages: Sequence[Any], add_generation_prompt: bool = True) -> str:
        text = "".join(f"{m['role']} {m['content']}." for m in messages)
        return text + ("assistant " if add_generation_prompt else "")


def decoder_model(
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_size: int = 8,
    seed: int = 0,
    vocabulary: int = VOCABULARY,
    inner: int | None = None,
) -> Model:
    """input_ids, attention_mask, position_ids, beam_idx -> logits, as optimum-intel exports it."""
    rng = np.random.default_rng(seed)
    width = heads * head_size
    inner = inner or 2 * width

    def weight(rows: int, columns: int, scale: float = 1.0) -> Any:
        data = rng.standard_normal((rows, columns)) * scale / np.sqrt(columns)
        return data.astype(np.float32)

    ids = ops.parameter("input_ids", ["B", "S"], "i64")
    mask = ops.parameter("attention_mask", ["B", "T"], "i64")
    positions = ops.parameter("position_ids", ["B", "S"], "i64")
    beams = ops.parameter("beam_idx", ["B"], "i32")
    table = weight(vocabulary, width, 4.0)
    x = ops.gather(ops.constant(table), ids)
    batch = ops.gather(ops.shape_of(ids), np.array([0]))
    length = ops.gather(ops.shape_of(ids), np.array([1]))
    visible = _mask(mask, length)
    angles = _angles(positions, head_size)

    def split(value: Tensor, count: int) -> Tensor:
        return ops.transpose(_reshape(value, [0, 0, count, head_size]), [0, 2, 1, 3])

    def grow(name: str, fresh: Tensor) -> Tensor:
        sizes = ops.concat([batch, np.array([kv_heads, 0, head_size])])
        first = ops.broadcast_to(np.float32(0), sizes)
        shape = f"?,{kv_heads},?,{head_size}"
        past = ops.apply(o.ReadValue(name, DType.f32, shape), first)
        grown = ops.concat([ops.gather(past, beams), fresh], 2)
        return ops.apply(o.Assign(name), grown)

    def repeat(value: Tensor) -> Tensor:
        if heads == kv_heads:
            return value
        wide = ops.unsqueeze(value, 2)
        # As exporters write it: the length is that of the first layer's keys.
        shape = ops.shape_of(first_keys[0])
        sizes = ops.concat(
            [
                ops.gather(shape, np.array([0, 1])),
                np.array([heads // kv_heads]),
                ops.gather(shape, np.array([2])),
                np.array([head_size]),
            ]
        )
        spread = ops.apply(o.Broadcast("bidirectional"), wide, sizes)
        return _reshape(spread, [0, heads, -1, head_size])

    first_keys: list[Tensor] = []
    for n in range(layers):
        normal = ops.rms_norm(x, np.ones(width, np.float32), eps=1e-5)
        q = split(ops.matmul(normal, weight(width, width), transpose_b=True), heads)
        k = split(
            ops.matmul(normal, weight(kv_heads * head_size, width), transpose_b=True), kv_heads
        )
        v = split(
            ops.matmul(normal, weight(kv_heads * head_size, width), transpose_b=True), kv_heads
        )
        q, k = _rotate(q, angles), _rotate(k, angles)
        prefix = f"past_key_values.{n}"
        keys = grow(f"{prefix}.key.present.{n}.key", k)
        values = grow(f"{prefix}.value.present.{n}.value", v)
        first_keys.append(keys)
        mixed = ops.apply(o.ScaledDotProductAttention(), q, repeat(keys), repeat(values), visible)
        joined = _reshape(ops.transpose(mixed, [0, 2, 1, 3]), [0, 0, width])
        x = x + ops.matmul(joined, weight(width, width, 2.0), transpose_b=True)
        normal = ops.rms_norm(x, np.ones(width, np.float32), eps=1e-5)
        gate = ops.matmul(normal, weight(inner, width), transpose_b=True)
        up = ops.matmul(normal, weight(inner, width), transpose_b=True)
        x = x + ops.matmul(
            gate * ops.sigmoid(gate) * up, weight(width, inner, 2.0), transpose_b=True
        )
    normal = ops.rms_norm(x, np.ones(width, np.float32), eps=1e-5)
    logits = ops.matmul(normal, weight(vocabulary, width, 3.0), transpose_b=True)
    return ops.model({"logits": logits}, inputs=[ids, mask, positions, beams], name="tiny")


def run_decoder(
    request: Any, past: int, tokens: list[list[int]], rows: list[int] | None = None
) -> Any:
    """The last logits of a request of `decoder_model`, behind `past` columns, all of them tokens.
    rows: the row of the cache that each row continues."""
    ids = np.array(tokens, np.int64)
    batch, count = ids.shape
    return request(
        input_ids=ids,
        attention_mask=np.ones((batch, past + count), np.int64),
        position_ids=np.tile(np.arange(past, past + count), (batch, 1)),
        beam_idx=np.array(rows or range(batch), np.int32),
    )["logits"][:, -1]


def _reshape(value: Tensor, sizes: list[int]) -> Tensor:
    """Sizes of 0 are those of the value."""
    return ops.apply(o.Reshape(True), value, np.array(sizes))


def _mask(mask: Tensor, length: Tensor) -> Tensor:
    total = ops.gather(ops.shape_of(mask), np.array([1]))
    zero, one = np.int64(0), np.int64(1)
    keys = ops.apply(o.Range(DType.i64), zero, ops.squeeze(total, 0), one)
    rows = ops.apply(o.Range(DType.i64), zero, ops.squeeze(length, 0), one)
    rows = ops.unsqueeze(rows + (total - length), 1)
    causal = ops.less_equal(ops.unsqueeze(keys, 0), rows)
    padded = ops.not_equal(ops.unsqueeze(mask, [1, 2]), zero)
    both = ops.logical_and(ops.unsqueeze(causal, [0, 1]), padded)
    return ops.where(both, np.float32(0), np.float32(np.finfo(np.float32).min))


def _angles(positions: Tensor, head_size: int) -> tuple[Tensor, Tensor]:
    frequencies = 1 / 100.0 ** (np.arange(0, head_size, 2) / head_size)
    row = ops.unsqueeze(ops.convert(positions, "f32"), [1, 3])
    angles = row * np.concatenate([frequencies, frequencies]).astype(np.float32)
    return ops.cos(angles), ops.sin(angles)


def _rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    low, high = ops.split(x, 2, 3)
    return x * angles[0] + ops.concat([-high, low], 3) * angles[1]


def tiny_language_model(context_length: int = 128, **sizes: Any) -> LanguageModel:
    """A decoder over letters, with a tokenizer and a template."""
    heads = {"layers": 2, "heads": 4, "kv_heads": 2, "head_size": 8} | sizes
    config = ModelConfig(
        name="tiny",
        architecture="llama",
        context_length=context_length,
        vocabulary=VOCABULARY,
        layers=heads["layers"],
        heads=heads["heads"],
        kv_heads=heads["kv_heads"],
        head_size=heads["head_size"],
        eos_token_ids=(EOS,),
    )
    tokenizer: Any = LetterTokenizer()
    template: Any = LetterTemplate()
    return LanguageModel(decoder_model(**sizes), tokenizer, template, config)
