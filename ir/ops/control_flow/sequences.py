"""Sequences as values (dialect): lists of tensors that are made, changed, split and joined.

A sequence is a Python list, never changed in place. Sizes in a sequence's element type that are not
numbers are unknown and may differ from element to element, so an operation that takes an element
out gives it fresh symbols. Source: ONNX operators Sequence*, SplitToSequence 11 and 24,
ConcatFromSequence.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, eq
from ...dtype import DType
from ...errors import ExecutionError, ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import charge_bytes, value_bytes
from ...op import Array, Fact, Op, Port
from ...types import MapType, OptionalType, SequenceType, TensorType, Type, normalize_axis
from ..shape_inference import fresh_symbol, int_of, ints_of, known_int

_REFERENCE_BYTES = 8
# NumPy's objects for a part of an array and for its copy, with their shapes and strides.
_PART_BYTES = 320


def refresh_symbols(op: Op, type_: Type) -> Type:
    """A type whose sizes are numbers or fresh symbols."""
    if not isinstance(type_, TensorType):
        return type_
    shape = type_.shape
    sizes = (
        None if shape is None else [d if isinstance(d, int) else fresh_symbol(op) for d in shape]
    )
    return TensorType(type_.dtype, None if sizes is None else tuple(sizes))


def common_type(op: Op, a: Type, b: Type) -> Type:
    """A type that values of both types have, of the elements of a sequence, say. ShapeError where
    their kinds or element types differ."""
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = [t.element if isinstance(t, OptionalType) else t for t in (a, b)]
        return OptionalType(common_type(op, *inner))
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(common_type(op, a.element, b.element))
    if isinstance(a, MapType) and isinstance(b, MapType) and a.key is b.key:
        return MapType(a.key, common_type(op, a.element, b.element))
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        raise ShapeError("values of one port differ in type", got=f"{a} and {b}")
    if a.dtype is not b.dtype and DType.dynamic not in (a.dtype, b.dtype):
        raise ShapeError(
            "values of one port (both branches of an If, say) differ in element type",
            got=f"{a} and {b}",
            expected="one element type",
        )
    dtype = b.dtype if a.dtype is DType.dynamic else a.dtype
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(dtype, None)
    sizes: list[Dim] = []
    for x, y in zip(a.shape, b.shape, strict=True):
        sizes.append(x if not isinstance(x, int) or eq(x, y) else fresh_symbol(op))
    return TensorType(dtype, tuple(sizes))


def element_of(fact: Fact) -> Type:
    """The type of a sequence's elements. ShapeError where the input is not a sequence."""
    if not isinstance(fact.type, SequenceType):
        raise ShapeError("a sequence is needed here", got=fact.type, expected="seq(...)")
    return fact.type.element


def resolve_position(position: Array | None, count: int, default: int) -> int:
    """A position in a list, from 0; ExecutionError where there is none such."""
    at = default if position is None else int_of(position)
    if not -count <= at < count:
        raise ExecutionError(
            "a position lies outside the sequence", got=at, expected=f"{-count}..{count - 1}"
        )
    return at % count


class SequenceConstruct(Op):
    """The inputs as a sequence."""

    kind: ClassVar[str] = "SequenceConstruct"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)

    def infer(self, inputs: tuple[Fact, ...]) -> tuple[Type, ...]:
        element: Type = inputs[0].type
        for fact in inputs[1:]:
            element = common_type(self, element, fact.type)
        return (SequenceType(refresh_symbols(self, element)),)

    def evaluate(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        charge_bytes(_REFERENCE_BYTES * len(inputs), f"{len(inputs)} elements")
        return (list(inputs),)


@dataclass(frozen=True)
class SequenceEmpty(Op):
    """A sequence without elements."""

    kind: ClassVar[str] = "SequenceEmpty"
    version: ClassVar[int] = 0
    element_type: DType = DType.f32

    def infer(self) -> tuple[Type, ...]:
        return (SequenceType(TensorType(self.element_type, None)),)

    def evaluate(self) -> tuple[Any, ...]:
        return ([],)


class SequenceAt(Op):
    """The element at a position; a negative one counts from the end."""

    kind: ClassVar[str] = "SequenceAt"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("sequence"), Port("position"))

    def infer(self, sequence: Fact, position: Fact) -> tuple[Type, ...]:
        return (refresh_symbols(self, element_of(sequence)),)

    def evaluate(self, sequence: list[Any], position: Array) -> tuple[Any, ...]:
        return (sequence[resolve_position(position, len(sequence), 0)],)


class SequenceInsert(Op):
    """A sequence with one more element, before a position or at the end."""

    kind: ClassVar[str] = "SequenceInsert"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("sequence"),
        Port("element"),
        Port("position", optional=True),
    )

    def infer(
        self, sequence: Fact, element: Fact, position: Fact | None = None
    ) -> tuple[Type, ...]:
        found = common_type(self, element_of(sequence), element.type)
        return (SequenceType(refresh_symbols(self, found)),)

    def evaluate(
        self, sequence: list[Any], element: Any, position: Array | None = None
    ) -> tuple[Any, ...]:
        count = len(sequence)
        at = count if position is None else int_of(position)
        if not -count <= at <= count:
            raise ExecutionError(
                "a position lies outside the sequence", got=at, expected=f"{-count}..{count}"
            )
        at = at + count if at < 0 else at
        charge_bytes(3 * _REFERENCE_BYTES * count, f"{count} elements")
        return ([*sequence[:at], element, *sequence[at:]],)


class SequenceErase(Op):
    """A sequence without the element at a position, or without its last one."""

    kind: ClassVar[str] = "SequenceErase"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("sequence"), Port("position", optional=True))

    def infer(self, sequence: Fact, position: Fact | None = None) -> tuple[Type, ...]:
        element_of(sequence)
        return (sequence.type,)

    def evaluate(self, sequence: list[Any], position: Array | None = None) -> tuple[Any, ...]:
        at = resolve_position(position, len(sequence), -1)
        charge_bytes(3 * _REFERENCE_BYTES * len(sequence), f"{len(sequence)} elements")
        return ([*sequence[:at], *sequence[at + 1 :]],)


class SequenceLength(Op):
    """How many elements a sequence has."""

    kind: ClassVar[str] = "SequenceLength"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("sequence"),)

    def infer(self, sequence: Fact) -> tuple[Type, ...]:
        element_of(sequence)
        return (TensorType(DType.i64, ()),)

    def evaluate(self, sequence: list[Any]) -> tuple[Any, ...]:
        return (np.array(len(sequence), np.int64),)


def _charge_parts(data: Array, count: int) -> None:
    charge_bytes(data.nbytes + _PART_BYTES * count, f"{count} parts")


@dataclass(frozen=True)
class SplitToSequence(Op):
    """Parts of a tensor along an axis: `lengths` holds each part's size, one size for all (the
    last may be smaller), or is absent: parts of size 1, then without the axis unless `keep_dims`.
    """

    kind: ClassVar[str] = "SplitToSequence"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("lengths", optional=True))
    axis: int = 0
    keep_dims: bool = True

    def infer(self, data: Fact, lengths: Fact | None = None) -> tuple[Type, ...]:
        shape = data.tensor.shape
        if shape is None:
            return (SequenceType(TensorType(data.tensor.dtype, None)),)
        axis = normalize_axis(self.axis, len(shape))
        size: list[Dim] = [fresh_symbol(self)]
        if lengths is None:
            size = [1] if self.keep_dims else []
        elif lengths.tensor.shape == ():
            part, total = known_int(lengths), shape[axis]
            if part and isinstance(total, int) and total % part == 0:
                size = [part]
        element = TensorType(data.tensor.dtype, (*shape[:axis], *size, *shape[axis + 1 :]))
        return (SequenceType(refresh_symbols(self, element)),)

    def evaluate(self, data: Array, lengths: Array | None = None) -> tuple[Any, ...]:
        total = data.shape[self.axis]
        if lengths is None or lengths.ndim == 0:
            part = 1 if lengths is None else int_of(lengths)
            if part < 1:
                raise ExecutionError("a part of a split has no elements", got=part)
            _charge_parts(data, -(-total // part))
            sizes = [min(part, total - at) for at in range(0, total, part)]
        else:
            _charge_parts(data, lengths.size)
            sizes = ints_of(lengths)
            if sum(sizes) != total or min(sizes, default=0) < 0:
                raise ExecutionError(
                    "the parts of a split don't add up", got=sizes, expected=f"a sum of {total}"
                )
        parts = np.split(data, np.cumsum(sizes)[:-1], self.axis) if sizes else []
        if lengths is None and not self.keep_dims:
            parts = [np.squeeze(part, self.axis) for part in parts]
        return ([np.array(part, order="C") for part in parts],)


@dataclass(frozen=True)
class ConcatFromSequence(Op):
    """All elements joined along an axis, or along a new one."""

    kind: ClassVar[str] = "ConcatFromSequence"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("sequence"),)
    axis: int
    new_axis: bool = False

    def infer(self, sequence: Fact) -> tuple[Type, ...]:
        element = refresh_symbols(self, element_of(sequence))
        if not isinstance(element, TensorType):
            raise ShapeError("only tensors can be joined", got=sequence.type)
        shape = element.shape
        if shape is None:
            return (element,)
        axis = normalize_axis(self.axis, len(shape) + self.new_axis)
        rest = shape[axis:] if self.new_axis else shape[axis + 1 :]
        return (TensorType(element.dtype, (*shape[:axis], fresh_symbol(self), *rest)),)

    def evaluate(self, sequence: list[Any]) -> tuple[Any, ...]:
        if not sequence:
            raise ExecutionError("an empty sequence can't be joined")
        charge_bytes(value_bytes(sequence), f"{len(sequence)} parts joined")
        join: Any = np.stack if self.new_axis else np.concatenate
        return (join(sequence, axis=self.axis),)
