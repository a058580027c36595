"""Products over one element are multiplications."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.layout.outer_products import convert_outer_products
from irc_compiler.ir.interpret import interpret
from support.rewriting import graph, run, stays

PRODUCT = """
%0 = Input({dtype}[{a}])
%1 = Input({dtype}[{b}])
%2 = MatMul.1(%0, %1) {{transpose_a={ta}, transpose_b={tb}}}
%3 = Result.1(%2)
"""


def product(a: str, b: str, dtype: str = "f32", ta: bool = False, tb: bool = False) -> str:
    flags = {"ta": str(ta).lower(), "tb": str(tb).lower()}
    return PRODUCT.format(a=a, b=b, dtype=dtype, **flags)


@pytest.mark.parametrize(
    ("a", "b", "ta", "tb"),
    [
        ("2, 5, 1", "1, 7", False, False),
        ("5, 1", "3, 1, 7", False, False),
        ("2, 1, 5", "2, 1, 7", True, False),
        ("2, 5, 1", "2, 7, 1", False, True),
        ("1, 5", "3, 7, 1", True, True),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_a_column_times_a_row_is_a_multiplication(
    a: str, b: str, ta: bool, tb: bool, dtype: str
) -> None:
    source = graph(product(a, b, dtype, ta, tb))
    found = run(source, convert_outer_products)
    kinds = {found.op(n).kind for n in found.order()}
    assert "Multiply" in kinds and "MatMul" not in kinds
    rng = np.random.default_rng(1)
    numpy = {"f32": "f4", "f64": "f8", "f16": "f2"}[dtype]
    feeds = [rng.standard_normal([int(d) for d in s.split(", ")]).astype(numpy) for s in (a, b)]
    for have, want in zip(interpret(found, feeds), interpret(source, feeds), strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        ("5, 2", "2, 7", "f32"),
        ("5, K", "K, 7", "f32"),
        ("1", "1, 7", "f32"),
        ("5, 1", "1", "f32"),
        ("5, 1", "1, 7", "i32"),
    ],
)
def test_other_products_stay(a: str, b: str, dtype: str) -> None:
    stays(product(a, b, dtype), convert_outer_products, None)


def test_angles_of_rotary_embeddings_are_one_step() -> None:
    """Frequencies by positions, and their cosines."""
    source = graph("""
%0 = Input(f32[B, 1, S])
%1 = Const(f32[1, 4, 1] = 1, 0.5, 0.25, 0.125)
%2 = MatMul.1(%1, %0) {transpose_a=false, transpose_b=false}
%3 = Const(i64[3] = 0, 2, 1)
%4 = Transpose.1(%2, %3)
%5 = Cos.1(%4)
%6 = Result.1(%5)
""")
    net = irc.compile_model(irc.Model(source))
    assert [s.spec.family for s in net.plan.kernel_steps()] == ["elementwise"]
    positions = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    (found,) = net(positions)
    wanted = np.cos(positions.transpose(0, 2, 1) * np.array([1, 0.5, 0.25, 0.125]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
