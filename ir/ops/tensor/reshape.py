"""New shapes for the same elements: Reshape, Squeeze, Unsqueeze, and Transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim, eq, exact_quotient, product
from ...dims.constraints import require_at_least, require_equal
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, format_shape
from ..math.elementwise import INTEGERS
from ..shape_inference import (
    Shape,
    axes_in,
    count_of,
    fresh_symbol,
    ints_of,
    known_dims,
    left_over,
    require_dtype,
    require_rank,
    unique_axes,
    unknown_shape,
)

_NEGATIVE = "a target size is negative"


@dataclass(frozen=True)
class Reshape(Op):
    """`shape` may hold one -1 (what remains) and, with `special_zero`, 0 (as in the input)."""

    kind: ClassVar[str] = "Reshape"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("shape"))
    evaluates_shapes: ClassVar[bool] = True
    special_zero: bool = False

    def infer(self, data: Fact, shape: Fact) -> tuple[Type, ...]:
        require_dtype(shape, "shape", INTEGERS, "an integer type")
        require_rank(shape, "shape", 0, 1)
        have, dtype = data.tensor.shape, data.tensor.dtype
        wanted = known_dims(shape)
        if wanted is not None:
            return (TensorType(dtype, self._resolve(have, wanted)),)
        count = count_of(shape)
        if count == 1 and have is not None:
            return (TensorType(dtype, (product(have),)),)
        return (TensorType(dtype, None if count is None else unknown_shape(self, count)),)

    def _resolve(self, have: Shape | None, wanted: Sequence[Dim]) -> Shape:
        out: list[Dim] = []
        for i, d in enumerate(wanted):
            if isinstance(d, int) and d < -1:
                raise ShapeError(_NEGATIVE, got=list(wanted), expected=">= -1")
            require_at_least(-1, d, _NEGATIVE)
            if isinstance(d, int) and d == 0 and self.special_zero:
                if have is not None and i >= len(have):
                    raise ShapeError(
                        "a 0 in the target copies an axis that the input lacks",
                        got=f"{list(wanted)} for {format_shape(have)}",
                    )
                out.append(fresh_symbol(self) if have is None else have[i])
            else:
                out.append(d)
        holes = [i for i, d in enumerate(wanted) if isinstance(d, int) and d == -1]
        if len(holes) > 1:
            raise ShapeError("a target has one -1 at most", got=list(wanted))
        if have is None:
            return tuple(fresh_symbol(self) if i in holes else d for i, d in enumerate(out))
        if holes:
            rest = [d for i, d in enumerate(out) if i not in holes]
            out[holes[0]] = self._infer_remaining(have, rest, wanted)
        elif eq(product(have), product(out)) is False:
            raise ShapeError(
                "a reshape must keep the number of elements",
                got=f"{format_shape(have)} to {format_shape(tuple(out))}",
                expected=f"sizes whose product is {product(have)}",
            )
        require_equal(product(have), product(out), "a reshape must keep the number of elements")
        return tuple(out)

    def _infer_remaining(self, have: Shape, others: Sequence[Dim], wanted: Sequence[Dim]) -> Dim:
        total, rest = product(have), product(others)
        exact = exact_quotient(total, rest)
        if exact is not None:
            return exact
        if isinstance(rest, int) and rest == 0:
            # Axes of nothing cancel, as their symbols do.
            if [*have].count(0) > [*others].count(0):
                return 0
            nonzero_products = (product(d for d in sizes if d != 0) for sizes in (have, others))
            found = exact_quotient(*nonzero_products)
            return 0 if found is None else found
        if isinstance(total, int) and isinstance(rest, int) and total % rest:
            raise ShapeError(
                "the -1 of a reshape target is not an integer",
                got=f"{format_shape(have)} to {list(wanted)}",
            )
        message = "the -1 of a reshape target is not an integer"
        require_equal(total, total // rest * rest, message)
        return total // rest

    def evaluate(self, data: Array, shape: Array) -> tuple[Array, ...]:
        return (data.reshape(self._resolve(data.shape, ints_of(shape))),)  # type: ignore[arg-type]


class _Squeeze(Op):
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes", optional=True))
    evaluates_shapes: ClassVar[bool] = True

    def _skips(self) -> bool:
        return False

    def infer(self, data: Fact, axes: Fact | None = None) -> tuple[Type, ...]:
        require_dtype(axes, "axes", INTEGERS, "an integer type")
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        if axes is None or count_of(axes) == 0:
            if any(eq(d, 1) is None for d in shape):
                return (TensorType(dtype, None),)
            return (TensorType(dtype, tuple(d for d in shape if d != 1)),)
        known = axes_in(axes, len(shape))
        if known is None:
            count = None if self._skips() else count_of(axes)
            unknown = None if count is None else unknown_shape(self, left_over(len(shape), count))
            return (TensorType(dtype, unknown),)
        if self._skips():
            if any(eq(shape[a], 1) is None for a in known):
                return (TensorType(dtype, None),)
            known = [a for a in known if shape[a] == 1]
        for a in known:
            if eq(shape[a], 1) is False:
                raise ShapeError(
                    "only axes of size 1 can be squeezed", got=f"axis {a} of {format_shape(shape)}"
                )
            require_equal(shape[a], 1, "only axes of size 1 can be squeezed")
        return (TensorType(dtype, tuple(d for i, d in enumerate(shape) if i not in known)),)

    def evaluate(self, data: Array, axes: Array | None = None) -> tuple[Array, ...]:
        listed = [i for i, d in enumerate(data.shape) if d == 1]
        if axes is not None and axes.size:
            listed = unique_axes(ints_of(axes), data.ndim)
        if self._skips():
            listed = [a for a in listed if data.shape[a] == 1]
        return (np.squeeze(data, tuple(listed)),)


class Squeeze1(_Squeeze):
    """Remove the listed axes of size 1, or all of them where no list is given."""

    kind: ClassVar[str] = "Squeeze"


@dataclass(frozen=True)
class Squeeze(_Squeeze):
    """As Squeeze-1; with `allow_axis_skip`, listed axes of another size stay."""

    kind: ClassVar[str] = "Squeeze"
    version: ClassVar[int] = 15
    allow_axis_skip: bool = False

    def _skips(self) -> bool:
        return self.allow_axis_skip


class Unsqueeze(Op):
    """Insert axes of size 1; the list counts axes of the output."""

    kind: ClassVar[str] = "Unsqueeze"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes"))
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact, axes: Fact) -> tuple[Type, ...]:
        require_dtype(axes, "axes", INTEGERS, "an integer type")
        shape, dtype, count = data.tensor.shape, data.tensor.dtype, count_of(axes)
        if shape is None or count is None:
            return (TensorType(dtype, None),)
        rank = len(shape) + count
        known = axes_in(axes, rank)
        if known is None:
            return (TensorType(dtype, unknown_shape(self, rank)),)
        rest = iter(shape)
        return (TensorType(dtype, tuple(1 if i in known else next(rest) for i in range(rank))),)

    def evaluate(self, data: Array, axes: Array) -> tuple[Array, ...]:
        listed = unique_axes(ints_of(axes), data.ndim + axes.size)
        return (np.expand_dims(data, tuple(listed)),)


class Transpose(Op):
    """Axis i of the output is axis order[i] of the input; an empty order reverses the axes."""

    kind: ClassVar[str] = "Transpose"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("order"))
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact, order: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            count = count_of(order)
            return (TensorType(dtype, unknown_shape(self, count) if count else None),)
        known = axes_in(order, len(shape))
        if known is None:
            return (TensorType(dtype, unknown_shape(self, len(shape))),)
        return (TensorType(dtype, tuple(shape[a] for a in full_order(known, len(shape)))),)

    def evaluate(self, data: Array, order: Array) -> tuple[Array, ...]:
        listed = unique_axes(ints_of(order), data.ndim)
        return (np.asarray(data.transpose(full_order(listed, data.ndim)), order="C"),)


def full_order(order: Sequence[int], rank: int) -> list[int]:
    """A transposition's order, axes reversed where none is given. ShapeError for a wrong length."""
    if not order:
        return list(reversed(range(rank)))
    if len(order) != rank:
        raise ShapeError("a transposition lists every axis", got=list(order), expected=rank)
    return list(order)
