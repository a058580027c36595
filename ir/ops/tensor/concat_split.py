"""Concat, Split and VariadicSplit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...dims import Dim, eq, exact_quotient
from ...dims.constraints import require_at_least, require_equal
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port, attr
from ...types import TensorType, Type, normalize_axis
from ..shape_inference import (
    Shape,
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    known_int,
    one_dtype,
    same_size,
    unknown_shape,
)

_LENGTHS = "split lengths are >= 0, with one -1 at most"


@dataclass(frozen=True)
class Concat(Op):
    """The inputs one after another along an axis; all other sizes are equal."""

    kind: ClassVar[str] = "Concat"
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)
    evaluates_shapes: ClassVar[bool] = True
    axis: int = 0

    def infer(self, facts: tuple[Fact, ...]) -> tuple[Type, ...]:
        dtype = one_dtype(*facts)
        shapes = [f.tensor.shape for f in facts]
        known = [s for s in shapes if s is not None]
        if not known:
            return (TensorType(dtype, None),)
        rank = len(known[0])
        if any(len(s) != rank for s in known):
            got = ", ".join(str(f.type) for f in facts)
            raise ShapeError("concatenated tensors must have one rank", got=got)
        axis = normalize_axis(self.axis, rank)
        out: list[Dim] = list(known[0])
        for shape in known[1:]:
            for i, (a, b) in enumerate(zip(out, shape, strict=True)):
                same = "concatenated tensors may differ only on the axis of concatenation"
                out[i] = a + b if i == axis else same_size(a, b, f"{same} ({axis})")
        if len(known) < len(shapes):
            out[axis] = fresh_symbol(self)
        return (TensorType(dtype, tuple(out)),)

    def evaluate(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return (np.concatenate(arrays, axis=self.axis),)


@dataclass(frozen=True)
class Split(Op):
    """`num_splits` equal parts along an axis."""

    kind: ClassVar[str] = "Split"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axis"))
    evaluates_shapes: ClassVar[bool] = True
    num_splits: int

    def output_count(self) -> int:
        return self.num_splits

    def infer(self, data: Fact, axis: Fact) -> tuple[Type, ...]:
        _check_parts(self.num_splits)
        shape, dtype = data.tensor.shape, data.tensor.dtype
        where = known_int(axis)
        if shape is None or where is None:
            rank = None if shape is None else len(shape)
            return tuple(
                TensorType(dtype, _unknown_result(self, rank)) for _ in range(self.num_splits)
            )
        at = normalize_axis(where, len(shape))
        total = shape[at]
        if isinstance(total, int) and total % self.num_splits:
            raise ShapeError(
                "an axis must split into equal parts",
                got=f"{total} in {self.num_splits} parts",
                expected="a multiple",
            )
        part = exact_quotient(total, self.num_splits)
        part = total // self.num_splits if part is None else part
        require_equal(total, part * self.num_splits, "an axis must split into equal parts")
        part_type = TensorType(dtype, (*shape[:at], part, *shape[at + 1 :]))
        return (part_type,) * self.num_splits

    def evaluate(self, data: Array, axis: Array) -> tuple[Array, ...]:
        parts = np.split(data, self.num_splits, axis=int_of(axis))
        return tuple(np.ascontiguousarray(p) for p in parts)


def _check_parts(count: int) -> None:
    if count < 1:
        raise ShapeError("a split has at least one part", got=count)


def _unknown_result(op: Op, rank: int | None) -> Shape | None:
    return None if rank is None else unknown_shape(op, rank)


@dataclass(frozen=True)
class VariadicSplit(Op):
    """Parts of the listed lengths along an axis; one length may be -1 (what remains).

    `num_outputs` is the number of lengths. IR does not write it: readers take it from the
    layer's output ports (`counted_by`), and OpenVINO ignores it where it is written.
    """

    kind: ClassVar[str] = "VariadicSplit"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axis"), Port("split_lengths"))
    evaluates_shapes: ClassVar[bool] = True
    # The attribute that holds the number of output ports.
    counted_by: ClassVar[str] = "num_outputs"
    num_outputs: int = attr(1)

    def output_count(self) -> int:
        return self.num_outputs

    def infer(self, data: Fact, axis: Fact, split_lengths: Fact) -> tuple[Type, ...]:
        _check_parts(self.num_outputs)
        shape, dtype = data.tensor.shape, data.tensor.dtype
        where, lengths = known_int(axis), known_dims(split_lengths)
        if lengths is not None and len(lengths) != self.num_outputs:
            raise ShapeError(
                "split lengths and outputs differ in number",
                got=len(lengths),
                expected=self.num_outputs,
            )
        if shape is None or where is None:
            rank = None if shape is None else len(shape)
            return tuple(
                TensorType(dtype, _unknown_result(self, rank)) for _ in range(self.num_outputs)
            )
        at = normalize_axis(where, len(shape))
        if lengths is None:
            parts: list[Dim] = [fresh_symbol(self) for _ in range(self.num_outputs)]
        else:
            parts = _fill(lengths, shape[at])
        return tuple(TensorType(dtype, (*shape[:at], p, *shape[at + 1 :])) for p in parts)

    def evaluate(self, data: Array, axis: Array, split_lengths: Array) -> tuple[Array, ...]:
        at = int_of(axis)
        parts = _fill(list(ints_of(split_lengths)), data.shape[at])
        ends = np.cumsum([int(p) for p in parts])[:-1]  # type: ignore[arg-type]
        return tuple(np.ascontiguousarray(p) for p in np.split(data, ends, axis=at))


def _fill(lengths: list[Dim], total: Dim) -> list[Dim]:
    """The lengths with a -1 replaced. ShapeError where they do not sum to the axis."""
    holes = [i for i, d in enumerate(lengths) if isinstance(d, int) and d == -1]
    if len(holes) > 1 or any(isinstance(d, int) and d < -1 for d in lengths):
        raise ShapeError(_LENGTHS, got=lengths)
    for d in lengths:
        require_at_least(-1, d, _LENGTHS)
    rest: Dim = 0
    for i, d in enumerate(lengths):
        rest = rest if i in holes else rest + d
    left = total - rest
    if holes and not (isinstance(left, int) and left < 0):
        return [left if i in holes else d for i, d in enumerate(lengths)]
    if eq(left, 0) is False:
        raise ShapeError("split lengths must sum to the axis", got=lengths, expected=total)
    require_equal(total, rest, "split lengths must sum to the axis")
    return lengths
