"""The generation loop: read prompts, choose a token per row, read it, until every row has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.errors import UsageError
from ..ir.lazy_dataclass import dataclass
from .constraint import make_constraint
from .decoder import TokenCache
from .draft_model import DRAFT_TOKENS, DraftModel, count_shared_tokens
from .prompt_lookup import guess_tokens
from .result import FinishReason, Generation, GenerationStats, TextPiece
from .sampling import GenerationOptions, Sampler, TokenLogprob
from .stop_strings import StopMatcher

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


@dataclass(frozen=True)
class TextSettings:
    """What the loop takes from the model: tokenizer, end tokens, tokens that a row may have, bytes
    of weights, the form of the cache, and what compressed weights are multiplied by."""

    tokenizer: Tokenizer
    end_tokens: frozenset[int]
    context_length: int
    model_bytes: int
    kv_cache: str = "f32"
    activations: str = "f32"

    def require_room(self, prompt: Sequence[int]) -> None:
        """UsageError for a prompt that is empty, or leaves no position for a token."""
        if not prompt:
            raise UsageError("the prompt has no tokens", expected="a text of at least one token")
        if len(prompt) >= self.context_length:
            raise UsageError(
                "the prompt is longer than the model's context",
                got=f"{len(prompt)} tokens",
                expected=f"at most {self.context_length - 1}",
                fix="shorten the prompt, or set context_length= (--context-length) if the model "
                "works with more positions than it declares",
            )


class TextRow:
    """The text of one row as it grows."""

    def __init__(self, settings: TextSettings, options: GenerationOptions, prompt: Sequence[int]):
        self._settings, self._options = settings, options
        schema = options.json_schema
        assert schema is None or isinstance(schema, str)
        ends = sorted(settings.end_tokens)
        constraint = make_constraint(settings.tokenizer, ends, schema, options.grammar)
        self._sampler = Sampler(options, prompt, constraint)
        self._decode = settings.tokenizer.stream()
        assert not isinstance(options.stop, str)
        self._stops = StopMatcher(options.stop)
        self._limit = min(options.max_tokens, settings.context_length - len(prompt))
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.text: list[str] = []
        self.finish_reason: FinishReason | None = None

    def step(self, logits: Any) -> TextPiece:
        """Choose the next token for logits f32 [V], and add it to the text."""
        token, logprob = self._sampler.choose(logits)
        return self.add(token, logprob)

    def add(self, token: int, logprob: TokenLogprob | None = None) -> TextPiece:
        """Add a token that was chosen."""
        if token in self._settings.end_tokens and not self._options.ignore_eos:
            self.finish_reason = "stop"
            return self._emit(self._flush(), None, None)
        self.tokens.append(token)
        if logprob is not None:
            self.logprobs.append(logprob)
        text = self._stops.feed(self._decode.step(token))
        if self._stops.found is not None:
            self.finish_reason = "stop"
        elif len(self.tokens) >= self._limit:
            self.finish_reason = "length"
            text += self._flush()
        return self._emit(text, token, logprob)

    def count_room(self, most: int) -> int:
        """Tokens that may follow the next one, `most` at most."""
        return max(0, min(most, self._limit - len(self.tokens) - 1))

    def _flush(self) -> str:
        text = self._stops.feed(self._decode.flush())
        return text if self._stops.found is not None else text + self._stops.flush()

    def _emit(self, text: str, token: int | None, logprob: TokenLogprob | None) -> TextPiece:
        self.text.append(text)
        return TextPiece(text, token, logprob)

    def finish(self, stats: GenerationStats) -> Generation:
        """The result."""
        return Generation(
            "".join(self.text),
            tuple(self.tokens),
            self.finish_reason or "length",
            stats,
            None if self._options.logprobs is None else tuple(self.logprobs),
        )


@dataclass
class Clock:
    """Sums the seconds of prefill and decode; what callers do between two pieces is not counted."""

    clock: Callable[[], float] = time.perf_counter
    prefill: float = 0.0
    decode: float = 0.0
    steps: int = 0
    cached: int = 0
    guessed: int = 0
    accepted: int = 0
    _mark: float = 0.0

    def begin(self) -> None:
        """Work begins."""
        self._mark = self.clock()

    def count_prefill(self) -> None:
        """The first tokens are chosen."""
        self.prefill += self.clock() - self._mark

    def count_step(self, tokens: int) -> None:
        """This many more tokens are chosen."""
        self.decode += self.clock() - self._mark
        self.steps += tokens

    def make_stats(
        self, settings: TextSettings, prompts: Sequence[Sequence[int]], tokens: int, cache: int
    ) -> GenerationStats:
        """The stats of a generation of `tokens` tokens whose cache takes `cache` bytes."""
        return GenerationStats(
            prompt_tokens=sum(map(len, prompts)),
            cached_tokens=self.cached,
            generated_tokens=tokens,
            prefill_seconds=self.prefill,
            decode_seconds=self.decode,
            decode_steps=self.steps,
            guessed_tokens=self.guessed,
            accepted_tokens=self.accepted,
            cache_bytes=cache,
            model_bytes=settings.model_bytes,
            kv_cache=settings.kv_cache,
            activations=settings.activations,
        )


def pad_left(prompts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Prompts as i64 [rows, longest], padded on the left, and 1 where there is a token."""
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    valid = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        valid[row, longest - len(prompt) :] = 1
    return ids, valid


def generate_rows(
    cache: TokenCache,
    settings: TextSettings,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
) -> list[Generation]:
    """Texts for several prompts, in one batch. A row that has ended leaves the batch.

    UsageError for a prompt that does not fit the context.
    """
    for prompt in prompts:
        settings.require_room(prompt)
    rows = [TextRow(settings, options, prompt) for prompt in prompts]
    clock, live = Clock(), list(range(len(rows)))
    clock.begin()
    logits = cache.read(*pad_left(prompts))[:, -1]
    _step_rows(rows, live, logits)
    clock.count_prefill()
    most = cache.nbytes
    while kept := [i for i, row in enumerate(live) if rows[row].finish_reason is None]:
        clock.begin()
        if len(kept) < len(live):
            cache.select(kept)
            live = [live[i] for i in kept]
        logits = cache.read(np.array([[rows[row].tokens[-1]] for row in live]))[:, -1]
        _step_rows(rows, live, logits)
        clock.count_step(len(live))
        most = max(most, cache.nbytes)
    stats = clock.make_stats(settings, prompts, sum(len(r.tokens) for r in rows), most)
    return [row.finish(stats) for row in rows]


def _step_rows(rows: Sequence[TextRow], live: Sequence[int], logits: Any) -> None:
    for row, values in zip(live, logits, strict=True):
        rows[row].step(values)


class StreamedText:
    """Iterates over the pieces of one text as they are generated; `result` is the whole of it.

    The cache belongs to the stream while it runs. It may be left at any time (a `break`, Ctrl-C):
    `tokens_read` says what the cache holds then.
    """

    def __init__(
        self,
        cache: TokenCache,
        settings: TextSettings,
        prompt: Sequence[int],
        options: GenerationOptions,
        known: Sequence[int] = (),
        draft: DraftModel | None = None,
    ) -> None:
        """known: the tokens that the cache has read; those that the prompt shares are kept.
        draft: guesses tokens, unless the options have a lookup."""
        settings.require_room(prompt)
        self._cache, self._settings, self._prompt = cache, settings, list(prompt)
        self._row = TextRow(settings, options, prompt)
        self._clock, self._options, self._draft = Clock(), options, draft
        if options.draft_tokens and draft is None:
            raise UsageError(
                "there is no draft model",
                got=f"draft_tokens={options.draft_tokens}",
                fix="compile the model with draft= (--draft)",
            )
        self.tokens_read = list(known)

    @property
    def result(self) -> Generation:
        """The text so far."""
        stats = self._clock.make_stats(
            self._settings, [self._prompt], len(self._row.tokens), self._cache.nbytes
        )
        return self._row.finish(stats)

    def finish(self) -> Generation:
        """Generate the rest, and return the whole text."""
        for _ in self:
            pass
        return self.result

    def __iter__(self) -> Iterator[TextPiece]:
        clock, row = self._clock, self._row
        # The last token of the prompt is read in any case: its logits choose the first token.
        shared = min(count_shared_tokens(self.tokens_read, self._prompt), len(self._prompt) - 1)
        shared = self._cache.trim(shared)
        del self.tokens_read[shared:]
        clock.cached = shared
        clock.begin()
        piece = row.step(self._read(self._prompt[shared:])[0])
        clock.count_prefill()
        yield piece
        while row.finish_reason is None:
            clock.begin()
            pieces = self._step()
            clock.count_step(len(pieces))
            yield from pieces

    def _step(self) -> list[TextPiece]:
        """Read the last token and the guesses behind it in one run. Each token is chosen from the
        logits that it has without guesses; a wrong guess, and what follows it, is forgotten."""
        row, cache = self._row, self._cache
        guesses = self._guess()
        every = self._read([row.tokens[-1], *guesses], every=bool(guesses))
        pieces = [row.step(every[0])]
        for guess, logits in zip(guesses, every[1:], strict=True):
            if row.finish_reason is not None or row.tokens[-1] != guess:
                break
            pieces.append(row.step(logits))
        self._clock.guessed += len(guesses)
        self._clock.accepted += len(pieces) - 1
        wrong = len(guesses) - (len(pieces) - 1)
        if wrong:
            cache.trim(cache.columns - wrong)
            del self.tokens_read[cache.columns :]
        return pieces

    def _guess(self) -> list[int]:
        lookup, draft_tokens = self._options.lookup, self._options.draft_tokens
        if lookup:
            count = self._row.count_room(lookup)
            return guess_tokens([*self._prompt, *self._row.tokens], count) if count else []
        if self._draft is None:
            return []
        count = self._row.count_room(DRAFT_TOKENS if draft_tokens is None else draft_tokens)
        return self._draft.guess([*self._prompt, *self._row.tokens], count)

    def _read(self, tokens: Sequence[int], *, every: bool = False) -> Any:
        """Logits f32 [1, V] behind the last token, or [tokens, V] behind each."""
        before = self._cache.columns
        try:
            return self._cache.read(np.array([tokens], np.int64), every=every)[0]
        finally:
            self.tokens_read += tokens[: self._cache.columns - before]
