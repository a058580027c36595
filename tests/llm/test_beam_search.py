"""Beam search against a search whose beams are recomputed from the whole text."""

from __future__ import annotations

import pytest
from support.models.reference_generation import beam_search, greedy, tiny_llm


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("prompt", ["hello world", "a", "zz top"])
def test_beams_are_those_of_the_reference(prompt: str, width: int) -> None:
    llm = tiny_llm()
    found = llm.generate(prompt, num_beams=width, max_tokens=8)
    assert list(found.tokens) == beam_search(llm.encode(prompt), width, 8)


@pytest.mark.slow
def test_beams_find_a_text_that_is_not_the_greedy_one() -> None:
    llm = tiny_llm()
    prompts = ["hello world", "a", "zz top", "once upon a time"]
    found = [list(llm.generate(p, num_beams=4, max_tokens=8).tokens) for p in prompts]
    assert found != [greedy(llm.encode(p), 8) for p in prompts]


def test_stop_strings_cut_the_text_of_the_best_beam() -> None:
    llm = tiny_llm()
    whole = llm.generate("hello world", num_beams=3, max_tokens=8, ignore_eos=True).text
    cut = llm.generate("hello world", num_beams=3, max_tokens=8, ignore_eos=True, stop=whole[4])
    assert (cut.text, cut.finish_reason) == (whole[: whole.index(whole[4])], "stop")
