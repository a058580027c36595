"""Phrases and metaphors that code, messages and docs avoid (docs/dev/style.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ir", "plan", "compiler", "runtime", "api", "builder", "cli", "compat", "samples")
SOURCES = sorted(
    path
    for folder in (*FOLDERS, "benchmarks", "docs")
    for suffix in ("*.py", "*.md")
    for path in (ROOT / folder).rglob(suffix)
) + sorted(path for path in ROOT.glob("*") if path.suffix in (".py", ".md"))

# A phrase -> what to write instead. Letters are the boundaries, so parts of identifiers count.
BANNED = {
    r"(?<!there )(is|are|was|were) no(?! (longer|more|one|such)\b)": "is not a ...",
    r"(hand|hands|handed|handing) (on|over)": "pass, forward, propagate",
    r"gangs?": "thread pool",
    r"of run time": "at run time",
    r"whole numbers?": "integers",
    r"(no|some)body|who(ever)? reads": "each consumer, an unused value",
    r"(tell|tells|told|telling)": "define, determine, state",
    r"(house|houses|door|doors|riddle|riddles)": "scope, buffer, entry point",
    r"(spell|spells|spelt|spelled|spelling|spellings)": "decompose, format, name",
    r"halves of bytes|(are|masks of) halves": "int4, f16",
    r"(judge|judges|judged|judging)": "check, oracle, comparison",
    r"rivals?": "reference engine, baseline",
    r"what is left": "the remaining ...",
    r"(hang|hangs|hung) on": "depend on",
    r"lets? pass": "accept, ignore",
    r"(lie|lies|lain) (in|on|at|behind|before|where|there|next)": "is stored at, is located",
    r"(settle|settles|settled|settling)": "resolve, determine",
    r"beside": "next to, in addition to",
    r"had better": "should",
}


def prose(path: Path) -> list[tuple[int, str]]:
    """Each line with its number, and each pair of lines joined, for phrases across line ends."""
    lines = [line.strip().lstrip("#").strip() for line in path.read_text("utf-8").splitlines()]
    pairs = [f"{a} {b}" for a, b in zip(lines, [*lines, ""][1:], strict=True)]
    return list(enumerate(pairs, 1))


@pytest.mark.parametrize("phrase", BANNED, ids=lambda p: p[:24])
def test_banned_phrase_is_absent(phrase: str) -> None:
    pattern = re.compile(rf"(?<![A-Za-z])(?:{phrase})(?![A-Za-z])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in SOURCES
        for number, text in prose(path)
        if (match := pattern.search(text))
    ]
    assert not found, f"write {BANNED[phrase]} instead of:\n" + "\n".join(found)


def test_patterns_match_what_they_ban() -> None:
    """Each pattern still finds an example of its phrase."""
    examples = "is no|handed on|gang|of run time|whole numbers|nobody|told|door|spelled"
    examples += "|halves of bytes|judge|rival|what is left|hangs on|lets pass|lies in|settled"
    examples += "|beside|had better"
    for example in examples.split("|"):
        assert any(re.fullmatch(phrase, example) for phrase in BANNED), example
