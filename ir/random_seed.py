"""The seed of random operations that have none of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .errors import UsageError

_MASK = (1 << 64) - 1
# The seed and how many generators were made of it. Replaced as a whole: no lock is needed.
_state: tuple[int, Iterator[int]] | None = None


def set_seed(seed: int | None) -> None:
    """Make what random operations without a seed draw from now on a function of `seed`.

    It holds for the process: the n-th draw after this call gives the same values each time, in
    whatever model (calls in several threads take draws in the order in which they come). None:
    seeds of the operating system again, as before the first call. An operation whose seed is
    in the model draws the same values in every run, whatever is set here.
    """
    global _state
    given: Any = seed
    if given is None:
        _state = None
        return
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise UsageError("a seed is not an integer", got=repr(given)[:80], expected="an integer")
    _state = int(given.__index__()) & _MASK, itertools.count()


def make_generator() -> np.random.Generator:
    """The generator of one draw."""
    if _state is None:
        return np.random.default_rng()
    seed, draws = _state
    return np.random.default_rng([seed & 0xFFFFFFFF, seed >> 32, next(draws)])
