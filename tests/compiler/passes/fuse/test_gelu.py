"""Gated activations in every association that exporters write."""

from __future__ import annotations

import math

import pytest
from irc_compiler.compiler.passes.fuse.gelu import fuse_gelu
from irc_compiler.ir.ops import Gelu, Mish, Swish
from support.rewriting import becomes, graph, run, same_values, stays

X = '%0 = Input(f32[N, 4]) "x"\n'
HALF, ONE = "%1 = Const(f32[] = 0.5)\n", "%2 = Const(f32[] = 1)\n"
ROOT2, INVERSE = "%3 = Const(f32[1] = 1.4142135381698608)\n", "%3 = Const(f32[] = 0.70710678)\n"
GELU = X + '%1 = Gelu.7(%0) {{approximation_mode="{}"}} "root" names=y\n%2 = Result.1(%1)\n'

# After x, 0.5, 1 and the factor; the last one is named root. %6 is always 1 + erf.
ERF = """
%4 = {scaled}
%5 = Erf.1(%4)
%6 = {shifted}
{rest}
%9 = Result.1(%8)
"""
TAILS = {
    "(x g) 0.5": '%7 = Multiply.1(%0, %6)\n%8 = Multiply.1(%7, %1) "root" names=y',
    "x (0.5 g)": '%7 = Multiply.1(%1, %6)\n%8 = Multiply.1(%0, %7) "root" names=y',
    "(0.5 x) g": '%7 = Multiply.1(%1, %0)\n%8 = Multiply.1(%7, %6) "root" names=y',
    "g (x 0.5)": '%7 = Multiply.1(%0, %1)\n%8 = Multiply.1(%6, %7) "root" names=y',
    "(g x) / 2": (
        '%10 = Const(f32[] = 2)\n%7 = Multiply.1(%6, %0)\n%8 = Divide.1(%7, %10) "root" names=y'
    ),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shifted", ["Add.1(%5, %2)", "Add.1(%2, %5)"])
@pytest.mark.parametrize(
    ("factor", "scaled"), [(ROOT2, "Divide.1(%0, %3)"), (INVERSE, "Multiply.1(%3, %0)")]
)
def test_erf_in_every_association(tail: str, shifted: str, factor: str, scaled: str) -> None:
    lines = ERF.format(scaled=scaled, shifted=shifted, rest=TAILS[tail])
    becomes(X + HALF + ONE + factor + lines, fuse_gelu, GELU.format("ERF"))


# Half of the gate is spread over a sum; the half input is used twice; the argument's sign is off.
SPREAD = {
    "0.5 x + 0.5 x erf": """
%4 = Multiply.1(%0, %3)
%5 = Erf.1(%4)
%6 = Multiply.1(%0, %1)
%7 = Multiply.1(%6, %5)
%8 = Add.1(%6, %7)
""",
    "x (0.5 + 0.5 erf)": """
%4 = Multiply.1(%0, %3)
%5 = Erf.1(%4)
%6 = Multiply.1(%5, %1)
%7 = Add.1(%6, %1)
%8 = Multiply.1(%7, %0)
""",
    "0.5 x (1 - erf(-x / r))": """
%10 = Negative.1(%0)
%4 = Multiply.1(%10, %3)
%5 = Erf.1(%4)
%6 = Subtract.1(%2, %5)
%7 = Multiply.1(%0, %1)
%8 = Multiply.1(%7, %6)
""",
}


@pytest.mark.parametrize("form", SPREAD)
def test_erf_forms_that_are_no_plain_product(form: str) -> None:
    text = X + HALF + ONE + INVERSE + SPREAD[form] + "%9 = Result.1(%8)"
    found = run(text, fuse_gelu)
    assert [found.op(n) for n in found.order()][1] == Gelu("ERF")
    same_values(graph(text), found)


K = math.sqrt(2 / math.pi)
TANH = {
    # As BERT's and GPT-2's exporters write it.
    "k (x + c x^3)": """
%4 = Const(f32[] = 3)
%5 = Power.1(%0, %4)
%6 = Const(f32[] = 0.044715)
%7 = Multiply.1(%5, %6)
%8 = Add.1(%0, %7)
%9 = Const(f32[] = 0.7978845608028654)
%10 = Multiply.1(%8, %9)
""",
    # As Keras and MLIR write it: k x (1 + c x x).
    "k x (1 + c x x)": """
%4 = Multiply.1(%0, %0)
%5 = Const(f32[] = 0.044715)
%6 = Multiply.1(%4, %5)
%7 = Add.1(%6, %2)
%8 = Const(f32[] = 0.79788456)
%9 = Multiply.1(%0, %8)
%10 = Multiply.1(%9, %7)
""",
    "k x + (k c) x^3": """
%4 = Multiply.1(%0, %0)
%5 = Multiply.1(%4, %0)
%6 = Const(f32[] = 0.035677408136300125)
%7 = Multiply.1(%6, %5)
%8 = Const(f32[] = 0.7978845608028654)
%9 = Multiply.1(%8, %0)
%10 = Add.1(%9, %7)
""",
}


@pytest.mark.parametrize("form", TANH)
def test_tanh_forms(form: str) -> None:
    tail = """
%11 = Tanh.1(%10)
%12 = Add.1(%11, %2)
%13 = Multiply.1(%0, %1)
%14 = Multiply.1(%13, %12) "root" names=y
%15 = Result.1(%14)
"""
    becomes(X + HALF + ONE + TANH[form] + tail, fuse_gelu, GELU.format("TANH"))


def test_half_precision_constants() -> None:
    text = (X + HALF + ONE + ROOT2).replace("f32", "f16") + ERF.format(
        scaled="Divide.1(%0, %3)", shifted="Add.1(%5, %2)", rest=TAILS["(x g) 0.5"]
    )
    found = run(text, fuse_gelu)
    assert any(isinstance(found.op(n), Gelu) for n in found.ids())


def near_miss(factor: str = ROOT2, tail: str = TAILS["(x g) 0.5"], half: str = HALF) -> str:
    return (
        X
        + half
        + ONE
        + factor
        + ERF.format(scaled="Divide.1(%0, %3)", shifted="Add.1(%5, %2)", rest=tail)
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (near_miss("%3 = Const(f32[] = 1.41)\n"), "the constants are not Gelu's"),
        (near_miss(half="%1 = Const(f32[] = 0.51)\n"), "the constants are not Gelu's"),
        (near_miss() + "%10 = Result.1(%6)", "the gate has other readers"),
        # Another value than the gate's argument is gated.
        (
            X
            + "%10 = Input(f32[N, 4])\n"
            + near_miss(
                tail="""
%7 = Multiply.1(%10, %6)
%8 = Multiply.1(%7, %1)
"""
            ).removeprefix(X),
            None,
        ),
        # One factor per channel is not a constant.
        (near_miss("%3 = Const(f32[4] = 1.41421, 1, 1, 1)\n"), None),
    ],
)
def test_near_misses(text: str, reason: str | None) -> None:
    stays(text, fuse_gelu, reason)


def test_gelu_of_a_sum_that_others_read_too() -> None:
    before = (
        X
        + HALF
        + ONE
        + ROOT2
        + """
%20 = Input(f32[4])
%21 = Add.1(%0, %20)
"""
        + ERF.format(
            scaled="Divide.1(%21, %3)", shifted="Add.1(%5, %2)", rest=TAILS["(x g) 0.5"]
        ).replace("%0", "%21")
        + "%22 = Result.1(%21)"
    )
    becomes(
        before,
        fuse_gelu,
        X
        + """
%20 = Input(f32[4])
%21 = Add.1(%0, %20)
%1 = Gelu.7(%21) {approximation_mode="ERF"} "root" names=y
%2 = Result.1(%1)
%3 = Result.1(%21)
""",
    )


SWISH = (
    X
    + """
%1 = Const(f32[] = {beta})
%2 = Multiply.1(%0, %1)
%3 = Sigmoid.1(%2)
%4 = Multiply.1(%3, %0)
%5 = Result.1(%4)
"""
)


def test_swish() -> None:
    becomes(
        X + "%1 = Sigmoid.1(%0)\n%2 = Multiply.1(%0, %1)\n%3 = Result.1(%2)",
        fuse_gelu,
        X + "%2 = Swish.4(%0)\n%3 = Result.1(%2)",
    )
    becomes(
        SWISH.format(beta=1.702),
        fuse_gelu,
        X + "%1 = Const(f32[] = 1.702)\n%2 = Swish.4(%0, %1)\n%3 = Result.1(%2)",
    )
    found = run(X + "%1 = Sigmoid.1(%0)\n%2 = Multiply.1(%0, %1)\n%3 = Result.1(%2)", fuse_gelu)
    assert any(isinstance(found.op(n), Swish) for n in found.ids())


def test_gelu_written_with_a_sigmoid() -> None:
    head = X + HALF + ONE + TANH["k (x + c x^3)"]
    text = (
        head
        + """
%11 = Const(f32[] = 2)
%12 = Multiply.1(%10, %11)
%13 = Sigmoid.1(%12)
%14 = Multiply.1(%13, %0) "root" names=y
%15 = Result.1(%14)
"""
    )
    becomes(text, fuse_gelu, GELU.format("TANH"))


def test_constants_of_other_functions() -> None:
    """Near misses of the tanh form and of Swish."""
    tanh = (
        X
        + HALF
        + ONE
        + TANH["k (x + c x^3)"]
        + """
%11 = Tanh.1(%10)
%12 = Add.1(%11, %2)
%13 = Multiply.1(%0, %1)
%14 = Multiply.1(%13, %12)
%15 = Result.1(%14)
"""
    )
    stays(tanh.replace("0.044715", "0.05"), fuse_gelu, "the constants are not Gelu's")
    swish = X + HALF + "%2 = Sigmoid.1(%0)\n%3 = Multiply.1(%0, %2)\n%4 = Multiply.1(%3, %1)\n"
    found = run(swish + "%5 = Result.1(%4)", fuse_gelu)
    assert [found.op(n).kind for n in found.order()][1:] == [
        "Swish",
        "Constant",
        "Multiply",
        "Result",
    ]
    scaled = X + HALF + "%2 = Sigmoid.1(%0)\n%3 = Multiply.1(%0, %1)\n%4 = Multiply.1(%3, %2)\n"
    stays(scaled + "%5 = Result.1(%4)", fuse_gelu, "the product with the gate is scaled")


def test_mish() -> None:
    text = X + "%1 = SoftPlus.4(%0)\n%2 = Tanh.1(%1)\n%3 = Multiply.1(%2, %0)\n%4 = Result.1(%3)"
    found = run(text, fuse_gelu)
    assert any(isinstance(found.op(n), Mish) for n in found.ids())
    same_values(graph(text), found)


@pytest.mark.slow
def test_a_chain_longer_than_the_stack_is_no_matter() -> None:
    lines = "".join(f"%{i + 1} = Add.1(%{i}, %0)\n" for i in range(3, 2000))
    text = X + "%3 = Erf.1(%0)\n" + lines + "%2001 = Result.1(%2000)"
    stays(text, fuse_gelu, None)
