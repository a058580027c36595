"""Choose the next token of a row: greedy, or drawn from a distribution cut by top-k, top-p, min-p.

The order is that of Hugging Face's logits processors: repetition penalty, temperature, top-k,
top-p, min-p.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..ir.errors import UsageError
from ..ir.lazy_dataclass import dataclass
from .constraint import MAX_GRAMMAR_CHARACTERS, TokenConstraint

Row = npt.NDArray[np.float32]
MAX_LOGPROBS = 100


@dataclass(frozen=True)
class GenerationOptions:
    """How a text is generated.

    max_tokens: the most tokens to generate. temperature: divides the logits; 0 takes the most
    likely token (greedy). top_k: the k most likely tokens only, 0 for all. top_p: the fewest tokens
    whose probabilities sum to at least this. min_p: tokens at least this fraction as likely as the
    most likely one. repetition_penalty: divides positive logits of tokens that the prompt or the
    text holds, and multiplies negative ones. stop: texts that end the generation, and are not part
    of it. seed: of the draws; every row of a batch draws from a generator of its own with this
    seed. num_beams: rows of a beam search, 1 for none. logprobs: how many of the most likely tokens
    to give with their log-probabilities per position, None for none. ignore_eos: generate on after
    an end token. json_schema: a JSON schema (a mapping, or its text) that the text conforms to; or
    grammar: a grammar in Lark's form that the text follows (both: extra `constrain`). max_tokens
    may end such a text early. lookup: tokens to draft from an earlier equal passage of prompt and
    text, verified in one run with the last token; the text is the same as without (prompt lookup
    decoding).
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: str | Sequence[str] = ()
    seed: int | None = None
    num_beams: int = 1
    logprobs: int | None = None
    ignore_eos: bool = False
    json_schema: str | Mapping[str, Any] | None = None
    grammar: str | None = None
    lookup: int = 0
    draft_tokens: int | None = None

    def __post_init__(self) -> None:
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stops)
        wanted = "a list of texts that are not empty"
        _require(all(isinstance(cast(Any, s), str) and s for s in stops), "stop", stops, wanted)
        _require_integer("max_tokens", self.max_tokens, 1, 1 << 31)
        _require_integer("top_k", self.top_k, 0, 1 << 31)
        _require_integer("num_beams", self.num_beams, 1, 64)
        _require_integer("lookup", self.lookup, 0, 64)
        if self.draft_tokens is not None:
            _require_integer("draft_tokens", self.draft_tokens, 0, 64)
            if self.draft_tokens and (self.lookup or self.num_beams > 1):
                raise UsageError(
                    "options exclude one another",
                    got=f"draft_tokens={self.draft_tokens}, lookup={self.lookup}, "
                    f"num_beams={self.num_beams}",
                    expected="draft_tokens, lookup or num_beams",
                )
        if self.seed is not None:
            _require_integer("seed", self.seed, 0, 1 << 63)
        if self.logprobs is not None:
            _require_integer("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        _require_number("temperature", self.temperature, 0.0, 100.0)
        _require_number("top_p", self.top_p, 0.0, 1.0, above=True)
        _require_number("min_p", self.min_p, 0.0, 1.0)
        _require_number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, above=True)
        self._check_constraint()
        if self.num_beams > 1 and self.temperature > 0:
            raise UsageError(
                "a beam search draws no tokens",
                got=f"num_beams={self.num_beams}, temperature={self.temperature}",
                fix="use temperature=0, or num_beams=1",
            )

    def _check_constraint(self) -> None:
        if isinstance(self.json_schema, Mapping):
            try:
                text = json.dumps(self.json_schema)
            except (TypeError, ValueError, RecursionError) as error:
                raise UsageError(
                    "json_schema is not JSON", got=str(error)[:200], expected="a JSON schema"
                ) from None
            object.__setattr__(self, "json_schema", text)
        for name in ("json_schema", "grammar"):
            value = getattr(self, name)
            fits = value is None or (
                isinstance(value, str) and 0 < len(value) <= MAX_GRAMMAR_CHARACTERS
            )
            got = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
            _require(fits, name, got, f"a text of at most {MAX_GRAMMAR_CHARACTERS} characters")
        if self.json_schema is None and self.grammar is None:
            return
        others = {
            "json_schema and grammar": self.json_schema is not None and self.grammar is not None,
            "num_beams": self.num_beams > 1,
            "ignore_eos": self.ignore_eos,
        }
        for name, given in others.items():
            if given:
                raise UsageError(
                    "options exclude one another",
                    got=f"a constraint on the text, and {name}",
                    expected="json_schema or grammar, without num_beams and ignore_eos",
                )


def _require(holds: bool, name: str, got: object, expected: str) -> None:
    if not holds:
        raise UsageError(f"{name} is out of range", got=got, expected=expected)


def _require_integer(name: str, value: object, low: int, high: int) -> None:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    expected = f"an integer from {low} to {high}"
    _require(is_integer and low <= cast(int, value) <= high, name, value, expected)


def _require_number(
    name: str, value: object, low: float, high: float, *, above: bool = False
) -> None:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    found = float(cast(float, value)) if number else math.nan
    fits = low < found <= high if above else low <= found <= high
    _require(fits, name, value, f"a number {'above' if above else 'from'} {low:g} to {high:g}")


@dataclass(frozen=True)
class TokenLogprob:
    """Log-probability (natural logarithm, of the model's own distribution) of a chosen token, and
    of the most likely tokens there, the most likely one first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def log_softmax(logits: Row) -> npt.NDArray[np.float64]:
    """Natural logarithms of the probabilities of a row of logits (last axis), in f64."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def find_top(values: npt.NDArray[Any], count: int) -> npt.NDArray[np.intp]:
    """Positions of the `count` largest values, the largest first; of equal ones the first."""
    count = min(count, len(values))
    if count <= 0:
        return np.empty(0, np.intp)
    least = values[np.argpartition(values, len(values) - count)[len(values) - count]]
    found = np.flatnonzero(values >= least)
    return found[np.argsort(-values[found], kind="stable")][:count]


class Sampler:
    """Chooses the tokens of one row. `seen`: tokens of the prompt, for the repetition penalty."""

    def __init__(
        self,
        options: GenerationOptions,
        seen: Sequence[int] = (),
        constraint: TokenConstraint | None = None,
    ) -> None:
        self.options, self._constraint = options, constraint
        self._seen = set(seen)
        self._random = np.random.default_rng(options.seed) if options.temperature > 0 else None

    def choose(self, logits: Row) -> tuple[int, TokenLogprob | None]:
        """The next token for logits f32 [V], and its log-probabilities where they are wanted."""
        processed = self.penalize(logits)
        if self._constraint is not None:
            processed = self._constraint.mask(processed)
        token = int(processed.argmax()) if self._random is None else self._draw(processed)
        self._seen.add(token)
        if self._constraint is not None:
            self._constraint.accept(token)
        count = self.options.logprobs
        if count is None:
            return token, None
        logarithms = log_softmax(logits)
        top = tuple((int(t), float(logarithms[t])) for t in find_top(logarithms, count))
        return token, TokenLogprob(token, float(logarithms[token]), top)

    def penalize(self, logits: Row) -> Row:
        """The logits after the repetition penalty: a copy where there is one."""
        penalty = self.options.repetition_penalty
        if penalty == 1.0 or not self._seen:
            return logits
        found = logits.copy()
        at = np.fromiter(self._seen, np.intp)
        at = at[at < len(found)]
        found[at] = np.where(found[at] > 0, found[at] / penalty, found[at] * penalty)
        return found

    def _draw(self, logits: Row) -> int:
        assert self._random is not None
        kept, weights = cut_distribution(logits, self.options)
        sums = np.cumsum(weights)
        at = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(kept[min(at, len(kept) - 1)])


def cut_distribution(
    logits: Row, options: GenerationOptions
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Tokens that may be drawn, the most likely one first, and weights in proportion to their
    probabilities, after temperature, top-k, top-p and min-p."""
    x = logits.astype(np.float64) / options.temperature
    kept = find_top(x, options.top_k or len(x))
    weights = np.exp(x[kept] - x[kept[0]])
    if options.top_p < 1.0:
        before = np.cumsum(weights) - weights
        count = int(np.count_nonzero(before < options.top_p * weights.sum()))
        kept, weights = kept[: max(count, 1)], weights[: max(count, 1)]
    if options.min_p > 0.0:
        count = int(np.count_nonzero(weights >= options.min_p * weights[0]))
        kept, weights = kept[:count], weights[:count]
    return kept, weights


def make_options(options: GenerationOptions | None, named: Mapping[str, Any]) -> GenerationOptions:
    """Options with the fields that are given by name. UsageError for an unknown one."""
    known = GenerationOptions.__dataclass_fields__
    for name in named:
        if name not in known:
            raise UsageError("unknown option", got=name, expected=", ".join(known))
    return replace(options or GenerationOptions(), **named)
