"""Winograd's transforms F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3).

Y = A' [(G g G') * (B' d B)] A, * element by element (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", CVPR 2016), with the points 0, 1, -1, (2, -2,) infinity.

F(4 x 4) of integers is exact. B' is whole, and so is 24 G, whose last row is halved once more: its
numbers are doubled on the way back. Differences d of bytes are at most 255, so |B' d B| is at most
10 * 10 * 255 and |G g G'| at most 12 * 12 * 128, which 16 bits hold. Products and what follows are
summed modulo 2^32 to 24^2 Y = 9 * 64 Y. Times the inverse of 9 that is 64 Y, and 64 times less it
is Y, where 64 Y fits 32 bits (`WHOLE_SUM` of plan/packing/layouts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...llvmir.values import is_float

if TYPE_CHECKING:
    from ...llvmir.builder import Function
    from ...llvmir.values import Value

Array = npt.NDArray[Any]
# One dimension of a transform, on vectors.
Transform = Callable[["Function", Sequence["Value"]], list["Value"]]

# Filters transformed at a time: 45 numbers of 8 bytes each, half a megabyte in all.
_FILTERS_PER_BATCH = 1 << 10

_FILTERS: dict[int, list[list[float]]] = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}
# 24 G of F(4 x 4), its last row halved.
_WHOLE = [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 12]]
_INVERSE: Final = pow(9, -1, 1 << 32)


def transform_filters(filters: Array, m: int) -> Array:
    """[O, C, (D,) 3, 3] as [(m + 2)^2, D * C, O], computed in f64 and rounded once; integers
    exactly. Behind those of floats are the nine taps as they are, [9, D * C, O]
    (conv/winograd_guard.py).

    Both dimensions at once: (G x G) times the nine taps of every filter, some channels at a time,
    so that the wide numbers stay in the cache.
    """
    if filters.ndim == 5:
        filters = filters.swapaxes(1, 2).reshape(len(filters), -1, *filters.shape[3:])
    outputs, channels = filters.shape[:2]
    g = np.array(_FILTERS[m] if filters.dtype.kind == "f" else _WHOLE)
    both = np.kron(g, g)
    taps = filters.reshape(outputs, channels, 9).transpose(2, 1, 0)
    kept = taps if filters.dtype.kind == "f" else taps[:0]
    out = np.empty((len(both) + len(kept), channels, outputs), filters.dtype)
    out[len(both) :] = kept
    step = max(1, _FILTERS_PER_BATCH // max(1, outputs))
    for c in range(0, channels, step):
        chunk = taps[:, c : c + step].astype(np.float64, order="C")
        out[: len(both), c : c + step] = (both @ chunk.reshape(9, -1)).reshape(
            len(both), -1, outputs
        )
    return out


def _add(f: Function, a: Value, b: Value) -> Value:
    return f.fadd(a, b) if is_float(a.type) else f.add(a, b)


def _sub(f: Function, a: Value, b: Value) -> Value:
    return f.fsub(a, b) if is_float(a.type) else f.sub(a, b)


def _times(f: Function, a: Value, n: int, b: Value) -> Value:
    """n * a + b."""
    return f.fma(a, float(n), b) if is_float(a.type) else f.add(f.mul(a, n), b)


def data_2(f: Function, d: Sequence[Value]) -> list[Value]:
    """B' of F(2 x 2): 4 to 4."""
    return [_sub(f, d[0], d[2]), _add(f, d[1], d[2]), _sub(f, d[2], d[1]), _sub(f, d[1], d[3])]


def data_4(f: Function, d: Sequence[Value]) -> list[Value]:
    """B' of F(4 x 4): 6 to 6."""
    a, b = _times(f, d[2], -4, d[4]), _times(f, d[1], -4, d[3])
    c, e = _sub(f, d[4], d[2]), _sub(f, d[3], d[1])
    return [
        _times(f, d[0], 4, _times(f, d[2], -5, d[4])),
        _add(f, a, b),
        _sub(f, a, b),
        _times(f, e, 2, c),
        _times(f, e, -2, c),
        _times(f, d[1], 4, _times(f, d[3], -5, d[5])),
    ]


def result_2(f: Function, m: Sequence[Value]) -> list[Value]:
    """A' of F(2 x 2): 4 to 2."""
    return [_add(f, _add(f, m[0], m[1]), m[2]), _sub(f, _sub(f, m[1], m[2]), m[3])]


def result_4(f: Function, m: Sequence[Value]) -> list[Value]:
    """A' of F(4 x 4): 6 to 4; of integers the last is doubled."""
    s, d = _add(f, m[1], m[2]), _sub(f, m[1], m[2])
    s2, d2 = _add(f, m[3], m[4]), _sub(f, m[3], m[4])
    last = m[5] if is_float(m[5].type) else f.add(m[5], m[5])
    return [
        _add(f, _add(f, m[0], s), s2),
        _times(f, d2, 2, d),
        _times(f, s2, 4, s),
        _add(f, _times(f, d2, 8, d), last),
    ]


def remove_scale(f: Function, y: Value) -> Value:
    """What both ways of A' gave, without the scale that filters of integers have."""
    return y if is_float(y.type) else f.ashr(f.mul(y, _INVERSE), 6)


DATA: dict[int, Transform] = {2: data_2, 4: data_4}
RESULT: dict[int, Transform] = {2: result_2, 4: result_4}


def both_ways(f: Function, one: Transform, square: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """The transform along columns, then along rows."""
    columns = [one(f, [row[j] for row in square]) for j in range(len(square[0]))]
    return [one(f, [c[i] for c in columns]) for i in range(len(columns[0]))]
