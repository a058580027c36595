"""Which conversions keep every value: what may be said of Convert after Convert."""

from __future__ import annotations

from ....ir.dtype import DType

# Bits of the significand (the hidden one included), and the largest exponent.
_FLOATS = {DType.f16: (11, 16), DType.bf16: (8, 128), DType.f32: (24, 128), DType.f64: (53, 1024)}
# Smallest exponent of a subnormal's last bit.
_LAST_BIT = {DType.f16: -24, DType.bf16: -133, DType.f32: -149, DType.f64: -1074}


def holds_all(narrow: DType, wide: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if narrow is wide:
        return True
    if narrow is DType.boolean:
        return wide.is_int or wide in _FLOATS
    if narrow.is_int and wide.is_int:
        return int(wide.min) <= int(narrow.min) and int(narrow.max) <= int(wide.max)
    if narrow.is_int and wide in _FLOATS:
        return narrow.bits - narrow.is_signed <= _FLOATS[wide][0]
    if narrow in _FLOATS and wide in _FLOATS:
        (bits, top), (wide_bits, wide_top) = _FLOATS[narrow], _FLOATS[wide]
        return bits <= wide_bits and top <= wide_top and _LAST_BIT[wide] <= _LAST_BIT[narrow]
    return False


def loses_nothing(first: DType, middle: DType, last: DType) -> bool:
    """Whether converting first -> middle -> last is the same as first -> last for every value."""
    if not holds_all(first, middle):
        return False
    # An integer wraps on its way to an integer, and saturates on its way from a float to one.
    wraps = first.is_int and last.is_int and not middle.is_int
    return not wraps or holds_all(first, last)
