"""Element types: the two vocabularies of OpenVINO IR, sizes in files, NumPy equivalents, ranges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType, parse_element_type, parse_precision

ELEMENT = """dynamic boolean u1 u2 u3 u4 u6 u8 u16 u32 u64 i4 i8 i16 i32 i64 f16 f32 f64 bf16 nf4
f8e4m3 f8e5m2 f4e2m1 f8e8m0 string""".split()
PRECISION = """UNSPECIFIED BOOL BIN U2 U3 U4 U6 U8 U16 U32 U64 I4 I8 I16 I32 I64 FP16 FP32 FP64 BF16
NF4 F8E4M3 F8E5M2 F4E2M1 F8E8M0 STRING""".split()


@pytest.mark.parametrize(("element", "precision"), list(zip(ELEMENT, PRECISION, strict=True)))
def test_both_vocabularies_name_the_same_type(element: str, precision: str):
    dtype = DType(element)
    assert parse_element_type(element) is parse_element_type(element.upper()) is dtype
    assert parse_precision(precision) is parse_precision(element) is dtype
    assert dtype.ir_precision == precision and str(dtype) == element and dtype.in_openvino


def test_aliases():
    assert parse_precision("U1") is DType.u1
    assert parse_element_type("Undefined") is parse_precision("undefined") is DType.dynamic


@pytest.mark.parametrize(
    "text", ["F32", "F16", "float", "int32", "bool", "BOOLEAN", "", "fp32", "I2", "DYNAMIC", "c64"]
)
def test_precision_refuses(text: str):
    with pytest.raises(ValueError, match=r"allowed: .*boolean.*FP32"):
        parse_precision(text)


@pytest.mark.parametrize(
    "text",
    ["FP32", "FP16", "FP64", "BOOL", "bool", "BIN", "float", "int32", "", "i2", "c64", "f32 "],
)
def test_element_type_refuses(text: str):
    with pytest.raises(ValueError, match=r"allowed: .*boolean.*f32") as caught:
        parse_element_type(text)
    assert "FP32," not in str(caught.value)


def test_numpy_round_trip():
    held_as_codes = {DType.u1, DType.u3, DType.u6}
    for dtype in set(DType) - held_as_codes - {DType.dynamic}:
        assert DType.from_numpy(dtype.numpy) is dtype
    for dtype in held_as_codes:
        assert dtype.numpy == np.uint8
    assert DType.f8e4m3.numpy == ml_dtypes.float8_e4m3fn
    assert DType.from_numpy(np.dtype("U3")) is DType.from_numpy(bytes) is DType.string
    assert DType.from_numpy(np.bool_) is DType.boolean
    with pytest.raises(TypeError, match="dynamic"):
        _ = DType.dynamic.numpy
    for bad in ("datetime64[s]", np.longdouble, ">f4", [("a", "f4")]):
        with pytest.raises(TypeError, match="no element type"):
            DType.from_numpy(bad)


@pytest.mark.parametrize(
    ("dtype", "count", "nbytes"),
    [("f32", 3, 12), ("u4", 3, 2), ("i4", 0, 0), ("u1", 9, 2), ("u3", 8, 3), ("u6", 4, 3),
     ("boolean", 5, 5), ("nf4", 1, 1), ("c128", 2, 32), ("f4e2m1", 7, 4), ("f8e8m0", 7, 7)],
)  # fmt: skip
def test_packed_size(dtype: str, count: int, nbytes: int):
    assert DType(dtype).nbytes(count) == nbytes


def test_no_packed_size():
    for dtype in (DType.string, DType.dynamic):
        with pytest.raises(TypeError, match="no fixed size"):
            dtype.nbytes(3)


def test_kinds():
    assert {t.value for t in DType if t.is_int} == set(
        "u1 u2 u3 u4 u6 u8 u16 u32 u64 i2 i4 i8 i16 i32 i64".split()
    )
    assert {t.value for t in DType if t.is_float} == set(
        "f16 f32 f64 bf16 nf4 f8e4m3 f8e5m2 f8e4m3fnuz f8e5m2fnuz f4e2m1 f8e8m0".split()
    )
    assert DType.i2.is_signed and DType.f4e2m1.is_signed and DType.c64.is_signed
    assert not (DType.u8.is_signed or DType.boolean.is_signed or DType.f8e8m0.is_signed)
    assert [t for t in DType if t.is_complex] == [DType.c64, DType.c128]


def test_ranges():
    for dtype in DType:
        if not (dtype.is_int or dtype.is_float):
            with pytest.raises(TypeError):
                _ = dtype.min
    for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
        info = np.iinfo(DType(name).numpy)
        assert (DType(name).min, DType(name).max) == (info.min, info.max)
    for name in ("i2", "i4", "u2", "u4"):
        info = ml_dtypes.iinfo(DType(name).numpy)
        assert (DType(name).min, DType(name).max) == (info.min, info.max)
    assert (DType.u1.max, DType.u3.max, DType.u6.max) == (1, 7, 63)
    assert DType.f16.max == 65504 == -DType.f16.min
    assert DType.f32.max == np.finfo(np.float32).max and DType.f8e4m3.max == 448
    assert (DType.f8e5m2.max, DType.f8e4m3fnuz.max, DType.f4e2m1.max) == (57344, 240, 6)
    for code, value in ((0, DType.f8e8m0.min), (254, DType.f8e8m0.max)):
        assert np.uint8(code).view(ml_dtypes.float8_e8m0fnu).astype(np.float64) == value
