"""Stop strings in a text that arrives in pieces."""

from __future__ import annotations

import itertools

import pytest
from irc_compiler.llm.stop_strings import StopMatcher


@pytest.mark.parametrize(
    ("text", "stops", "wanted"),
    [
        ("hello world", ["wor"], "hello "),
        ("aaab", ["aab"], "a"),
        ("abcabd", ["abd"], "abc"),
        ("one two", ["two", "e t"], "on"),
        ("the end", ["end", "ending"], "the "),
        ("nothing", ["@"], "nothing"),
        ("nothing", [], "nothing"),
        ("xab", ["abc"], "xab"),
    ],
)
def test_every_cut_into_pieces_gives_the_text_up_to_the_stop(
    text: str, stops: list[str], wanted: str
) -> None:
    for cuts in itertools.product([0, 1], repeat=len(text) - 1):
        matcher, found, piece = StopMatcher(stops), "", text[0]
        pieces = []
        for cut, letter in zip(cuts, text[1:], strict=True):
            if cut:
                pieces.append(piece)
                piece = ""
            piece += letter
        for part in [*pieces, piece]:
            if matcher.found is None:
                found += matcher.feed(part)
        found += "" if matcher.found else matcher.flush()
        assert found == wanted
        assert (matcher.found is None) == (wanted == text)
