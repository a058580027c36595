"""Transposes merge, move behind elementwise operations, and end in flags."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.layout.cancel_transposes import cancel_transposes
from irc_compiler.compiler.passes.layout.fold_transposes import fold_transposes
from support.rewriting import becomes, stays, traced

CANCEL = cancel_transposes
HEAD = """
%0 = Input(f32[2, N, 4])
%1 = Const(i64[3] = 1, 2, 0)
%2 = Const(i64[3] = 2, 0, 1)
"""


def test_a_pair_cancels() -> None:
    becomes(
        HEAD + '%3 = Transpose.1(%0, %1)\n%4 = Transpose.1(%3, %2) "t" names=y\n%5 = Result.1(%4)',
        CANCEL,
        '%0 = Input(f32[2, N, 4]) "t" names=y\n%5 = Result.1(%0)',
    )


def test_a_pair_becomes_one() -> None:
    becomes(
        HEAD + "%3 = Transpose.1(%0, %1)\n%4 = Transpose.1(%3, %1)\n%5 = Result.1(%4)",
        CANCEL,
        """
%0 = Input(f32[2, N, 4])
%1 = Const(i64[3] = 2, 0, 1)
%4 = Transpose.1(%0, %1)
%5 = Result.1(%4)
""",
    )


def test_an_empty_order_reverses() -> None:
    becomes(
        """
%0 = Input(f32[2, N, 4])
%1 = Const(i64[0] = )
%2 = Const(i64[3] = 2, 1, 0)
%3 = Transpose.1(%0, %1)
%4 = Transpose.1(%3, %2)
%5 = Result.1(%4)
""",
        CANCEL,
        "%0 = Input(f32[2, N, 4])\n%5 = Result.1(%0)",
    )


def test_through_a_chain_with_constants() -> None:
    becomes(
        HEAD
        + """
%3 = Transpose.1(%0, %1)
%4 = Const(f32[2] = 1, 2)
%5 = Add.1(%3, %4)
%6 = Const(f32[] = 3)
%7 = Multiply.1(%6, %5)
%8 = Relu.1(%7)
%9 = Transpose.1(%8, %2)
%10 = Result.1(%9)
""",
        CANCEL,
        """
%0 = Input(f32[2, N, 4])
%1 = Const(f32[2, 1, 1] = 1, 2)
%2 = Add.1(%0, %1)
%6 = Const(f32[] = 3)
%7 = Multiply.1(%6, %2)
%8 = Relu.1(%7)
%10 = Result.1(%8)
""",
    )


def test_two_operands_of_one_order() -> None:
    becomes(
        """
%0 = Input(f32[M, N])
%1 = Input(f32[M, N])
%2 = Const(i64[2] = 1, 0)
%3 = Transpose.1(%0, %2)
%4 = Transpose.1(%1, %2)
%5 = Add.1(%3, %4)
%6 = Result.1(%5)
""",
        CANCEL,
        """
%0 = Input(f32[M, N])
%1 = Input(f32[M, N])
%5 = Add.1(%0, %1)
%2 = Const(i64[2] = 1, 0)
%3 = Transpose.1(%5, %2)
%6 = Result.1(%3)
""",
    )


def test_the_outer_transpose_moves_to_the_other_operand() -> None:
    becomes(
        """
%0 = Input(f32[M, N])
%1 = Input(f32[N, M])
%2 = Const(i64[2] = 1, 0)
%3 = Transpose.1(%0, %2)
%4 = Subtract.1(%3, %1)
%5 = Transpose.1(%4, %2)
%6 = Result.1(%5)
""",
        CANCEL,
        """
%0 = Input(f32[M, N])
%1 = Input(f32[N, M])
%2 = Const(i64[2] = 1, 0)
%3 = Transpose.1(%1, %2)
%4 = Subtract.1(%0, %3)
%6 = Result.1(%4)
""",
    )


PAIR = """
%0 = Input(f32[2, 3, 4])
%1 = Const(i64[3] = 1, 2, 0)
%2 = Const(i64[3] = 2, 0, 1)
%3 = Transpose.1(%0, %1)
"""
REFUSED = [
    (
        "%4 = Exp.1(%3)\n%5 = Result.1(%4)\n%6 = Result.1(%3)",
        "a transposed operand has other readers",
    ),
    (
        "%4 = Input(f32[3, 4, 2])\n%5 = Add.1(%3, %4)\n%6 = Result.1(%5)",
        "an operand is not transposed",
    ),
    (
        "%4 = Const(f32[4] = 1, 2, 3, 4)\n%5 = PRelu.1(%3, %4)\n%6 = Result.1(%5)",
        "the operation depends on the index of an axis",
    ),
]


@pytest.mark.parametrize(("lines", "reason"), REFUSED)
def test_refusals(lines: str, reason: str) -> None:
    text = PAIR + lines
    unused = text.replace("%2 = Const(i64[3] = 2, 0, 1)\n", "")
    stays(unused, CANCEL, reason)


def test_different_orders() -> None:
    stays(
        """
%0 = Input(f32[2, 2, 2])
%1 = Const(i64[3] = 1, 2, 0)
%2 = Const(i64[3] = 2, 0, 1)
%3 = Transpose.1(%0, %1)
%4 = Transpose.1(%0, %2)
%5 = Add.1(%3, %4)
%6 = Result.1(%5)
""",
        CANCEL,
        "the operands are transposed differently",
    )


def test_lifting_needs_a_sole_reader() -> None:
    text = """
%0 = Input(f32[M, N])
%1 = Input(f32[N, M])
%2 = Const(i64[2] = 1, 0)
%3 = Transpose.1(%0, %2)
%4 = Add.1(%3, %1)
%5 = Transpose.1(%4, %2)
%6 = Result.1(%5)
%7 = Result.1(%4)
"""
    _, trace = traced(text, CANCEL)
    reasons = {e.rule: e.refused for e in trace.refusals()}
    assert reasons == {
        "lift_up": "the elementwise operation has other readers",
        "push_down": "an operand is not transposed",
    }


def test_lifting_adds_no_transposes() -> None:
    """Two other operands: one transpose on each would be more than there are now."""
    text = """
%0 = Input(f32[M, N])
%1 = Input(boolean[N, M])
%2 = Input(f32[N, M])
%3 = Const(i64[2] = 1, 0)
%4 = Transpose.1(%0, %3)
%5 = Select.1(%1, %4, %2)
%6 = Transpose.1(%5, %3)
%7 = Result.1(%6)
"""
    _, trace = traced(text, CANCEL)
    reasons = {e.rule: e.refused for e in trace.refusals()}
    assert reasons["lift_up"] == "other operands would need a transpose each"
    assert not trace.hits()


def test_flags() -> None:
    becomes(
        """
%0 = Input(f32[B, K, M])
%1 = Input(f32[N, K])
%2 = Const(i64[3] = 0, 2, 1)
%3 = Const(i64[2] = 1, 0)
%4 = Transpose.1(%0, %2)
%5 = Transpose.1(%1, %3)
%6 = MatMul.1(%4, %5) "mm"
%7 = Result.1(%6)
""",
        fold_transposes,
        """
%0 = Input(f32[B, K, M])
%1 = Input(f32[N, K])
%6 = MatMul.1(%0, %1) {transpose_a=true, transpose_b=true} "mm"
%7 = Result.1(%6)
""",
    )


def test_a_flag_is_taken_back() -> None:
    becomes(
        """
%0 = Input(f32[M, K])
%1 = Input(f32[K, N])
%3 = Const(i64[2] = 1, 0)
%5 = Transpose.1(%1, %3)
%6 = Gemm.0(%0, %5) {transpose_b=true, alpha=2.0}
%7 = Result.1(%6)
""",
        fold_transposes,
        """
%0 = Input(f32[M, K])
%1 = Input(f32[K, N])
%6 = Gemm.0(%0, %1) {alpha=2.0}
%7 = Result.1(%6)
""",
    )


def test_the_second_operand_folds_where_the_first_cannot() -> None:
    becomes(
        """
%0 = Input(f32[M, B, K])
%1 = Input(f32[N, K])
%2 = Const(i64[3] = 1, 0, 2)
%3 = Const(i64[2] = 1, 0)
%4 = Transpose.1(%0, %2)
%5 = Transpose.1(%1, %3)
%6 = MatMul.1(%4, %5)
%7 = Result.1(%6)
""",
        fold_transposes,
        """
%0 = Input(f32[M, B, K])
%1 = Input(f32[N, K])
%2 = Const(i64[3] = 1, 0, 2)
%4 = Transpose.1(%0, %2)
%6 = MatMul.1(%4, %1) {transpose_b=true}
%7 = Result.1(%6)
""",
    )


@pytest.mark.parametrize(
    ("flags", "swapped"),
    [
        ("", "{transpose_a=true, transpose_b=true}"),
        ("{transpose_a=true}", "{transpose_a=true}"),
        ("{transpose_b=true}", "{transpose_b=true}"),
    ],
)
def test_a_transposed_product(flags: str, swapped: str) -> None:
    becomes(
        f"""
%0 = Input(f32[4, 4])
%1 = Input(f32[4, 4])
%2 = MatMul.1(%0, %1) {flags}
%3 = Const(i64[2] = 1, 0)
%4 = Transpose.1(%2, %3) "t"
%5 = Result.1(%4)
""",
        fold_transposes,
        f"""
%0 = Input(f32[4, 4])
%1 = Input(f32[4, 4])
%4 = MatMul.1(%1, %0) {swapped} "t"
%5 = Result.1(%4)
""",
    )


PRODUCT = """
%0 = Input(f32[{a}])
%1 = Input(f32[{b}])
%2 = {product}
%3 = Const(i64[{rank}] = {order})
%4 = Transpose.1(%2, %3)
%5 = Result.1(%4)
"""


@pytest.mark.parametrize(
    ("a", "b", "product", "order", "reason"),
    [
        ("2, 3", "3, 2", "Gemm.0(%0, %1, %0) {transpose_b=false}", "1, 0", None),
        (
            "5, 2, 3",
            "3, 2",
            "MatMul.1(%0, %1)",
            "1, 0, 2",
            "the transpose moves other axes than the last two",
        ),
        (
            "3",
            "5, 3, 2",
            "MatMul.1(%0, %1)",
            "1, 0",
            "an operand is a vector, or its rank is unknown",
        ),
    ],
)
def test_refused_products(a: str, b: str, product: str, order: str, reason: str | None) -> None:
    rank = order.count(",") + 1
    text = PRODUCT.format(a=a, b=b, product=product, rank=rank, order=order)
    if reason is None:
        text = text.replace("2, 3", "2, 2").replace("3, 2", "2, 2")
        reason = "the product has a third operand"
    stays(text, fold_transposes, reason)


def test_a_product_read_twice() -> None:
    text = PRODUCT.format(a="2, 3", b="3, 2", product="MatMul.1(%0, %1)", rank=2, order="1, 0")
    stays(text + "%6 = Result.1(%2)", fold_transposes, "the product has other readers")


@pytest.mark.parametrize("heads", ["2, 3", "2, 1, 3"])
def test_matrices_turned_while_their_batch_is_merged(heads: str) -> None:
    """How PyTorch writes a transpose of keys: flat, turned, and apart again."""
    again = "" if heads == "2, 3" else "%2 = Const(i64[4] = 2, 3, -1, 4)\n%3 = Reshape.1(%0, %2) "
    becomes(
        f"%0 = Input(f32[{heads}, N, 4])\n"
        + """
%1 = Const(i64[3] = 6, -1, 4)
%2 = Reshape.1(%0, %1) {special_zero=false}
%3 = Const(i64[3] = 0, 2, 1)
%4 = Transpose.1(%2, %3)
%5 = Const(i64[4] = 2, 3, 4, -1)
%6 = Reshape.1(%4, %5) {special_zero=false}
%7 = Result.1(%6)
""",
        CANCEL,
        f"%0 = Input(f32[{heads}, N, 4])\n"
        + (again + "{special_zero=true}\n" if again else "")
        + f"%4 = Const(i64[4] = 0, 1, 3, 2)\n%5 = Transpose.1({'%3' if again else '%0'}, %4)\n"
        + "%6 = Result.1(%5)",
    )


def test_matrices_regrouped_while_turned_stay() -> None:
    text = """
%0 = Input(f32[2, 3, 8, 4])
%1 = Const(i64[3] = 6, 8, 4)
%2 = Reshape.1(%0, %1) {special_zero=false}
%3 = Const(i64[3] = 0, 2, 1)
%4 = Transpose.1(%2, %3)
%5 = Const(i64[4] = 2, 3, 8, 4)
%6 = Reshape.1(%4, %5) {special_zero=false}
%7 = Result.1(%6)
"""
    stays(text, CANCEL, None)


@pytest.mark.parametrize(
    "reader",
    [
        '%9 = Interpolate.11(%7, %8) {mode="linear_onnx", shape_calculation_mode="sizes"}',
        "%9 = MaxPool.1(%7) {kernel=[2, 2]}",
    ],
)
def test_products_that_become_images_keep_their_transpose(reader: str) -> None:
    """Tokens of channels are an image whose channels are last, which is read as it is."""
    sizes = "%8 = Const(i64[4] = 2, 5, 8, 8)\n" if "%8" in reader else ""
    text = f"""
%0 = Input(f32[2, 16, 6])
%1 = Const(f32[6, 5] = ~1)
%2 = MatMul.1(%0, %1)
%3 = Const(i64[3] = 0, 2, 1)
%4 = Transpose.1(%2, %3)
%5 = Const(i64[4] = 2, 5, 4, 4)
%7 = Reshape.1(%4, %5) {{special_zero=false}}
{sizes}{reader}
%10 = Result.1(%9)
"""
    stays(text, fold_transposes, "an image is made of it, whose readers want its channels last")
