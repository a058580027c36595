"""Values as JSON and back: exact, and distrustful of what is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from irc_compiler.ir.dims import Expr, symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import Clamp, Exp, Gemm, Parameter, TypedParameter
from irc_compiler.ir.scalar.program import Instr, Program
from irc_compiler.ir.serialization.dataclass_json import decode, encode
from irc_compiler.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Spec
from irc_compiler.plan.specs.elementwise import ElementwiseSpec

N = symbol("N", 1, 9)


class Colour(Enum):
    red = "r"
    green = "g"


@dataclass(frozen=True)
class Inner:
    size: int | Expr
    ratio: float = 0.5


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    many: tuple[Inner, ...]
    pair: tuple[int, str]
    colour: Colour = Colour.red


OUTER = Outer(Inner(2 * N + 1), (Inner(3, float("inf")), Inner(N, -0.0)), (7, "x"), Colour.green)
PROGRAM = Program((Instr("input", (0,), DType.f32), Instr("const", (), DType.f32, 0.5)), (0, 1))
VALUES: list[tuple[Any, Any]] = [
    (Outer, OUTER),
    (Outer, Outer(None, (), (0, ""))),
    (Op, Gemm(alpha=0.1, activation="clip", activation_params=(-1.0, float("inf")))),
    (Op, Clamp(-1.0, 6.0)),
    (Op, Parameter(DType.f32, (N, 3))),
    (Op, Parameter(DType.f32, None)),
    (Op, TypedParameter(SequenceType(OptionalType(TensorType(DType.i64, (N,)))))),
    (Type, TensorType(DType.f16, None)),
    (Type, OptionalType(TensorType(DType.f16, (2,)))),
    (Type, MapType(DType.string, TensorType(DType.f32, ()))),
    (Program, PROGRAM),
    (
        Spec,
        ElementwiseSpec(
            (RuntimeDim(0), 4),
            (Operand(DType.f32, (4, 1)),),
            (Operand(DType.f32, (RuntimeDim(1), 1), 8),),
            PROGRAM,
        ),
    ),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES)
def test_values_survive(annotation: Any, value: Any) -> None:
    text = json.dumps(encode(value))
    found = decode(annotation, json.loads(text))
    assert found == value and repr(found) == repr(value)
    assert json.dumps(encode(found)) == text


@given(st.floats())
def test_any_float_survives(value: float) -> None:
    found = decode(float, json.loads(json.dumps(encode(value))))
    assert repr(found) == repr(value)


def test_numbers_keep_their_kind() -> None:
    for value in (1, 1.0, True, None, -(2**63), 2**64 - 1):
        found = decode(int | float | None, encode(value))
        assert found == value and type(found) is type(value)
    assert decode(float, 3) == 3.0 and type(decode(float, 3)) is float


def changed(**fields: Any) -> dict[str, Any]:
    return {**encode(OUTER), **fields}


def without(name: str) -> dict[str, Any]:
    data = encode(OUTER)
    del data[name]
    return data


INNER = {"$": "Inner", "size": 1, "ratio": 0.5}
BROKEN: list[tuple[Any, Any]] = [
    (int, True),
    (int, 1.0),
    (int, 2**63),
    (int, "1"),
    (bool, 1),
    (str, 3),
    (str, "\ud800"),
    (float, "nan"),
    (float, {"float": "1"}),
    (float, {"float": []}),
    (float, {"float": "nan", "more": 1}),
    (float, True),
    (float, 10**400),
    (Expr, 3),
    (Expr, {"dim": 3}),
    (Expr, {"dim": ["+"]}),
    (Expr, {"dim": {}}),
    (TensorType, {"type": ["seq", ["f32"]]}),
    (MapType, {"type": ["map", "f32", ["f32"]]}),
    (TensorType, {"type": 3}),
    (DType, "f33"),
    (DType, ["f32"]),
    (Colour, True),
    (Colour, "red"),
    (tuple[int, str], [1]),
    (tuple[int, str], [1, "a", 2]),
    (tuple[int, ...], {"0": 1}),
    (tuple[int, ...], "12"),
    (Outer, None),
    (Outer, []),
    (Outer, {}),
    (Outer, changed(**{"$": "Inner"})),
    (Outer, changed(extra=1)),
    (Outer, without("pair")),
    (Outer, changed(inner={**INNER, "size": "N"})),
    (Outer, changed(inner={**INNER, "size": None})),
    (Outer, changed(many=[None])),
    (Outer, changed(many=None)),
    (Op, {"$": "Nothing.1"}),
    (Op, {"$": "Exp"}),
    (Op, {"$": "Exp.x"}),
    (Op, {"$": "Exp." + "9" * 5000}),
    (Op, {"$": 3}),
    (Op, {"$": "Exp.1", "more": 1}),
    (Op, {"$": "Clamp.1", "min": 0.0, "max": "1"}),
    (Op, encode(PROGRAM)),
    (Spec, {"$": "Program"}),
    (Spec, encode(Exp())),
    (Spec, {"$": "__class__"}),
    (int, 2**63),
    (int | float | None, 2**64),
    (int | float | None, -(2**63) - 1),
]


@pytest.mark.parametrize(("annotation", "data"), BROKEN)
def test_what_is_broken_is_refused(annotation: Any, data: Any) -> None:
    with pytest.raises(VerificationError):
        decode(annotation, data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$", "dim", "type", "float", "size", "a"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    JSON, st.sampled_from([Outer, Op, Spec, Program, int | float | None, Expr, TensorType, DType])
)
def test_anything_is_read_or_refused(data: Any, annotation: Any) -> None:
    try:
        decode(annotation, data)
    except VerificationError:
        pass


def test_only_data_can_be_written() -> None:
    for value in (object(), {"a": 1}, {1}, b"x", int):
        with pytest.raises(VerificationError, match="cannot be written"):
            encode(value)
    with pytest.raises(VerificationError, match="cannot be read"):
        decode(dict[str, int], {})
