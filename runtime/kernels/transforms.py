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
    """[O, C, 3, 3] as [(m + 2)^2, C, O], computed in f64 and rounded once."""
    g = np.array(_FILTERS[m])
    side = m + 2
    wide = np.tensordot(filters.astype(np.float64), g, (3, 1))  # [O, C, 3, j]
    wide = np.tensordot(wide, g, (2, 1))  # [O, C, j, i]
    matrices = wide.transpose(3, 2, 1, 0).reshape(side * side, filters.shape[1], filters.shape[0])
    return matrices.astype(filters.dtype)


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
