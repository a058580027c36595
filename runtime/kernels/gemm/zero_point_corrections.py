"""Which zero points and shifts a product has: data that decides how its sums are corrected."""

from __future__ import annotations

from typing import Literal

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.gemm import GemmSpec
from ..emit.dot_units import DotUnit, left_shift, right_shift


@dataclass(frozen=True)
class Corrections:
    """What zero points there are besides 0: `left` one for all rows or one per row, `right` one for
    all columns or one per column. Shifts are part of them."""

    left: Literal["none", "one", "rows"]
    right: Literal["none", "one", "columns"]
    left_shift: int
    right_shift: int

    def __bool__(self) -> bool:
        return self.left != "none" or self.right != "none"

    @property
    def row_terms(self) -> bool:
        """Whether rows have terms, or zero points of their own."""
        return self.right != "none" or self.left == "rows"


def find_corrections(spec: GemmSpec, unit: DotUnit | None) -> Corrections:
    """The corrections of a product's sums. Of other types than bytes: none."""
    a_shift, b_shift = left_shift(unit, spec.a.dtype), right_shift(unit, spec.b.dtype)
    left, right = "one" if a_shift else "none", "one" if b_shift else "none"
    if spec.a_zero_point is not None:
        left = "one" if spec.a_zero_point.strides[-1] == 0 else "rows"
    if spec.b_zero_point is not None:
        right = "one" if spec.b_zero_point.strides[-1] == 0 else "columns"
    return Corrections(left, right, a_shift, b_shift)
