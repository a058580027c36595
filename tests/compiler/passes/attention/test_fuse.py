"""Attention in the forms that frontends and exporters write."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Attention
from irc_compiler.ir.text.graph_text import print_graph
from support.rewriting import becomes, graph, random_inputs, run, same_values, stays, traced

QKV = """
%0 = Input(f32[B, 3, S, 16]) "q"
%1 = Input(f32[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
"""


def test_openvinos_operation() -> None:
    head = QKV + '%3 = Input(f32[S, T]) "m"\n'
    becomes(
        head
        + "%4 = ScaledDotProductAttention.13(%0, %1, %2, %3) {causal=false}\n%5 = Result.1(%4)",
        fuse_attention,
        head + "%4 = Attention.0(%0, %1, %2, %3) {scale=0.25}\n" + "%5 = Result.1(%4)",
    )


def test_openvinos_causal_operation_ignores_its_mask() -> None:
    becomes(
        QKV
        + "%3 = Const(f32[] = 0.5)\n%4 = Const(f32[1] = 2)\n"
        + "%5 = ScaledDotProductAttention.13(%0, %1, %2, %3, %4) {causal=true}\n%6 = Result.1(%5)",
        fuse_attention,
        QKV + '%4 = Attention.0(%0, %1, %2) {scale=2.0, causal="first"}\n%5 = Result.1(%4)',
    )


def test_openvinos_operation_with_a_sink() -> None:
    """As OpenVINO writes that of GPT-OSS."""
    head = QKV + '%3 = Input(f32[S, T]) "m"\n%4 = Input(f32[1, 1, 1, 1]) "k"\n'
    scaled = "%5 = Const(f32[] = 0.5)\n%6 = ScaledDotProductAttention.13(%0, %1, %2, %3, %5, %4)"
    becomes(
        head + scaled + " {causal=false}\n%7 = Result.1(%6)",
        fuse_attention,
        head + "%6 = Attention.0(%0, %1, %2, %3, %4) {scale=0.5}\n%7 = Result.1(%6)",
    )
    large = head.replace("16", "2000") + scaled + " {causal=false}\n%7 = Result.1(%6)"
    stays(large, fuse_attention, "no attention kernel for heads of size 2000")


def test_what_has_no_kernel_stays() -> None:
    text = QKV.replace("f32", "f64")
    tail = "%4 = ScaledDotProductAttention.13(%0, %1, %2) {causal=false}\n%5 = Result.1(%4)"
    stays(text + tail, fuse_attention, "no attention kernel for f64")
    causal = tail.replace("false", "true")
    stays(
        QKV.replace("16", "E") + causal, fuse_attention, "no attention kernel for heads of size E"
    )
    scaled = tail.replace("%2)", "%2, %9, %8)")
    extra = '%8 = Input(f32[]) "s"\n%9 = Input(f32[S, T]) "m"\n'
    stays(QKV + extra + scaled, fuse_attention, "the scale is not known")


@pytest.mark.parametrize("size", ["E", "2000"])
@pytest.mark.parametrize("scale", ["", "%3 = Const(f32[] = 0.5)\n"])
@pytest.mark.parametrize("mask", ["", "f32", "boolean"])
def test_heads_that_no_kernel_takes_are_multiplied_apart(size: str, scale: str, mask: str) -> None:
    """As XCiT mixes its channels, whose heads are as long as there are tokens."""
    shown = f'%4 = Input({mask}[S, T]) "m"\n' if mask else ""
    given = ["%4" if mask else "_", *(["%3"] if scale else [])]
    text = QKV.replace("16", size) + scale + shown
    text += f"%5 = ScaledDotProductAttention.13(%0, %1, %2, {', '.join(given)}) {{causal=false}}\n"
    found = run(text + "%6 = Result.1(%5)", fuse_attention)
    kinds = [found.op(n).kind for n in found.order()]
    assert kinds.count("MatMul") == 2 and "Softmax" in kinds
    assert "ScaledDotProductAttention" not in kinds
    same_values(graph(text + "%6 = Result.1(%5)"), found)


FORMS = {
    "scores are divided": """
%3 = MatMul.1(%0, %1) {transpose_b=true}
%4 = Const(f32[] = 4)
%9 = Divide.1(%3, %4)
""",
    "queries and keys are scaled by a root, keys behind their transpose": """
%3 = Const(f32[] = 0.5)
%4 = Multiply.1(%0, %3)
%5 = Const(i64[4] = 0, 1, 3, 2)
%6 = Multiply.1(%3, %1)
%7 = Transpose.1(%6, %5)
%9 = MatMul.1(%4, %7)
""",
    "queries are scaled, both as vectors of one size": """
%3 = Const(f32[1] = 0.25)
%4 = Multiply.1(%0, %3)
%9 = MatMul.1(%4, %1) {transpose_b=true}
""",
}
MIXED = """
%30 = Softmax.8(%20) {axis=3}
%31 = MatMul.1(%30, %2)
%32 = Result.1(%31)
"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operands", ["%9, %10", "%10, %9"])
def test_scales_and_an_added_mask(form: str, operands: str) -> None:
    mask = '%10 = Input(f32[B, 1, 1, T]) "m"\n'
    becomes(
        QKV + mask + FORMS[form] + f"%20 = Add.1({operands})" + MIXED,
        fuse_attention,
        QKV + mask + "%11 = Attention.0(%0, %1, %2, %10) {scale=0.25}\n%12 = Result.1(%11)",
    )


def test_transposed_operands() -> None:
    """Keys as columns, and moved there by one transpose: the operation takes rows."""
    text = """
%0 = Input(f32[B, 16, 3, 5]) "q"
%1 = Input(f32[B, T, 3, 16]) "k"
%2 = Input(f32[B, 3, 8, T]) "v"
%3 = Const(i64[4] = 0, 2, 1, 3)
%4 = Transpose.1(%0, %3)
%5 = Const(i64[4] = 0, 2, 3, 1)
%6 = Transpose.1(%1, %5)
%7 = MatMul.1(%4, %6) {transpose_a=true}
%8 = Softmax.8(%7) {axis=-1}
%9 = MatMul.1(%8, %2) {transpose_b=true}
%10 = Result.1(%9)
"""
    found = run(text, fuse_attention)
    kinds = [found.op(n).kind for n in found.order()]
    assert kinds.count("Transpose") == 3 and "MatMul" not in kinds
    same_values(graph(text), found)


def test_rows_that_are_no_numbers_become_zeros() -> None:
    text = """
%9 = MatMul.1(%0, %1) {transpose_b=true}
%10 = Input(f32[B, 1, S, T]) "m"
%20 = Add.1(%9, %10)
%21 = Softmax.8(%20) {axis=3}
%22 = IsNaN.10(%21)
%23 = Const(f32[] = 0)
%24 = Select.1(%22, %23, %21)
%25 = MatMul.1(%24, %2)
%26 = Result.1(%25)
"""
    after = '%10 = Input(f32[B, 1, S, T]) "m"\n%11 = Attention.0(%0, %1, %2, %10) {zeros=true}\n'
    found = run(QKV + text, fuse_attention)
    assert print_graph(found) == print_graph(graph(QKV + after + "%12 = Result.1(%11)"))
    inputs = random_inputs(found)
    inputs[3][:, :, 1] = -np.inf
    (left,), (right,) = interpret(graph(QKV + text), inputs), interpret(found, inputs)
    assert not right[:, :, 1].any()
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


STATIC = """
%0 = Input(f32[2, {m}, 16]) "q"
%1 = Input(f32[2, 5, 16]) "k"
%2 = Input(f32[2, 5, 8]) "v"
%3 = MatMul.1(%0, %1) {{transpose_b=true}}
"""


def attention_of(text: str) -> tuple[Attention, int]:
    """The operation that a graph becomes, and how many inputs it has."""
    found = run(text, fuse_attention)
    same_values(graph(text), found, tolerance=1e-4)
    (node,) = [n for n in found.ids() if found.op(n).kind == "Attention"]
    op = found.op(node)
    assert isinstance(op, Attention)
    return op, sum(v is not None for v in found.inputs(node))


def constant(name: str, mask: np.ndarray) -> str:
    listed = ", ".join(str(x).lower() for x in mask.reshape(-1).tolist())
    dtype = "boolean" if mask.dtype == bool else "f32"
    return f"%{name} = Const({dtype}[{', '.join(map(str, mask.shape))}] = {listed})\n"


TAIL = "%30 = Softmax.8(%20) {axis=2}\n%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)\n"


@pytest.mark.parametrize(
    ("rows", "offset", "causal"), [(5, 0, "first"), (3, 2, "last"), (3, 0, "first"), (3, 1, "")]
)
@pytest.mark.parametrize("form", ["select", "inverted", "add"])
def test_constant_causal_masks(rows: int, offset: int, causal: str, form: str) -> None:
    """Also one whose diagonal is neither of both, which stays a mask."""
    shown = np.tri(rows, 5, offset, dtype=bool)
    if form == "add":
        mask = constant("4", np.where(shown, 0, np.float32(-3e38)).astype(np.float32))
        mask += "%20 = Add.1(%3, %4)\n"
    else:
        mask = constant("4", ~shown if form == "inverted" else shown)
        mask += "%5 = Const(f32[] = -1e30)\n"
        mask += f"%20 = Select.1(%4, {'%5, %3' if form == 'inverted' else '%3, %5'})\n"
    op, count = attention_of(STATIC.format(m=rows) + mask + TAIL)
    assert (op.causal, count) == (causal, 3 if causal else 4)


def test_the_softmax_of_operation_set_1() -> None:
    tail = TAIL.replace("Softmax.8", "Softmax.1").replace("%20", "%3")
    op, count = attention_of(STATIC.format(m=5) + tail)
    assert (op.causal, count) == ("", 3)


def test_a_mask_that_hides_too_little_is_not_causal() -> None:
    shown = np.tri(5, 5, dtype=bool)
    text = constant("4", shown) + "%5 = Const(f32[] = -10)\n%20 = Select.1(%4, %3, %5)\n"
    op, count = attention_of(STATIC.format(m=5) + text + TAIL)
    assert (op.causal, op.fill, count) == ("", -10, 4)


def test_two_masks_become_one() -> None:
    """A causal mask whose low scores show through where padding hides the rest of a row."""
    causal = constant("4", np.tri(5, 5, dtype=bool)) + "%5 = Const(f32[] = {})\n"
    text = '%6 = Select.1(%4, %3, %5)\n%7 = Input(f32[1, 5]) "m"\n%20 = Add.1(%6, %7)\n'
    op, count = attention_of(STATIC.format(m=5) + causal.format("-1e30") + text + TAIL)
    assert (op.causal, op.fill, count) == ("", -np.inf, 4)
    op, count = attention_of(STATIC.format(m=5) + causal.format("-Infinity") + text + TAIL)
    assert (op.causal, op.fill, count) == ("first", -np.inf, 4)


PLACES = """
%0 = Input(f32[1, {rows}, 16]) "q"
%1 = Input(f32[1, {keys}, 16]) "k"
%2 = Input(f32[1, {keys}, 8]) "v"
%3 = MatMul.1(%0, %1) {{transpose_b=true}}
%4 = Const(i64[] = 0)
%5 = Const(i64[] = 1)
%6 = ShapeOf.3(%1)
%7 = Gather.8(%6, %5, %4)
%8 = Range.4(%4, %7, %5) {{output_type=i64}}
%9 = Const(i64[1] = 0)
%10 = Const(i64[1] = 1)
%11 = Unsqueeze.1(%8, %9)
%12 = Unsqueeze.1(%8, %10)
"""


def hidden_by(mask: str) -> str:
    return f"%25 = Const(f32[] = -1e38)\n%20 = Select.1({mask}, %3, %25)\n" + TAIL


@pytest.mark.parametrize("compare", ["LessEqual.1(%11, %12)", "GreaterEqual.1(%12, %11)"])
def test_compared_ranges_are_causal(compare: str) -> None:
    text = PLACES.format(rows="S", keys="S") + f"%13 = {compare}\n" + hidden_by("%13")
    assert attention_of(text) == (Attention(causal="first"), 3)


def test_rows_behind_a_past_are_causal() -> None:
    """What PyTorch writes with a cache: rows P and on of a square mask."""
    text = (
        PLACES.format(rows=2, keys="P + 2")
        + """
%13 = LessEqual.1(%11, %12)
%14 = Const(i64[1] = -2)
%15 = Const(i64[1] = 9223372036854775807)
%16 = Slice.8(%13, %14, %15, %10, %9)
%17 = Unsqueeze.1(%16, %9)
"""
    )
    assert attention_of(text + hidden_by("%17")) == (Attention(causal="last"), 3)


TRIANGLES = {
    "added where the comparison fails": """
%14 = Const(f32[] = {low})
%15 = Const(f32[] = 0)
%16 = Select.1(%13, %15, %14)
""",
    "a triangle of booleans compared with false": """
%14 = Const(f32[] = {low})
%15 = Const(f32[] = 0)
%17 = Const(boolean[] = true)
%18 = Const(boolean[] = false)
%19 = Select.1(%13, %17, %18)
%21 = Equal.1(%19, %18)
%16 = Select.1(%21, %14, %15)
""",
    "the upper triangle of a repeated number": """
%22 = GreaterEqual.1(%11, %23)
%14 = Const(f32[1, 1] = {low})
%21 = ShapeOf.3(%22)
%24 = Broadcast.3(%14, %21) {{mode="bidirectional"}}
%15 = Const(f32[] = 0)
%16 = Select.1(%22, %24, %15)
""",
}


@pytest.mark.parametrize("form", TRIANGLES)
@pytest.mark.parametrize(
    ("low", "causal"), [("-Infinity", "first"), ("-1e32", "first"), ("-5", "")]
)
def test_triangles_that_are_added(form: str, low: str, causal: str) -> None:
    text = PLACES.format(rows="S", keys="S") + "%13 = LessEqual.1(%11, %12)\n"
    text += "%23 = Add.1(%12, %5)\n" + TRIANGLES[form].format(low=low)
    op, count = attention_of(text + "%20 = Add.1(%3, %16)\n" + TAIL)
    assert (op.causal, count) == (causal, 3 if causal else 4)


@pytest.mark.parametrize(
    "compare", ["Less.1(%11, %12)", "LessEqual.1(%12, %11)", "Equal.1(%11, %12)"]
)
def test_other_comparisons_stay_masks(compare: str) -> None:
    text = PLACES.format(rows="S", keys="S") + f"%13 = {compare}\n" + hidden_by("%13")
    op, count = attention_of(text)
    assert (op.causal, count) == ("", 4)


@pytest.mark.parametrize(
    ("middle", "reason"),
    [
        ('%4 = Input(f32[4, 1, 3, S, T]) "m"\n%20 = Add.1(%3, %4)', "broadcasts the scores"),
        (
            '%4 = Input(f32[3, 1, 1]) "t"\n%5 = Input(f32[T]) "m"\n'
            "%6 = Add.1(%3, %5)\n%20 = Multiply.1(%6, %4)",
            "are scaled",
        ),
        ('%4 = Input(f32[T]) "t"\n%20 = Multiply.1(%3, %4)', None),
        ("%20 = Multiply.1(%3, %3)", None),
        ("%20 = Relu.1(%3)", None),
    ],
)
def test_what_is_left_alone(middle: str, reason: str | None) -> None:
    text = QKV + f"%3 = MatMul.1(%0, %1) {{transpose_b=true}}\n{middle}\n"
    text += "%30 = Softmax.8(%20) {axis=-1}\n%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)"
    found, trace = traced(text, fuse_attention)
    assert not any(found.op(n).kind == "Attention" for n in found.ids())
    refused = " ".join(sorted({str(e.refused) for e in trace.refusals()}))
    assert (reason or "") in refused and bool(refused) is (reason is not None)


def test_probabilities_that_others_read_are_kept() -> None:
    text = QKV + "%20 = MatMul.1(%0, %1) {transpose_b=true}" + MIXED + '%33 = Result.1(%30) "p"'
    stays(text, fuse_attention, None)


def test_scaled_values_stay_scaled() -> None:
    text = """
%3 = Const(f32[] = 3)
%4 = Multiply.1(%2, %3)
%20 = MatMul.1(%0, %1) {transpose_b=true}
%30 = Softmax.8(%20) {axis=-1}
%31 = MatMul.1(%30, %4)
%32 = Result.1(%31)
"""
    found = run(QKV + text, fuse_attention)
    kinds = {found.op(n).kind for n in found.ids()}
    assert {"Attention", "Multiply"} <= kinds
    same_values(graph(QKV + text), found)


REPEATED = """
%0 = Input(f32[B, 6, S, 16]) "q"
%1 = Input(f32[B, 2, T, 16]) "k"
%2 = Input(f32[B, 2, T, 8]) "v"
%3 = Input(f32[{mask}]) "m"
%4 = Const(i64[1] = 2)
%5 = Const(i64[5] = 1, 1, 3, 1, 1)
%6 = Unsqueeze.1(%1, %4)
%7 = Broadcast.3(%6, %5) {{mode="bidirectional"}}
%8 = Const(i64[4] = 0, 6, -1, 16)
%9 = ShapeOf.3(%1)
%10 = Const(i64[4] = 1, 3, 1, 1)
%11 = Multiply.1(%9, %10)
%12 = Reshape.1(%7, %11)
%13 = Unsqueeze.1(%2, %4)
%14 = Broadcast.3(%13, %5) {{mode="bidirectional"}}
%15 = ShapeOf.3(%2)
%16 = Multiply.1(%15, %10)
%17 = Reshape.1(%14, %16)
%20 = MatMul.1(%0, %12) {{transpose_b=true}}
%21 = Add.1(%20, %3)
%22 = Softmax.8(%21) {{axis=3}}
%23 = MatMul.1(%22, %17)
%24 = Result.1(%23)
"""


@pytest.mark.parametrize("mask", ["T", "S, T", "B, 1, S, T"])
def test_repeated_heads_are_shared(mask: str) -> None:
    text = REPEATED.format(mask=mask)
    found = run(text, fuse_attention)
    kinds = [found.op(n).kind for n in found.ids()]
    assert "Attention" in kinds and "Broadcast" not in kinds
    same_values(graph(text), found)


def test_heads_with_masks_of_their_own_stay_repeated() -> None:
    text = REPEATED.format(mask="1, 6, S, T")
    found, trace = traced(text, fuse_attention)
    assert "the mask differs from head to head" in {e.refused for e in trace.refusals()}
    same_values(graph(text), found)


def test_repeated_heads_with_sinks_are_shared() -> None:
    cut = """
%22 = Input(f32[1, 6, 1, 1]) "sinks"
%25 = Concat.1(%21, %31) {axis=-1}
%26 = Softmax.8(%25) {axis=-1}
%27 = Const(i64[1] = 0)
%28 = Const(i64[1] = -1)
%29 = Const(i64[1] = 1)
%30 = Slice.8(%26, %27, %28, %29, %28)
%23 = MatMul.1(%30, %17)
"""
    spread = """
%32 = Const(i64[4] = 2, 6, 5, 1)
%31 = Broadcast.3(%22, %32) {mode="bidirectional"}
"""
    text = REPEATED.format(mask="T").replace("[B, ", "[2, ").replace(", S, ", ", 5, ")
    rows = text.split("%22 = Softmax")
    cut = cut.replace("%25 = Concat", spread.strip() + "\n%25 = Concat", 1)
    text = rows[0] + cut.strip() + "\n%24" + rows[1].split("%24")[1]
    found = run(text, fuse_attention)
    kinds = [found.op(n).kind for n in found.ids()]
    assert "Attention" in kinds and not {"Softmax", "Slice"} & set(kinds)
    same_values(graph(text), found)
