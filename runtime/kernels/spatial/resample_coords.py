"""Which elements of an axis a resampled one is made of, and their weights.

Coordinates are computed in f32 with the operations in the order that Interpolate gives them, so
that they are the same bits as `evaluate`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.resample import ResampleSpec
from ...llvmir.builder import Function
from ...llvmir.values import F32, I64, Value, number
from ..emit.casts import cast
from ..emit.scalar_program import round_to


@dataclass(frozen=True)
class Taps:
    """Elements, and their weights in the spec's `acc` (none where one element is picked).
    `inside` is false where there is no element."""

    positions: Sequence[Value]
    weights: Sequence[Value] = ()
    inside: Value | None = None


def taps_of(
    f: Function, spec: ResampleSpec, i: Value, axis: Value, count: Value, begin: Value
) -> Taps:
    """What element `i` of the output axis is made of, for all rules but means and maxima."""
    last = f.sub(axis, 1)
    if spec.rule in ("nearest", "linear", "cubic"):
        return _choose_taps(f, spec, _source_coordinate(f, spec, i, axis, count), axis)
    at = f.sub(i, begin)
    if spec.rule == "constant":
        return Taps([at], inside=f.icmp("ult", at, axis))
    if spec.rule == "edge":
        return Taps([_clamp(f, at, last)])
    # A wave that goes up and down the axis; reflect's turning points are there once. An axis
    # without elements gets here, too, where rows have none: nothing is divided by 0.
    found = f.var(I64, at)
    with f.if_(f.icmp("uge", at, axis)):
        period = f.smax(f.mul(axis if spec.rule == "symmetric" else last, 2), 1)
        along = f.srem(f.add(f.srem(at, period), period), period)
        back = f.sub(f.sub(period, 1) if spec.rule == "symmetric" else period, along)
        found.set(_clamp(f, f.smin(along, back), last))
    return Taps([found.get()])


def _clamp(f: Function, at: Value, last: Value) -> Value:
    return f.smax(f.smin(at, last), 0)


def _source_coordinate(
    f: Function, spec: ResampleSpec, i: Value, axis: Value, count: Value
) -> Value:
    """The coordinate of element i on the input axis, f32."""
    x, out, size = (cast(f, v, DType.i64, DType.f32) for v in (i, count, axis))
    by = f.fdiv(out, size) if spec.scale is None else number(spec.scale, F32)
    single = f.icmp("sle", count, 1)
    if spec.coordinate_mode == "asymmetric":
        return f.fdiv(x, by)
    if spec.coordinate_mode == "align_corners":
        one = number(1.0, F32)
        steps = f.select(single, one, f.fsub(out, one))
        return f.select(single, number(0.0, F32), f.fdiv(f.fmul(x, f.fsub(size, one)), steps))
    middle = f.fdiv(f.fadd(x, 0.5), by)
    if spec.coordinate_mode == "tf_half_pixel_for_nn":
        # An axis that stays as long as it was stays as it is, as where that is known before.
        return f.select(f.icmp("eq", axis, count), x, middle) if spec.scale is None else middle
    found = f.fsub(middle, 0.5)
    return (
        f.select(single, number(0.0, F32), found)
        if spec.coordinate_mode == "pytorch_half_pixel"
        else found
    )


def _float_to_i64(f: Function, x: Value) -> Value:
    """A float without fraction as i64; what no axis reaches is limited (NaN: 0)."""
    return f.cast(x, I64)


def _choose_taps(f: Function, spec: ResampleSpec, x: Value, axis: Value) -> Taps:
    last = f.sub(axis, 1)
    if spec.rule == "nearest":
        return Taps([_clamp(f, _float_to_i64(f, _round_coordinate(f, spec, x, axis)), last)])
    if spec.rule == "linear":
        end = cast(f, last, DType.i64, DType.f32)
        x = f.max_or(f.min_or(x, end), 0.0)
    floor = round_to(f, x, "floor")
    first = _float_to_i64(f, floor)
    # In front of the axis the difference has more bits than a coordinate.
    wide, below = (cast(f, v, DType.f32, spec.acc) for v in (x, floor))
    fraction = f.fsub(wide, below)
    if spec.rule == "linear":
        weights = [f.fsub(1.0, fraction), fraction]
        return Taps([_clamp(f, f.add(first, t), last) for t in range(2)], weights)
    a = spec.coefficient

    def inner_weight(d: Value) -> Value:
        steep = f.fsub(f.fmul(d, a + 2), a + 3)
        return f.fadd(f.fmul(f.fmul(steep, d), d), 1.0)

    def outer_weight(d: Value) -> Value:
        curve = f.fadd(f.fmul(f.fsub(f.fmul(d, a), 5 * a), d), 8 * a)
        return f.fsub(f.fmul(curve, d), 4 * a)

    rest = f.fsub(1.0, fraction)
    weights = [
        outer_weight(f.fadd(fraction, 1.0)),
        inner_weight(fraction),
        inner_weight(rest),
        outer_weight(f.fadd(rest, 1.0)),
    ]
    return Taps([_clamp(f, f.add(first, t - 1), last) for t in range(4)], weights)


def _round_coordinate(f: Function, spec: ResampleSpec, x: Value, axis: Value) -> Value:
    """The coordinate as "nearest" rounds it, still f32."""
    if spec.rounding == "floor":
        return round_to(f, x, "floor")
    if spec.rounding == "ceil":
        return round_to(f, x, "ceil")
    if spec.rounding == "simple":
        assert spec.scale is not None
        return round_to(f, x, "ceil") if spec.scale < 1 else round_to(f, x, "trunc")
    near = round_to(f, f.fadd(x, 0.5), "floor")
    if spec.rounding == "round_prefer_ceil":
        return near
    low = round_to(f, x, "floor")
    return f.select(f.fcmp("oeq", x, f.fadd(low, 0.5)), low, near)
