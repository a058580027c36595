"""Convolutions of one place that are products of rows."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.layout.conv1x1_to_matmul import convert_conv1x1_to_matmul
from support.rewriting import becomes, stays

HEAD = """
%0 = Input(f32[N, 5, S]) "x"
%1 = Sigmoid.1(%0)
%2 = Const(f32[3, 5, 1] = ~1)
"""
TAIL = """
%4 = Const(f32[3, 1] = ~2)
%5 = Add.1(%3, %4)
%6 = Result.1(%5) "y"
"""
PLAIN = "%3 = Convolution.1(%1, %2) {strides=[1], pads_begin=[0], pads_end=[0], dilations=[1]}"
NEAR = "what is before or behind has its channels last"


def test_becomes_a_product() -> None:
    after = HEAD.replace("f32[3, 5, 1] = ~1", "f32[3, 5] = ~1") + "%3 = MatMul.1(%2, %1)" + TAIL
    becomes(HEAD + PLAIN + TAIL, convert_conv1x1_to_matmul, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("strides=[1]", "strides=[2]"),
        ("pads_begin=[0]", "pads_begin=[1]"),
    ],
)
def test_other_windows_stay(old: str, new: str) -> None:
    stays(HEAD + PLAIN.replace(old, new) + TAIL, convert_conv1x1_to_matmul, None)


def test_wider_windows_stay() -> None:
    stays(HEAD.replace("3, 5, 1]", "3, 5, 2]") + PLAIN + TAIL, convert_conv1x1_to_matmul, None)


def test_chains_of_windows_stay() -> None:
    """Also where an elementwise operation stands between."""
    behind = TAIL.replace("%6 =", "%7 = MaxPool.1(%5) {kernel=[2], strides=[1]}\n%6 =").replace(
        "Result.1(%5)", "Result.1(%7)"
    )
    stays(HEAD + PLAIN + behind, convert_conv1x1_to_matmul, NEAR)
    before = HEAD.replace("Sigmoid.1(%0)", "Transpose.1(%7, %8)").replace(
        "%1 =", '%7 = Input(f32[N, S, 5]) "z"\n%8 = Const(i64[3] = 0, 2, 1)\n%1 ='
    )
    stays(before + PLAIN + TAIL, convert_conv1x1_to_matmul, NEAR)
