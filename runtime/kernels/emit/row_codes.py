"""Rows of codes in registers: vectors of values from their bytes, along a row or across rows."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.lazy_dataclass import dataclass
from ....ir.row_codes import RowCodes
from ...llvmir.builder import Function
from ...llvmir.values import F16, F32, I8, I16, I32, Value, bits_of, lanes_of, vec

Pair = tuple[Value, Value]


@dataclass(frozen=True)
class Segment:
    """Values start .. end of a row: of one group, and of one half of their bytes. `shift`: bytes
    from a value's number to its code."""

    start: int
    end: int
    group: int
    high: bool
    shift: int


def list_segments(layout: RowCodes) -> list[Segment]:
    """The segments of a row, in order."""
    half = layout.size if layout.bits == 8 else layout.size // 2
    ends = sorted({*range(layout.group, layout.size + 1, layout.group), half, layout.size})
    found: list[Segment] = []
    for start, end in zip([0, *ends], ends, strict=False):
        high = start >= half
        found.append(Segment(start, end, start // layout.group, high, -half if high else 0))
    return found


class CodeReader:
    """Loads values of rows of one layout, `lanes` at a time, which divide a row's multiple."""

    def __init__(self, f: Function, layout: RowCodes, lanes: int) -> None:
        self.f, self.layout, self.lanes = f, layout, lanes
        self.segments = list_segments(layout)

    # -- along a row --------------------------------------------------------------------------

    def load_pairs(self, row: Value) -> list[Pair]:
        """(scale, minimum) of each group of the row at this address, in all lanes of f32."""
        f, found = self.f, list[Pair]()
        for group in range(self.layout.groups):
            both = f.load(I32, f.offset(row, self.layout.code_bytes + 4 * group), 1)
            pair = f.cast(f.bitcast(both, vec(F16, 2)), F32)
            scale, low = (f.splat(f.extract(pair, n), self.lanes) for n in (0, 1))
            found.append((scale, low))
        return found

    def load(self, row: Value, start: int, pairs: Sequence[Pair]) -> Value:
        """Values start .. start + lanes of a row whose pairs are loaded."""
        segment = next(s for s in self.segments if s.start <= start < s.end)
        codes = self._load_bytes(row, start, segment)
        return self.dequantize(codes, segment, pairs[segment.group])

    def dequantize(self, codes: Value, segment: Segment, pair: Pair) -> Value:
        """Values of bytes that hold codes of a segment."""
        f = self.f
        wide = f.cast(codes, I32, signed_=False)
        if self.layout.bits == 4:
            wide = f.lshr(wide, 4) if segment.high else f.and_(wide, 15)
        # Codes are not negative: the conversion of signed integers is one instruction.
        return f.fma(f.cast(wide, F32), *pair)

    def _load_bytes(self, row: Value, start: Value | int, segment: Segment) -> Value:
        f = self.f
        at = f.offset(row, f.add(f.as_value(start, "i64"), segment.shift))
        return f.load(vec(I8, self.lanes), at, 1)

    # -- across rows --------------------------------------------------------------------------

    def load_pairs_of_rows(self, rows: Sequence[Value], group: int) -> Pair:
        """(scale, minimum) of a group of `lanes` rows, one row per lane."""
        f, kind = self.f, vec(I32, self.lanes)
        both = f.as_value(0, kind)
        for n, row in enumerate(rows):
            at = f.offset(row, self.layout.code_bytes + 4 * group)
            both = f.insert(both, f.load(I32, at, 1), n)
        halves = (f.cast(x, I16) for x in (both, f.lshr(both, 16)))
        scale, low = (f.cast(f.bitcast(x, vec(F16, self.lanes)), F32) for x in halves)
        return scale, low

    def load_square(
        self, rows: Sequence[Value], start: Value, segment: Segment, pair: Pair
    ) -> list[Value]:
        """Values start .. start + lanes of `lanes` rows, a vector per value."""
        codes = [self._load_bytes(row, start, segment) for row in rows]
        turned = transpose_bytes(self.f, codes)
        return [self.dequantize(x, segment, pair) for x in turned]


def transpose_bytes(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of bytes: neighbours are interleaved, then pairs of them, and so on.
    Vectors of two rows keep registers full."""
    lanes = len(rows)
    pairs = [
        f.shuffle(a, b, [n + k * lanes for n in range(lanes) for k in (0, 1)])
        for a, b in zip(rows[::2], rows[1::2], strict=True)
    ]
    groups, unit = [pairs], 16
    while len(groups[0]) > 1:
        made: list[list[Value]] = []
        for group in groups:
            count = 2 * lanes * 8 // unit
            units = [f.bitcast(x, vec(f"i{unit}", count)) for x in group]
            for first in (0, count // 2):
                order = [n + k * count for n in range(first, first + count // 2) for k in (0, 1)]
                made.append(
                    [f.shuffle(a, b, order) for a, b in zip(units[::2], units[1::2], strict=True)]
                )
        groups, unit = made, 2 * unit
    found: list[Value] = []
    for (both,) in groups:
        wide = f.bitcast(both, vec(I8, lanes_of(both.type) * bits_of(both.type) // 8))
        found += [f.shuffle(wide, None, range(k * lanes, (k + 1) * lanes)) for k in (0, 1)]
    return found
