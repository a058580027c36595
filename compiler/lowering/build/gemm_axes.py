"""The rows of a product: axes that its operands walk, joined as far as strides let them be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from ....ir.dims import Dim
from ....ir.lazy_dataclass import dataclass
from ...strided_view import BlockedAxes, Part, View, are_equal, coalesce, row_major

# Rows that fill register tiles; axes of rows whose orders are all tried.
_MIN_TILE_ROWS, _MAX_PERMUTED_AXES = 16, 4


@dataclass(frozen=True)
class GemmRows:
    """Batch axes and m, and per operand its strides along them. `split`: blocks and their size,
    where some operands walk m by two strides, their last ones."""

    axes: tuple[Dim, ...]
    strides: list[tuple[Dim, ...]]
    split: tuple[Part, Part] | None = None

    def splits(self, operand: int) -> tuple[Part, Part] | None:
        """The parts of m for an operand that walks both."""
        return self.split if len(self.strides[operand]) > len(self.axes) else None


def join_rows(
    sizes: Sequence[Dim],
    operands: Sequence[View],
    divided: Mapping[int, BlockedAxes | None],
    unseen: frozenset[int],
    *,
    packs: bool,
) -> GemmRows | None:
    """The rows of A, B, the result and all others, which walk `sizes` and columns; None if two of
    the `divided` ones are divided differently.

    Batch axes that those who see no rows (`unseen`) do not see either join the rows: a [B, S, K]
    activation times a weight is one product of B * S rows, whichever of the two comes first in the
    graph. The result may walk two axes as one m, and so may A, where it is packed in any case
    (`packs`, or divided). Of axes that don't join, one that is long for certain is the rows.
    """
    m = len(sizes) - 1
    free = [
        axis
        for axis in range(m)
        if sizes[axis] != 1 and all(are_equal(operands[i].strides[axis], 0) for i in unseen)
    ]
    found: GemmRows | None = None
    for order in permutations((*free, m) if len(free) < _MAX_PERMUTED_AXES else (m,)):
        batch = [axis for axis in range(m) if axis not in order]
        rows = _join_rows((*batch, *order), sizes, operands, divided, unseen, packs=packs)
        if rows and (found is None or _rank(rows) < _rank(found)):
            found = rows
    return found


def _rank(rows: GemmRows) -> tuple[int, bool]:
    """What is better comes first: fewer axes, then a last one of many rows."""
    last = rows.axes[-1]
    return len(rows.axes), not (isinstance(last, int) and last >= _MIN_TILE_ROWS)


def _join_rows(
    order: Sequence[int],
    sizes: Sequence[Dim],
    operands: Sequence[View],
    divided: Mapping[int, BlockedAxes | None],
    unseen: frozenset[int],
    *,
    packs: bool,
) -> GemmRows | None:
    """The rows with the axes taken in this order."""
    axes: list[Dim] = []
    walked: list[list[Dim]] = [[] for _ in operands]
    for axis in order:
        size = sizes[axis]
        parts = [_parts(divided.get(i), axis, len(sizes)) for i in range(len(operands))]
        wide = [p for p in parts if len(p) > 1]
        into = [n for n, _ in wide[0]] if wide else [size]
        for i, (own, view, steps) in enumerate(zip(parts, operands, walked, strict=True)):
            if len(own) < 2:
                last = i in unseen and axis == len(sizes) - 1
                steps += [0 if last else view.strides[axis] * s for s in row_major(into)]
            elif len(own) == len(into) and all(map(are_equal, (n for n, _ in own), into)):
                steps += [stride for _, stride in own]
            else:
                return None
        axes += into
    joined, found = coalesce(axes, walked)
    if not joined or not all(are_equal(found[i][-1], 0) for i in unseen):
        return GemmRows((*joined, 1), [(*r, 0) for r in found])
    if len(joined) < 2 or not all(are_equal(found[i][-2], 0) for i in unseen):
        return GemmRows(joined, found)
    *batch, outer, inner = joined
    runs = [are_equal(r[-2], r[-1] * inner) for r in found]
    may_split = {2, 0} if packs or divided.get(0) else {2}
    if any(isinstance(d, int) and d < 1 for d in (outer, inner)):
        return GemmRows(joined, found)
    if not all(run or i in may_split for i, run in enumerate(runs)):
        return GemmRows(joined, found)
    found = [(*r[:-2], r[-1]) if run else r for r, run in zip(found, runs, strict=True)]
    return GemmRows((*batch, outer * inner), found, ((outer, 0), (inner, 0)))


def _parts(divided: BlockedAxes | None, axis: int, rank: int) -> tuple[Part, ...]:
    """The parts of one of `rank` axes in front of the columns; an operand may lack the first."""
    at = axis - rank + len(divided.parts) - 1 if divided else -1
    return divided.parts[at] if divided and at >= 0 else ()


def column_parts(divided: BlockedAxes | None, view: View) -> tuple[Part, ...]:
    """The last axis of an operand: one part, or two."""
    found = divided.parts[-1] if divided else ()
    return found if len(found) > 1 else ((view.shape[-1], view.strides[-1]),)
