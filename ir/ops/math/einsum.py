"""Einsum: products summed over named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim, broadcast, eq
from ...dims.constraints import require_broadcast
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import narrow_array, widen_array
from ..shape_inference import fits, one_dtype
from .elementwise import NUMBERS

_DOTS = "..."


@dataclass(frozen=True)
class Einsum(Op):
    """Axes of one letter run together; letters that the output lacks are summed over; `...`
    denotes the remaining axes, which broadcast."""

    kind: ClassVar[str] = "Einsum"
    version: ClassVar[int] = 7
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)
    equation: str

    def terms(self) -> tuple[list[str], str]:
        """Letters of each input and of the output. ShapeError for a broken equation."""
        text = "".join(self.equation.split())
        left, arrow, right = text.partition("->")
        inputs = left.split(",")
        letters = left.replace(_DOTS, "").replace(",", "")
        if not arrow:
            # Letters that occur once, in alphabetical order, after the axes of the dots.
            once = sorted(c for c in set(letters) if letters.count(c) == 1)
            right = (_DOTS if _DOTS in left else "") + "".join(once)
        outside = set(right.replace(_DOTS, "")) - set(letters)
        if not all(c.isalpha() for c in letters) or outside:
            raise ShapeError("the equation of an Einsum is broken", got=self.equation)
        return inputs, right

    def infer(self, facts: tuple[Fact, ...]) -> tuple[Type, ...]:
        dtype = one_dtype(*facts)
        if not fits(dtype, NUMBERS):
            raise ShapeError("Einsum needs numbers", got=dtype)
        inputs, output = self.terms()
        if len(inputs) != len(facts):
            raise ShapeError(
                "the equation and the inputs differ in number",
                got=f"{len(facts)} inputs",
                expected=f"one per operand of {self.equation!r}",
            )
        shapes = [f.tensor.shape for f in facts]
        sizes: dict[str, Dim] = {}
        rest: list[Dim] = []
        for term, shape in zip(inputs, shapes, strict=True):
            if shape is None:
                return (TensorType(dtype, None),)
            rest = _assign(term, shape, sizes, rest, self.equation)
        out: list[Dim] = []
        for part in _split_term(output):
            out += rest if part == _DOTS else [sizes[part]]
        return (TensorType(dtype, tuple(out)),)

    def evaluate(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        inputs, output = self.terms()
        equation = f"{','.join(inputs)}->{output}"
        with np.errstate(all="ignore"):
            out = np.einsum(equation, *(widen_array(a) for a in arrays), optimize=len(arrays) > 1)
        return (narrow_array(np.asarray(out), arrays[0].dtype),)


def _split_term(term: str) -> list[str]:
    before, dots, after = term.partition(_DOTS)
    return [*before, *([_DOTS] if dots else []), *after]


def _assign(
    term: str, shape: Sequence[Dim], sizes: dict[str, Dim], rest: list[Dim], equation: str
) -> list[Dim]:
    """Enter an input's sizes by letter; returns the sizes of the dots' axes so far."""
    parts = _split_term(term)
    extra = len(shape) - sum(p != _DOTS for p in parts)
    if extra < 0 or (extra > 0 and _DOTS not in parts):
        raise ShapeError(
            "an input's rank does not fit the equation", got=list(shape), expected=f"{term!r}"
        )
    axis = 0
    for part in parts:
        if part == _DOTS:
            mine = list(shape[axis : axis + extra])
            size = max(len(mine), len(rest))
            padded = [[1] * (size - len(d)) + d for d in (mine, rest)]
            rest = [broadcast(a, b) for a, b in zip(*padded, strict=True)]
            axis += extra
            continue
        size_here = shape[axis]
        before = sizes.get(part, size_here)
        what = f"axis {part!r} has two sizes"
        if eq(before, size_here) is False and 1 not in (before, size_here):
            raise ShapeError(what, got=f"{before} and {size_here}", expected=equation)
        sizes[part] = broadcast(before, size_here)
        for size in (before, size_here):
            require_broadcast(size, sizes[part], what)
        axis += 1
    return rest
