"""Strips of a tile's rows of A, as terms (f32_terms.py): rows of a matrix, or windows of a
convolution, which take K values as the packed filters do: taps in row-major order, channels within
a tap, in whole steps.
"""

from __future__ import annotations

from .....ir.dtype import DType
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import I64, Value, integer
from ..assembly.f32_terms import leave_out_infinities_function, split_rows_function
from ..assembly.f32_windows import make_windows_table, split_windows_function
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
            self._table = make_windows_table(g.module, g.windows)

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
