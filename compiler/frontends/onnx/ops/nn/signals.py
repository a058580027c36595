"""Transforms, sums of products over named axes, boxes, random values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dims import eq
from ......ir.graph import Value
from ......ir.ops import (
    DFT,
    IDFT,
    IRDFT,
    RDFT,
    STFT,
    Add,
    Broadcast,
    Concat,
    Einsum,
    FloorMod,
    Gather,
    Multiply,
    NonMaxSuppression,
    Reshape,
    Slice,
    Squeeze,
)
from ..elementary import size_of, sizes_of
from ..reference import by_reference

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def dft_attribute(n: ImportContext) -> Value:
    return _dft(n, n.ints_value([n.axis(n.integer("axis", 1), n.rank(n.input(0)))]))


def dft(n: ImportContext) -> Value:
    """The axis is an input, the last but one by default."""
    axis = n.optional(2)
    known = [-2] if axis is None else n.known_integers(axis)
    if known is not None:
        return _dft(n, n.ints_value([n.axis(known[0], n.rank(n.input(0)))]))
    assert axis is not None
    counted = n.add(FloorMod(), axis, n.constant(n.rank(n.input(0)), n.dtype(axis)))
    return _dft(n, n.add(Reshape(), counted, n.ints_value([1])))


def _dft(n: ImportContext, axis: Value) -> Value:
    """Real or complex numbers are 1 or 2 values on the last axis."""
    x, length = n.input(0), n.optional(1)
    shape = n.shape(x)
    if shape is None or shape[-1] not in (1, 2):
        raise n.unsupported_error("DFT of values that may be real or complex")
    real = shape[-1] == 1
    size = None if length is None else n.add(Reshape(), length, n.ints_value([1]))
    inverse, onesided = n.flag("inverse"), n.flag("onesided")
    if onesided and inverse:
        return _column(n, n.add(IRDFT(), x, axis, size))
    if onesided:
        if not real:
            raise n.type_error("a one-sided DFT takes real numbers", got=n.fact(x).type)
        return n.add(RDFT(), n.add(Squeeze(), x, n.ints_value([-1])), axis, size)
    if real:
        x = n.add(Concat(-1), x, n.add(Multiply(), x, n.like(x, 0)))
    return n.add(IDFT() if inverse else DFT(), x, axis, size)


def _column(n: ImportContext, value: Value) -> Value:
    """Real numbers with their axis of size 1."""
    sizes = n.add(Concat(0), sizes_of(n, value), n.ints_value([1]))
    return n.add(Reshape(), value, sizes)


def stft(n: ImportContext) -> Value | list[Value]:
    """A signal is [batch, samples], or has a last axis of 1 (real numbers) or 2 (complex ones)."""
    x, window, length = n.input(0), n.optional(2), n.optional(3)
    shape = n.shape(x)
    if shape is None or (len(shape) == 3 and not isinstance(shape[2], int)):
        return by_reference(n)
    if len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (2,)):
        raise n.type_error("a signal is [batch, samples, 1 or 2]", got=n.fact(x).type)
    real, onesided = shape[2:] != (2,), n.flag("onesided", True)
    if onesided and not real:
        raise n.type_error("a one-sided STFT takes real numbers", got=n.fact(x).type)
    if length is None:
        length = size_of(n, x, 1) if window is None else size_of(n, window, 0)
    elif window is not None:
        _require_length(n, window, length)
    size, step = (n.add(Reshape(), v, n.ints_value([])) for v in (length, n.input(1)))
    if window is None:
        window = n.add(Broadcast(), n.like(x, 1), n.add(Reshape(), length, n.ints_value([1])))
    if onesided:
        return n.add(STFT(), _part(n, x, 0), window, size, step)
    known = n.known_integers(size)
    if known is None:
        return by_reference(n)
    parts = [
        _both_sides(n, n.add(STFT(), _part(n, x, i), window, size, step), known[0])
        for i in range(1 if real else 2)
    ]
    return parts[0] if real else n.add(Add(), parts[0], _multiply_by_i(n, parts[1]))


def _require_length(n: ImportContext, window: Value, length: Value) -> None:
    """A frame is as long as its window, where both are known: one that is shorter is refused."""
    shape, known = n.shape(window), n.known_integers(length)
    if shape is None or known is None or len(shape) != 1 or len(known) != 1:
        return
    if eq(shape[0], known[0]) is False:
        raise n.type_error("a window is as long as a frame", got=shape[0], expected=known[0])


def _part(n: ImportContext, signal: Value, i: int) -> Value:
    """The real or the imaginary parts of a signal."""
    if n.rank(signal) == 2:
        return signal
    return n.add(Gather(), signal, n.int_value(i), n.int_value(2))


def _both_sides(n: ImportContext, half: Value, size: int) -> Value:
    """The whole spectrum of a real signal: its second half is the first, mirrored, conjugated."""
    bounds = [n.ints_value([i]) for i in ((size - 1) // 2, 0, -1, 2)]
    signs = n.constant([1, -1], n.dtype(half))
    return n.add(Concat(2), half, n.add(Multiply(), n.add(Slice(), half, *bounds), signs))


def _multiply_by_i(n: ImportContext, value: Value) -> Value:
    """Complex numbers times i."""
    swapped = n.add(Gather(), value, n.ints_value([1, 0]), n.int_value(3))
    return n.add(Multiply(), swapped, n.constant([-1, 1], n.dtype(value)))


def einsum(n: ImportContext) -> Value:
    return n.add(Einsum(n.text("equation")), *n.all_inputs())


def non_max_suppression(n: ImportContext) -> Value:
    """Results come class by class; without a limit no box is chosen."""
    corners = not n.flag("center_point_box")
    op = NonMaxSuppression("corner" if corners else "center", sort_result_descending=False)
    limit = n.optional(2) or n.int_value(0)
    return n.add(op, n.input(0), n.input(1), limit, n.optional(3), n.optional(4))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "DFT": {17: dft_attribute, 20: dft},
    "Einsum": {12: einsum},
    "NonMaxSuppression": {10: non_max_suppression},
    "STFT": {17: stft},
}
