"""Convolutions with dilated rows as convolutions whose rows are adjacent.

With a dilation of d, an output row reads only the data rows with the same remainder modulo d. The
rows of one remainder are an image with d times the row stride, along which the same filters are
not dilated; the remainders are one more axis of the convolution, along which its filters have one
tap. Each sum has the same terms in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from .....ir.dims import Dim
from .....ir.lazy_dataclass import dataclass
from .....plan.specs.convolution import Window
from ....strided_view import View, take

# Fewer output rows of one remainder than these have no taps in common.
_MIN_ROWS = 2


@dataclass(frozen=True)
class WindowOperands:
    """What windows slide over, and what their sums meet: `walked` are the operands of the epilogue
    and the result, [N, C, spatial...] as the data are. `pads`: those at the beginning of each
    spatial axis, in place of the window's."""

    data: View
    walked: tuple[View, ...]
    window: Window
    pads: tuple[Dim, ...]


def split_dilated_rows(whole: WindowOperands) -> list[WindowOperands]:
    """Convolutions with adjacent rows that together are this one: one for each of up to three
    numbers of rows that remainders have. `whole` alone where rows are not dilated, or have a
    stride; where a size or a padding along them is dynamic or no multiple of the dilation; where
    the new axis would be the fourth, or, in the place of a batch, the second."""
    rank, window, row = len(whole.pads), whole.window, len(whole.pads) - 2
    if rank < 2 or (rank > 2 and whole.data.shape[0] != 1):
        return [whole]
    dilation, pad = window.dilations[row], whole.pads[row]
    if dilation == 1 or window.kernel[row] == 1 or window.strides[row] != 1:
        return [whole]
    read, made = whole.data.shape[2 + row], whole.walked[-1].shape[2 + row]
    if not isinstance(read, int) or not isinstance(made, int) or not isinstance(pad, int):
        return [whole]
    if pad % dilation != 0 or made < _MIN_ROWS * dilation:
        return [whole]

    def count_rows(remainder: int) -> tuple[int, int]:
        return -(-(read - remainder) // dilation), -(-(made - remainder) // dilation)

    groups = [(rows, list(each)) for rows, each in groupby(range(dilation), count_rows)]
    return [_take_remainders(whole, each, *rows) for rows, each in groups]


def _take_remainders(
    whole: WindowOperands, remainders: Sequence[int], read: int, made: int
) -> WindowOperands:
    """The part of the convolution whose rows have these remainders, `made` rows each."""
    row, window = len(whole.pads) - 2, whole.window
    dilation, pad = window.dilations[row], whole.pads[row]
    assert isinstance(pad, int)

    def turn(view: View, rows: int) -> View:
        """The remainders as an axis of a view: the first spatial axis, or the batch."""
        taken = take(view, 2 + row, remainders[0], rows, dilation)
        axis, size, stride = 2 if row == 0 else 0, len(remainders), view.strides[2 + row]
        after = axis if row == 0 else axis + 1
        return replace(
            taken,
            shape=(*taken.shape[:axis], size, *taken.shape[after:]),
            strides=(*taken.strides[:axis], stride, *taken.strides[after:]),
        )

    def insert(values: tuple[Dim, ...], value: int, new: int) -> tuple[Dim, ...]:
        """Of numbers of each spatial axis, with `value` for the rows."""
        return (*((new,) if row == 0 else ()), *values[:row], value, *values[row + 1 :])

    adjacent = replace(
        window,
        kernel=window.kernel if row else (1, *window.kernel),
        strides=window.strides if row else (1, *window.strides),
        dilations=insert(window.dilations, 1, 1),
        pads=(0,) * (len(window.pads) + (row == 0)),
    )
    return WindowOperands(
        turn(whole.data, read),
        tuple(turn(v, made) for v in whole.walked),
        adjacent,
        insert(whole.pads, pad // dilation, 0),
    )
