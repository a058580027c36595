"""Products take addends and scalar factors."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.fuse.matmul_add import fuse_matmul_add
from support.rewriting import becomes, stays

PRODUCT = """
%0 = Input(f32[N, 4]) "x"
%1 = Const(f32[4, 3] = ~1)
%2 = MatMul.1(%0, %1) "mm"
"""


def product_and(lines: str) -> str:
    return PRODUCT + lines


@pytest.mark.parametrize("order", ["%2, %3", "%3, %2"])
def test_a_bias_on_either_side(order: str) -> None:
    becomes(
        product_and(f"""
%3 = Const(f32[3] = 1, 2, 3) "bias"
%4 = Add.1({order}) "sum" names=y
%5 = Result.1(%4) "out"
"""),
        fuse_matmul_add,
        """
%0 = Input(f32[N, 4]) "x"
%1 = Const(f32[4, 3] = ~1)
%3 = Const(f32[3] = 1, 2, 3) "bias"
%4 = Gemm.0(%0, %1, %3) "sum" names=y
%5 = Result.1(%4) "out"
""",
    )


def test_batched_activations_with_a_transposed_weight() -> None:
    becomes(
        """
%0 = Input(f32[B, S, 4]) "x"
%1 = Const(f32[3, 4] = ~1)
%2 = MatMul.1(%0, %1) {transpose_b=true}
%3 = Const(f32[1, 3] = 1, 2, 3)
%4 = Add.1(%2, %3)
%5 = Result.1(%4)
""",
        fuse_matmul_add,
        """
%0 = Input(f32[B, S, 4]) "x"
%1 = Const(f32[3, 4] = ~1)
%3 = Const(f32[1, 3] = 1, 2, 3)
%4 = Gemm.0(%0, %1, %3) {transpose_b=true}
%5 = Result.1(%4)
""",
    )


def test_the_addend_may_be_an_activation() -> None:
    becomes(
        product_and("""
%3 = Input(f32[N, 3]) "residual"
%4 = Add.1(%3, %2)
%5 = Result.1(%4)
"""),
        fuse_matmul_add,
        """
%0 = Input(f32[N, 4]) "x"
%3 = Input(f32[N, 3]) "residual"
%1 = Const(f32[4, 3] = ~1)
%4 = Gemm.0(%0, %1, %3)
%5 = Result.1(%4)
""",
    )


@pytest.mark.parametrize(
    ("order", "attributes"), [("%2, %3", "beta=-1.0"), ("%3, %2", "alpha=-1.0")]
)
def test_subtraction(order: str, attributes: str) -> None:
    becomes(
        product_and(f"%3 = Input(f32[3])\n%4 = Subtract.1({order})\n%5 = Result.1(%4)"),
        fuse_matmul_add,
        f"""
%0 = Input(f32[N, 4]) "x"
%3 = Input(f32[3])
%1 = Const(f32[4, 3] = ~1)
%4 = Gemm.0(%0, %1, %3) {{{attributes}}}
%5 = Result.1(%4)
""",
    )


@pytest.mark.parametrize(
    ("scaling", "alpha"),
    [("Multiply.1(%2, %3)", 8), ("Multiply.1(%3, %2)", 8), ("Divide.1(%2, %3)", 0.125)],
)
def test_scaled_products_and_a_bias(scaling: str, alpha: float) -> None:
    becomes(
        product_and(f"""
%3 = Const(f32[] = 8)
%4 = {scaling}
%5 = Input(f32[1, 3]) "mask"
%6 = Add.1(%4, %5) "masked"
%7 = Result.1(%6)
"""),
        fuse_matmul_add,
        f"""
%0 = Input(f32[N, 4]) "x"
%5 = Input(f32[1, 3]) "mask"
%1 = Const(f32[4, 3] = ~1)
%6 = Gemm.0(%0, %1, %5) {{alpha={float(alpha)}}} "masked"
%7 = Result.1(%6)
""",
    )


def test_a_scaled_addend() -> None:
    becomes(
        product_and("""
%3 = Input(f32[N, 3]) "c"
%4 = Const(f32[] = 0.3)
%5 = Multiply.1(%3, %4)
%6 = Add.1(%2, %5)
%7 = Result.1(%6)
"""),
        fuse_matmul_add,
        """
%0 = Input(f32[N, 4]) "x"
%3 = Input(f32[N, 3]) "c"
%1 = Const(f32[4, 3] = ~1)
%6 = Gemm.0(%0, %1, %3) {beta=0.30000001192092896}
%7 = Result.1(%6)
""",
    )


def test_two_products_take_one_another() -> None:
    becomes(
        product_and("""
%3 = Input(f32[N, 5])
%4 = Const(f32[5, 3] = ~2)
%5 = MatMul.1(%3, %4)
%6 = Add.1(%2, %5)
%7 = Result.1(%6)
"""),
        fuse_matmul_add,
        """
%0 = Input(f32[N, 4]) "x"
%3 = Input(f32[N, 5])
%1 = Const(f32[4, 3] = ~1)
%4 = Const(f32[5, 3] = ~2)
%5 = MatMul.1(%3, %4)
%6 = Gemm.0(%0, %1, %5)
%7 = Result.1(%6)
""",
    )


def test_whole_factors_of_integers() -> None:
    becomes(
        """
%0 = Input(i32[2, 4])
%1 = Const(i32[4, 3] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Const(i32[] = -3)
%4 = Multiply.1(%2, %3)
%5 = Const(i32[3] = 1, 2, 3)
%6 = Subtract.1(%4, %5)
%7 = Result.1(%6)
""",
        fuse_matmul_add,
        """
%0 = Input(i32[2, 4])
%1 = Const(i32[4, 3] = ~1)
%5 = Const(i32[3] = 1, 2, 3)
%6 = Gemm.0(%0, %1, %5) {alpha=-3.0, beta=-1.0}
%7 = Result.1(%6)
""",
    )


REFUSED = {
    "several readers": (
        "%3 = Input(f32[3])\n%4 = Add.1(%2, %3)\n%5 = Result.1(%4)\n%6 = Result.1(%2)",
        "the product has other readers",
    ),
    "higher rank": (
        "%3 = Input(f32[2, 1, 3])\n%4 = Add.1(%2, %3)\n%5 = Result.1(%4)",
        "the addend would broadcast the product up",
    ),
    "unknown size": (
        "%3 = Input(f32[M, 3])\n%4 = Add.1(%2, %3)\n%5 = Result.1(%4)",
        "it is not known whether the addend broadcasts to the product",
    ),
    "unknown rank": (
        "%3 = Input(f32[...])\n%4 = Add.1(%2, %3)\n%5 = Result.1(%4)",
        "a rank is unknown",
    ),
    "inexact reciprocal": (
        "%3 = Const(f32[] = 3)\n%4 = Divide.1(%2, %3)\n%5 = Result.1(%4)",
        "the divisor's reciprocal is not exact",
    ),
    "a factor of higher rank": (
        "%3 = Const(f32[1, 1, 1] = 2)\n%4 = Multiply.1(%2, %3)\n%5 = Result.1(%4)",
        "the factor has a higher rank than the product",
    ),
    "an infinite factor": (
        "%3 = Const(f32[] = Infinity)\n%4 = Multiply.1(%2, %3)\n%5 = Result.1(%4)",
        "the factor is not finite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    lines, reason = REFUSED[case]
    stays(product_and(lines), fuse_matmul_add, reason)


def test_a_row_that_the_addend_would_repeat() -> None:
    stays(
        """
%0 = Input(f32[1, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Const(f32[2, 3] = 1, 2, 3, 4, 5, 6)
%4 = Add.1(%2, %3)
%5 = Result.1(%4)
""",
        fuse_matmul_add,
        "the addend would broadcast the product up",
    )


def test_vectors_and_integers_are_refused() -> None:
    vector = """
%0 = Input(f32[4])
%1 = Const(f32[4, 3] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Input(f32[3])
%4 = Add.1(%2, %3)
%5 = Result.1(%4)
"""
    stays(vector, fuse_matmul_add, "an operand is a vector")
    integers = """
%0 = Input(i32[2, 4])
%1 = Const(i32[4, 3] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Const(i32[] = 2)
%4 = Divide.1(%2, %3)
%5 = Result.1(%4)
"""
    stays(integers, fuse_matmul_add, "the divisor's reciprocal is not exact")


GEMM = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Const(f32[3] = 1, 2, 3)
%3 = Gemm.0(%0, %1, {c}) {{{attributes}}}
%4 = {reader}
%5 = Result.1(%4)
"""


@pytest.mark.parametrize(
    ("c", "attributes", "reader", "reason"),
    [
        ("%2", "", "Add.1(%3, %2)", "the product has an addend already"),
        ("%2", "", "Multiply.1(%3, %2)", None),
        ("_", 'activation="relu"', "Add.1(%3, %2)", "the product has an activation already"),
    ],
)
def test_a_gemm_takes_one_addend(c: str, attributes: str, reader: str, reason: str | None) -> None:
    text = GEMM.format(c=c, attributes=attributes, reader=reader).replace("%1, _)", "%1)")
    stays(text, fuse_matmul_add, reason)


def test_two_factors_only_where_one_is_a_power_of_two() -> None:
    text = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Gemm.0(%0, %1) {{alpha=0.3}}
%3 = Const(f32[] = {factor})
%4 = Multiply.1(%2, %3)
%5 = Result.1(%4)
"""
    reason = "two factors would round differently as one"
    stays(text.format(factor=0.7), fuse_matmul_add, reason)
    becomes(
        text.format(factor=0.5),
        fuse_matmul_add,
        """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Gemm.0(%0, %1) {alpha=0.15}
%5 = Result.1(%2)
""",
    )


def test_integer_factors_that_no_float_holds() -> None:
    text = """
%0 = Input(i64[2, 4])
%1 = Const(i64[4, 3] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Const(i64[] = 9007199254740993)
%4 = Multiply.1(%2, %3)
%5 = Result.1(%4)
"""
    stays(text, fuse_matmul_add, "the factor is too large to be exact")


def test_a_factor_that_gives_the_addend_its_rank() -> None:
    text = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Input(f32[3])
%3 = Const(f32[1, 1] = 2)
%4 = Multiply.1(%2, %3)
%5 = Gemm.0(%0, %1, %4)
%6 = Result.1(%5)
"""
    stays(text, fuse_matmul_add, "the factor has a higher rank than the addend")


def test_a_factor_of_zero_keeps_reading_the_addend() -> None:
    after = """
%0 = Input(f32[N, 4]) "x"
%3 = Input(f32[N, 3])
%1 = Const(f32[4, 3] = ~1)
%4 = Const(f32[] = 0)
%5 = Multiply.1(%3, %4)
%6 = Gemm.0(%0, %1, %5)
%7 = Result.1(%6)
"""
    before = product_and("""
%3 = Input(f32[N, 3])
%4 = Const(f32[] = 0)
%5 = Multiply.1(%3, %4)
%6 = Add.1(%2, %5)
%7 = Result.1(%6)
""")
    becomes(before, fuse_matmul_add, after)
    reason = "a Gemm with beta = 0 does not read C, whose NaN would be lost"
    stays(after, fuse_matmul_add, reason)
