"""Broken tensors in ONNX files: one error that says which, where, got and expected."""

from __future__ import annotations

import pytest
from irc_compiler.ir.errors import ModelFormatError
from onnx import TensorProto
from support.frontends.onnx_broken import model_of, node, refused, tensor

BROKEN_TENSORS: dict[str, tuple[TensorProto, str]] = {
    "no data": (tensor(), "no data"),
    "short": (tensor(raw_data=bytes(20)), "20 bytes"),
    "long": (tensor(raw_data=bytes(25)), "24 bytes"),
    "short field": (tensor(float_data=[1.0] * 5), "5 values"),
    "two payloads": (tensor(raw_data=bytes(24), float_data=[1.0] * 6), "twice"),
    "wrong field": (tensor(int64_data=[1] * 6), "field of another type"),
    "negative size": (tensor(dims=[-2, -3], raw_data=bytes(24)), "negative size"),
    "overflow": (tensor(dims=[2**40, 2**40], raw_data=bytes(24)), "overflows"),
    "overflow besides 0": (tensor(dims=[2**40, 0, 2**40]), "overflows"),
    "overflow of 16 bytes": (tensor(data_type=15, dims=[0, 2**59]), "overflows"),
    "many axes": (tensor(dims=[1] * 70, raw_data=bytes(4)), "too many axes"),
    "unknown type": (tensor(data_type=99, raw_data=bytes(24)), "unknown element type"),
    "no type": (tensor(data_type=0, raw_data=bytes(24)), "unknown element type"),
    "strings as bytes": (tensor(data_type=8, raw_data=bytes(24)), "string_data"),
    "not UTF-8": (tensor(data_type=8, dims=[1], string_data=[b"\xff"]), "UTF-8"),
    "f16 bits": (tensor(data_type=10, dims=[1], int32_data=[70000]), "0..65535 for f16"),
    "i8 in wider integers": (
        tensor(data_type=3, dims=[2], int32_data=[-128, 300]),
        "got: 300\n  expected: -128..127 for i8",
    ),
    "u32 in wider integers": (
        tensor(data_type=12, dims=[1], uint64_data=[1 << 32]),
        "expected: 0..4294967295 for u32",
    ),
}


@pytest.mark.parametrize("name", BROKEN_TENSORS)
def test_broken_tensors(name: str) -> None:
    broken, part = BROKEN_TENSORS[name]
    model = model_of([node("Add", ["x", "w"], ["y"])], ["y"], [broken])
    refused(model, ModelFormatError, part, 'initialiser "w"')
    inside = model_of([node("Constant", [], ["y"], value=broken, name="c")], ["y"])
    refused(inside, ModelFormatError, part, '"c"', "'value'")


def test_a_constant_has_one_value() -> None:
    two = node("Constant", [], ["y"], value_int=1, value_float=1.0)
    refused(model_of([two], ["y"]), ModelFormatError, "value_float, value_int")
    refused(model_of([node("Constant", [], ["y"])], ["y"]), ModelFormatError, "none")
