"""Sessions: the cache between turns, interrupts, changed histories."""

from __future__ import annotations

from typing import Any

import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.llm.decoder import TokenCache
from support.models.reference_generation import greedy, tiny_llm


def test_a_session_answers_as_the_whole_conversation_does() -> None:
    llm = tiny_llm()
    session = llm.session(system="be brief")
    for text in ("hi there", "how are you"):
        asked = [*session.messages, {"role": "user", "content": text}]
        answer = session.send(text, max_tokens=8)
        assert list(answer.tokens) == greedy(llm.encode(asked), 8)
    assert [m["role"] for m in session.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    stats = session.last.stats if session.last else None
    assert stats is not None and 0 < stats.cached_tokens < stats.prompt_tokens
    session.reset()
    assert session.messages == [{"role": "system", "content": "be brief"}]


def test_a_changed_history_is_read_again() -> None:
    llm = tiny_llm()
    session = llm.session()
    session.send("hello", max_tokens=8)
    session.messages[-1] = {"role": "assistant", "content": "other words"}
    asked = [*session.messages, {"role": "user", "content": "go on"}]
    assert list(session.send("go on", max_tokens=8).tokens) == greedy(llm.encode(asked), 8)


def test_a_stream_that_is_left_leaves_the_session_as_it_was() -> None:
    llm = tiny_llm()
    session = llm.session()
    session.send("hello", max_tokens=6)
    before = list(session.messages)
    for _ in session.stream("what", max_tokens=20):
        break
    assert session.messages == before
    asked = [*before, {"role": "user", "content": "what"}]
    assert list(session.send("what", max_tokens=8).tokens) == greedy(llm.encode(asked), 8)


@pytest.mark.slow
@pytest.mark.parametrize("run", [0, 1, 3])
def test_an_interrupt_leaves_the_session_usable(run: int, monkeypatch: Any) -> None:
    llm = tiny_llm(chunk=4)
    session = llm.session()
    session.send("hello", max_tokens=6)
    before, original, runs = list(session.messages), TokenCache._run, [0]

    def interrupted(*arguments: Any) -> Any:
        runs[0] += 1
        if runs[0] > run:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(TokenCache, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.send("what is it", max_tokens=20)
    monkeypatch.undo()
    assert session.messages == before
    asked = [*before, {"role": "user", "content": "what is it"}]
    assert list(session.send("what is it", max_tokens=8).tokens) == greedy(llm.encode(asked), 8)


def test_bad_turns_are_refused() -> None:
    session = tiny_llm().session()
    with pytest.raises(UsageError, match="longer than the model's context"):
        session.send("a" * 500)
    with pytest.raises(UsageError, match="has no beams"):
        session.stream("a", num_beams=2)
    assert session.messages == []
