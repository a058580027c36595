"""Forms of attention beyond scale, mask and softmax, as exporters write those of known models."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.api import compile_model
from irc_compiler.compiler.model import Model
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.ir.errors import InputError
from irc_compiler.ir.interpret import interpret
from support.rewriting import graph, random_inputs, run, stays

QKV = """
%0 = Input(f32[B, 3, S, 16]) "q"
%1 = Input(f32[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
"""
MERGED = (
    (
        QKV
        + """
%3 = Const(i64[3] = -1, 5, 16)
%4 = Const(i64[3] = -1, 5, 8)
%5 = Reshape.1(%0, %3) {special_zero=false}
%6 = Reshape.1(%1, %3) {special_zero=false}
%7 = Reshape.1(%2, %4) {special_zero=false}
%8 = MatMul.1(%5, %6) {transpose_b=true}
%9 = Const(i64[4] = -1, 3, 5, 5)
""".replace("S", "5")
    )
    .replace("S, 16", "5, 16")
    .replace("T, ", "5, ")
)
SCORES = QKV + "%9 = MatMul.1(%0, %1) {transpose_b=true}\n"
MIXED = "%30 = Softmax.8(%20) {axis=-1}\n%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)"
LOWEST = "-3.4028235e38"

FORMS = {
    # Whisper, BART: heads are a part of the batch, but where the mask is added.
    "merged heads": MERGED
    + """
%10 = Reshape.1(%8, %9) {special_zero=false}
%11 = Input(f32[B, 1, 1, 5]) "m"
%12 = Add.1(%10, %11)
%13 = Const(i64[3] = -1, 5, 5)
%14 = Reshape.1(%12, %13) {special_zero=false}
%15 = Softmax.8(%14) {axis=-1}
%16 = MatMul.1(%15, %7)
%17 = Const(i64[4] = -1, 3, 5, 8)
%18 = Reshape.1(%16, %17) {special_zero=false}
%19 = Result.1(%18)
""",
    # The same, read as it is.
    "merged heads that stay": MERGED
    + "%10 = Reshape.1(%8, %9) {special_zero=false}\n%11 = Softmax.8(%10) {axis=-1}\n"
    "%12 = Const(i64[3] = -1, 5, 5)\n%13 = Reshape.1(%11, %12) {special_zero=false}\n"
    "%14 = MatMul.1(%13, %7)\n%15 = Result.1(%14)",
    # Bloom: baddbmm adds what belongs to a head, in a batch of heads; the mask comes later.
    "alibi": MERGED
    + f"""
%10 = Input(f32[B, 3, 5]) "alibi"
%11 = Const(i64[3] = -1, 1, 5)
%12 = Reshape.1(%10, %11) {{special_zero=false}}
%13 = Const(f32[] = 0.25)
%14 = Multiply.1(%8, %13)
%15 = Add.1(%12, %14)
%16 = Reshape.1(%15, %9) {{special_zero=false}}
%17 = Input(boolean[1, 1, 5, 5]) "m"
%18 = Const(f32[] = {LOWEST})
%19 = Select.1(%17, %16, %18) {{auto_broadcast="numpy"}}
%20 = Softmax.8(%19) {{axis=3}}
%21 = Const(i64[3] = -1, 5, 5)
%22 = Reshape.1(%20, %21) {{special_zero=false}}
%23 = MatMul.1(%22, %7)
%24 = Const(i64[4] = -1, 3, 5, 8)
%25 = Reshape.1(%23, %24) {{special_zero=false}}
%26 = Result.1(%25)
""",
    # Swin: a bias per head for all windows, then a mask per window for all heads and images.
    "windows": """
%0 = Input(f32[N, 3, 5, 16]) "q"
%1 = Input(f32[N, 3, 5, 16]) "k"
%2 = Input(f32[N, 3, 5, 8]) "v"
%3 = MatMul.1(%0, %1) {transpose_b=true}
%4 = Input(f32[1, 3, 5, 5]) "bias"
%5 = Add.1(%3, %4)
%6 = Const(i64[5] = -1, 4, 3, 5, 5)
%7 = Reshape.1(%5, %6) {special_zero=false}
%8 = Input(f32[1, 4, 1, 5, 5]) "mask"
%9 = Add.1(%7, %8)
%10 = Const(i64[4] = -1, 3, 5, 5)
%11 = Reshape.1(%9, %10) {special_zero=false}
%12 = Softmax.8(%11) {axis=3}
%13 = MatMul.1(%12, %2)
%14 = Result.1(%13)
""",
    # Falcon: the sum of scores and alibi is scaled.
    "a scaled mask": SCORES
    + '%10 = Input(f32[B, 3, 1, T]) "m"\n%11 = Add.1(%9, %10)\n%12 = Const(f32[] = 0.25)\n'
    "%20 = Multiply.1(%11, %12)\n" + MIXED,
    # MPT, DeBERTa: a bias, and what hides put over it.
    "a choice behind a mask": SCORES + '%10 = Input(f32[3, 1, T]) "bias"\n%11 = Add.1(%10, %9)\n'
    '%12 = Input(boolean[B, 1, S, T]) "m"\n'
    f"%13 = Const(f32[] = {LOWEST})\n%20 = Select.1(%12, %13, %11) "
    '{auto_broadcast="numpy"}\n' + MIXED,
    "three masks": SCORES + '%10 = Input(f32[3, 1, T]) "a"\n%11 = Add.1(%10, %9)\n'
    '%12 = Input(f32[S, T]) "b"\n%13 = Add.1(%11, %12)\n'
    '%14 = Input(boolean[B, 1, 1, T]) "c"\n'
    f"%15 = Const(f32[] = {LOWEST})\n%20 = Select.1(%14, %13, %15) "
    '{auto_broadcast="numpy"}\n' + MIXED,
    # Swin's second version, XCiT: a temperature per head, which is a weight.
    "a temperature": SCORES + '%10 = Input(f32[3, 1, 1]) "t"\n%11 = Multiply.1(%9, %10)\n'
    '%12 = Input(f32[1, 3, S, T]) "m"\n%20 = Add.1(%11, %12)\n' + MIXED,
    "a divisor per query": SCORES
    + '%10 = Const(f32[3, 1, 1] = 2, 4, 8)\n%20 = Divide.1(%9, %10) {auto_broadcast="numpy"}\n'
    + MIXED,
    # OpenVINO's converter, all sizes unknown: a mask's batch is its own.
    "a mask of another batch": SCORES
    + '%10 = Input(f32[C, 1, 1, U]) "m"\n%20 = Add.1(%9, %10)\n'
    + MIXED,
    # Gemma 2: scores within a cap, then a mask.
    "capped scores": SCORES
    + "%10 = Const(f32[] = 0.1)\n%11 = Multiply.1(%9, %10)\n%12 = Const(f32[] = 5)\n"
    "%13 = Divide.1(%11, %12)\n%14 = Tanh.1(%13)\n%15 = Multiply.1(%14, %12)\n"
    '%16 = Input(f32[B, 1, S, T]) "m"\n%20 = Add.1(%15, %16)\n' + MIXED,
    # gpt-oss: a score per head that joins the softmax, and is cut off.
    "sinks": SCORES
    + """
%10 = Input(f32[1, 3, 1, 1]) "sinks"
%11 = ShapeOf.3(%0) {output_type=i64}
%12 = Const(i64[3] = 0, 1, 2)
%13 = Const(i64[] = 0)
%14 = Gather.8(%11, %12, %13)
%15 = Const(i64[1] = 1)
%16 = Concat.1(%14, %15) {axis=0}
%17 = Broadcast.3(%10, %16) {mode="bidirectional"}
%18 = Concat.1(%9, %17) {axis=-1}
%19 = Const(i64[1] = -1)
%21 = ReduceMax.1(%18, %19) {keep_dims=true}
%22 = Subtract.1(%18, %21)
%23 = Softmax.8(%22) {axis=-1}
%24 = Const(i64[1] = 0)
%30 = Slice.8(%23, %24, %19, %15, %19)
%31 = MatMul.1(%30, %2)
%32 = Result.1(%31)
""",
    "a sink per query behind a mask": SCORES
    + """
%10 = Input(f32[B, 1, S, T]) "m"
%11 = Add.1(%9, %10)
%12 = Input(f32[B, 3, S, 1]) "sinks"
%13 = Concat.1(%11, %12) {axis=3}
%14 = Softmax.8(%13) {axis=-1}
%15 = Const(i64[1] = 0)
%16 = Const(i64[1] = -1)
%17 = Const(i64[1] = 1)
%18 = Const(i64[1] = 3)
%30 = Slice.8(%14, %15, %16, %17, %18)
%31 = MatMul.1(%30, %2)
%32 = Result.1(%31)
""",
    # OPT as it was: nothing is lower than the lowest number.
    "a floor": SCORES + '%10 = Input(f32[B, 1, S, T]) "m"\n%11 = Add.1(%9, %10)\n'
    f"%12 = Const(f32[] = {LOWEST})\n%20 = Maximum.1(%11, %12)\n" + MIXED,
    "a floor of a choice": SCORES
    + f'%10 = Input(boolean[B, 1, S, T]) "m"\n%11 = Const(f32[] = -1e30)\n'
    "%13 = Select.1(%10, %9, %11)\n"
    f"%12 = Const(f32[] = {LOWEST})\n%20 = Maximum.1(%12, %13)\n" + MIXED,
    # GPT-2 as it was: a table of booleans cut to the length.
    "a table": SCORES.replace("3, T", "3, S")
    + """
%40 = Const(boolean[1, 1, 4, 4] = 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1)
%41 = ShapeOf.3(%0) {output_type=i64}
%42 = Const(i64[2] = 2, 2)
%43 = Const(i64[] = 0)
%44 = Gather.8(%41, %42, %43)
%45 = Const(i64[2] = 0, 0)
%46 = Const(i64[2] = 1, 1)
%47 = Const(i64[2] = 2, 3)
%10 = Slice.8(%40, %45, %44, %46, %47)
%11 = Const(f32[] = -3.4028235e38)
%20 = Select.1(%10, %9, %11) {auto_broadcast="numpy"}
"""
    + MIXED,
    # Diffusion models: channels come first, values meet the softmax from the left.
    "places last": QKV
    + '%3 = Input(f32[B, 3, 8, T]) "w"\n%9 = MatMul.1(%0, %1) {transpose_b=true}\n'
    "%30 = Softmax.8(%9) {axis=-1}\n%31 = MatMul.1(%3, %30) {transpose_b=true}\n"
    "%32 = Result.1(%31)",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_one_step(form: str) -> None:
    """Found, with the values of what was written; and as a step, alone but for its masks."""
    text = FORMS[form].replace(
        "Multiply.1(%9, %10)\n", 'Multiply.1(%9, %10) {auto_broadcast="numpy"}\n'
    )
    source = graph(text)
    found = run(text, fuse_attention)
    kinds = [found.op(n).kind for n in found.order()]
    assert kinds.count("Attention") == 1 and not {"Softmax", "MatMul"} & set(kinds)
    sizes = {"N": 8, "C": 1} if "windows" in form else {"C": 1}
    inputs = random_inputs(source, **sizes)
    wanted = interpret(source, inputs)[0]
    np.testing.assert_allclose(interpret(found, inputs)[0], wanted, rtol=1e-5, atol=1e-5)
    net = compile_model(Model(graph(text)))
    steps = [s.spec.family for s in net.plan.kernel_steps()]
    assert steps.count("attention") == 1 and not {"softmax", "gemm"} & set(steps)
    assert not net.plan.host_steps()
    np.testing.assert_allclose(net(inputs)[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["a floor", "a floor of a choice"])
def test_rows_that_a_floor_hides_are_means(form: str) -> None:
    """Keys that are hidden below the floor weigh what the others of their row weigh."""
    inputs = random_inputs(graph(FORMS[form]))
    mask = next(a for a in inputs if a.shape[1] == 1)
    mask[...] = False if mask.dtype == bool else -np.inf
    net = compile_model(Model(graph(FORMS[form])))
    wanted = interpret(graph(FORMS[form]), inputs)[0]
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(net(inputs)[0], wanted, rtol=1e-5, atol=1e-5)


def test_a_mask_brings_a_batch() -> None:
    """One set of queries, keys and values under several masks."""
    inputs = random_inputs(graph(FORMS["a mask of another batch"]), B=1, C=4)
    net = compile_model(Model(graph(FORMS["a mask of another batch"])))
    wanted = interpret(graph(FORMS["a mask of another batch"]), inputs)[0]
    found = net(inputs)[0]
    assert found.shape == (4, 3, 3, 8)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_table_that_is_too_short_is_refused() -> None:
    """Nothing is read behind its end."""
    text = FORMS["a table"]
    net = compile_model(Model(graph(text)))
    assert [s.spec.family for s in net.plan.kernel_steps()].count("attention") == 1
    for length in (1, 4):
        inputs = random_inputs(graph(text), S=length)
        wanted = interpret(graph(text), inputs)[0]
        np.testing.assert_allclose(net(inputs)[0], wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="broadcast"):
        net(random_inputs(graph(text), S=5))


@pytest.mark.parametrize(
    "text, reason",
    [
        # Perhaps a bias for all heads, perhaps one for each.
        (
            FORMS["windows"].replace("[1, 3, 5, 5]", "[1, M, 5, 5]"),
            "it is not known how a mask broadcasts",
        ),
        (
            FORMS["places last"].replace("{transpose_b=true}\n%32", "{transpose_b=false}\n%32"),
            "the mixture reads the softmax the other way round",
        ),
    ],
)
def test_what_stays(text: str, reason: str) -> None:
    stays(text.replace('f32[B, 3, 8, T]) "w"', 'f32[B, 3, 8, S]) "w"'), fuse_attention, reason)


def test_names_of_sizes_that_are_no_identifiers() -> None:
    """An input of which a region reads a size only."""
    text = '%0 = Input(f32[`1.0`, 4]) "x"\n%1 = ShapeOf.3(%0) {output_type=i64}\n%2 = Result.1(%1)'
    net = compile_model(Model(graph(text)))
    np.testing.assert_array_equal(net(np.zeros((3, 4), np.float32))[0], [3, 4])
