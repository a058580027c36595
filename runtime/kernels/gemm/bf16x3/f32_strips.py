"""Strips of a tile's rows of A, as terms (f32_terms.py): rows of a matrix, or windows of a
convolution.

Windows are split where they are in the data: tap by tap, or in one run those that are neighbours in
memory, with zeros outside of the data. A row takes K values as the packed filters do: taps in
row-major order, channels within a tap, in whole steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....plan.specs.convolution import ConvSpec
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import I64, Value, integer
from ..assembly.f32_terms import leave_out_infinities_function, split_rows_function
from ..assembly.f32_windows import AXES, split_windows_function
from ..context import GemmContext
from ..schedule import F32AmxSchedule
from .f32_terms import LEFT_TERMS


def reads_rows(spec: GemmSpec) -> bool:
    """Whether rows of A are split as they are in memory: adjacent elements of f32."""
    plain = spec.a.dtype is DType.f32 and spec.a_cast is None and spec.a.strides[-1] == 1
    return plain and spec.a_m_split is None and spec.a_k_split is None


class F32Strips:
    """Writes the strips of a kernel's tiles."""

    def __init__(self, g: GemmContext, schedule: F32AmxSchedule) -> None:
        self._row = integer(schedule.term_row * g.bytes)
        self._term = integer(schedule.mr * schedule.term_row * g.bytes)
        self._split = split_rows_function(g.module)
        self._leave_out = leave_out_infinities_function(g.module)
        self._table: Value | None = None
        if g.windows is not None:
            self._split_windows = split_windows_function(g.module, self._split)
            self._table = windows_table(g)

    def split_rows(
        self, f: Function, source: Value, apart: Value, strip: Value, rows: Value, k: Value
    ) -> None:
        """`rows` rows from `source` on, `apart` bytes apart, k values each."""
        word = self._begin(f, strip)
        sizes = (rows, k, self._row, self._term)
        f.call_function(self._split, source, apart, strip, *sizes, word)
        self._finish(f, strip, rows, k, word)

    def split_windows(
        self,
        f: Function,
        data: Value,
        first: tuple[Value, Value],
        strip: Value,
        rows: Value,
        k: Value,
    ) -> None:
        """Windows of `rows` pixels, k values each. first: the first pixel, and the first value."""
        assert self._table is not None
        word = self._begin(f, strip)
        sizes = (rows, k, self._row, self._term)
        f.call_function(self._split_windows, data, *first, self._table, strip, *sizes, word)
        self._finish(f, strip, rows, k, word)

    def _begin(self, f: Function, strip: Value) -> Value:
        """The address of the strip's word, as if there were no infinities."""
        word = f.offset(strip, f.mul(self._term, LEFT_TERMS))
        f.store(f.as_value(0, I64), word)
        return word

    def _finish(self, f: Function, strip: Value, rows: Value, k: Value, word: Value) -> None:
        with f.if_(f.icmp("ne", f.load(I64, word), 0)):
            f.call_function(self._leave_out, strip, rows, k, self._row, self._term)


@dataclass(frozen=True)
class WindowRuns:
    """Windows as runs of `taps` taps along the last axis, whose values are neighbours in memory.
    first: the first tap of each run."""

    taps: int
    first: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(spec: ConvSpec) -> WindowRuns:
        kernel, w = spec.window.kernel, spec.window
        together = w.dilations[-1] == 1 and spec.data.strides[-1] == spec.channels
        taps = kernel[-1] if together else 1
        first = product(*(range(k) for k in kernel[:-1]), range(0, kernel[-1], taps))
        return WindowRuns(taps, tuple(first))


def windows_table(g: GemmContext) -> Value:
    """The words that split_windows_function reads, whose text names no number of a kernel."""
    spec = g.windows
    assert spec is not None
    runs, w = WindowRuns.of(spec), spec.window

    def widen(values: Sequence[object], missing: int) -> list[int]:
        found = [v for v in values if isinstance(v, int)]
        assert len(found) == len(values)
        return [missing] * (AXES - len(found)) + found

    apart, batch = widen(spec.data.strides[2:], 0), spec.data.strides[0]
    words = [*widen(spec.out_sizes, 1), *widen(spec.in_sizes, 1), *widen(w.strides, 1)]
    words += [*widen(w.pads, 0), *apart, batch if isinstance(batch, int) else 0]
    words += [spec.channels, runs.taps]
    for first in runs.first:
        steps = widen([k * d for k, d in zip(first, w.dilations, strict=True)], 0)
        words += [*steps, sum(s * a for s, a in zip(steps, apart, strict=True))]
    return g.module.table(words, I64)
