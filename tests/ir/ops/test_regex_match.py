"""Regular expressions: right answers, and a bound on the work where Python's `re` backtracks."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.ops import regex_match
from irc_compiler.ir.ops.regex_match import match_fully
from onnx import TensorProto, helper

AS = "a" * 40 + "b"
# Patterns that take exponential or high polynomial time in a backtracking engine.
SLOW = ["(a+)+$", "(a*)*$", "(a|a)*$", "(a|aa)+$", "((a?)+)+$", "(a+){2,}$", "(.*)*c", "(a{0,5})*$",
        "(?:a+)+?$", "a*a*a*a*a*a*$", "(aa*)*c", r"(a+)\1+$", "(?=(a+)+$)a*"]  # fmt: skip


@pytest.fixture(autouse=True)
def _search_for_re2_again() -> Iterator[None]:
    regex_match.import_re2.cache_clear()
    yield
    regex_match.import_re2.cache_clear()


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)


@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.usefixtures("without_re2")
def test_work_without_a_bound_is_refused(pattern: str) -> None:
    with pytest.raises(irc.ExecutionError, match="may take too long") as caught:
        match_fully(pattern, [AS])
    assert "install google-re2" in str(caught.value)


@pytest.mark.usefixtures("without_re2")
def test_patterns_with_bounded_work_match() -> None:
    assert match_fully("(a+)+", ["aaa", "aab", ""]) == [True, False, False]
    assert match_fully(r"\w+@\w+\.(com|org)", ["a@b.org", "a@b.net"]) == [True, False]
    assert match_fully("[a-z]*", ["a" * 1_000_000]) == [True]
    assert match_fully(".*x.*", ["a" * 1000]) == [False]
    assert match_fully("(ab){3}", ["ababab", "abab"]) == [True, False]
    assert match_fully("(ab)*", ["ab" * 500, "aba"]) == [True, False]


@pytest.mark.usefixtures("without_re2")
def test_a_broken_pattern() -> None:
    with pytest.raises(irc.ExecutionError, match="not valid"):
        match_fully("(a", ["a"])


def test_re2_matches_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    fake = types.ModuleType("re2")
    fake.error = ValueError  # type: ignore[attr-defined]
    fake.compile = lambda p: types.SimpleNamespace(  # type: ignore[attr-defined]
        fullmatch=lambda text: asked.append((p, text))
    )
    monkeypatch.setitem(sys.modules, "re2", fake)
    assert match_fully("(a+)+$", [AS]) == [False]
    assert asked == [("(a+)+$", AS)]


@pytest.mark.usefixtures("without_re2")
def test_the_error_names_the_node() -> None:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], name="emails", pattern="(a+)+$")
    ports = [helper.make_tensor_value_info("x", TensorProto.STRING, ["N"]),
             helper.make_tensor_value_info("y", TensorProto.BOOL, ["N"])]  # fmt: skip
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [helper.make_opsetid("", 20)]
    net = irc.compile_model(helper.make_model(graph, opset_imports=opset, ir_version=9))
    (y,) = net(x=np.array(["aa", "b"], object))
    assert y.tolist() == [True, False]
    with pytest.raises(irc.ExecutionError, match="may take too long") as caught:
        net(x=np.array([AS], object))
    assert "emails" in str(caught.value.where)
