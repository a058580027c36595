"""Winograd's transforms F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3).

Y = A' [(G g G') * (B' d B)] A, * element by element (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", CVPR 2016), with the points 0, 1, -1, (2, -2,) infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ..codegen.emit import Function
    from ..codegen.values import Value

Array = npt.NDArray[Any]
# One dimension of a transform, on vectors.
Transform = Callable[["Function", Sequence["Value"]], list["Value"]]

# Filters transformed at a time: 45 numbers of 8 bytes each, half a megabyte in all.
_ELEMENTS = 1 << 10

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


def transform_filters(filters: Array, m: int) -> Array:
    """[O, C, 3, 3] as [(m + 2)^2, C, O], computed in f64 and rounded once.

    Both dimensions at once: (G x G) times the nine taps of every filter, some channels at a time,
    so that the wide numbers stay in the cache.
    """
    outputs, channels = filters.shape[:2]
    g = np.array(_FILTERS[m])
    both = np.kron(g, g)
    taps = filters.reshape(outputs, channels, 9).transpose(2, 1, 0)
    out = np.empty((len(both), channels, outputs), filters.dtype)
    step = max(1, _ELEMENTS // max(1, outputs))
    for c in range(0, channels, step):
        part = taps[:, c : c + step].astype(np.float64, order="C")
        out[:, c : c + step] = (both @ part.reshape(9, -1)).reshape(len(both), -1, outputs)
    return out


def data_2(f: Function, d: Sequence[Value]) -> list[Value]:
    """B' of F(2 x 2): 4 to 4."""
    return [f.fsub(d[0], d[2]), f.fadd(d[1], d[2]), f.fsub(d[2], d[1]), f.fsub(d[1], d[3])]


def data_4(f: Function, d: Sequence[Value]) -> list[Value]:
    """B' of F(4 x 4): 6 to 6."""
    a, b = f.fma(d[2], -4.0, d[4]), f.fma(d[1], -4.0, d[3])
    c, e = f.fsub(d[4], d[2]), f.fsub(d[3], d[1])
    return [
        f.fma(d[0], 4.0, f.fma(d[2], -5.0, d[4])),
        f.fadd(a, b),
        f.fsub(a, b),
        f.fma(e, 2.0, c),
        f.fma(e, -2.0, c),
        f.fma(d[1], 4.0, f.fma(d[3], -5.0, d[5])),
    ]


def result_2(f: Function, m: Sequence[Value]) -> list[Value]:
    """A' of F(2 x 2): 4 to 2."""
    return [f.fadd(f.fadd(m[0], m[1]), m[2]), f.fsub(f.fsub(m[1], m[2]), m[3])]


def result_4(f: Function, m: Sequence[Value]) -> list[Value]:
    """A' of F(4 x 4): 6 to 4."""
    s, d = f.fadd(m[1], m[2]), f.fsub(m[1], m[2])
    s2, d2 = f.fadd(m[3], m[4]), f.fsub(m[3], m[4])
    return [
        f.fadd(f.fadd(m[0], s), s2),
        f.fma(d2, 2.0, d),
        f.fma(s2, 4.0, s),
        f.fadd(f.fma(d2, 8.0, d), m[5]),
    ]


DATA: dict[int, Transform] = {2: data_2, 4: data_4}
RESULT: dict[int, Transform] = {2: result_2, 4: result_4}


def both_ways(f: Function, one: Transform, square: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """The transform along columns, then along rows."""
    columns = [one(f, [row[j] for row in square]) for j in range(len(square[0]))]
    return [one(f, [c[i] for c in columns]) for i in range(len(columns[0]))]
