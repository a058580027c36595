"""Types: printing and reading, broadcasting, and the meeting of declared and inferred types."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.ir import dims
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ShapeError, VerificationError
from irc_compiler.ir.types import (
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    broadcast_shapes,
    compatible,
    from_json,
    merge,
    normalize_axis,
    parse_type,
    to_json,
)

N = dims.symbol("N")
T = dims.symbol("T")
W = dims.symbol("W", 1, 7)
F32 = DType.f32


def f32(*shape: dims.Dim) -> TensorType:
    return TensorType(F32, shape)


UNRANKED = TensorType(F32, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f32(N, 3), "f32[N, 3]"),
        (UNRANKED, "f32[...]"),
        (TensorType(DType.dynamic, ()), "dynamic[]"),
        (f32(dims.broadcast(N, T), N // 2), "f32[broadcast(N, T), N//2]"),
        (f32(dims.symbol("a, [b]"), T), "f32[`a, [b]`, T]"),
        (SequenceType(OptionalType(UNRANKED)), "seq(optional(f32[...]))"),
        (OptionalType(f32(dims.symbol("opt) x"))), "optional(f32[`opt) x`])"),
        (MapType(DType.i64, f32()), "map(i64, f32[])"),
        (SequenceType(MapType(DType.string, f32(N, 3))), "seq(map(string, f32[N, 3]))"),
    ],
)
def test_prints_and_reads(value: Type, text: str):
    assert str(value) == text and parse_type(text) == value
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


def test_parse_gives_symbols_their_bounds():
    assert parse_type("f32[W]", {"W": (1, 7)}) == f32(W) != parse_type("f32[W]")


@pytest.mark.parametrize(
    "text",
    ["", "f32", "f32[", "f32[N", "x32[3]", "f32[3,]", "f32[,]", "f32[3 4]", "seq(f32[])x",
     "f32[-1]", "seq(" * 40 + "f32[]" + ")" * 40, "f32[....]", "F32[1]",
     "map(i64)", "map(f32, f32[])", "map(x, f32[])",
     "map(i64, f32[]", "map(i64,, f32[])", "map(i64, " * 40 + "f32[]" + ")" * 40],
)  # fmt: skip
def test_parse_refuses(text: str):
    with pytest.raises(ShapeError):
        parse_type(text)


def _nested(levels: int) -> object:
    out: object = ["f32"]
    for _ in range(levels):
        out = ["seq", out]
    return out


@pytest.mark.parametrize(
    "x",
    [None, 3, "f32", [], [3], ["x"], [["f32"]], ["f32", 3], ["f32", [1.5]], ["f32", [-1]],
     ["f32", [1], [2]], ["f32", [1] * 65], ["seq"], ["seq", 3], ["seq", ["f32"], 1],
     ["f32", ["N"]], ["map", "i64"], ["map", ["f32"]], ["map", "f32", ["f32"]],
     ["map", 3, ["f32"]], ["map", "i64", "i64", ["f32"]], ["seq", "i64", ["f32"]],
     _nested(100_000), {"f32": 1}],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_from_json_refuses(x: object):
    with pytest.raises(VerificationError):
        from_json(x)


def test_properties():
    assert f32(2, 3).rank == 2 and f32().rank == 0 and UNRANKED.rank is None
    assert f32(2, 3).is_static and not f32(N).is_static and not UNRANKED.is_static
    assert not TensorType(DType.dynamic, (3,)).is_static
    assert f32(N, 3).element_count == 3 * N and f32().element_count == 1
    assert f32(0, 3).element_count == 0 and UNRANKED.element_count is None
    assert f32(np.int64(3)) == f32(3)
    assert f32(np.int64(3)).shape == (3,) and type((f32(np.int64(3)).shape or ())[0]) is int
    assert hash(f32(N, 3)) == hash(f32(N, 3))
    with pytest.raises(ShapeError, match="negative"):
        f32(-1)
    with pytest.raises(ShapeError, match="negative"):
        f32(-N - 1)
    with pytest.raises(TypeError):
        f32(1.5)  # type: ignore[arg-type]


def test_broadcast_shapes():
    assert broadcast_shapes() == ()
    assert broadcast_shapes((2, 3)) == (2, 3)
    assert broadcast_shapes((N, 1, 3), (T, 1)) == (N, T, 3)
    assert broadcast_shapes((N,), (4,)) == (4,)
    assert broadcast_shapes((N,), (T,), (1,)) == (dims.broadcast(N, T),)
    assert broadcast_shapes((0,), (1,)) == (0,)
    assert broadcast_shapes((2,), None) is None
    with pytest.raises(ShapeError) as caught:
        broadcast_shapes((2, 3), (N, 4), where="Add x")
    assert "[2, 3] and [N, 4]" in str(caught.value) and "Add x" in str(caught.value)
    with pytest.raises(ShapeError):
        broadcast_shapes((0,), (2,))


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4), max_size=4))
@settings(max_examples=200, deadline=None)
def test_broadcast_shapes_is_numpys(shapes: list[list[int]]):
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast_shapes(*map(tuple, shapes))
        return
    assert broadcast_shapes(*map(tuple, shapes)) == expected


def test_compatible():
    assert compatible(f32(N, 3), f32(2, 3)) and compatible(f32(N), f32(T))
    assert compatible(UNRANKED, f32(2)) and compatible(f32(2), UNRANKED)
    assert compatible(TensorType(DType.dynamic, (2,)), f32(2))
    assert not compatible(f32(2), f32(3)) and not compatible(f32(2), f32(2, 1))
    assert not compatible(f32(W), f32(8)) and not compatible(f32(N), f32(N + 1))
    assert not compatible(f32(2), TensorType(DType.i64, (2,)))
    assert not compatible(SequenceType(f32(2)), f32(2))
    assert not compatible(f32(2), SequenceType(f32(2)))
    assert not compatible(SequenceType(f32(2)), OptionalType(f32(2)))
    assert compatible(SequenceType(UNRANKED), SequenceType(f32(2)))
    assert not compatible(SequenceType(f32(3)), SequenceType(f32(2)))
    assert compatible(MapType(DType.i64, UNRANKED), MapType(DType.i64, f32()))
    assert not compatible(MapType(DType.i64, f32(3)), MapType(DType.i64, f32()))
    assert not compatible(MapType(DType.i64, f32()), MapType(DType.string, f32()))


def test_merge_keeps_the_more_precise():
    assert merge(f32(N, 3), f32(2, T)) == f32(2, 3)
    assert merge(f32(), UNRANKED) == f32() == merge(UNRANKED, f32())
    assert merge(TensorType(DType.dynamic, None), f32(N)) == f32(N)
    assert merge(f32(N), TensorType(DType.dynamic, None)) == f32(N)
    assert merge(f32(N), f32(T)) == f32(T)  # the inferred symbols have values
    assert merge(f32(W), f32(T)) == f32(W)  # but finite bounds are worth having
    assert merge(f32(T), f32(W)) == f32(W)
    assert merge(SequenceType(f32(N)), SequenceType(f32(2))) == SequenceType(f32(2))
    assert merge(OptionalType(f32(2)), OptionalType(f32(T))) == OptionalType(f32(2))
    more = MapType(DType.i64, f32(2))
    assert merge(MapType(DType.i64, f32(N)), more) == more
    with pytest.raises(ShapeError, match="contradicts") as caught:
        merge(f32(2), f32(3), where="node x")
    assert "f32[3]" in str(caught.value) and "node x" in str(caught.value)


def test_normalize_axis():
    assert [normalize_axis(a, 3) for a in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert type(normalize_axis(np.int64(-1), 2)) is int
    for axis, rank in ((3, 3), (-4, 3), (0, 0), (-1, 0)):
        with pytest.raises(ShapeError, match="axis is out of range"):
            normalize_axis(axis, rank, where="Concat c")
