"""irc.LLM against plain loops that recompute everything without a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.llm.llm import LLM
from support.models.reference_generation import all_logits, greedy, tiny_llm
from support.models.tiny_decoder import tiny_language_model

PROMPTS = ["hello world", "a", "once upon a time there was", "zz top"]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_text_is_that_of_a_loop_without_a_cache(prompt: str) -> None:
    llm = tiny_llm()
    found = llm.generate(prompt, max_tokens=40)
    assert list(found.tokens) == greedy(llm.encode(prompt), 40)
    assert found.text == llm.tokenizer.decode(found.tokens)


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "chunk"), [(2, 512), (1, 4), (2, 1)])
def test_threads_and_chunks_leave_the_text_as_it_is(threads: int, chunk: int) -> None:
    for prompt in PROMPTS:
        texts = {
            m.generate(prompt, max_tokens=30).tokens for m in (tiny_llm(), tiny_llm(threads, chunk))
        }
        assert len(texts) == 1


def test_a_row_of_a_batch_has_the_text_that_it_has_alone() -> None:
    llm = tiny_llm()
    batch = llm.generate(PROMPTS, max_tokens=30)
    assert [g.tokens for g in batch] == [llm.generate(p, max_tokens=30).tokens for p in PROMPTS]
    assert {g.finish_reason for g in batch} == {"length", "stop"}
    drawn = {"temperature": 0.9, "seed": 4, "max_tokens": 30}
    batch = llm.generate(PROMPTS, **drawn)
    assert [g.tokens for g in batch] == [llm.generate(p, **drawn).tokens for p in PROMPTS]
    assert llm.generate([]) == []


def test_a_stream_adds_up_to_the_text() -> None:
    llm = tiny_llm()
    whole = llm.generate("hello world", max_tokens=20)
    pieces = list(llm.stream("hello world", max_tokens=20))
    assert "".join(map(str, pieces)) == whole.text
    assert tuple(p.token for p in pieces if p.token is not None) == whole.tokens


def test_the_end_token_ends_a_text() -> None:
    llm = tiny_llm()
    prompt = next(p for p in PROMPTS if llm.generate(p, max_tokens=30).finish_reason == "stop")
    short = llm.generate(prompt, max_tokens=30)
    longer = llm.generate(prompt, max_tokens=30, ignore_eos=True)
    assert longer.finish_reason == "length" and len(longer.tokens) == 30
    assert longer.tokens[: len(short.tokens)] == short.tokens


def test_logprobs_are_those_of_the_logits() -> None:
    llm = tiny_llm()
    prompt = llm.encode("hello world")
    found = llm.generate("hello world", max_tokens=6, logprobs=3)
    rows = all_logits([*prompt, *found.tokens])[len(prompt) - 1 : -1].astype(np.float64)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    assert found.logprobs is not None and len(found.logprobs) == 6
    for row, entry in zip(rows, found.logprobs, strict=True):
        assert entry.token == row.argmax() == entry.top[0][0]
        np.testing.assert_allclose([p for _, p in entry.top], np.sort(row)[::-1][:3], atol=1e-4)


def test_stop_strings_are_found_across_tokens() -> None:
    llm = tiny_llm()
    whole = llm.generate("hello world", max_tokens=20, ignore_eos=True)
    stop = whole.text[3:6]
    at = whole.text.index(stop)
    found = llm.generate("hello world", max_tokens=20, stop=["@", stop])
    assert (found.text, found.finish_reason) == (whole.text[:at], "stop")
    assert len(found.tokens) == at + 3
    assert "".join(map(str, llm.stream("hello world", stop=stop))) == whole.text[:at]
    # What may begin a stop string at the end of a text is part of the text.
    cut = llm.generate("hello world", max_tokens=5, stop=[whole.text[3:5] + "@@"], ignore_eos=True)
    assert cut.text == whole.text[:5]


def test_messages_go_through_the_template() -> None:
    llm = tiny_llm()
    messages = [{"role": "user", "content": "hello"}]
    tokens = llm.tokenizer.encode("user hello.assistant ")
    assert llm.encode(messages) == tokens
    assert list(llm.chat(messages, max_tokens=9).tokens) == greedy(tokens, 9)
    batch = llm.generate([messages, messages], max_tokens=9)
    assert batch[1].tokens == llm.chat(messages, max_tokens=9).tokens


def test_embeddings_are_the_same_alone_and_in_a_batch() -> None:
    llm = tiny_llm()
    together = llm.embed(PROMPTS)
    assert together.shape == (4, 32)
    for row, prompt in zip(together, PROMPTS, strict=True):
        np.testing.assert_allclose(llm.embed(prompt), row, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01


def test_stats_count_tokens() -> None:
    llm = tiny_llm()
    stats = llm.generate("hello world", max_tokens=10, ignore_eos=True).stats
    assert (stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens) == (11, 0, 10)
    assert stats.decode_steps == 9 and stats.cache_bytes == (11 + 9) * 2 * 2 * 2 * 8 * 4
    assert stats.prefill_tokens_per_second > 0 and stats.decode_tokens_per_second > 0


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ("a", {"max_tokens": 0}, "max_tokens is out of range"),
    ("a", {"temperature": -1.0}, "temperature is out of range"),
    ("a", {"temperature": float("nan")}, "temperature is out of range"),
    ("a", {"top_p": 0.0}, "top_p is out of range"),
    ("a", {"top_k": -1}, "top_k is out of range"),
    ("a", {"min_p": 2}, "min_p is out of range"),
    ("a", {"repetition_penalty": 0}, "repetition_penalty is out of range"),
    ("a", {"stop": [""]}, "stop is out of range"),
    ("a", {"num_beams": 0}, "num_beams is out of range"),
    ("a", {"num_beams": 2, "temperature": 1.0}, "a beam search draws no tokens"),
    ("a", {"num_beams": 2, "logprobs": 1}, "a beam search gives no logprobs"),
    ("a", {"logprobs": 101}, "logprobs is out of range"),
    ("a", {"kv_cache": "u8"}, "unknown option"),
    ("", {}, "the prompt has no tokens"),
    ("a" * 200, {}, "the prompt is longer than the model's context"),
    (["a", "a" * 200], {}, "the prompt is longer than the model's context"),
    (3, {}, "this is not a prompt"),
    ([{"role": "user"}], {}, "this is not a message"),
]


@pytest.mark.parametrize(("prompt", "options", "what"), BAD)
def test_bad_requests_are_refused(prompt: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError) as error:
        tiny_llm().generate(prompt, **options)
    assert error.value.what == what


@pytest.mark.slow
def test_a_text_ends_with_the_context() -> None:
    llm = LLM(tiny_language_model(), num_threads=1, context_length=16)
    found = llm.generate("hello world", max_tokens=100, ignore_eos=True)
    assert (len(found.tokens), found.finish_reason) == (5, "length")
    with pytest.raises(UsageError, match="longer than the model's context") as error:
        llm.generate("a" * 16)
    assert error.value.got == "16 tokens" and "context_length=" in str(error.value)


@pytest.mark.slow
def test_a_model_without_a_template_continues_texts_only() -> None:
    llm = tiny_llm()
    bare = LLM(replace(tiny_language_model(), chat_template=None), num_threads=1)
    assert bare.generate("a", max_tokens=4).tokens == llm.generate("a", max_tokens=4).tokens
    with pytest.raises(UsageError, match="no chat template"):
        bare.session()
    with pytest.raises(UsageError, match="no chat template"):
        bare.chat([{"role": "user", "content": "a"}])


def test_an_unknown_form_of_the_cache_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown form of the cache"):
        LLM(tiny_language_model(), kv_cache="u3")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown precision"):
        LLM(tiny_language_model(), precision="f8")


@pytest.mark.parametrize("options", [{"chunk": 0}, {"context_length": -1}, {"chunk": "512"}])
def test_bad_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        LLM(tiny_language_model(), **options)


def test_beams_cannot_be_streamed() -> None:
    with pytest.raises(UsageError, match="cannot be streamed"):
        tiny_llm().stream("a", num_beams=2)
