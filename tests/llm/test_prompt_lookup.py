"""Prompt lookup: what is guessed, and that texts are those without guesses."""

from __future__ import annotations

from typing import Any

import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.llm.decoder import Decoder
from irc_compiler.llm.prompt_lookup import guess_tokens
from support.models.reference_generation import tiny_llm


def test_the_longest_and_latest_passage_is_found() -> None:
    assert guess_tokens([1, 2, 3, 4, 1, 2], 2) == [3, 4]
    assert guess_tokens([1, 2, 3, 1, 2, 4, 1, 2], 9) == [4, 1, 2]
    assert guess_tokens([9, 1, 2, 3, 8, 1, 2, 4, 9, 1, 2], 1) == [3]
    assert guess_tokens([5, 5, 5, 5], 2) == [5]
    assert guess_tokens([1, 2, 3], 4) == guess_tokens([], 4) == guess_tokens([1], 4) == []


@pytest.mark.slow
@pytest.mark.parametrize("lookup", [1, 5])
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.7, "seed": 3}, {"repetition_penalty": 1.3}, {"logprobs": 2}]
)
def test_texts_are_those_without_guesses(lookup: int, options: dict[str, Any]) -> None:
    llm = tiny_llm(context_length=256)
    for prompt in ("abcd abcd abcd ab", "hello world", "one two one two three one two"):
        for ends in (False, True):
            given = {"max_tokens": 60, "ignore_eos": ends, **options}
            wanted = llm.generate(prompt, **given)
            found = llm.generate(prompt, lookup=lookup, **given)
            assert found.tokens == wanted.tokens and found.text == wanted.text
            assert (found.finish_reason, found.logprobs) == (wanted.finish_reason, wanted.logprobs)
            assert found.stats.decode_steps == wanted.stats.decode_steps


@pytest.mark.slow
def test_right_guesses_save_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = [0], Decoder.run

    def counted(*arguments: Any, **named: Any) -> Any:
        runs[0] += 1
        return run(*arguments, **named)

    monkeypatch.setattr(Decoder, "run", counted)
    llm = tiny_llm(context_length=256)
    given = {"max_tokens": 120, "ignore_eos": True}
    wanted = llm.generate("ab", **given)  # a greedy text of a small model repeats itself
    without, runs[0] = runs[0], 0
    assert llm.generate("ab", lookup=6, **given).tokens == wanted.tokens
    assert runs[0] < without * 3 / 4


@pytest.mark.slow
def test_a_session_continues_behind_guesses() -> None:
    llm = tiny_llm(context_length=512)
    plain, guessing = llm.session(), llm.session()
    for text in ("hi there hi there", "how are you"):
        wanted = plain.send(text, max_tokens=30)
        assert guessing.send(text, max_tokens=30, lookup=4).tokens == wanted.tokens
    assert guessing._known == plain._known


def test_bad_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="lookup is out of range"):
        tiny_llm().generate("a", lookup=65)
