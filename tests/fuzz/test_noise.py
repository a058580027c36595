"""What the fuzzers' comparison lets pass is what it says, and no more."""

from __future__ import annotations

import random
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.model import Model
from irc_compiler.compiler.options import Options
from irc_compiler.ir.errors import Error, ExecutionError, InputError
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph

from fuzz.agreement import check_graph, steps_of
from fuzz.noise import casts_nan, slack, spread_of
from fuzz.refusals import may_pass

ATTENTION = """graph "g"
%0 = Parameter.1() {element_type=f16, shape=[1, 4]} "q"
%1 = Parameter.1() {element_type=f16, shape=[6, 4]} "k"
%2 = Parameter.1() {element_type=f16, shape=[6, 2]} "v"
%3 = MatMul.1(%0, %1) {transpose_b=true}
%4 = Softmax.8(%3) {axis=-1}
%5 = MatMul.1(%4, %2)
%6 = Result.1(%5) "y"
"""


SUM = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[4, 4, 3]} "x"
%1 = Parameter.1() {element_type=f32, shape=["N"]} "y"
%2 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%3 = Maximum.1(%0, %1)
%4 = ReduceProd.1(%3, %2)
%5 = Result.1(%4) "z"
"""


def test_reductions_walk_as_their_sizes_are_known() -> None:
    """Known neighbours are a walk of its own; what changes no walk is compared bit for bit."""
    model = Model(parse_graph(SUM))

    def steps(**shapes: list[int]) -> list[tuple[Any, ...]]:
        return steps_of(compile_with_options(model, Options(), 1, shapes=shapes))

    assert steps() != steps(y=[3]) == steps(y=[3])
    plain = Model(parse_graph(SUM.replace("Maximum.1(%0, %1)", "Abs.1(%0)")))
    nets = [compile_with_options(plain, Options(), 1, shapes=s) for s in ({}, {"y": [3]})]
    assert steps_of(nets[0]) == steps_of(nets[1])


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 10, 40, 180])
def test_weights_that_underflow(step: int) -> None:
    """Whether an infinite value counts is open where its weight underflows, and only there."""
    graph = parse_graph(ATTENTION)
    q, k, v = np.zeros((1, 4)), np.zeros((6, 4)), np.ones((6, 2))
    q[:, 0], k[:, 0] = 1, -np.arange(6) * step
    v[5, 0], v[0, 1] = np.inf, -np.inf
    arrays = [a.astype(np.float16) for a in (q, k, v)]
    assert check_graph(graph, 0, arrays).ran
    (spread,) = spread_of(graph, arrays, interpret(graph, arrays), random.Random(0))
    assert (spread is None) == (10 <= step * 5), spread
    # What is masked weighs nothing anywhere: that is compared.
    k[5, 0] = -np.inf
    arrays[1] = k.astype(np.float16)
    v[5, 0], v[4, 0] = np.inf, 1
    (spread,) = spread_of(graph, arrays, interpret(graph, arrays), random.Random(0))
    assert spread is not None and np.isfinite(spread).all()


@pytest.mark.parametrize(("score", "is_open"), [(250, False), (300, True), (np.inf, False)])
def test_scores_that_overflow(score: float, is_open: bool) -> None:
    """Attention holds a score in f32; one that a product of its own makes infinite is open. What
    was infinite before is compared."""
    graph = parse_graph(ATTENTION)
    q, k, v = np.zeros((1, 4)), np.zeros((6, 4)), np.ones((6, 2))
    q[:, 0], k[:, 0] = min(score, 300), 1
    k[5, 0] = score
    arrays = [a.astype(np.float16) for a in (q, k, v)]
    (spread,) = spread_of(graph, arrays, interpret(graph, arrays), random.Random(0))
    assert (spread is None) == is_open
    assert check_graph(graph, 0, arrays).ran


HIDES = "%3 = Constant.1() {data=[1, 0, 0, 1, 1, 0, 1, 1, 1], dtype=boolean, shape=[3, 3]}"
CAUSAL = f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[1, 2, 3, 4]}} "x"
%1 = Constant.1() {{data=[0, 1, 3, 2], dtype=i64, shape=[4]}}
%13 = Parameter.1() {{element_type=f32, shape=[1, 2, 3, 4]}} "k"
%2 = Transpose.1(%13, %1)
{HIDES}
%4 = Constant.1() {{data=[0.0], dtype=f32, shape=[]}}
%5 = Constant.1() {{data=[-Infinity], dtype=f32, shape=[]}}
%6 = Select.1(%3, %4, %5)
%7 = MatMul.1(%0, %2)
%8 = Add.1(%7, %6)
%9 = Softmax.8(%8) {{axis=-1}}
%10 = Parameter.1() {{element_type=f32, shape=[1, 2, 3, 5]}} "v"
%11 = MatMul.1(%9, %10)
%12 = Result.1(%11) "y"
"""


@pytest.mark.parametrize("port", [1, 2], ids=["keys", "values"])
def test_keys_that_a_causal_mask_hides(port: int) -> None:
    """They and their values may hold anything; not those that a row sees."""
    numbers = np.random.default_rng(0)
    x, k = (numbers.standard_normal((1, 2, 3, 4)).astype(np.float32) for _ in range(2))
    inputs = [x, k, np.ones((1, 2, 3, 5), np.float32)]
    inputs[port][:, :, 1, 2] = np.nan
    other = HIDES.replace("1, 0, 0, 1, 1, 0", "1, 0, 1, 1, 1, 0")
    for mask, is_open in ((HIDES, True), (other, False)):
        graph = parse_graph(CAUSAL.replace(HIDES, mask))
        (spread,) = spread_of(graph, inputs, interpret(graph, inputs), random.Random(0))
        assert (spread is None) == is_open
    inputs[port][:, :, 1, 2], inputs[port][:, :, 0, 2] = 1, np.nan  # which every row sees
    graph = parse_graph(CAUSAL)
    (spread,) = spread_of(graph, inputs, interpret(graph, inputs), random.Random(0))
    assert spread is not None and np.isfinite(spread).all()


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "is_open"), [([0], False), ([1], True), ([0, 2], True)])
@pytest.mark.parametrize("op", ["Attention.0", "ScaledDotProductAttention.13"])
def test_values_that_causal_attention_hides(op: str, keys: list[int], is_open: bool) -> None:
    text = "".join(f"%{i} = Parameter.1() {{element_type=f32, shape=[1, 3, 2]}}\n" for i in (0, 1))
    how = "true" if op.startswith("Scaled") else '"first"'
    text += f"%2 = {op}(%0, %0, %1) {{causal={how}}}\n"
    graph = parse_graph(f'graph "g"\n{text}%3 = Result.1(%2) "y"\n')
    inputs = [np.ones((1, 3, 2), np.float32) for _ in range(2)]
    inputs[1][:, keys] = np.inf
    (spread,) = spread_of(graph, inputs, interpret(graph, inputs), random.Random(0))
    assert (spread is None) == is_open and check_graph(graph, 0, inputs).ran


@pytest.mark.parametrize(("size", "is_open"), [(20, False), (42, True)])
def test_functions_of_integers(size: int, is_open: bool) -> None:
    """Large ones are as exact as f64; small ones, and sums of any size, are exact."""
    text = """graph "g"
%0 = Parameter.1() {element_type=i64, shape=[2]} "x"
%1 = Cosh.1(%0)
%2 = Multiply.1(%0, %0)
%3 = Result.1(%1) "y"
%4 = Result.1(%2) "z"
"""
    graph, x = parse_graph(text), [np.full(2, size)]
    function, product = spread_of(graph, x, interpret(graph, x), random.Random(0))
    assert (function is None) == is_open
    assert product is not None and not product.any()


@pytest.mark.parametrize(("value", "is_open"), [(1e-9, True), (1e-3, False)])
def test_what_is_left_of_a_sum_that_cancels_may_be_zero(value: float, is_open: bool) -> None:
    """Which elements are not 0, and with that a shape, hangs on the last bits."""
    text = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[3]} "x"
%1 = NonZero.3(%0)
%2 = Result.1(%1) "y"
"""
    graph, x = parse_graph(text), [np.array([1, value, 0], np.float32)]
    (spread,) = spread_of(graph, x, interpret(graph, x), random.Random(0))
    assert (spread is None) == is_open


def test_recurrences_amplify() -> None:
    """h = 3 h + x stays 1, and what the first step is off by is 27 times as much at the end."""
    text = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[1, STEPS, 1]} "x"
%1 = Constant.1() {data=[0.0], dtype=f32, shape=[1, 1, 1]}
%2 = Constant.1() {data=[STEPS], dtype=i64, shape=[1]}
%3 = Constant.1() {data=[1.0], dtype=f32, shape=[1, 1, 1]}
%4 = Constant.1() {data=[3.0], dtype=f32, shape=[1, 1, 1]}
%5 = Constant.1() {data=[0.0], dtype=f32, shape=[1, 1]}
%6 = RNNSequence.5(%0, %1, %2, %3, %4, %5) {hidden_size=1, activations=["relu"]}
%7 = Result.1(%6:1) "y"
"""
    spread: dict[int, float] = {}
    for steps in (1, 4):
        graph = parse_graph(text.replace("STEPS", str(steps)))
        x = np.array([1, -2, -2, -2], np.float32)[:steps].reshape(1, steps, 1)
        (wanted,) = interpret(graph, [x])
        (found,) = spread_of(graph, [x], [wanted], random.Random(0))
        assert wanted.item() == 1
        spread[steps] = found.max()
    assert spread[4] > 5 * spread[1]


def test_bits_of_nan() -> None:
    graph = parse_graph(
        'graph "g"\n%0 = Parameter.1() {element_type=f32, shape=[2]} "x"\n'
        "%1 = Sqrt.1(%0)\n%2 = BitCast.0(%1) {to=i32}\n"
        '%3 = Result.1(%2) "y"\n%4 = Result.1(%1) "z"\n'
    )
    assert casts_nan(graph, [np.array([1, -1], np.float32)])
    assert not casts_nan(graph, [np.array([1, 4], np.float32)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn"])
def test_narrow_types_are_off_by_two_units(dtype: str) -> None:
    import ml_dtypes

    units = slack(np.dtype(getattr(ml_dtypes, dtype, dtype))) / float(ml_dtypes.finfo(dtype).eps)
    assert units == (16 if dtype == "float32" else 2)


FAKE = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 4]} "x"
%1 = Constant.1() {data=[-1.28], dtype=f32, shape=[]}
%2 = Constant.1() {data=[1.27], dtype=f32, shape=[]}
%3 = FakeQuantize.1(%0, %1, %2, %1, %2) {levels=256}
"""
NAN = [np.array([[0.5, np.nan, 1, 0], [0, 1, 0.25, 0.5]], np.float32)]


def test_nan_is_undefined_for_int8_only() -> None:
    alone = parse_graph(FAKE + '%4 = Result.1(%3) "y"\n')
    (spread,) = spread_of(alone, NAN, interpret(alone, NAN), random.Random(0))
    assert spread is not None and np.isfinite(spread).all()
    product = parse_graph(
        FAKE + "%4 = Constant.1() {data=[1, 2, 3, 4], dtype=i8, shape=[4, 1]}\n"
        "%5 = Convert.1(%4) {destination_type=f32}\n%6 = MatMul.1(%3, %5)\n"
        '%7 = Result.1(%6) "y"\n'
    )
    (spread,) = spread_of(product, NAN, interpret(product, NAN), random.Random(0))
    assert spread is None or np.isinf(spread).any()


REFUSED = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x"
%1 = Parameter.1() {element_type=i64, shape=[2]} "places"
%2 = Constant.1() {data=[1], dtype=i64, shape=[]}
%3 = Gather.8(%0, %1, %2) {}
%4 = ReduceSum.1(%3, %2) {keep_dims=true}
%5 = Result.1(%4) "y"
%6 = Result.1(%0) "z"
"""


@pytest.mark.parametrize(("size", "passes"), [(0, True), (2, False)])
def test_what_is_read_is_asked_for(size: int, passes: bool) -> None:
    """An index out of range may pass where nothing is gathered, whatever else is empty."""
    graph = parse_graph(REFUSED)
    x = [np.zeros((size, 3), np.float32), np.array([0, 7])]
    why = ExecutionError("an index is out of range", where="Gather '%3'")
    node = next(n for n in graph.ids() if graph.op(n).kind == "Gather")
    record = graph.node(node)
    why.where = record.origin or f"Gather {record.name!r}"
    given = [np.zeros((size, 1), np.float32), x[0]]
    assert may_pass(graph, x, given, why) is passes


UNREAD = """graph "g"
%0 = Parameter.1() {element_type=i64, shape=["N", 3]} "x"
%1 = Parameter.1() {element_type=i64, shape=["M", 3]} "y"
%2 = Mod.1(%0, %1) {auto_broadcast="numpy"}
%3 = ShapeOf.3(%2) {output_type=i64}
%4 = Result.1(%3) "shape"
"""


@pytest.mark.parametrize(
    ("rows", "more", "passes"),
    [(2, "", True), (2, '%5 = Result.1(%2) "z"\n', False), (3, "", False)],
    ids=["only its shape is read", "its elements, too", "sizes that do not fit"],
)
def test_what_only_a_shape_reads(rows: int, more: str, passes: bool) -> None:
    """Nobody divides by zero where nobody asks for the quotient; sizes have to fit all the same."""
    graph = parse_graph(UNREAD + more)
    x = [np.ones((2, 3), np.int64), np.zeros((rows, 3), np.int64)]
    with pytest.raises(Error) as refused:
        interpret(graph, x)
    assert "Mod" in str(refused.value.where)
    given = [np.array([2, 3]), x[0]][: 1 + bool(more)]
    assert may_pass(graph, x, given, refused.value) is passes
    if rows == 3:
        with pytest.raises(InputError, match="do not broadcast"):
            compile_with_options(irc.Model(graph), Options(), 1)(x)


@pytest.mark.parametrize(("result", "passes"), [("%4", True), ("%3", False)])
def test_axes_that_only_a_type_is_read_of(result: str, passes: bool) -> None:
    """Where the rank is seen when it runs, and nothing is computed along the axis."""
    graph = parse_graph(
        'graph "g"\n%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x"\n'
        "%1 = Squeeze.15(%0) {allow_axis_skip=true}\n"
        "%2 = Constant.1() {data=[1], dtype=i64, shape=[1]}\n"
        "%3 = ReduceMax.1(%1, %2) {keep_dims=false}\n%4 = ConvertLike.1(%1, %3)\n"
        f'%5 = Result.1({result}) "y"\n'
    )
    x = [np.ones((1, 3), np.float32)]
    with pytest.raises(Error, match="out of range") as refused:
        interpret(graph, x)
    assert may_pass(graph, x, [np.ones(3, np.float32)], refused.value) is passes


@pytest.mark.parametrize(
    ("kernel", "read", "passes"), [(1, "%3:1", True), (1, "%3:0", False), (2, "%3:1", False)]
)
def test_indices_of_maxima_of_single_elements(kernel: int, read: str, passes: bool) -> None:
    """Where a window has one element only, its place does not hang on it."""
    graph = parse_graph(
        'graph "g"\n%0 = Parameter.1() {element_type=i32, shape=[1, 1, "N"]} "x"\n'
        '%1 = Parameter.1() {element_type=i32, shape=[1, 1, "N"]} "y"\n'
        '%2 = Mod.1(%0, %1) {auto_broadcast="numpy"} "mod"\n'
        f"%3 = MaxPool.8(%2) {{strides=[1], pads_begin=[0], pads_end=[0], kernel=[{kernel}]}}\n"
        f'%4 = Result.1({read}) "z"\n'
    )
    x = [np.ones((1, 1, 3), np.int32), np.zeros((1, 1, 3), np.int32)]
    with pytest.raises(Error) as refused:
        interpret(graph, x)
    assert "mod" in str(refused.value.where)
    assert may_pass(graph, x, [np.arange(4 - kernel)], refused.value) is passes


PADS = {"one": "Constant.1() {data=[1], dtype=i64, shape=[1]}",
        "none": "Constant.1() {data=[0], dtype=i64, shape=[1]}",
        "as many as rows": "ShapeOf.3(%0) {output_type=i64}"}  # fmt: skip


@pytest.mark.parametrize(
    ("pads", "mode", "passes"),
    [("none", "constant", True), ("one", "edge", True), ("one", "constant", False),
     ("as many as rows", "constant", False), ("as many as rows", "edge", True)],
)  # fmt: skip
def test_values_that_pad_nothing(pads: str, mode: str, passes: bool) -> None:
    graph = parse_graph(
        'graph "g"\n%0 = Parameter.1() {element_type=i32, shape=["N"]} "x"\n'
        '%1 = Parameter.1() {element_type=i32, shape=[]} "y"\n'
        f'%2 = Mod.1(%1, %1) {{auto_broadcast="numpy"}} "mod"\n%3 = {PADS[pads]}\n'
        f'%4 = Pad.12(%0, %3, %3, %2) {{pad_mode="{mode}"}}\n%5 = Result.1(%4) "z"\n'
    )
    x = [np.ones(2, np.int32), np.array(0, np.int32)]
    with pytest.raises(Error) as refused:
        interpret(graph, x)
    assert "mod" in str(refused.value.where)
    assert may_pass(graph, x, [np.ones(4, np.int32)], refused.value) is passes


BRANCHES = """graph "g"
%0 = Parameter.1() {element_type=i64, shape=[3]} "x"
%1 = Parameter.1() {element_type=i64, shape=[3]} "y"
%2 = Mod.1(%0, %1) {auto_broadcast="numpy"} "mod"
%3 = CONDITION
%4 = If.8(%3, %2) {then_inputs=[1], else_inputs=[1], then_outputs=[0], else_outputs=[0]} "if"
  graph "then"
  %0 = Parameter.1() {element_type=i64, shape=[3]} "a"
  %1 = ShapeOf.3(%0) {output_type=i64}
  %2 = Result.1(%1)
  graph "else"
  %0 = Parameter.1() {element_type=i64, shape=[3]} "a"
  %1 = ELSE.1(%0)
  %2 = Result.1(%1)
%5 = Result.1(%4) "z"
"""
OPEN = 'Parameter.1() {element_type=boolean, shape=[]} "c"'


@pytest.mark.parametrize(
    ("condition", "branch", "passes"),
    [
        ("Constant.1() {data=[true], dtype=boolean, shape=[]}", "Negative", True),
        ("Constant.1() {data=[false], dtype=boolean, shape=[]}", "Negative", False),
        (OPEN, "Negative", False),
        (OPEN, "ShapeOf", True),
    ],
    ids=["the other branch", "the branch that runs", "either may run", "neither reads it"],
)
def test_what_branches_read(condition: str, branch: str, passes: bool) -> None:
    text = BRANCHES.replace("CONDITION", condition).replace("ELSE.1", f"{branch}.1")
    graph = parse_graph(text.replace("ShapeOf.1", "ShapeOf.3"))
    x = [np.ones(3, np.int64), np.zeros(3, np.int64), np.array(True)][: len(graph.parameters)]
    with pytest.raises(Error) as refused:
        interpret(graph, x)
    assert "mod" in str(refused.value.where)
    assert may_pass(graph, x, [np.array([3])], refused.value) is passes


BESIDE_NOTHING = """graph "g"
%0 = Parameter.1() {element_type=i8, shape=[7, "N", 16]} "x"
%1 = ShapeOf.3(%0) {output_type=i64}
%2 = Constant.1() {dtype=i64, shape=[1], data=[1]}
%3 = Constant.1() {dtype=i64, shape=[], data=[0]}
%4 = Gather.8(%1, %2, %3)
%5 = Constant.1() {dtype=i64, shape=[1], data=[16]}
%6 = Multiply.1(%4, %5) {auto_broadcast="numpy"}
%7 = Constant.1() {dtype=i64, shape=[1], data=[-1]}
%8 = Concat.1(%7, %6) {axis=0}
%9 = Reshape.1(%0, %8) {special_zero=false}
%10 = Result.1(%9) "y"
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_what_remains_beside_a_size_of_nothing_is_open(rows: int) -> None:
    graph = parse_graph(BESIDE_NOTHING)
    x = np.zeros((7, rows, 16), np.int8)
    assert check_graph(graph, 0, [x]).ran is (rows > 0)
