"""Scales of scores on their way into the queries, a rule at a time."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.attention.scales import (
    merge_scales,
    scale_masked_scores,
    scale_queries,
)
from irc_compiler.compiler.rewrite.engine import Match, Pass
from support.rewriting import becomes, pass_of, stays

QKV = """
%0 = Input(f32[B, 3, S, 16]) "q"
%1 = Input(f32[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
"""
SCORES = "%9 = MatMul.1(%0, %1) {transpose_b=true}\n"
MIXED = "%30 = Softmax.8(%20) {axis=-1}\n%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)"


def only(match: Match) -> Pass:
    """A pass of one rule of scales."""
    return pass_of(match, "Multiply", "Divide")


@pytest.mark.parametrize("scale", ["Const(f32[] = 4)", 'Input(f32[3, 1, 1]) "s"'])
@pytest.mark.parametrize("kind", ["Multiply", "Divide"])
def test_scaled_scores_are_scores_of_scaled_queries(kind: str, scale: str) -> None:
    number = f"%3 = {scale}\n"
    becomes(
        QKV + number + SCORES + f"%20 = {kind}.1(%9, %3)\n" + MIXED,
        only(scale_queries),
        QKV
        + number
        + f"%4 = {kind}.1(%0, %3)\n"
        + SCORES.replace("%0", "%4")
        + MIXED.replace("%20", "%9"),
    )


@pytest.mark.parametrize(
    "tail",
    [
        "%20 = Multiply.1(%9, %3)\n%30 = Result.1(%20)",  # not attention
        "%20 = Multiply.1(%9, %3)\n%30 = Softmax.8(%20) {axis=-1}\n%31 = Result.1(%30)",
        "%20 = Multiply.1(%9, %3)\n%31 = MatMul.1(%20, %2)\n%32 = Result.1(%31)",
        # Batches are split first.
        "%20 = Multiply.1(%9, %3)\n%21 = Const(i64[5] = 0, 0, 1, 0, -1)\n"
        "%22 = Reshape.1(%20, %21)\n%30 = Softmax.8(%22) {axis=-1}\n"
        "%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)",
        "%20 = Multiply.1(%9, %3)\n%21 = Relu.1(%20)\n" + MIXED.replace("%20", "%21"),
    ],
)
def test_other_products_keep_their_scale(tail: str) -> None:
    stays(QKV + "%3 = Const(f32[] = 4)\n" + SCORES + tail, only(scale_queries), None)


def test_a_scale_that_broadcasts_scores_stays() -> None:
    scaled = '%3 = Input(f32[2, 1, 1, 1, 1]) "s"\n' + SCORES + "%20 = Multiply.1(%9, %3)\n"
    stays(QKV + scaled + MIXED, only(scale_queries), "a mask or a scale broadcasts the scores")


def test_a_scale_moves_above_an_added_mask() -> None:
    head = '%3 = Input(f32[S, T]) "m"\n%4 = Const(f32[] = 4)\n'
    becomes(
        QKV + head + SCORES + "%10 = Add.1(%3, %9)\n%20 = Divide.1(%10, %4)\n" + MIXED,
        only(scale_masked_scores),
        QKV
        + '%3 = Input(f32[S, T]) "m"\n%4 = Const(f32[] = 4)\n%5 = Const(f32[] = 0.25)\n'
        + SCORES
        + "%10 = Divide.1(%9, %4)\n%11 = Multiply.1(%3, %5)\n%20 = Add.1(%10, %11)\n"
        + MIXED,
    )


def test_a_scale_moves_above_a_choice() -> None:
    head = '%3 = Input(boolean[S, T]) "m"\n'
    after = "%4 = Const(f32[] = 2)\n%5 = Const(f32[] = -2e30)\n"
    becomes(
        QKV
        + head
        + "%4 = Const(f32[] = 2)\n%5 = Const(f32[] = -1e30)\n"
        + SCORES
        + "%10 = Select.1(%3, %5, %9)\n%20 = Multiply.1(%10, %4)\n"
        + MIXED,
        only(scale_masked_scores),
        QKV
        + head
        + after
        + SCORES
        + "%10 = Multiply.1(%9, %4)\n%20 = Select.1(%3, %5, %10)\n"
        + MIXED,
    )


def test_a_negative_scale_keeps_its_side_of_a_choice() -> None:
    text = '%3 = Input(boolean[S, T]) "m"\n%4 = Const(f32[] = -2)\n%5 = Const(f32[] = -1e30)\n'
    text += SCORES + "%10 = Select.1(%3, %9, %5)\n%20 = Multiply.1(%10, %4)\n"
    stays(QKV + text + MIXED, only(scale_masked_scores), "the masked scores are scaled")


def test_scales_behind_a_cap_are_one() -> None:
    head = "%3 = Const(f32[] = 8)\n%4 = Const(f32[] = 4)\n"
    becomes(
        QKV
        + head
        + SCORES
        + "%10 = Tanh.1(%9)\n%11 = Multiply.1(%10, %3)\n%20 = Divide.1(%11, %4)\n"
        + MIXED,
        only(merge_scales),
        QKV
        + "%3 = Const(f32[] = 2)\n"
        + SCORES
        + "%10 = Tanh.1(%9)\n%20 = Multiply.1(%10, %3)\n"
        + MIXED,
    )
