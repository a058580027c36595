"""What is known at compile time becomes constants; equal work is done once."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes.canonicalize.common_subexpressions import (
    eliminate_common_subexpressions,
)
from irc_compiler.compiler.passes.canonicalize.fold_constants import fold_constants
from irc_compiler.compiler.passes.canonicalize.folding_budget import folding_work
from irc_compiler.compiler.rewrite.engine import run_pass
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.graph import Value
from irc_compiler.ir.ops import Constant
from support.rewriting import CHECKED, becomes, graph, run, stays, traced


def test_arithmetic_of_constants() -> None:
    becomes(
        """
%0 = Input(f32[N])
%1 = Const(f32[3] = 1, 2, 3)
%2 = Const(f32[] = 2)
%3 = Multiply.1(%1, %2)
%4 = Sqrt.1(%3)
%5 = Power.1(%4, %2) "folded" names=c
%6 = Add.1(%0, %5)
%7 = Result.1(%6)
""",
        fold_constants,
        """
%0 = Input(f32[N])
%5 = Const(f32[3] = 1.9999999, 4, 6.0000005) "folded" names=c
%6 = Add.1(%0, %5)
%7 = Result.1(%6)
""",
    )


def test_the_shape_arithmetic_of_exporters() -> None:
    becomes(
        """
%0 = Input(f32[2, 12, 64])
%1 = ShapeOf.3(%0)
%2 = Const(i64[] = 0)
%3 = Const(i64[1] = 1)
%4 = Gather.8(%1, %3, %2)
%5 = Const(i64[1] = -1)
%6 = Concat.1(%5, %4) {axis=0}
%7 = Reshape.1(%0, %6) "view"
%8 = Result.1(%7)
""",
        fold_constants,
        """
%0 = Input(f32[2, 12, 64])
%6 = Const(i64[2] = -1, 12)
%7 = Reshape.1(%0, %6) "view"
%8 = Result.1(%7)
""",
    )


def test_symbolic_sizes_stay() -> None:
    """The values are known to inference, but they are not constants."""
    text = """
%0 = Input(f32[N, 12, 64])
%1 = ShapeOf.3(%0)
%2 = Const(i64[1] = 2)
%3 = Multiply.1(%1, %2)
%4 = Result.1(%3)
"""
    stays(text, fold_constants, None)
    known = graph(text)
    assert [str(d) for d in known.known_value(known.input(known.results[0], 0))] == [
        "2*N",
        "24",
        "128",
    ]


def test_every_output_of_a_split() -> None:
    becomes(
        """
%0 = Const(f32[4] = 1, 2, 3, 4)
%1 = Const(i64[] = 0)
%2 = Split.1(%0, %1) {num_splits=2} "s" names=a|b
%3 = Result.1(%2)
%4 = Result.1(%2:1)
""",
        fold_constants,
        """
%2 = Const(f32[2] = 1, 2) "s" names=a
%3 = Result.1(%2)
%5 = Const(f32[2] = 3, 4) "s" names=b
%4 = Result.1(%5)
""",
    )


GROWING = """
%0 = Const(f32[1] = 1)
%1 = Const(i64[2] = 100, 100)
%2 = Broadcast.3(%0, %1)
%3 = Result.1(%2)
"""


def test_the_memory_cap() -> None:
    small = Options(fold_limit=39_000, verify=True)
    found, trace = traced(GROWING, fold_constants, small)
    reason = "folding adds 39980 bytes where 39000 are left"
    assert [e.refused for e in trace.refusals()] == [reason]
    assert not any(
        isinstance(found.op(n), Constant) and found.op(n).data.size > 2 for n in found.ids()
    )
    assert len(run(GROWING, fold_constants)) == 2


def test_the_cap_is_for_all_folds_of_a_run() -> None:
    twice = GROWING + "%4 = Const(f32[1] = 2)\n%5 = Broadcast.3(%4, %1)\n%6 = Result.1(%5)"
    trace = Trace()
    run_pass(graph(twice), fold_constants, Options(fold_limit=60_000), trace)
    assert trace.hits()["fold"] == 1 and len(trace.refusals()) == 1


CHAIN = """
%0 = Const(f32[100] = ~1)
%1 = Exp.1(%0)
%2 = Erf.1(%1)
%3 = Const(i64[1] = 0)
%4 = Transpose.1(%2, %3)
%5 = Result.1(%4)
"""


def test_work_is_bounded_where_nothing_grows() -> None:
    """4 for each byte of growth and 8 for each of 408 constant ones; 200 elements of Exp take 8
    each, of Erf 64. What is refused keeps what reads it."""
    found, trace = traced(CHAIN, fold_constants, Options(fold_limit=2_200))
    assert [e.refused for e in trace.refusals()] == [
        "folding takes 12800 units of work where 10464 are left"
    ]
    assert [found.op(n).kind for n in found.order()].count("Constant") == 2
    whole = run(CHAIN, fold_constants)
    assert {whole.op(n).kind for n in whole.ids()} == {"Constant", "Result"}


WORK = {
    "Transpose": ("%2 = Const(i64[2] = 1, 0)\n%3 = Transpose.1(%0, %2)", 2 * 12 + 2),
    "MatMul": ("%3 = MatMul.1(%0, %1)", 12 + 12 + 9 + 2 * 36 // 16),
    "Einsum": ('%3 = Einsum.7(%0, %1) {equation="ij,jk->ik"}', 12 + 12 + 9 + 36 // 16),
    "dots": ('%3 = Einsum.7(%0, %1) {equation="...j,jk->...k"}', 12 + 12 + 9 + 36 // 16),
    "LRN": (
        "%2 = Const(i64[1] = 1)\n%3 = LRN.1(%0, %2) {alpha=1.0, beta=1.0, bias=1.0, size=3}",
        12 * (12 + 1),
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_the_work_of_a_fold(name: str) -> None:
    text, expected = WORK[name]
    made = graph(
        f"%0 = Const(f32[3, 4] = ~1)\n%1 = Const(f32[4, 3] = ~2)\n{text}\n%9 = Result.1(%3)"
    )
    assert folding_work(made, made.input(made.results[0], 0).node) == expected


def test_large_models_are_folded() -> None:
    """Work is allowed for what is stored: ten steps of dequantisation, with no growth allowed."""
    steps = "\n".join(f"%{n} = Multiply.1(%{n - 1}, %0)" for n in range(2, 12))
    text = f"%0 = Const(f32[] = 1)\n%1 = Const(f32[1000] = ~1)\n{steps}\n%12 = Result.1(%11)"
    assert len(run(text, fold_constants, Options(fold_limit=0))) == 2


def test_strings_are_not_folded() -> None:
    """A regular expression takes as long as it likes."""
    node = onnx.helper.make_node("RegexFullMatch", ["s"], ["y"], pattern="(a+)+$")
    value = onnx.numpy_helper.from_array(np.array(["a" * 20 + "b"], object), "s")
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [1])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [], [out], [value]),
        opset_imports=[onnx.helper.make_opsetid("", 20)],
    )
    trace = Trace()
    run_pass(irc.read_model(model).graph.copy(), fold_constants, CHECKED, trace)
    assert "a fold of strings" in (trace.refusals()[0].refused or "")


def test_large_weights_are_left_to_their_reader() -> None:
    """A stored fp16 weight is widened, and a weight is transposed, by the product that reads it."""
    text = """
%0 = Input(f32[N, 256])
%1 = Const(f16[256, 256] = ~1)
%2 = Convert.1(%1) {destination_type=f32}
%3 = MatMul.1(%0, %2)
%4 = Result.1(%3)
"""
    stays(text, fold_constants, "a large weight is converted by its reader")
    becomes(
        text.replace("256", "2"),
        fold_constants,
        """
%0 = Input(f32[N, 2])
%2 = Const(f32[2, 2] = ~1)
%3 = MatMul.1(%0, %2)
%4 = Result.1(%3)
""",
    )
    transposed = """
%0 = Input(f32[N, 256])
%1 = Const(f32[256, 256] = ~1)
%5 = Const(i64[2] = 1, 0)
%2 = Transpose.1(%1, %5)
%3 = MatMul.1(%0, %2)
%4 = Result.1(%3)
"""
    stays(transposed, fold_constants, "a large weight is transposed by the product that reads it")
    other = transposed.replace("MatMul", "Add").replace("N, 256", "256, 256")
    assert len(run(other, fold_constants)) == 4


FILTERS = """
%0 = Input({data}[1, 32, 9, 7])
%1 = Const({stored}[64, 32, 3, 3] = ~1)
%2 = Convert.1(%1) {{destination_type={data}}}
%3 = {reader}(%0, %2)
%4 = Result.1(%3)
"""


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_filters_are_widened_whatever_folding_may_add(stored: str) -> None:
    """Convolutions pack them in the wide type anyway."""
    text = FILTERS.format(data="f32", stored=stored, reader="Convolution.1")
    found = run(text, fold_constants, Options(fold_limit=0))
    assert "Convert" not in [found.op(n).kind for n in found.order()]
    small = FILTERS.format(data="f32", stored="u8", reader="Convolution.1")
    kept = run(small, fold_constants, Options(fold_limit=0))
    assert "Convert" in [kept.op(n).kind for n in kept.order()]


def test_conversions_of_weights_move_behind_reshapes() -> None:
    """And stay in front of a transposition that is a product's flag, or where others read them."""
    head = """
%0 = Input(f32[N, 256])
%1 = Const(f16[256, 8, 32] = ~1)
"""
    tail = "%5 = MatMul.1(%0, %4)\n%6 = Result.1(%5)\n"
    becomes(
        f"""{head}%2 = Convert.1(%1) {{destination_type=f32}}
%3 = Const(i64[2] = 256, 256)
%4 = Reshape.1(%2, %3) {{special_zero=false}}
{tail}""",
        fold_constants,
        f"""%0 = Input(f32[N, 256])
%1 = Const(f16[256, 256] = ~1)
%4 = Convert.1(%1) {{destination_type=f32}}
{tail}""",
    )


def test_codes_are_scaled_once() -> None:
    """Only scaled codes are of use to a product: no call scales them again."""
    text = """
%0 = Input(f32[N, 256])
%1 = Const(nf4[256, 256] = ~1)
%5 = Const(f16[256, 1] = ~2)
%2 = Convert.1(%1) {destination_type=f16}
%6 = Multiply.1(%2, %5)
%7 = Convert.1(%6) {destination_type=f32}
%3 = MatMul.1(%0, %7)
%4 = Result.1(%3)
"""
    nodes = run(text, fold_constants)
    kinds = [nodes.op(n).kind for n in nodes.order()]
    assert kinds.count("Constant") == 1 and "Multiply" not in kinds and "Convert" in kinds


def test_what_fails_is_left_to_the_run() -> None:
    text = """
%0 = Const(i32[2] = 1, 2)
%1 = Const(i32[2] = 1, 0)
%2 = Divide.1(%0, %1)
%3 = Result.1(%2)
"""
    stays(text, fold_constants, "evaluation fails: an integer is divided by zero")


# Sharing -----------------------------------------------------------------------------------------


def test_equal_work_is_shared() -> None:
    becomes(
        """
%0 = Input(f32[N])
%1 = Const(f32[2] = 1, 2)
%2 = Const(f32[2] = 1, 2)
%3 = Input(f32[2])
%4 = Add.1(%3, %1) "a" names=one
%5 = Add.1(%2, %3) "b" names=two
%6 = Exp.1(%4)
%7 = Exp.1(%5)
%8 = Result.1(%6)
%9 = Result.1(%7)
%10 = Result.1(%0)
""",
        eliminate_common_subexpressions,
        """
%0 = Input(f32[N])
%3 = Input(f32[2])
%1 = Const(f32[2] = 1, 2)
%4 = Add.1(%3, %1) "a" names=one,two
%6 = Exp.1(%4)
%8 = Result.1(%6)
%9 = Result.1(%6)
%10 = Result.1(%0)
""",
    )


DIFFERENT = {
    "attributes": ("Clamp.1(%0) {min=0.0, max=1.0}", "Clamp.1(%0) {min=0.0, max=2.0}"),
    "attributes of two signs": (
        "Clamp.1(%0) {min=0.0, max=1.0}",
        "Clamp.1(%0) {min=-0.0, max=1.0}",
    ),
    "operations": ("Exp.1(%0)", "Log.1(%0)"),
    "order of operands": ("Subtract.1(%0, %1)", "Subtract.1(%1, %0)"),
    "zeros of two signs": ("Const(f32[] = 0.0)", "Const(f32[] = -0.0)"),
    "shapes": ("Const(f32[2, 1] = 1, 2)", "Const(f32[1, 2] = 1, 2)"),
    "types": ("Const(f32[] = 0)", "Const(i32[] = 0)"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_differs_is_not_shared(case: str) -> None:
    a, b = DIFFERENT[case]
    text = f"""
%0 = Input(f32[N])
%1 = Input(f32[N])
%2 = {a}
%3 = {b}
%4 = Result.1(%2)
%5 = Result.1(%3)
"""
    stays(text, eliminate_common_subexpressions, None)


def test_large_constants_are_shared_by_identity_only() -> None:
    made = graph(
        "%0 = Const(f32[200, 100] = ~1)\n%1 = Const(f32[200, 100] = ~1)\n"
        "%2 = Result.1(%0)\n%3 = Result.1(%1)"
    )
    assert len(run(made, eliminate_common_subexpressions, CHECKED)) == 4
    one, two = (made.input(r, 0).node for r in made.results)
    first = made.op(one)
    assert isinstance(first, Constant)
    made.node(two).op = Constant(np.asarray(first.data), first.dtype, first.shape)
    assert len(run(made, eliminate_common_subexpressions, CHECKED)) == 3


def test_a_size_known_anew_is_known_wherever_it_went() -> None:
    found = run(
        """
%0 = Input(f32[N, 3])
%1 = Const(f32[2] = 1, 2)
%2 = Convert.1(%1) {destination_type=i64}
%3 = Tile.1(%0, %2)
%4 = ShapeOf.3(%3)
%5 = Const(i64[1] = 0)
%6 = ReduceProd.1(%4, %5) {keep_dims=true}
%7 = Reshape.1(%3, %6) {special_zero=false}
%8 = Result.1(%7)
""",
        fold_constants,
    )
    (reshape,) = (n for n in found.ids() if found.op(n).kind == "Reshape")
    # While the repeats were unknown, the reshape's size had a name of its own.
    assert str(found.type(Value(reshape))) == "f32[6*N]"
