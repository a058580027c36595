"""Element types of OpenVINO IR and ONNX: names, sizes, ranges and their NumPy equivalents."""

from __future__ import annotations

import enum
import math
from typing import Any, cast

import ml_dtypes
import numpy as np

from .lazy_dataclass import dataclass


@dataclass(frozen=True)
class _Facts:
    bits: int
    kind: str  # i signed integer, u unsigned integer, f float, c complex, b boolean, o other
    numpy: str | None  # attribute of numpy or, failing that, of ml_dtypes
    precision: str | None  # OpenVINO's upper-case name of a port's precision; None: not OpenVINO's


class DType(enum.Enum):
    """An element type; `.value` is OpenVINO's lower-case name (ours where OpenVINO has none).

    `f8e4m3` is the finite variant (0x7f is NaN, largest 448), ONNX's FLOAT8E4M3FN.
    """

    dynamic = "dynamic"
    boolean = "boolean"
    u1 = "u1"
    u2 = "u2"
    u3 = "u3"
    u4 = "u4"
    u6 = "u6"
    u8 = "u8"
    u16 = "u16"
    u32 = "u32"
    u64 = "u64"
    i2 = "i2"
    i4 = "i4"
    i8 = "i8"
    i16 = "i16"
    i32 = "i32"
    i64 = "i64"
    f16 = "f16"
    f32 = "f32"
    f64 = "f64"
    bf16 = "bf16"
    nf4 = "nf4"
    f8e4m3 = "f8e4m3"
    f8e5m2 = "f8e5m2"
    f8e4m3fnuz = "f8e4m3fnuz"
    f8e5m2fnuz = "f8e5m2fnuz"
    f4e2m1 = "f4e2m1"
    f8e8m0 = "f8e8m0"
    string = "string"
    c64 = "c64"
    c128 = "c128"

    # Members are compared by identity; the name's hash, which Enum takes, costs a call.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.value

    @property
    def bits(self) -> int:
        """Bits of one element in a file; 0 for dynamic and string."""
        return _FACTS[self].bits

    @property
    def is_float(self) -> bool:
        """A real floating-point type (nf4 included, complex not)."""
        return _FACTS[self].kind == "f"

    @property
    def is_int(self) -> bool:
        """A signed or unsigned integer; boolean is none."""
        return _FACTS[self].kind in "iu"

    @property
    def is_signed(self) -> bool:
        """Can it hold a negative number? (f8e8m0 cannot.)"""
        return _FACTS[self].kind in "ifc" and self is not DType.f8e8m0

    @property
    def is_complex(self) -> bool:
        return _FACTS[self].kind == "c"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The dtype of unpacked arrays, one element per item; object for string.

        u1, u3 and u6 have none: they are held in uint8. Nor has nf4: its codes are the one field
        of a record, so that they are not numbers to NumPy and cast_array knows them. TypeError for
        dynamic, and where the installed ml_dtypes is too old for the type.
        """
        if self is DType.nf4:
            return NF4_CODES
        name = _FACTS[self].numpy
        if name is None:
            raise TypeError(f"element type {self} has no NumPy equivalent")
        scalar = getattr(np, name, None) or getattr(ml_dtypes, name, None)
        if scalar is None:
            raise TypeError(f"element type {self} needs a newer ml_dtypes (it lacks {name})")
        return np.dtype(scalar)

    @staticmethod
    def from_numpy(dtype: object) -> DType:
        """The DType of a NumPy dtype (or what np.dtype accepts).

        TypeError where there is none, as for float128, datetime64 and a foreign byte order.
        """
        found: np.dtype[np.generic] = np.dtype(dtype)  # type: ignore[call-overload]
        if found == NF4_CODES:
            return DType.nf4
        if found.kind in "OUST":
            return DType.string
        name = found.name if found.isnative else ""
        if name not in _BY_NUMPY:
            raise TypeError(f"no element type for NumPy's {found}")
        return _BY_NUMPY[name]

    def nbytes(self, count: int) -> int:
        """Bytes of `count` elements, packed as in a .bin file; TypeError for dynamic and string."""
        if not self.bits:
            raise TypeError(f"elements of type {self} have no fixed size")
        return (count * self.bits + 7) // 8

    @property
    def ir_precision(self) -> str:
        """The name in a port's `precision` (FP32, BOOL, BIN, UNSPECIFIED, ...).

        Types that OpenVINO lacks have their `.value` in upper case; the writer refuses them.
        """
        return _FACTS[self].precision or self.value.upper()

    @property
    def in_openvino(self) -> bool:
        """Can OpenVINO IR name this type?"""
        return _FACTS[self].precision is not None

    @property
    def min(self) -> int | float:
        """The smallest finite value; TypeError for types without an order."""
        return self._range()[0]

    @property
    def max(self) -> int | float:
        """The largest finite value; TypeError for types without an order."""
        return self._range()[1]

    def _range(self) -> tuple[int | float, int | float]:
        if self.is_int:
            bits, signed = self.bits, self.is_signed
            return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if not self.is_float:
            raise TypeError(f"element type {self} has no smallest and largest number")
        if self is DType.nf4:
            return -1.0, 1.0
        if self is DType.f8e8m0:  # 2**(code - 127), 255 is NaN
            return math.ldexp(1.0, -127), math.ldexp(1.0, 127)
        info = cast(Any, ml_dtypes).finfo(self.numpy)
        return float(info.min), float(info.max)


_FACTS: dict[DType, _Facts] = {
    DType.dynamic: _Facts(0, "o", None, "UNSPECIFIED"),
    DType.boolean: _Facts(8, "b", "bool", "BOOL"),
    DType.u1: _Facts(1, "u", "uint8", "BIN"),
    DType.u2: _Facts(2, "u", "uint2", "U2"),
    DType.u3: _Facts(3, "u", "uint8", "U3"),
    DType.u4: _Facts(4, "u", "uint4", "U4"),
    DType.u6: _Facts(6, "u", "uint8", "U6"),
    DType.u8: _Facts(8, "u", "uint8", "U8"),
    DType.u16: _Facts(16, "u", "uint16", "U16"),
    DType.u32: _Facts(32, "u", "uint32", "U32"),
    DType.u64: _Facts(64, "u", "uint64", "U64"),
    DType.i2: _Facts(2, "i", "int2", None),
    DType.i4: _Facts(4, "i", "int4", "I4"),
    DType.i8: _Facts(8, "i", "int8", "I8"),
    DType.i16: _Facts(16, "i", "int16", "I16"),
    DType.i32: _Facts(32, "i", "int32", "I32"),
    DType.i64: _Facts(64, "i", "int64", "I64"),
    DType.f16: _Facts(16, "f", "float16", "FP16"),
    DType.f32: _Facts(32, "f", "float32", "FP32"),
    DType.f64: _Facts(64, "f", "float64", "FP64"),
    DType.bf16: _Facts(16, "f", "bfloat16", "BF16"),
    DType.nf4: _Facts(4, "f", "uint8", "NF4"),
    DType.f8e4m3: _Facts(8, "f", "float8_e4m3fn", "F8E4M3"),
    DType.f8e5m2: _Facts(8, "f", "float8_e5m2", "F8E5M2"),
    DType.f8e4m3fnuz: _Facts(8, "f", "float8_e4m3fnuz", None),
    DType.f8e5m2fnuz: _Facts(8, "f", "float8_e5m2fnuz", None),
    DType.f4e2m1: _Facts(4, "f", "float4_e2m1fn", "F4E2M1"),
    DType.f8e8m0: _Facts(8, "f", "float8_e8m0fnu", "F8E8M0"),
    DType.string: _Facts(0, "o", "object_", "STRING"),
    DType.c64: _Facts(64, "c", "complex64", None),
    DType.c128: _Facts(128, "c", "complex128", None),
}
NF4_CODES: np.dtype[np.void] = np.dtype([("nf4", np.uint8)])
# Types without a NumPy equivalent of their own are held as uint8, which is u8's.
_CODES = (DType.u1, DType.u3, DType.u6, DType.nf4, DType.string)
_BY_NUMPY = {f.numpy: t for t, f in _FACTS.items() if f.numpy is not None and t not in _CODES}

_ELEMENT_TYPES = {t.value: t for t in DType if t.in_openvino} | {"undefined": DType.dynamic}
_PRECISIONS = _ELEMENT_TYPES | {t.ir_precision: t for t in DType if t.in_openvino}
_PRECISIONS["U1"] = DType.u1


def parse_element_type(text: str) -> DType:
    """`element_type`, `destination_type`, ... of an IR: lower-case names, in any case.

    ValueError with the allowed names for anything else (FP32, BOOL, float, ...).
    """
    return _look_up("element type", text, text.lower(), _ELEMENT_TYPES)


def parse_precision(text: str) -> DType:
    """A port's `precision`: FP32, BOOL, BIN, ... or a lower-case element name, case as written.

    ValueError with the allowed names for anything else (F32, float, BOOLEAN, ...).
    """
    return _look_up("precision", text, text, _PRECISIONS)


def _look_up(what: str, text: str, key: str, table: dict[str, DType]) -> DType:
    try:
        return table[key]
    except KeyError:
        raise ValueError(f"unknown {what} {text[:80]!r}; allowed: {', '.join(table)}") from None
