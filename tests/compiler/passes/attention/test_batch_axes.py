"""Axes of a batch that are split and merged among scores, a rule at a time."""

from __future__ import annotations

from irc_compiler.compiler.passes.attention.batch_axes import hoist_split, sink_merge
from irc_compiler.compiler.passes.attention.match_scores import STEPS
from irc_compiler.compiler.rewrite.engine import Match, Pass
from support.rewriting import becomes, pass_of, stays

MERGED = """
%0 = Input(f32[6, 5, 16]) "q"
%1 = Input(f32[6, 5, 16]) "k"
%2 = Input(f32[6, 5, 8]) "v"
%3 = Input(f32[6, 1, 5]) "m"
"""
SPLIT = """
%0 = Input(f32[2, 3, 5, 16]) "q"
%1 = Input(f32[2, 3, 5, 16]) "k"
%2 = Input(f32[6, 5, 8]) "v"
%3 = Input(f32[6, 1, 5]) "m"
"""
SCORES = "%9 = MatMul.1({}) {{transpose_b=true}}\n"
TO_SPLIT = "%4 = Const(i64[4] = 2, 3, 5, 5)\n"
TO_MERGED = "%4 = Const(i64[3] = 6, 5, 5)\n"


def only(match: Match) -> Pass:
    """A pass of one rule of batches."""
    kinds = ("Reshape",) if match is hoist_split else STEPS
    return pass_of(match, *kinds)


def test_a_split_is_hoisted_above_mask_and_product() -> None:
    becomes(
        MERGED
        + TO_SPLIT
        + SCORES.format("%0, %1")
        + "%10 = Add.1(%9, %3)\n%11 = Reshape.1(%10, %4)\n%20 = Softmax.8(%11) {axis=3}\n"
        + "%21 = Const(i64[4] = 2, 3, 5, 8)\n%22 = Reshape.1(%2, %21)\n"
        + "%30 = MatMul.1(%20, %22)\n%31 = Result.1(%30)",
        only(hoist_split),
        MERGED
        + "%4 = Const(i64[4] = 2, 3, 5, 16)\n%5 = Reshape.1(%0, %4) {special_zero=true}\n"
        + "%6 = Const(i64[4] = 2, 3, 5, 16)\n%7 = Reshape.1(%1, %6) {special_zero=true}\n"
        + SCORES.format("%5, %7")
        + "%10 = Const(i64[4] = 2, 3, 1, 5)\n%11 = Reshape.1(%3, %10) {special_zero=true}\n"
        + "%12 = Add.1(%9, %11)\n%20 = Softmax.8(%12) {axis=3}\n"
        + "%21 = Const(i64[4] = 2, 3, 5, 8)\n%22 = Reshape.1(%2, %21)\n"
        + "%30 = MatMul.1(%20, %22)\n%31 = Result.1(%30)",
    )


def test_a_merge_sinks_below_mask_softmax_and_mixture() -> None:
    becomes(
        SPLIT
        + TO_MERGED
        + SCORES.format("%0, %1")
        + "%10 = Reshape.1(%9, %4)\n%11 = Add.1(%10, %3)\n%20 = Softmax.8(%11) {axis=2}\n"
        + "%30 = MatMul.1(%20, %2)\n%31 = Result.1(%30)",
        only(sink_merge),
        SPLIT
        + SCORES.format("%0, %1")
        + "%10 = Const(i64[4] = 2, 3, 1, 5)\n%11 = Reshape.1(%3, %10) {special_zero=true}\n"
        + "%12 = Add.1(%9, %11)\n%20 = Softmax.8(%12) {axis=3}\n"
        + "%21 = Const(i64[4] = 2, 3, 5, 8)\n%22 = Reshape.1(%2, %21) {special_zero=true}\n"
        + "%30 = MatMul.1(%20, %22)\n"
        + "%31 = Const(i64[3] = 6, 5, 8)\n%32 = Reshape.1(%30, %31) {special_zero=true}\n"
        + "%33 = Result.1(%32)",
    )


def test_a_reshape_of_other_products_stays() -> None:
    text = SPLIT + TO_MERGED + SCORES.format("%0, %1") + "%10 = Reshape.1(%9, %4)\n"
    stays(text + "%20 = MatMul.1(%10, %2)\n%21 = Result.1(%20)", only(sink_merge), None)
    text = MERGED + TO_SPLIT + SCORES.format("%0, %1") + "%10 = Reshape.1(%9, %4)\n"
    stays(text + "%20 = Softmax.8(%10) {axis=-1}\n%21 = Result.1(%20)", only(hoist_split), None)


def test_a_mask_of_unknown_batch_keeps_a_split_below() -> None:
    text = MERGED.replace("6, 1, 5", "M, 1, 5") + TO_SPLIT + SCORES.format("%0, %1")
    text += "%10 = Add.1(%9, %3)\n%11 = Reshape.1(%10, %4)\n%20 = Softmax.8(%11) {axis=3}\n"
    text += "%21 = Const(i64[4] = 2, 3, 5, 8)\n%22 = Reshape.1(%2, %21)\n"
    text += "%30 = MatMul.1(%20, %22)\n%31 = Result.1(%30)"
    stays(text, only(hoist_split), "it is not known how a mask broadcasts")
