"""Normalisations written in primitive operations."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.fuse.layer_norm import fuse_layer_norm
from support.rewriting import becomes, stays

HEAD = """
%0 = Input(f32[N, S, 4]) "x"
%1 = Const(i64[{rank}] = {axes})
%2 = ReduceMean.1(%0, %1) {{keep_dims=true}}
%3 = Subtract.1(%0, %2)
"""
SQUARES = {
    "pow": "%4 = Const(f32[] = 2)\n%5 = Power.1(%3, %4)\n",
    "mul": "%5 = Multiply.1(%3, %3)\n",
    "difference": "%5 = SquaredDifference.1(%0, %2)\n",
}
MEAN = """
%6 = ReduceMean.1(%5, %1) {keep_dims=true}
%7 = Const(f32[] = 0.001)
%8 = Add.1(%6, %7)
"""
QUOTIENTS = {
    "divide": "%9 = Sqrt.1(%8)\n%12 = Divide.1(%3, %9)\n",
    "reciprocal": (
        "%9 = Sqrt.1(%8)\n%10 = Const(f32[] = 1)\n%11 = Divide.1(%10, %9)\n"
        "%12 = Multiply.1(%3, %11)\n"
    ),
    "rsqrt": "%9 = Const(f32[] = -0.5)\n%10 = Power.1(%8, %9)\n%12 = Multiply.1(%10, %3)\n",
    "power of the root": (
        "%9 = Sqrt.1(%8)\n%10 = Const(f32[] = -1)\n%11 = Power.1(%9, %10)\n"
        "%12 = Multiply.1(%3, %11)\n"
    ),
}
AFFINE = """
%13 = Const(f32[4] = 1, 2, 3, 4)
%14 = Multiply.1({scale})
%15 = Const(f32[1, 4] = 4, 3, 2, 1)
%16 = Add.1({bias}) "last" names=y
%17 = Result.1(%16)
"""
NORMAL = """
%0 = Input(f32[N, S, 4]) "x"
%13 = Const(f32[4] = 1, 2, 3, 4)
%15 = Const(f32[1, 4] = 4, 3, 2, 1)
%16 = LayerNorm.0(%0, %13, %15) {axis=-1, eps=0.0010000000474974513} "last" names=y
%17 = Result.1(%16)
"""


def head(axes: str = "-1") -> str:
    return HEAD.format(axes=axes, rank=axes.count(",") + 1)


@pytest.mark.slow
@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize(("scale", "bias"), [("%12, %13", "%14, %15"), ("%13, %12", "%15, %14")])
def test_every_form(square: str, quotient: str, scale: str, bias: str) -> None:
    tail = AFFINE.format(scale=scale, bias=bias)
    becomes(head() + SQUARES[square] + MEAN + QUOTIENTS[quotient] + tail, fuse_layer_norm, NORMAL)


def test_without_scale_and_bias() -> None:
    becomes(
        head("2") + SQUARES["pow"] + MEAN + QUOTIENTS["divide"] + "%13 = Result.1(%12)",
        fuse_layer_norm,
        """
%0 = Input(f32[N, S, 4]) "x"
%1 = Const(i64[1] = 2)
%2 = MVN.6(%0, %1) {eps=0.0010000000474974513}
%3 = Result.1(%2)
""",
    )


def test_epsilon_outside_of_the_root() -> None:
    text = """
%6 = ReduceMean.1(%5, %1) {keep_dims=true}
%7 = Const(f32[] = 0.001)
%8 = Sqrt.1(%6)
%9 = Add.1(%7, %8)
%12 = Divide.1(%3, %9)
%13 = Result.1(%12)
"""
    becomes(
        head() + SQUARES["mul"] + text,
        fuse_layer_norm,
        """
%0 = Input(f32[N, S, 4]) "x"
%1 = Const(i64[1] = 2)
%2 = MVN.6(%0, %1) {eps=0.0010000000474974513, eps_mode="OUTSIDE_SQRT"}
%3 = Result.1(%2)
""",
    )


def test_two_axes_in_any_order() -> None:
    before = head("-1, -2").replace("N, S,", "N, 2,") + SQUARES["mul"] + MEAN + QUOTIENTS["divide"]
    scale = "%13 = Const(f32[2, 4] = 1, 2, 3, 4, 5, 6, 7, 8)\n"
    becomes(
        before + scale + "%14 = Multiply.1(%12, %13)\n%15 = Result.1(%14)",
        fuse_layer_norm,
        '%0 = Input(f32[N, 2, 4]) "x"\n'
        + scale
        + "%14 = LayerNorm.0(%0, %13) {axis=-2, eps=0.0010000000474974513}\n%15 = Result.1(%14)",
    )


def test_existing_normalisations_take_scale_and_bias() -> None:
    becomes(
        """
%0 = Input(f32[N, 4])
%1 = Const(i64[1] = 1)
%2 = MVN.6(%0, %1) {eps=0.5}
%3 = Const(f32[4] = 1, 2, 3, 4)
%4 = Add.1(%3, %2)
%5 = Result.1(%4)
""",
        fuse_layer_norm,
        """
%0 = Input(f32[N, 4])
%3 = Const(f32[4] = 1, 2, 3, 4)
%4 = LayerNorm.0(%0, _, %3) {axis=-1, eps=0.5}
%5 = Result.1(%4)
""",
    )
    becomes(
        """
%0 = Input(f32[N, 4])
%1 = Const(f32[4] = 1, 2, 3, 4)
%2 = LayerNorm.0(%0, %1) {axis=1, eps=0.5}
%3 = Const(f32[] = 3)
%4 = Add.1(%2, %3)
%5 = Result.1(%4)
""",
        fuse_layer_norm,
        """
%0 = Input(f32[N, 4])
%1 = Const(f32[4] = 1, 2, 3, 4)
%3 = Const(f32[] = 3)
%4 = LayerNorm.0(%0, %1, %3) {axis=-1, eps=0.5}
%5 = Result.1(%4)
""",
    )


RMS = """
%0 = Input(f32[N, 4])
%1 = Const(i64[1] = -1)
%2 = Const(f32[] = 2)
%3 = Power.1(%0, %2)
%4 = ReduceMean.1(%3, %1) {keep_dims=true}
%5 = Const(f32[] = 0.001)
%6 = Add.1(%4, %5)
%7 = Sqrt.1(%6)
%8 = Divide.1(%2, %7)
"""


def test_rms_normalisation() -> None:
    becomes(
        RMS.replace("%2, %7", "%9, %7").replace("%8 =", "%9 = Const(f32[] = 1)\n%8 =")
        + "%10 = Multiply.1(%0, %8)\n%11 = Const(f32[4] = 1, 2, 3, 4)\n"
        + "%12 = Multiply.1(%11, %10)\n%13 = Result.1(%12)",
        fuse_layer_norm,
        """
%0 = Input(f32[N, 4])
%11 = Const(f32[4] = 1, 2, 3, 4)
%12 = RMSNorm.0(%0, %11) {axis=-1, eps=0.0010000000474974513}
%13 = Result.1(%12)
""",
    )


WHOLE = head() + SQUARES["mul"] + MEAN + QUOTIENTS["divide"]
MVN = "%0 = Input(f32[N, S, 4])\n%1 = Const(i64[1] = 2)\n%2 = MVN.6(%0, %1)\n"
REFUSED = [
    (
        WHOLE.replace("= -1)", "= 1)"),
        "%13 = Result.1(%12)",
        "the normalised axes are not the last ones",
    ),
    (WHOLE, "", None),
    (
        MVN,
        "%3 = Input(f32[N, S, 4])\n%4 = Add.1(%2, %3)\n%5 = Result.1(%4)",
        "the operand does not have the normalised shape",
    ),
    (
        MVN,
        "%3 = Input(f32[C])\n%4 = Multiply.1(%2, %3)\n%5 = Result.1(%4)",
        "the operand does not have the normalised shape",
    ),
    (
        MVN,
        "%3 = Const(f32[1, 1, 1, 4] = 1, 2, 3, 4)\n%4 = Multiply.1(%2, %3)\n%5 = Result.1(%4)",
        "the operand does not have the normalised shape",
    ),
    (
        MVN,
        "%3 = Input(f32[4])\n%4 = Multiply.1(%2, %3)\n%5 = Result.1(%4)\n%6 = Result.1(%2)",
        "the normalised value has other readers",
    ),
    (
        "%0 = Input(f32[N, 4])\n%1 = Input(f32[4])\n%2 = LayerNorm.0(%0, %1)\n",
        "%4 = Multiply.1(%2, %1)\n%5 = Result.1(%4)",
        "the normalisation has a scale already",
    ),
]


@pytest.mark.parametrize(("before", "tail", "reason"), [r for r in REFUSED if r[2]])
def test_refusals(before: str, tail: str, reason: str) -> None:
    stays(before + tail, fuse_layer_norm, reason)


def test_a_scale_behind_the_bias_is_no_scale() -> None:
    text = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4] = 1, 2, 3, 4)
%2 = LayerNorm.0(%0, _, %1)
%3 = Multiply.1(%2, %1)
%4 = Result.1(%3)
"""
    stays(text, fuse_layer_norm, None)


def test_epsilon_outside_of_the_root_has_no_layer_norm() -> None:
    text = """
%0 = Input(f32[N, 4])
%1 = Const(i64[1] = 1)
%2 = MVN.6(%0, %1) {eps=0.5, eps_mode="OUTSIDE_SQRT"}
%3 = Const(f32[4] = 1, 2, 3, 4)
%4 = Multiply.1(%2, %3)
%5 = Result.1(%4)
"""
    stays(text, fuse_layer_norm, None)
    stays(
        text.replace(', eps_mode="OUT', ', normalize_variance=false, eps_mode="IN'),
        fuse_layer_norm,
        None,
    )
    rms = RMS.replace("%6 = Add.1(%4, %5)\n%7 = Sqrt.1(%6)", "%6 = Sqrt.1(%4)\n%7 = Add.1(%6, %5)")
    rms = rms.replace("Divide.1(%2, %7)", "Divide.1(%0, %7)")
    stays(rms + "%9 = Result.1(%8)", fuse_layer_norm, "epsilon is added outside of the root")


def test_different_axes_and_dropped_axes() -> None:
    text = WHOLE.replace("ReduceMean.1(%5, %1)", "ReduceMean.1(%5, %18)")
    text = text.replace("%6 =", "%18 = Const(i64[2] = 1, 2)\n%6 =") + "%13 = Result.1(%12)"
    stays(text, fuse_layer_norm, "mean and variance are taken over different axes")
    text = WHOLE.replace("[N, S, 4]", "[4, 4]").replace("true", "false") + "%13 = Result.1(%12)"
    stays(text, fuse_layer_norm, "the mean drops its axes")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Subtract.1(%0, %2)", "Subtract.1(%2, %0)"),
        ("Sqrt.1(%8)", "Exp.1(%8)"),
        ("Multiply.1(%3, %3)", "Multiply.1(%3, %0)"),
        ("= 0.001)", "= -1)"),
    ],
)
def test_what_only_looks_alike(old: str, new: str) -> None:
    text = WHOLE.replace(old, new)
    assert text != WHOLE
    if "Subtract" in old:  # -(x - mean) / root is an RMS normalisation of mean - x
        return
    stays(text + "%13 = Result.1(%12)", fuse_layer_norm, None)
