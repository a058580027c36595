"""Attention of dequantised queries and keys becomes one of their bytes."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.lowering.op_table import has_kernel
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.compiler.passes.canonicalize.fold_constants import fold_constants
from irc_compiler.compiler.passes.quantize.decompose_leftovers import (
    decompose_unsupported_quantized,
)
from irc_compiler.compiler.passes.quantize.integer_matmul import lower_to_integer_matmul
from irc_compiler.compiler.passes.quantize.sink_dequantize import sink_dequantize
from irc_compiler.compiler.rewrite.engine import Pass
from irc_compiler.ir.text.graph_text import print_graph
from support.rewriting import becomes, run, stays

PASSES: list[Pass] = [
    sink_dequantize,
    lower_to_integer_matmul,
    decompose_unsupported_quantized(has_kernel),
    fold_constants,
    fuse_attention,
]
BEFORE = """
%0 = Input({query}[B, 3, S, {size}]) "q"
%1 = Input({key}[B, 3, T, {size}]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
%3 = Const(f32{shape} = {scales})
%4 = Const({query}[] = 100)
%5 = Dequantize.0(%0, %3, %4)
%6 = Const(f32[] = 0.25)
%7 = Dequantize.0(%1, %6)
{keys}
%10 = MatMul.1(%5, {operand}) {{transpose_b=true}}
%30 = Softmax.8(%10) {{axis=-1}}
%31 = MatMul.1(%30, %2)
%32 = Result.1(%31)
"""
PLAIN = {
    "query": "u8", "key": "u8", "size": 16, "shape": "[]", "scales": "0.125", "keys": "",
    "operand": "%7",
}  # fmt: skip
SCALED = {"keys": "%8 = Const(f32[] = 0.5)\n%9 = Multiply.1(%7, %8)", "operand": "%9"}
AFTER = """
%0 = Input({query}[B, 3, S, 16]) "q"
%1 = Input(u8[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
%4 = Const({query}[] = 100)
%31 = Attention.0(%0, %1, %2, _, _, %4) {{scale={scale}}}
%32 = Result.1(%31)
"""


@pytest.mark.parametrize("query", ["u8", "i8"])
@pytest.mark.parametrize(("change", "scale"), [({}, 0.125 * 0.25), (SCALED, 0.125 * 0.25 * 0.5)])
def test_attention_takes_the_codes(query: str, change: dict[str, str], scale: float) -> None:
    before = BEFORE.format(**PLAIN | change | {"query": query})
    becomes(before, PASSES, AFTER.format(query=query, scale=scale))


@pytest.mark.parametrize(
    "change",
    [
        {"key": "i8"},
        {"size": 6},
        {"shape": "[3, 1, 1]", "scales": "1, 2, 3"},
    ],
    ids=str,
)
def test_other_scores_are_products_of_integers(change: dict[str, object]) -> None:
    """Keys of i8, rows that are no whole cells, a scale for each head."""
    found = print_graph(run(BEFORE.format(**PLAIN | change), PASSES))
    assert "MatMulInteger" in found and "Attention" not in found


def test_scores_that_are_read_twice_are_products_of_integers() -> None:
    """No attention computes them, so that they stay integers."""
    text = BEFORE.format(**PLAIN) + "%33 = Result.1(%10)\n"
    found = print_graph(run(text, PASSES))
    assert "MatMulInteger" in found and "Attention" not in found


MOVED = """
%0 = Input(u8[B, S, 3, 16]) "q"
%1 = Input(u8[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
{steps}
%10 = Result.1(%9)
"""


def test_codes_are_moved_as_their_numbers_were() -> None:
    """A transposition between the conversion and the attention moves the bytes."""
    before = """
%3 = Const(f32[] = 100)
%4 = Convert.1(%0) {destination_type=f32}
%5 = Subtract.1(%4, %3)
%6 = Const(i64[4] = 0, 2, 1, 3)
%7 = Transpose.1(%5, %6)
%8 = Convert.1(%1) {destination_type=f32}
%9 = Attention.0(%7, %8, %2) {scale=0.01}"""
    after = """
%6 = Const(i64[4] = 0, 2, 1, 3)
%7 = Transpose.1(%0, %6)
%4 = Const(u8[] = 100)
%9 = Attention.0(%7, %1, %2, _, _, %4) {scale=0.01}"""
    becomes(MOVED.format(steps=before), fuse_attention, MOVED.format(steps=after))


@pytest.mark.parametrize("zero", ["0.5", "300", "Infinity", "NaN"])
def test_numbers_that_are_no_codes_stay(zero: str) -> None:
    steps = f"""
%3 = Const(f32[] = {zero})
%4 = Convert.1(%0) {{destination_type=f32}}
%5 = Subtract.1(%4, %3)
%6 = Const(i64[4] = 0, 2, 1, 3)
%7 = Transpose.1(%5, %6)
%8 = Convert.1(%1) {{destination_type=f32}}
%9 = Attention.0(%7, %8, %2) {{scale=0.01}}"""
    stays(MOVED.format(steps=steps), fuse_attention, None)
