"""Matches of a regular expression with a bound on the work.

google-re2, where it is installed, matches in linear time. Python's `re` backtracks: without
google-re2 an upper bound of the ways in which the pattern may take a text decides, before the first
match, whether the work stays below MAX_STEPS.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final

from ..errors import ExecutionError

try:  # Python 3.11 and later
    _parser: Any = import_module("re._parser")
except ImportError:
    _parser = import_module("sre_parse")

# Steps of a backtracking match, in all texts together: about a second.
MAX_STEPS: Final = 10_000_000
_MAX_CACHED: Final = 256
_MAX_CACHED_LENGTHS: Final = 4096
# Syntax that RE2, which ONNX requires, does not have: its work has no bound of the kind below.
_NOT_RE2 = frozenset("GROUPREF GROUPREF_EXISTS ASSERT ASSERT_NOT".split())
_REPEATS = frozenset("MAX_REPEAT MIN_REPEAT POSSESSIVE_REPEAT".split())
_INSTALL = "install google-re2 (pip install google-re2), which matches in linear time"


def match_fully(pattern: str, texts: Sequence[str]) -> list[bool]:
    """Whether the pattern matches the whole of each text. ExecutionError for a pattern that is not
    one, and where Python's `re` might need more than MAX_STEPS."""
    compiled = compile_bounded(pattern, texts)
    return [compiled.fullmatch(text) is not None for text in texts]


def compile_bounded(pattern: str, texts: Sequence[str], starts: int = 1) -> Any:
    """The compiled pattern, for matches in these texts that begin at so many positions in each
    (0: at every one). Errors as of match_fully."""
    re2 = import_re2()
    if re2 is None:
        return _compile_backtracking(pattern, texts, starts)
    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise _invalid(pattern, error) from error


@cache
def import_re2() -> Any:
    """google-re2's module, if it is installed: a search for it takes longer than most matches."""
    try:
        return import_module("re2")
    except ImportError:
        return None


@lru_cache(_MAX_CACHED)
def _parse(pattern: str) -> tuple[Any, Any]:
    """The parsed and the compiled pattern."""
    try:
        return _parser.parse(pattern), re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _invalid(pattern, error) from error


def _compile_backtracking(pattern: str, texts: Sequence[str], starts: int) -> Any:
    compiled = _parse(pattern)[1]
    longest = max(map(len, texts), default=0)
    # More ways and more starts in longer texts.
    steps = (_count_ways_of(pattern, longest) + longest) * (starts or longest or 1) * len(texts)
    if steps > MAX_STEPS:
        lengths = Counter(map(len, texts))
        steps = sum(
            (_count_ways_of(pattern, n) + n) * (starts or n or 1) * count
            for n, count in lengths.items()
        )
    if steps > MAX_STEPS:
        raise ExecutionError(
            "a regular expression may take too long: repeats in it are nested or ambiguous",
            got=f"{pattern[:80]!r} on a text of {longest} characters",
            expected=f"at most {MAX_STEPS} steps of backtracking",
            fix=_INSTALL,
        )
    return compiled


@lru_cache(_MAX_CACHED)
def may_match_nothing(pattern: str) -> bool:
    """Whether the pattern may match an empty text, also where Python's `re` cannot read it."""
    try:
        return _parse(pattern)[0].getwidth()[0] == 0
    except ExecutionError:
        return True


@lru_cache(_MAX_CACHED)
def find_ascii_class(pattern: str) -> frozenset[str] | None:
    """The characters of a pattern such as "[a-z_]+", which are all ASCII; None for another one."""
    try:
        tree = _parse(pattern)[0]
        ((kind, (low, high, body)),) = tree
        ((inner, items),) = body
    except (ExecutionError, TypeError, ValueError):
        return None
    if str(kind) != "MAX_REPEAT" or low != 1 or high < sys.maxunicode or str(inner) != "IN":
        return None
    if tree.state.flags != re.UNICODE:  # "(?i)", say
        return None
    found: set[int] = set()
    for item, value in items:
        if str(item) not in ("LITERAL", "RANGE"):
            return None
        found.update(range(value[0], value[1] + 1) if str(item) == "RANGE" else [value])
    return frozenset(map(chr, found)) if max(found) < 128 else None


def _invalid(pattern: str, error: Exception) -> ExecutionError:
    return ExecutionError(
        "a regular expression is not valid",
        got=f"{pattern[:80]!r}: {error}"[:200],
        expected="RE2's syntax",
    )


@lru_cache(_MAX_CACHED_LENGTHS)
def _count_ways_of(pattern: str, length: int) -> int:
    return count_ways(_parse(pattern)[0], length)


def count_ways(tree: Any, length: int) -> int:
    """An upper bound of the ways in which a parsed pattern may take parts of a text."""
    total = 1
    for kind, value in tree:
        total = min(total * _ways_of(str(kind), value, length), MAX_STEPS + 1)
    return total


def _ways_of(kind: str, value: Any, length: int) -> int:
    if kind in _NOT_RE2:
        return MAX_STEPS + 1
    if kind == "BRANCH":
        return sum(count_ways(branch, length) for branch in value[1])
    if kind == "SUBPATTERN":
        return count_ways(value[-1], length)
    if kind == "ATOMIC_GROUP":
        return count_ways(value, length)
    if kind not in _REPEATS:
        return 1
    low, high, body = value
    if high == 1:
        return count_ways(body, length) + (low == 0)
    least, most = body.getwidth()
    inner = count_ways(body, length)
    if inner == 1 and least == most:
        return 1 if low == high else min(int(high), length) + 1
    # Each character may begin another repetition, and choose among the branches of the body.
    choices = 2 * max(1, _count_branches(body))
    return choices ** min(length, 64)


def _count_branches(tree: Any) -> int:
    """The product of the numbers of branches in a pattern."""
    total = 1
    for kind, value in tree:
        if str(kind) == "BRANCH":
            total *= sum(_count_branches(branch) for branch in value[1])
        elif str(kind) == "SUBPATTERN":
            total *= _count_branches(value[-1])
        elif str(kind) == "ATOMIC_GROUP":
            total *= _count_branches(value)
        elif str(kind) in _REPEATS:
            total *= _count_branches(value[2])
    return total
