"""Norms over groups of a convolution's channels, as exporters spell them."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.fuse.group_norm import fuse_group_norm
from support.rewriting import becomes, graph, run, same_values, stays

HEAD = """
%0 = Input(f32[N, 4, T]) "x"
%1 = Const(f32[4, 4, 1] = ~1)
%2 = Convolution.1(%0, %1) {strides=[1], pads_begin=[0], pads_end=[0], dilations=[1]}
"""
MIDDLE = """
%3 = Const(i64[3] = 0, {groups}, -1)
%4 = Reshape.1(%2, %3) {{special_zero=true}}
%5 = Const(i64[1] = {axes})
%6 = MVN.6(%4, %5) {{eps=0.01, eps_mode="{mode}"}}
%7 = Const(f32[{groups}, 1] = {scale})
%8 = Multiply.1(%6, %7)
%9 = Const(f32[{groups}, 1] = {shift})
%10 = Add.1(%9, %8)
%11 = ShapeOf.3(%2) {{output_type=i64}}
%12 = Reshape.1({last}, %11) {{special_zero=false}} "back" names=y
%13 = Result.1(%12)
"""
FOUND = """
%3 = Const(f32[4] = {scale})
%4 = Const(f32[4] = {shift})
%12 = GroupNormalization.12(%2, %3, %4) {{num_groups={groups}, epsilon=0.01}} "back" names=y
%13 = Result.1(%12)
"""


def middle(
    groups: int = 2,
    scale: str = "3, 5",
    shift: str = "7, 11",
    *,
    axes: str = "2",
    mode: str = "INSIDE_SQRT",
    last: str = "%10",
) -> str:
    return MIDDLE.format(groups=groups, scale=scale, shift=shift, axes=axes, mode=mode, last=last)


@pytest.mark.parametrize(
    ("groups", "scale", "shift", "scales", "shifts"),
    [
        (2, "3, 5", "7, 11", "3, 3, 5, 5", "7, 7, 11, 11"),
        (1, "3", "0", "3, 3, 3, 3", "0, 0, 0, 0"),
        (4, "1, 2, 3, 4", "5, 6, 7, 8", "1, 2, 3, 4", "5, 6, 7, 8"),
    ],
)
def test_reshaped(groups: int, scale: str, shift: str, scales: str, shifts: str) -> None:
    after = HEAD + FOUND.format(groups=groups, scale=scales, shift=shifts)
    becomes(HEAD + middle(groups, scale, shift), fuse_group_norm, after)


def test_scale_behind_a_shift_scales_both() -> None:
    text = HEAD + middle().replace("%10 = Add.1(%9, %8)", "%14 = Add.1(%6, %9)").replace(
        "%8 = Multiply.1(%6, %7)\n", ""
    ).replace("%11 =", "%10 = Multiply.1(%14, %7)\n%11 =")
    found = run(text, fuse_group_norm)
    assert "GroupNormalization" in {found.op(n).kind for n in found.ids()}
    same_values(graph(text), found)


@pytest.mark.parametrize(
    "text",
    [
        middle(axes="-2"),
        middle(mode="OUTSIDE_SQRT"),
        # A scale that differs within a group.
        middle().replace("f32[2, 1] = 3, 5", "f32[8] = 1, 2, 3, 4, 5, 6, 7, 8"),
        # Back to another shape.
        middle().replace("%11 = ShapeOf.3(%2) {output_type=i64}", "%11 = Const(i64[2] = -1, 4)"),
    ],
)
def test_other_norms_stay(text: str) -> None:
    stays(HEAD.replace("T]", "4]").replace("N,", "2,") + text, fuse_group_norm, None)


def test_what_no_window_made_stays() -> None:
    head = HEAD.replace(
        "Convolution.1(%0, %1) {strides=[1], pads_begin=[0], pads_end=[0], dilations=[1]}",
        "MatMul.1(%1, %0)",
    ).replace("4, 4, 1", "4, 4")
    stays(head + middle(), fuse_group_norm, None)


def test_channels_of_their_own() -> None:
    norm = """
%3 = Relu.1(%2)
%4 = Const(i64[1] = {axes})
%5 = MVN.6(%3, %4) {{eps=0.01}} "norm" names=y
%6 = Result.1(%5)
"""
    after = """
%3 = Relu.1(%2)
%4 = Const(f32[4] = 1, 1, 1, 1)
%5 = Const(f32[4] = 0, 0, 0, 0)
%6 = GroupNormalization.12(%3, %4, %5) {num_groups=4, epsilon=0.01} "norm" names=y
%7 = Result.1(%6)
"""
    becomes(HEAD + norm.format(axes="2"), fuse_group_norm, HEAD + after)
    stays(HEAD + norm.format(axes="1"), fuse_group_norm, None)


@pytest.mark.parametrize("order", ["%19, %2", "%2, %19"])
def test_a_residual_sum_has_its_convolution_on_either_side(order: str) -> None:
    """The other side is a stream that no window made for as far as is looked."""
    stream = """
%15 = Abs.1(%14)
%16 = Abs.1(%15)
%17 = Abs.1(%16)
%18 = Abs.1(%17)
%19 = Abs.1(%18)
%3 = Add.1({order})
%4 = Const(i64[1] = 2)
%5 = MVN.6(%3, %4) {{eps=0.01}} "norm"
%6 = Result.1(%5)
"""
    text = HEAD + '%14 = Input(f32[N, 4, T]) "z"\n' + stream.format(order=order).lstrip()
    found = run(text, fuse_group_norm)
    assert "GroupNormalization" in {found.op(n).kind for n in found.ids()}
