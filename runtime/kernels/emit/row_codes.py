"""Rows of codes in registers: vectors of values from their bytes, and bytes from values."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.ops.quantization.row_codes import RowCodes
from ...llvmir.builder import Function
from ...llvmir.values import F16, F32, I8, I32, Value, vec


class CodeReader:
    """Loads values of rows of one layout, `lanes` at a time, which divide a row's multiple."""

    def __init__(self, f: Function, layout: RowCodes, lanes: int) -> None:
        self.f, self.layout, self.lanes = f, layout, lanes

    def load_pairs(self, row: Value) -> list[tuple[Value, Value]]:
        """(scale, minimum) of each group of the row at this address, in all lanes of f32."""
        f, found = self.f, list[tuple[Value, Value]]()
        for group in range(self.layout.groups):
            at = f.offset(row, self.layout.code_bytes + 4 * group)
            both = (f.load(F16, f.offset(at, n), 1) for n in (0, 2))
            scale, low = (f.splat(f.cast(x, F32), self.lanes) for x in both)
            found.append((scale, low))
        return found

    def load_codes(self, row: Value, start: int) -> Value:
        """The codes of values start .. start + lanes of a row, as f32."""
        f, half = self.f, self.layout.size // 2
        wide = self.layout.bits == 8
        at = f.offset(row, start if wide else start % half)
        found = f.cast(f.load(vec(I8, self.lanes), at, 1), I32, signed_=False)
        if not wide:
            found = f.and_(found, 15) if start < half else f.lshr(found, 4)
        # Codes are not negative: the conversion of signed integers is one instruction.
        return f.cast(found, F32)

    def load(self, row: Value, start: int, pairs: Sequence[tuple[Value, Value]]) -> Value:
        """Values start .. start + lanes of a row whose pairs are loaded."""
        scale, low = pairs[start // self.layout.group]
        return self.f.fma(self.load_codes(row, start), scale, low)
