"""Inference: symbolic sizes, unknown ranks, shape arithmetic, and errors that name the rule."""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.ir.dims import eq, evaluate, plain_symbol, symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, ShapeError, UnsupportedOperationError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.op import Fact, Op
from irc_compiler.ir.ops.nn.interpolate import scaled_size
from irc_compiler.ir.types import TensorType, parse_type

N, S = symbol("N", 1), symbol("S", 1)


def fact(text: str) -> Fact:
    return Fact(parse_type(text, {"N": (1, None), "S": (1, None)}))


def known(values: Any, dtype: Any = np.int64) -> Fact:
    listed = np.empty(len(values), object) if isinstance(values, list) else None
    if listed is not None and any(not isinstance(v, int) for v in values):
        listed[:] = values
        return Fact(TensorType(DType.i64, (len(values),)), listed)
    array = np.array(values, dtype)
    return Fact(TensorType(DType.from_numpy(array.dtype), array.shape), array)


NO_SCALE = Fact(parse_type("f32[1]"), np.array([np.nan], np.float32))


def shape_of(op: Op, *facts: Fact | None) -> str:
    (type_,) = op.infer(*op.slots(list(facts)))
    return str(type_)


MATMUL = [
    ("f32[1024]", "f32[1024, 1000]", False, False, "f32[1000]"),
    ("f32[4]", "f32[5, 4]", False, True, "f32[5]"),
    ("f32[4]", "f32[4, 5]", True, False, "f32[5]"),
    ("f32[5, 4]", "f32[4]", False, False, "f32[5]"),
    ("f32[4, 5]", "f32[4]", True, False, "f32[5]"),
    ("f32[4, 5]", "f32[5]", False, True, "f32[4]"),
    ("f32[N, 4]", "f32[4]", False, False, "f32[N]"),
    ("f32[4]", "f32[4]", True, True, "f32[]"),
    ("f32[4]", "f32[4, 1]", False, False, "f32[1]"),
    ("f32[4]", "f32[2, 4, 5]", False, False, "f32[2, 5]"),
    ("f32[2, 3, 5, 4]", "f32[4]", False, False, "f32[2, 3, 5]"),
    ("f32[2, 1, 3, 4]", "f32[7, 4, 5]", False, False, "f32[2, 7, 3, 5]"),
    ("f32[N]", "f32[4, 5]", False, False, "f32[5]"),
    ("f32[...]", "f32[4, 5]", False, False, "f32[...]"),
    ("f32[N, S, 8]", "f32[8, 3]", False, False, "f32[N, S, 3]"),
    ("f32[N, S, 8]", "f32[N, S, 8]", False, True, "f32[N, S, S]"),
]


@pytest.mark.parametrize(("a", "b", "ta", "tb", "out"), MATMUL)
def test_matmul(a: str, b: str, ta: bool, tb: bool, out: str) -> None:
    assert shape_of(o.MatMul(ta, tb), fact(a), fact(b)) == out


REFUSED: list[tuple[Op, list[Fact | None], str]] = [
    (o.MatMul(), [fact("f32[]"), fact("f32[4]")], "no scalars"),
    (o.MatMul(), [fact("f32[2, 3]"), fact("f32[4, 5]")], "inner sizes"),
    (o.MatMul(), [fact("f32[2, 3, 4]"), fact("f32[3, 4, 5]")], "batch sizes"),
    (o.MatMul(), [fact("f32[2, 3]"), fact("f16[3, 5]")], "one element type"),
    (o.MatMul(), [fact("boolean[2, 3]"), fact("boolean[3, 5]")], "needs numbers"),
    (o.Gemm(), [fact("f32[3]"), fact("f32[3, 5]"), None], "too few axes"),
    (o.Gemm(), [fact("f32[2, 3]"), fact("f32[3, 5]"), fact("f32[3, 5]")], "C does not broadcast"),
    (o.Gemm(), [fact("f32[2, 3]"), fact("f32[3, 5]"), fact("f32[7, 1, 1]")], "C does not"),
    (o.Gemm(), [fact("f32[2, 3]"), fact("f32[3, 1]"), fact("f32[5]")], "C does not broadcast"),
    (o.Gemm(activation="tanh"), [fact("i32[2, 3]"), fact("i32[3, 5]")], "needs floats"),
    (o.Gemm(activation="relu", activation_params=(1.0,)), [fact("f32[2, 3]"), fact("f32[3, 5]")],
     "too many parameters"),
    (o.Add(), [fact("f32[2, 3]"), fact("f32[4, 3]")], "do not broadcast"),
    (o.Add(), [fact("f32[2]"), fact("i32[2]")], "one element type"),
    (o.Add("none"), [fact("f32[2, 3]"), fact("f32[3]")], "does not broadcast"),
    (o.LogicalAnd(), [fact("f32[2]"), fact("f32[2]")], "element type"),
    (o.Softmax(3), [fact("f32[2, 3]")], "axis is out of range"),
    (o.Reshape(), [fact("f32[2, 3]"), known([4, -1])], "integer"),
    (o.Reshape(), [fact("f32[2, 3]"), known([-1, -1])], "one -1"),
    (o.Reshape(), [fact("f32[2, 3]"), known([7])], "number of elements"),
    (o.Reshape(True), [fact("f32[2]"), known([2, 0])], "input lacks"),
    (o.Transpose(), [fact("f32[2, 3]"), known([0, 0])], "listed twice"),
    (o.Transpose(), [fact("f32[2, 3]"), known([0])], "every axis"),
    (o.Squeeze1(), [fact("f32[2, 3]"), known([1])], "size 1"),
    (o.Concat(0), [fact("f32[2, 3]"), fact("f32[2, 4]")], "only on the axis"),
    (o.Concat(0), [fact("f32[2, 3]"), fact("f32[2]")], "one rank"),
    (o.Split(2), [fact("f32[3]"), known(0)], "equal parts"),
    (o.VariadicSplit(num_outputs=2), [fact("f32[5]"), known(0), known([2, 2])], "sum to the axis"),
    (o.VariadicSplit(num_outputs=3), [fact("f32[5]"), known(0), known([2, 3])], "in number"),
    (o.VariadicSplit(num_outputs=0), [fact("f32[0]"), known(0), known([])], "at least one part"),
    (o.Slice(), [fact("f32[5]"), known([0]), known([2]), known([0])], "step 0"),
    (o.StridedSlice(), [fact("f32[5]"), known([0]), known([2, 3]), None], "differ in length"),
    (o.StridedSlice(shrink_axis_mask=(1,)), [fact("f32[3]"), *[known([3])] * 2], "an index lies"),
    (o.StridedSlice(shrink_axis_mask=(1,)), [fact("f32[3]"), *[known([-4])] * 2], "an index lies"),
    (o.Gather(), [fact("f32[5]"), fact("f32[2]"), known(0)], "element type"),
    (o.Gather(), [fact("f32[]"), fact("i64[2]"), known(0)], "nothing to gather"),
    (o.Broadcast(), [fact("f32[3]"), known([2, 4])], "does not broadcast"),
    (o.Broadcast(), [fact("f32[2, 3]"), fact("i64[1]")], "more axes than the target"),
    (o.Broadcast("explicit"), [fact("f32[2]"), known([2, 3]), fact("i64[2]")], "each axis of the"),
    (o.Pad(), [fact("f32[2]"), known([1]), known([1]), fact("f32[2]")], "a single number"),
    (o.Pad("edge"), [fact("f32[2]"), known([1]), known([1]), fact("f32[0, N]")], "a single number"),
    (o.RandomUniform(DType.f32), [known([2]), *[fact("f32[2]")] * 2], "a single number"),
    (o.ScaledDotProductAttention(), [*[fact("f32[2, 3]")] * 3, None, fact("f32[4]")], "a single"),
    (
        o.ScaledDotProductAttention(),
        [*[fact("f32[2, 3]")] * 3, None, None, fact("f32[2, 3]")],
        "not one score per query",
    ),
    (o.Attention(), [fact("u8[2, 4]"), *[fact("f32[2, 4]")] * 2], "'key'"),
    (o.Attention(), [*[fact("u8[2, 4]")] * 3], "element type"),
    (
        o.Attention(),
        [*[fact("u8[2, 4]")] * 2, fact("f32[2, 4]"), None, None, fact("i8[]")],
        "'query_zero'",
    ),
    (
        o.Attention(),
        [*[fact("u8[2, 4]")] * 2, fact("f32[2, 4]"), None, None, None, fact("u8[2]")],
        "key_zero is a single number",
    ),
    (
        o.Attention(),
        [*[fact("f32[2, 4]")] * 3, None, None, None, fact("f32[1, 4]")],
        "only bytes have zero points",
    ),
    (o.Col2Im((0, 1)), [fact("f32[1, 4, 4]"), *[known([2, 2])] * 2], "strides are two numbers"),
    (o.Col2Im(pads_end=(1,)), [fact("f32[1, 4, 4]"), *[known([2, 2])] * 2], "pads_end are two"),
    (o.Col2Im(), [fact("f32[1, 4, 4]"), known([2, 2]), known([2])], "two sizes"),
    (o.DFT(), [fact("f32[3, 4, 2]"), known([1]), known([4, 4])], "differ in length"),
    (o.RDFT(), [fact("f32[3, 4]"), known([1]), known([0])], "a signal has 1 value or more"),
    (o.RDFT(), [fact("f32[3, 4]"), known([])], "one axis or more"),
    (o.IRDFT(), [fact("f32[3, 4, 2]"), known([])], "one axis or more"),
    (o.Squeeze(), [fact("f32[3, 1]"), fact("f32[1]")], "element type"),
    (o.ScatterNDUpdate(), [fact("f32[2, 8]"), fact("i64[1]"), fact("f32[2, 8]")], "do not fit"),
    (o.ScatterNDUpdate(), [fact("f32[2, 8]"), fact("i64[1]"), fact("f32[7]")], "do not fit"),
    (o.ScatterUpdate(), [fact("f32[2]"), fact("i64[1]"), fact("f32[3]"), known(0)], "do not fit"),
    (o.ScatterElementsUpdate(), [*[fact("i64[2]")] * 3, known([0, 0])], "a single number"),
    (o.ScatterElementsUpdate(), [*[fact("i64[2]")] * 3, known([1])], "axis"),
    (o.TopK(0, "max", "value", DType.f32), [fact("f32[3]"), known(1)], "integers"),
    (o.AdaptiveMaxPool(), [fact("f32[3]"), fact("i64[N]")], "wrong rank"),
    (o.AdaptiveMaxPool(), [fact("f32[3, 2, 4]"), fact("f32[1]")], "element type"),
    (o.OneHot(), [fact("i64[2]"), known(3), fact("f32[2]"), fact("f32[]")], "a single number"),
    (o.Range(DType.i64), [known(0), known(3), known(0)], "step 0"),
    (o.TopK(0, "max", "value"), [fact("f32[3]"), fact("i64[2]")], "k is a single number"),
    (o.CumSum(), [fact("f32[3]"), fact("i64[2]")], "a single number"),
    (o.ReduceSum(), [fact("f32[2, 3]"), known([0, -2])], "listed twice"),
    (o.Convolution((1, 1)), [fact("f32[1, 3, 8, 8]"), fact("f32[4, 2, 3, 3]")], "channels"),
    (o.Convolution((1, 1)), [fact("f32[1, 3, 2, 2]"), fact("f32[4, 3, 3, 3]")], "larger than"),
    (o.BatchNormInference(0.1), [fact("f32[1, 3]"), *[fact("f32[2]")] * 4], "per channel"),
    (o.LayerNorm(), [fact("f32[2, 3]"), fact("f32[4]"), None], "does not broadcast to the data"),
    (o.FakeQuantize(1), [fact("f32[2]"), *[fact("f32[]")] * 4], "needs levels"),
    (o.TopK(5, "max", "value"), [fact("f32[2, 3]"), known(1)], "out of range"),
    (o.Interpolate("cubic", "sizes"), [fact("f32[2]"), fact("f32[1]"), None], "'sizes' has"),
    (o.Interpolate("cubic", "scales"), [fact("f32[2]"), fact("i64[1]"), None], "'scales' has"),
    (o.Interpolate("cubic", "sizes"), [fact("f32[2, 3]"), fact("i64[1]"), None], "one number per"),
    (o.Interpolate("cubic", "sizes"), [fact("f32[2]"), known([-1]), None], "is negative"),
    (o.Interpolate("cubic", "scales"), [fact("f32[2]"), NO_SCALE, None], "makes no size"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "facts", "rule"), REFUSED, ids=lambda x: getattr(x, "kind", ""))
def test_refusals_name_the_rule(op: Op, facts: list[Fact | None], rule: str) -> None:
    with pytest.raises(ShapeError) as caught:
        op.infer(*op.slots(list(facts)))
    assert rule in str(caught.value)


def test_unknown_activation_and_mode() -> None:
    with pytest.raises(UnsupportedOperationError, match="activation"):
        o.Gemm(activation="magic").infer(fact("f32[2, 3]"), fact("f32[3, 5]"))
    with pytest.raises(UnsupportedOperationError, match="auto_broadcast"):
        o.Add("pdpd").infer(fact("f32[2]"), fact("f32[2]"))


@pytest.mark.parametrize(
    ("target", "out"),
    [
        ([0, 0, 8, -1], "f32[N, S, 8, 8]"),
        ([-1, 64], "f32[N*S, 64]"),
        ([N, S * 64], "f32[N, 64*S]"),
        ([N * S, -1], "f32[N*S, 64]"),
        ([-1], "f32[64*N*S]"),
        ([2, -1], "f32[2, 32*N*S]"),
    ],
)
def test_reshape_of_symbolic_sizes(target: list[Any], out: str) -> None:
    assert shape_of(o.Reshape(True), fact("f32[N, S, 64]"), known(target)) == out


def test_reshape_of_a_size_that_may_be_zero() -> None:
    batch = symbol("M")
    data = Fact(TensorType(DType.f32, (batch, 32)))
    assert shape_of(o.Reshape(), data, known([batch, 8, -1])) == "f32[M, 8, 4]"
    # Axes of nothing cancel as their symbols would, so that a run finds what was compiled.
    assert shape_of(o.Reshape(), fact("f32[0, 3]"), known([0, -1])) == "f32[0, 3]"


def test_reshape_with_unknown_parts() -> None:
    assert shape_of(o.Reshape(), fact("f32[N, 4]"), fact("i64[1]")) == "f32[4*N]"
    assert shape_of(o.Reshape(), fact("f32[N, 4]"), fact("i64[N]")) == "f32[...]"
    (type_,) = o.Reshape().infer(fact("f32[...]"), known([2, -1]))
    assert type_.shape is not None and type_.shape[0] == 2 and not isinstance(type_.shape[1], int)


def test_unknown_sizes_are_fresh_and_named_by_scope() -> None:
    def sizes() -> list[str]:
        with o.naming("7"):
            (type_,) = o.Reshape().infer(fact("f32[N, 4]"), fact("i64[3]"))
        return [str(d) for d in type_.shape or ()]

    assert sizes() == sizes() == ["_7_0", "_7_1", "_7_2"]
    assert o.fresh_symbol(o.NonZero(), 3, 3) == 3
    first, second = (o.NonZero().infer(fact("f32[N]"))[0] for _ in range(2))
    assert eq(first.shape[1], second.shape[1]) is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("start", "stop", "step", "out"),
    [
        (0, 2**63 - 1, 1, "f32[S]"),
        (1, 2**31 - 1, 1, "f32[S - 1]"),
        (0, -1, 1, "f32[S - 1]"),
        (-1, 2**63 - 1, 1, "f32[1]"),
        (-1, -(2**63), -1, "f32[S]"),
        (0, S, 1, "f32[S]"),
        (0, 2**63 - 1, 2, "f32[(S + 1)//2]"),
    ],
)
def test_slice_of_a_symbolic_axis(start: Any, stop: Any, step: int, out: str) -> None:
    assert shape_of(o.Slice(), fact("f32[S]"), known([start]), known([stop]), known([step])) == out


def test_split_and_concat_of_symbolic_axes() -> None:
    types = o.Split(3).infer(fact("f32[N, 3*S]"), known(1))
    assert [str(t) for t in types] == ["f32[N, S]"] * 3
    types = o.VariadicSplit(num_outputs=2).infer(fact("f32[S]"), known(0), known([-1, 1]))
    assert [str(t) for t in types] == ["f32[S - 1]", "f32[1]"]
    assert shape_of(o.Concat(0), fact("f32[N, 3]"), fact("f32[S, 3]")) == "f32[N + S, 3]"


def test_reductions_with_axes_that_are_not_known() -> None:
    (kept,) = o.ReduceSum(True).infer(fact("f32[2, 3]"), fact("i64[1]"))
    assert kept.shape is not None and len(kept.shape) == 2
    (gone,) = o.ReduceSum(False).infer(fact("f32[2, 3]"), fact("i64[1]"))
    assert gone.shape is not None and len(gone.shape) == 1
    assert shape_of(o.ReduceSum(False), fact("f32[2, 3]"), fact("i64[N]")) == "f32[...]"


def test_convolution_of_symbolic_sizes() -> None:
    conv = o.Convolution((2, 2), (1, 1), (1, 1), (1, 1))
    out = shape_of(conv, fact("f32[N, 3, S, 8]"), fact("f32[4, 3, 3, 3]"))
    assert out == "f32[N, 4, (S + 1)//2, 4]"
    pool = o.MaxPool1((2, 2), (0, 0), (0, 0), (2, 2))
    assert shape_of(pool, fact("f32[N, 3, 2*S, 8]")) == "f32[N, 3, S, 4]"


class Build:
    """A small graph by calls."""

    def __init__(self) -> None:
        self.graph = Graph()

    def __call__(self, op: Op, *inputs: Value | Any) -> Value:
        values = [v if isinstance(v, Value) else self.constant(v) for v in inputs]
        return Value(self.graph.add(op, values))

    def constant(self, data: Any) -> Value:
        array = np.asarray(data)
        return Value(self.graph.add(o.Constant.of(array, DType.from_numpy(array.dtype))))

    def type_of(self, value: Value) -> str:
        infer_graph(self.graph)
        return str(self.graph.type(value))


def test_shape_arithmetic_of_exporters() -> None:
    """Shape -> Gather -> arithmetic -> Concat -> Reshape, as PyTorch writes it."""
    b = Build()
    x = b(o.Parameter(DType.f32, (N, S, 64)))
    shape = b(o.ShapeOf(), x)
    batch = b(o.Unsqueeze(), b(o.Gather(), shape, 0, 0), [0])
    length = b(o.Slice(), shape, [1], [2], [1], [0])
    heads = b(o.Divide(), b(o.Gather(), shape, [2], 0), [8])
    target = b(o.Concat(0), batch, length, np.array([8]), heads)
    y = b(o.Transpose(), b(o.Reshape(), x, target), [0, 2, 1, 3])
    assert b.type_of(y) == "f32[N, 8, S, 8]"
    flat = b(o.Reshape(), y, b(o.Concat(0), b(o.Multiply(), batch, length), np.array([-1])))
    assert b.type_of(flat) == "f32[N*S, 64]"
    total = b(o.ReduceProd(True), shape, [0])
    assert b.type_of(b(o.Reshape(), x, total)) == "f32[64*N*S]"


def test_shape_arithmetic_through_select_and_comparisons() -> None:
    """torch's expand: where(target == -1, shape, target), then Broadcast."""
    b = Build()
    x = b(o.Parameter(DType.f32, (N, 1, 4)))
    ones = b(o.Broadcast(), 1, b(o.ShapeOf(DType.i32), b(o.ShapeOf(DType.i32), x)))
    shape = b(o.ShapeOf(), x)
    wanted = b(o.Concat(0), b(o.Gather(), shape, [0], 0), np.array([7, -1]))
    chosen = b(o.Select(), b(o.Equal(), wanted, np.array([-1])), shape, wanted)
    y = b(o.Broadcast("bidirectional"), x, chosen)
    assert b.type_of(y) == "f32[N, 7, 4]"
    assert b.graph.known_value(ones) is not None


def test_shape_arithmetic_in_other_types() -> None:
    b = Build()
    x = b(o.Parameter(DType.f32, (N, S)))
    small = b(o.Convert(DType.i32), b(o.ShapeOf(), x))
    top = b(o.Maximum(), small, np.array([1, 1], np.int32))
    y = b(o.Broadcast(), np.float32(0), b(o.Add(), top, np.array([0, 1], np.int32)))
    assert b.type_of(y) == "f32[N, S + 1]"
    stop = b(o.Squeeze1(), b(o.Gather(), small, [1], 0), [0])
    ids = b(o.Range(DType.i64), np.array(0, np.int32), stop, np.array(1, np.int32))
    assert b.type_of(ids) == "i64[S]"


def test_what_cannot_be_decided_is_unknown() -> None:
    b = Build()
    x = b(o.Parameter(DType.f32, (symbol("M"), 4)))
    less = b(o.Less(), b(o.ShapeOf(), x), np.array([3, 9]))
    infer_graph(b.graph)
    assert b.graph.known_value(less) is None


def test_every_operation_survives_unknown_ranks() -> None:
    """`infer` of every class with inputs of unknown rank gives types or a ShapeError."""
    tried = 0
    for cls in o.ALL_OPS:
        if any(a.required for a in cls.attributes()) or not cls.inputs:
            continue
        op = cls()
        dtypes = [DType.f32, DType.i64, DType.boolean]
        for dtype in dtypes:
            listed = [Fact(TensorType(dtype, None))] * len(cls.inputs)
            for i, port in enumerate(cls.inputs):
                if port.name in _INTEGER_PORTS:
                    listed[i] = Fact(TensorType(DType.i64, None))
            try:
                types = op.infer(*op.slots(list(listed)))
            except Error:
                continue
            tried += 1
            assert len(types) == op.output_count()
    assert tried > 100


_INTEGER_PORTS = frozenset(
    "axes axis shape order indices k target_shape repeats start stop step pads_begin pads_end "
    "begin end strides seq_lengths shift split_lengths depth output_shape sizes".split()
)


@pytest.mark.parametrize("op", [o.GatherND(), o.GatherND5()])
def test_gather_nd_takes_indices_with_an_axis(op: Op) -> None:
    with pytest.raises(ShapeError, match="indices have no axis"):
        op.infer(fact("f32[3, 4]"), fact("i64[]"))


@pytest.mark.parametrize(
    ("scale", "out"),
    [
        (2.0, "f32[2*N]"),
        (0.5, "f32[N//2]"),
        (1.75, "f32[(3*N)//4 + N]"),
        (0.0, "f32[0]"),
        (1 / 3, None),
        (1.0 + 2.0**-10, None),
        (np.inf, None),
        (np.nan, None),
    ],
)
def test_scaled_symbolic_sizes(scale: float, out: str | None) -> None:
    """Fractions of small powers of two, whose products f32 rounds as integers do."""
    scales = Fact(parse_type("f32[1]"), np.array([scale], np.float32))
    op = o.Interpolate("linear", "scales")
    (type_,) = op.infer(*op.slots([fact("f32[N]"), scales, None]))
    assert isinstance(type_, TensorType) and type_.shape is not None
    (size,) = type_.shape
    if out is None:
        assert plain_symbol(size) is not None and size != N
        return
    assert str(type_) == out
    for length in (1, 7, 1000, 1 << 19):
        assert evaluate(size, {"N": length}) == scaled_size(length, scale)
