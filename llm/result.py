"""What a generation returns: text, tokens, why it ended, and how long it took."""

from __future__ import annotations

from typing import Literal

from ..ir.lazy_dataclass import dataclass
from .sampling import TokenLogprob

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class GenerationStats:
    """Counts, seconds and bytes of one call of `generate` (of all its rows together).

    prompt_tokens: tokens of the prompts; cached_tokens: those of them that a session had read
    before. prefill_seconds: from the first token read to the first token generated; decode_seconds:
    from there to the last. guessed_tokens: tokens that prompt lookup or a draft model guessed;
    accepted_tokens: those of them that are in the text. cache_bytes: keys and values at the end;
    kv_cache: their form. model_bytes: weights as kernels hold them.
    activations: what compressed weights are multiplied by: "f32", or the type and in how many
    products.
    """

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    prefill_seconds: float
    decode_seconds: float
    decode_steps: int
    cache_bytes: int
    model_bytes: int
    guessed_tokens: int = 0
    accepted_tokens: int = 0
    kv_cache: str = "f32"
    activations: str = "f32"

    @property
    def prefill_tokens_per_second(self) -> float:
        """Tokens of the prompts that were read, by the time to the first token."""
        read = self.prompt_tokens - self.cached_tokens
        return read / self.prefill_seconds if self.prefill_seconds > 0 else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        """Tokens behind each row's first one, by the time that they took."""
        return self.decode_steps / self.decode_seconds if self.decode_seconds > 0 else 0.0


@dataclass(frozen=True)
class Generation:
    """One generated text.

    tokens: what was generated, without the end token. finish_reason: "stop" behind an end token or
    a stop string, "length" where max_tokens or the model's context ended it. logprobs: per token,
    where they were requested.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: GenerationStats
    logprobs: tuple[TokenLogprob, ...] | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextPiece:
    """What one step adds to a text: `print(piece, end="")` prints it. `text` is empty where the
    token completes no character, or may begin a stop string."""

    text: str
    token: int | None
    logprob: TokenLogprob | None = None

    def __str__(self) -> str:
        return self.text
