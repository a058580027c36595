"""Finding operations by kind and operation set, and what every class must have."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import irc_compiler.ir.ops as o
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.op import Op
from irc_compiler.ir.serialization.dataclass_json import decode, encode


@pytest.mark.parametrize(
    ("kind", "opset", "cls"),
    [
        ("MatMul", 13, o.MatMul),
        ("matmul", 1, o.MatMul),
        ("Const", 1, o.Constant),
        ("ReLU", 8, o.Relu),
        ("PReLU", 8, o.PRelu),
        ("SoftMax", 7, o.Softmax1),
        ("SoftMax", 8, o.Softmax),
        ("Softmax", 16, o.Softmax),
        ("Gather", 6, o.Gather1),
        ("Gather", 7, o.Gather7),
        ("Gather", 13, o.Gather),
        ("MVN", 1, o.MVN2),
        ("MVN", 5, o.MVN2),
        ("MVN", 6, o.MVN),
        ("Gelu", 1, None),
        ("Gelu", 2, o.Gelu2),
        ("TopK", 10, o.TopK3),
        ("MaxPool", 13, o.MaxPool8),
        ("Squeeze", 15, o.Squeeze),
        ("Swish", 3, None),
        ("Gemm", 0, o.Gemm),
        ("Gemm", 13, None),
        ("FooMul", 1, None),
    ],
)
def test_find(kind: str, opset: int, cls: type[Op] | None) -> None:
    assert o.find(kind, opset) is cls


def test_a_name_that_is_no_operation_is_refused() -> None:
    with pytest.raises(AttributeError, match="irc_compiler.ir.ops' has no attribute 'MatMull'"):
        getattr(o, "MatMull")  # noqa: B009
    with pytest.raises(ImportError, match="MatMull"):
        exec("from irc_compiler.ir.ops import MatMull")


def test_kind_and_version_are_unique() -> None:
    keys = [(c.kind.lower(), c.version) for c in o.ALL_OPS]
    assert len(set(keys)) == len(keys)
    for cls in o.ALL_OPS:
        assert o.find_exact(cls.kind, cls.version) is cls


@pytest.mark.parametrize("cls", o.ALL_OPS, ids=lambda c: f"{c.kind}-{c.version}")
def test_classes_without_attributes_are_not_decorated(cls: type[Op]) -> None:
    """160 classes inherit what a dataclass has."""
    annotated = cls.__dict__.get("__annotations__", {})
    adds_attributes = any(f.name in annotated for f in dataclasses.fields(cls))
    joins_dataclasses = sum(map(dataclasses.is_dataclass, cls.__bases__)) > 1
    decorated = "__dataclass_params__" in cls.__dict__
    assert decorated == (adds_attributes or joins_dataclasses)


@pytest.mark.parametrize("cls", o.ALL_OPS, ids=lambda c: f"{c.kind}-{c.version}")
def test_declarations(cls: type[Op]) -> None:
    assert cls.kind and inspect.getdoc(cls)
    assert dataclasses.is_dataclass(cls)
    assert getattr(cls, "__dataclass_params__").frozen  # noqa: B009
    made: Any = object.__new__(cls)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.more = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.more
    names = [p.name for p in (*cls.inputs, *cls.outputs)]
    assert all(names)
    assert len({p.name for p in cls.inputs}) == len(cls.inputs)
    assert not any(p.variadic for p in cls.inputs[:-1])
    for attribute in cls.attributes():
        assert not isinstance(attribute.annotation, str)
    if "evaluate" not in dir(cls) or cls.evaluate is Op.evaluate:
        assert cls in (o.Parameter, o.TypedParameter)
    assert cls.infer is not Op.infer


@pytest.mark.parametrize(
    "op",
    [
        o.Gemm(alpha=0.5, activation="clip", activation_params=(-1.0, float("inf"))),
        o.Convert(DType.f16),
        o.AvgPool1((1,), (0,), (0,), (2,), exclude_pad=True),
        o.LSTMSequence(4, ("sigmoid", "tanh", "tanh"), clip=1.5),
        o.Parameter(DType.f32, (1, 2)),
        o.Parameter(DType.f32, None),
    ],
)
def test_attributes_survive_encoding(op: Op) -> None:
    assert decode(Op, encode(op)) == op


def test_operations_are_values() -> None:
    assert o.Softmax(1) == o.Softmax(1) != o.Softmax(2)
    assert hash(o.Gemm(alpha=2.0)) == hash(o.Gemm(alpha=2.0))
    assert o.Softmax(1) != o.Softmax1(1)
