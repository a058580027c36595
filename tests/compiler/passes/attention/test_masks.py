"""Masks of scores, joined and raised, a rule at a time."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.compiler.passes.attention.masks import join_masks, raise_mask
from irc_compiler.compiler.rewrite.engine import Match, Pass
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Attention
from support.rewriting import becomes, graph, pass_of, random_inputs, run, stays

QKV = """
%0 = Input(f32[B, 3, S, 16]) "q"
%1 = Input(f32[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
"""
ADDED = '%3 = Input(f32[S, T]) "a"\n%4 = Input(f32[T]) "b"\n'
CHOSEN = '%3 = Input(boolean[S, T]) "a"\n%4 = Input(boolean[T]) "b"\n'
SCORES = "%9 = MatMul.1(%0, %1) {transpose_b=true}\n"
MIXED = "%30 = Softmax.8(%20) {axis=-1}\n%31 = MatMul.1(%30, %2)\n%32 = Result.1(%31)"


def only(match: Match) -> Pass:
    """A pass of one rule of masks."""
    return pass_of(match, "Add", "Select", "Maximum")


def test_added_masks_are_one_sum() -> None:
    becomes(
        QKV + ADDED + SCORES + "%10 = Add.1(%9, %3)\n%20 = Add.1(%4, %10)\n" + MIXED,
        only(join_masks),
        QKV + ADDED + SCORES + "%10 = Add.1(%3, %4)\n%20 = Add.1(%9, %10)\n" + MIXED,
    )


def test_choices_of_one_number_are_one_choice() -> None:
    fill = "%5 = Const(f32[] = -Infinity)\n"
    becomes(
        QKV
        + CHOSEN
        + fill
        + SCORES
        + "%10 = Select.1(%3, %9, %5)\n%20 = Select.1(%4, %5, %10)\n"
        + MIXED,
        only(join_masks),
        QKV
        + CHOSEN
        + fill
        + SCORES
        + "%10 = LogicalNot.1(%4)\n%11 = LogicalAnd.1(%3, %10)\n%20 = Select.1(%11, %9, %5)\n"
        + MIXED,
    )


def test_a_choice_of_what_counts_does_not_join_a_sum() -> None:
    text = '%3 = Input(boolean[S, T]) "a"\n%4 = Input(f32[T]) "b"\n%5 = Const(f32[] = -3)\n'
    text += SCORES + "%10 = Add.1(%9, %4)\n%20 = Select.1(%3, %10, %5)\n"
    stays(QKV + text + MIXED, only(join_masks), "two masks do not join")


@pytest.mark.parametrize(
    ("floor", "reason"), [("-3e38", None), ("-5", "scores that count are raised")]
)
def test_a_floor_raises_an_added_mask(floor: str, reason: str | None) -> None:
    head = QKV + '%3 = Input(f32[S, T]) "a"\n' + f"%4 = Const(f32[] = {floor})\n"
    before = head + SCORES + "%10 = Add.1(%9, %3)\n%20 = Maximum.1(%10, %4)\n" + MIXED
    if reason is not None:
        stays(before, only(raise_mask), reason)
        return
    after = SCORES + "%10 = Maximum.1(%3, %4)\n%20 = Add.1(%9, %10)\n"
    becomes(before, only(raise_mask), head + after + MIXED)


def test_a_floor_raises_what_a_choice_hides() -> None:
    head = QKV + '%3 = Input(boolean[S, T]) "a"\n'
    before = head + "%4 = Const(f32[] = -Infinity)\n%5 = Const(f32[] = -3e38)\n" + SCORES
    before += "%10 = Select.1(%3, %9, %4)\n%20 = Maximum.1(%10, %5)\n" + MIXED
    after = "%5 = Const(f32[] = -3e38)\n" + SCORES + "%20 = Select.1(%3, %9, %5)\n" + MIXED
    becomes(before, only(raise_mask), head + after)


def test_a_floor_joins_the_masks_it_raises() -> None:
    """A causal mask besides another: a row that sees nothing is the mean of all values."""
    mask = np.where(np.tri(3, dtype=bool), 0, -np.inf).reshape(-1).tolist()
    listed = ", ".join("-Infinity" if x else "0" for x in mask)
    text = QKV.replace("S", "3").replace("T", "3") + '%3 = Input(f32[B, 1, 1, 3]) "a"\n'
    text += f"%4 = Const(f32[3, 3] = {listed})\n%5 = Const(f32[] = -3e38)\n" + SCORES
    text += "%10 = Add.1(%9, %4)\n%11 = Add.1(%10, %3)\n%20 = Maximum.1(%11, %5)\n" + MIXED
    found = run(text, fuse_attention)
    (op,) = [found.op(n) for n in found.ids() if found.op(n).kind == "Attention"]
    assert isinstance(op, Attention) and op.causal == ""
    inputs = random_inputs(found)
    inputs[3][:] = -np.inf
    (left,), (right,) = interpret(graph(text), inputs), interpret(found, inputs)
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_a_causal_mask_goes_behind_another() -> None:
    text = QKV.replace("S", "2").replace("T", "2") + '%3 = Input(f32[B, 1, 1, 2]) "a"\n'
    text += "%4 = Const(boolean[2, 2] = 1, 0, 1, 1)\n%5 = Const(f32[] = -Infinity)\n" + SCORES
    becomes(
        text + "%10 = Select.1(%4, %9, %5)\n%20 = Add.1(%10, %3)\n" + MIXED,
        only(join_masks),
        text + "%10 = Add.1(%9, %3)\n%20 = Select.1(%4, %10, %5)\n" + MIXED,
    )
