"""A draft model: texts are those without it, right guesses save runs, other tokens are refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.llm.decoder import Decoder
from irc_compiler.llm.draft_model import DraftModel, count_shared_tokens
from irc_compiler.llm.llm import LLM
from support.models.reference_generation import greedy, tiny_llm
from support.models.tiny_decoder import LETTERS, LetterTokenizer, tiny_language_model


@cache
def drafted_llm(context_length: int = 256, **sizes: int) -> LLM:
    """The tiny model, and a draft of these sizes (none: the model itself)."""
    draft = LLM(tiny_language_model(**sizes), num_threads=1)
    model = tiny_language_model()
    return LLM(model, num_threads=1, context_length=context_length, draft=draft)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"layers": 1, "seed": 7}])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "seed": 3}, {"logprobs": 2}])
def test_texts_are_those_without_a_draft(sizes: dict[str, int], options: dict[str, Any]) -> None:
    llm, plain = drafted_llm(**sizes), tiny_llm(context_length=256)
    for prompt in ("abcd abcd abcd ab", "hello world"):
        for count in (None, 1, 7):
            given = {"max_tokens": 40, "ignore_eos": True, **options}
            wanted = plain.generate(prompt, **given)
            found = llm.generate(prompt, draft_tokens=count, **given)
            assert (found.tokens, found.text) == (wanted.tokens, wanted.text)
            assert found.logprobs == wanted.logprobs
            stats = found.stats
            assert stats.decode_steps == 39 and 0 <= stats.accepted_tokens <= stats.guessed_tokens
            assert stats.guessed_tokens >= 15


def test_a_draft_guesses_its_own_greedy_text() -> None:
    draft = DraftModel(tiny_llm().decoder, 128, 32)
    prompt = tiny_llm().encode("hello world")
    text = greedy(prompt, 6)
    assert draft.guess(prompt, 6)[: len(text)] == text
    assert draft.guess([*prompt, *text[:2]], 2) == text[2:4]
    assert draft.guess([*prompt[:-1], 3], 3) == DraftModel(tiny_llm().decoder, 128, 32).guess(
        [*prompt[:-1], 3], 3
    )
    assert draft.guess(prompt, 0) == []
    assert len(draft.guess([3] * 126, 9)) == 2, "its context ends at 128 tokens"
    assert draft.guess([3] * 200, 9) == []
    assert max(DraftModel(tiny_llm().decoder, 128, 5).guess(prompt, 9)) < 5


def test_right_guesses_save_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, run = [], Decoder.run

    def count(self: Any, request: Any, ids: Any, *others: Any, **named: Any) -> Any:
        if self is llm.decoder:
            columns.append(ids.shape[1])
        return run(self, request, ids, *others, **named)

    llm = drafted_llm()
    monkeypatch.setattr(Decoder, "run", count)
    found = llm.generate("ab", max_tokens=41, ignore_eos=True, draft_tokens=4)
    assert columns == [2] + [5] * 8
    assert (found.stats.guessed_tokens, found.stats.accepted_tokens) == (32, 32)
    columns.clear()
    llm.generate("ab", max_tokens=41, ignore_eos=True, draft_tokens=0)
    assert columns == [2] + [1] * 40


def test_a_session_drafts_and_batches_stay_rows() -> None:
    llm, plain = drafted_llm(), tiny_llm(context_length=256)
    first, second = llm.session(), plain.session()
    for text in ("hi there", "how are you"):
        wanted = second.send(text, max_tokens=20, ignore_eos=True)
        found = first.send(text, max_tokens=20, ignore_eos=True)
        assert found.tokens == wanted.tokens and found.stats.accepted_tokens > 10
    prompts = ["hello", "a"]
    found = llm.generate(prompts, max_tokens=9)
    assert [g.tokens for g in found] == [plain.generate(p, max_tokens=9).tokens for p in prompts]


def test_a_draft_that_is_interrupted_guesses_on(monkeypatch: pytest.MonkeyPatch) -> None:
    draft, prompt, run = (
        DraftModel(tiny_llm().decoder, 128, 32),
        tiny_llm().encode("hello world"),
        Decoder.run,
    )
    wanted = DraftModel(tiny_llm().decoder, 128, 32).guess(prompt, 5)
    draft.guess(prompt, 2)

    def interrupt(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoder, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        draft.guess([*prompt, 3], 2)
    monkeypatch.setattr(Decoder, "run", run)
    assert draft.guess(prompt, 5) == wanted


class _OtherTokens(LetterTokenizer):
    def tokens(self) -> dict[str, int]:
        return {letter: number for number, letter in enumerate(reversed(LETTERS))}


@pytest.mark.slow
def test_a_draft_of_other_tokens_is_refused() -> None:
    other = tiny_language_model()
    object.__setattr__(other, "tokenizer", _OtherTokens())
    with pytest.raises(UsageError, match="other tokens than the model"):
        LLM(tiny_language_model(), num_threads=1, draft=other)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"draft_tokens": 3}, "there is no draft model"),
        ({"draft_tokens": 65}, "draft_tokens is out of range"),
        ({"draft_tokens": 2, "lookup": 2}, "options exclude one another"),
        ({"draft_tokens": 2, "num_beams": 2}, "options exclude one another"),
    ],
)
def test_bad_options_are_refused(options: dict[str, int], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        tiny_llm().generate("a", **options)


def test_shared_tokens_are_counted() -> None:
    assert count_shared_tokens([1, 2, 3], [1, 2, 4]) == 2
    assert count_shared_tokens([], np.array([1]).tolist()) == 0
    assert count_shared_tokens([1, 2], [1, 2, 3]) == 2
