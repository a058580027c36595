"""Convolutions between SpaceToBatch and BatchToSpace become dilated ones."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.fuse.dilations import fuse_dilations
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import GroupConvolution
from support.rewriting import graph, run, same_values, stays

LISTS = {"by": "1, 1, 2, 3", "back": "1, 1, 2, 3", "begin": "0, 0, 2, 3", "end": "0, 0, 3, 6"}
CUTS = {"cut": "0, 0, 0, 0", "rest": "0, 0, 1, 3"}
BLOCKS = "the blocks differ, or what is added and cut off is not known"
STEPS = "the convolution has steps or paddings of its own, or other readers"
PADS = "paddings that are not known, negative or longer than a window"
FILTERS = "%4 = Const(f32[4, 1, 1, 3, 3] = ~1)\n"


def moved(attributes: str = "", **lists: str) -> str:
    """A depthwise convolution of images of 7 x 9, in blocks of 2 x 3."""
    of = LISTS | CUTS | lists
    return (
        "\n%0 = Input(f32[N, 4, 7, 9])\n"
        f"%1 = Const(i64[4] = {of['by']})\n"
        f"%2 = Const(i64[4] = {of['begin']})\n"
        f"%3 = Const(i64[4] = {of['end']})\n"
        "%5 = SpaceToBatch.2(%0, %1, %2, %3)\n" + FILTERS
        + f"%6 = GroupConvolution.1(%5, %4) {{{attributes}}}\n"
        f"%7 = Const(i64[4] = {of['back']})\n"
        f"%8 = Const(i64[4] = {of['cut']})\n"
        f"%9 = Const(i64[4] = {of['rest']})\n"
        "%10 = BatchToSpace.2(%6, %7, %8, %9)\n%11 = Result.1(%10)\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lists", "pads"),
    [
        ({}, ((2, 3), (2, 3))),
        ({"cut": "0, 0, 1, 2", "rest": "0, 0, 0, 1"}, ((1, 1), (3, 5))),
        ({"begin": "0, 0, 0, 0", "end": "0, 0, 1, 0", "rest": "0, 0, 0, 0"}, ((0, 0), (1, 0))),
    ],
)
def test_every_nth_pixel_is_read_where_it_is(lists: dict[str, str], pads: object) -> None:
    source = graph(moved(**lists))
    found = run(source, fuse_dilations)
    (conv,) = (op for n in found.ids() if isinstance(op := found.op(n), GroupConvolution))
    assert conv.dilations == (2, 3) and (conv.pads_begin, conv.pads_end) == pads
    assert not found.nodes_of_kinds({"SpaceToBatch", "BatchToSpace"})
    same_values(source, found)


@pytest.mark.parametrize(
    ("attributes", "lists", "reason"),
    [
        ("", {"back": "1, 1, 3, 2"}, BLOCKS),
        ("strides=[2, 1]", {}, STEPS),
        ("pads_begin=[1, 0]", {}, STEPS),
        ('auto_pad="same_upper"', {}, STEPS),
        ("", {"begin": "0, 0, 10, 3"}, PADS),
        ("", {"cut": "0, 0, 3, 0"}, PADS),
    ],
)
def test_what_is_no_dilation_stays(attributes: str, lists: dict[str, str], reason: str) -> None:
    stays(moved(attributes, **lists), fuse_dilations, reason)


def test_paddings_of_unknown_images_cancel() -> None:
    """As TensorFlow computes them: up to a multiple of the block, which is cut off again."""
    source = graph("""
%0 = Input(f32[1, 4, H, W])
%1 = ShapeOf.3(%0)
%2 = Const(i64[4] = 1, 1, 2, 2)
%3 = Const(i64[4] = 0, 0, 2, 2)
%4 = Subtract.1(%2, %1)
%5 = FloorMod.1(%4, %2)
%6 = Const(i32[1] = 0)
%7 = ConvertLike.1(%5, %6)
%8 = Const(i32[4] = 0, 0, 2, 2)
%9 = Add.1(%7, %8)
%10 = SpaceToBatch.2(%0, %2, %3, %9)
%11 = Const(f32[4, 1, 1, 3, 3] = ~1)
%12 = GroupConvolution.1(%10, %11)
%13 = Const(i64[4] = 0, 0, 0, 0)
%14 = BatchToSpace.2(%12, %2, %13, %7)
%15 = Result.1(%14)
""")
    net = irc.compile_model(irc.Model(source.copy()))
    assert not net.plan.host_steps()
    assert not run(source, fuse_dilations).nodes_of_kinds({"SpaceToBatch", "BatchToSpace"})
    for height, width in ((6, 9), (7, 4)):
        x = np.random.default_rng(height).standard_normal((1, 4, height, width)).astype(np.float32)
        (want,) = interpret(source, [x])
        np.testing.assert_allclose(net([x])[0], want, rtol=1e-4, atol=1e-5)


def test_a_convolution_that_others_read_stays() -> None:
    read = moved() + "%12 = Result.1(%6)\n"
    stays(read, fuse_dilations, STEPS)


def test_filters_of_unknown_rank_stay() -> None:
    text = moved().replace(FILTERS, "%4 = Input(f32[...])\n")
    stays(text, fuse_dilations, "filters of unknown rank")
