"""A language model as it is read: graph, tokenizer, chat template and configuration.

The graph is the stateful form that optimum-intel exports, whatever the file was. Inputs:
input_ids i64 [B, S], attention_mask i64 [B, P + S] (1 for a token, 0 for padding), position_ids
i64 [B, S], beam_idx i32 [B] (row i of the cache continues row beam_idx[i]). Output: logits f32
[B, S, V]. Keys and values are variables named `past_key_values.{layer}.key.present.{layer}.key`
(and `value`), [B, kv_heads, P, head_size]; P is the number of tokens that the request has read.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, get_args

from ..ir.errors import UsageError
from ..ir.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ..compiler.model import Model
    from .chat_template import ChatTemplate
    from .tokenizer import Tokenizer

# What a graph that computes few logits adds (cut_logits.py): an input and an output.
POSITIONS: Final = "logits_positions"
HIDDEN: Final = "hidden_states"
# The form of keys and values in a cache (cache_storage.py).
KVCache = Literal["f32", "f16", "bf16", "u8", "u4"]
# stored: as the file has them, compressed where a kernel reads that form; f32: dequantized.
Weights = Literal["stored", "f32"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and special tokens. left_padding: rows of a batch may be padded on the left; without it
    they have one length. context_length: the most tokens that positions are trained for;
    sliding_window: keys that a layer with a window sees, None where no layer has one;
    cache_window: the same where every layer has it."""

    name: str
    architecture: str
    context_length: int
    vocabulary: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    sliding_window: int | None = None
    cache_window: int | None = None
    left_padding: bool = True


@dataclass(frozen=True)
class LanguageModel:
    """weight_forms: how each matrix is held, as text (`Q4_1 as u4 by 32`) -> number of matrices."""

    model: Model
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    config: ModelConfig
    weight_forms: dict[str, int] = field(default_factory=dict[str, int])


def check_cache_form(form: str) -> None:
    """UsageError for an unknown form of keys and values."""
    if form not in get_args(KVCache):
        expected = ", ".join(get_args(KVCache))
        raise UsageError("unknown form of the cache", got=form, expected=expected)
