"""Words of a model file: what is a number, a boolean, a list, a shape."""

from __future__ import annotations

import math

import pytest
from irc_compiler.compiler.frontends.xml import text
from irc_compiler.compiler.frontends.xml.text import BadText


@pytest.mark.parametrize(
    "word", ["", "-1", "+1", "1.0", "0x1", " 1", "١", "1_0", str(2**64), "1e3"]
)
def test_unsigned_refuses(word: str) -> None:
    with pytest.raises(BadText, match="unsigned 64-bit"):
        text.parse_unsigned(word)


def test_numbers() -> None:
    assert text.parse_unsigned("0") == 0 and text.parse_unsigned(str(2**64 - 1)) == 2**64 - 1
    assert text.integer(" -9223372036854775808 ") == -(2**63)
    assert (
        text.parse_real("-1.5e-3") == -0.0015
        and text.parse_real("5") == 5
        and text.parse_real(".5") == 0.5
    )
    assert text.parse_real("-inf") == -math.inf and math.isnan(text.parse_real("nan"))


@pytest.mark.parametrize("word", ["9223372036854775808", "1.5", "+1", "٣", "", "--1"])
def test_integer_refuses(word: str) -> None:
    with pytest.raises(BadText):
        text.integer(word)


@pytest.mark.parametrize("word", ["", "1,5", "abc", "+1", "1e", "0x1p3", "1e999999", "١.٥"])
def test_real_refuses(word: str) -> None:
    with pytest.raises(BadText):
        text.parse_real(word)


def test_booleans() -> None:
    assert [text.boolean(w) for w in ("true", "TRUE", "1")] == [True] * 3
    assert [text.boolean(w) for w in ("false", "False", "0")] == [False] * 3
    for word in ("maybe", "", "yes", "2"):
        with pytest.raises(BadText):
            text.boolean(word)


def test_shapes() -> None:
    assert text.static_shape("") == () and text.static_shape("4, 3") == (4, 3)
    assert text.static_shape("[0,2]") == (0, 2)
    assert text.partial_shape("") == () and text.partial_shape("...") is None
    expected = ((0, None), (3, 3), (2, 10), (5, None), (0, 7), (0, None))
    assert text.partial_shape(" ?,3, 2..10,5..,..7 ,-1") == expected
    assert text.partial_shape(f"1..{2**63 - 1}") == ((1, None),)


@pytest.mark.parametrize("word", ["1,,3", "1,3,", ",", "1,...", "2..1", "-2", "foo", "..", "1.5"])
def test_partial_shape_refuses(word: str) -> None:
    with pytest.raises(BadText):
        text.partial_shape(word)


@pytest.mark.parametrize("word", ["1,,3", "1,3,", "-1", "?", "foo", str(2**63), "1," * 70 + "1"])
def test_static_shape_refuses(word: str) -> None:
    with pytest.raises(BadText):
        text.static_shape(word)


def test_names() -> None:
    assert text.name_set("a\\,b,c,d") == {"a,b", "c", "d"}
    assert text.name_set("") == frozenset()
    assert text.name_set("a b;c:/x") == {"a b;c:/x"}


def test_short_is_printable_and_short() -> None:
    assert text.shorten_text("a\nb\x1b[31m") == r'"a\nb\x1b[31m"'
    assert len(text.shorten_text("x" * 1000)) < 90
