"""Factors of f32 as sums of three bf16 numbers: rows of A in strips, panels of B in scratch.

The first number is the value rounded to bf16, the second the rest rounded to bf16, the third what
remains, of which bf16 holds all bits but for what is below the smallest normal number. (Henry, Tang
and Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations", ARITH 2019.)

An infinity times the lower numbers of B, which may be zero, is left out: where rows of A have one,
they have a fourth number, the first one again, but 0 for an infinity.
"""

from __future__ import annotations

from typing import Final

from .....plan.packing.panel_params import BF16_STEP_VALUES, BF16_TERMS
from ....llvmir.builder import Function
from ....llvmir.values import I64, Value
from ..assembly.f32_terms import expand_panel_function
from ..context import GemmContext
from ..schedule import TileSchedule

# Numbers per value of a row, of which the last one is the first one without infinities. Behind them
# a strip has a word: how many bytes from its beginning that one is, which is the first one itself
# where there are no infinities.
LEFT_TERMS: Final = BF16_TERMS + 1
# How far ahead of those that are expanded weights are fetched.
_FETCH_BYTES: Final = 2 << 10
# Where the words of the panel that is expanded are: its next two rows, where they go, how many
# rows of cells remain, how many of those have two values of K, whether the next one has one, and
# how many bytes terms are apart.
_SOURCE, _TO, _LEFT, _FULL, _ODD, _APART = range(0, 48, 8)
_WORDS_BYTES: Final = 48


class PanelExpansion:
    """A panel of B that is expanded to terms, row of cells by row, while tiles multiply another
    one. Its words are in memory of the kernel's own: `address`."""

    def __init__(self, f: Function, g: GemmContext) -> None:
        self.g, self.address = g, f.stack(_WORDS_BYTES)
        words = (_SOURCE, _TO, _LEFT, _FULL, _ODD, _APART)
        self.expand = expand_panel_function(g.module, g.schedule.nr, words, _FETCH_BYTES)

    def begin(self, f: Function, panel: Value, depth: Value, to: Value) -> None:
        """A panel of `depth` values of K, which begins at `panel`."""
        steps = f.ceil_div(depth, BF16_STEP_VALUES)
        self._store(f, _SOURCE, panel)
        self._store(f, _TO, to)
        self._store(f, _LEFT, f.mul(steps, BF16_STEP_VALUES // 2))
        self._store(f, _FULL, f.udiv(depth, 2))
        self._store(f, _ODD, f.and_(depth, 1))
        self._store(f, _APART, f.as_value(panel_terms_apart(self.g.schedule), I64))

    def finish(self, f: Function) -> None:
        """Expand the remaining rows."""
        left = f.load(I64, f.offset(self.address, _LEFT))
        with f.if_(f.icmp("sgt", left, 0)):
            f.call_function(self.expand, self.address, left)

    def _store(self, f: Function, at: int, value: Value) -> None:
        f.store(value, f.offset(self.address, at))


def panel_terms_apart(t: TileSchedule) -> int:
    """Bytes between the terms of an expanded panel."""
    return 2 * t.kc * t.nr
