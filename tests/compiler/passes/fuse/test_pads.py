"""Pads before windows become their paddings."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.fuse.pads import fold_pads
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops.nn.convolution import Convolving
from support.rewriting import graph, random_inputs, run, same_values, stays

DATA = "%0 = Input(f32[N, 3, 7, 9])\n"
SIZES = "%1 = Const(i64[4] = 0, 0, 0, 1)\n%2 = Const(i64[4] = 0, 0, 1, 2)\n"
PAD = "%3 = Pad.12(%0, %1, %2)\n"
FILTERS = "%4 = Const(f32[5, 3, 3, 3] = ~1)\n"
RESULT = "%6 = Result.1(%5)\n"
CONVOLUTION = DATA + SIZES + PAD + FILTERS + "%5 = Convolution.1(%3, %4) {{{}}}\n" + RESULT
POOL = DATA.replace("%0", "%7") + "%0 = {}\n" + SIZES + "{}" + "%5 = {} {{{}}}\n" + RESULT
AVERAGE = "AvgPool.16(%3)"
LARGEST = "MaxPool.14(%3)"
BELOW_ALL = "%8 = Const(f32[] = -Infinity)\n%3 = Pad.12(%0, %1, %2, %8)\n"
ONE = "%8 = Const(f32[] = 1)\n%3 = Pad.12(%0, %1, %2, %8)\n"


def check(text: str) -> Op:
    """The operation that takes the padding; only it is left."""
    source = graph(text)
    found = run(text, fold_pads)
    kinds = {found.op(n).kind: found.op(n) for n in found.order()}
    assert "Pad" not in kinds
    same_values(source, found)
    _check_compiled(source)
    return next(op for kind, op in kinds.items() if "Conv" in kind or "Pool" in kind)


def _check_compiled(source: Graph) -> None:
    inputs = random_inputs(source)
    net = irc.compile_model(irc.Model(source.copy()))
    assert not net.plan.host_steps()
    assert "Pad" not in str([step.name for region in net.plan.regions for step in region.steps])
    np.testing.assert_allclose(net(inputs)[0], interpret(source, inputs)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ("", ((0, 1), (1, 2))),
        ("strides=[2, 2]", ((0, 1), (1, 2))),
        ("pads_begin=[1, 1], pads_end=[1, 0]", ((1, 2), (2, 2))),
        ("dilations=[1, 2], auto_pad=valid, pads_begin=[2, 2]", ((0, 1), (1, 2))),
    ],
)
def test_a_convolution(attributes: str, pads: tuple[tuple[int, int], ...]) -> None:
    op = check(CONVOLUTION.format(attributes))
    assert (op.pads_begin, op.pads_end) == pads  # type: ignore[attr-defined]


def test_a_depthwise_convolution_and_another_reader() -> None:
    text = CONVOLUTION.format("strides=[2, 2]").replace("Convolution", "GroupConvolution")
    check(text.replace("f32[5, 3, 3, 3]", "f32[3, 2, 1, 3, 3]"))
    found = run(CONVOLUTION.format("") + "%9 = Result.1(%3)\n", fold_pads)
    assert [found.op(n).kind for n in found.order()].count("Pad") == 1


@pytest.mark.parametrize("zero", [0, 7])
def test_bytes_are_padded_with_their_zero_point(zero: int) -> None:
    text = (
        DATA.replace("f32", "u8")
        + SIZES
        + f"%8 = Const(u8[] = {zero})\n%3 = Pad.12(%0, %1, %2, %8)\n"
        + FILTERS.replace("f32", "i8")
        + "%5 = ConvInteger.0(%3, %4, %9)\n"
        + RESULT
    )
    text = text.replace("%5 =", "%9 = Const(u8[] = 7)\n%5 =")
    if zero == 7:
        check(text)
    else:
        stays(text, fold_pads, "what is added counts")


def test_a_maximum_of_what_is_never_negative() -> None:
    attributes = "kernel=[4, 4], strides=[2, 2]"
    check(POOL.format("Relu.1(%7)", PAD, LARGEST, attributes))
    check(POOL.format("Clamp.1(%7) {min=0.0, max=6.0}", PAD, LARGEST, attributes))
    check(POOL.format("Tanh.1(%7)", BELOW_ALL, LARGEST, attributes))
    reason = "what is added may be the largest"
    stays(POOL.format("Tanh.1(%7)", PAD, LARGEST, attributes), fold_pads, reason)
    clamped = "Clamp.1(%7) {min=-1.0, max=6.0}"
    stays(POOL.format(clamped, PAD, LARGEST, attributes), fold_pads, reason)
    sparse = "kernel=[2, 2], dilations=[7, 7]"
    nothing = "windows would hold nothing but padding"
    stays(POOL.format("Relu.1(%7)", PAD, LARGEST, sparse), fold_pads, nothing)
    indices = POOL.format("Relu.1(%7)", PAD, LARGEST, attributes) + "%9 = Result.1(%5:1)\n"
    other = "the indices are read, or windows beyond the padding count"
    stays(indices, fold_pads, other)
    ceil = attributes + ", rounding_type=ceil_torch"
    stays(POOL.format("Relu.1(%7)", PAD, LARGEST, ceil), fold_pads, other)
    stays(POOL.format("Relu.1(%7)", ONE, LARGEST, attributes), fold_pads, reason)


def test_a_mean_counts_its_padding() -> None:
    check(POOL.format("Tanh.1(%7)", PAD, AVERAGE, "kernel=[3, 3]"))
    check(POOL.format("Tanh.1(%7)", PAD, AVERAGE, "kernel=[3, 3], exclude_pad=true"))
    own = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1]"
    with_own = POOL.format(
        "Tanh.1(%7)", PAD, AVERAGE, own.replace("pads_end=[1, 1]", "pads_end=[1, 0]")
    )
    check(with_own)
    reason = "not all of the padding counts, or windows beyond it do"
    for more in ("exclude_pad=true, " + own, "rounding_type=ceil, kernel=[3, 3]"):
        stays(POOL.format("Tanh.1(%7)", PAD, AVERAGE, more), fold_pads, reason)
    stays(POOL.format("Tanh.1(%7)", ONE, AVERAGE, own), fold_pads, "what is added counts")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("0, 0, 0, 1", "0, 0, 3, 1", "windows would hold nothing but padding"),
        ("0, 0, 0, 1", "0, 1, 0, 1", "the batch or channels are padded, or an axis is cut"),
        ("0, 0, 0, 1", "0, 0, -1, 1", "the batch or channels are padded, or an axis is cut"),
        ("%2)", "%2) {pad_mode=edge}", None),
        (PAD, ONE, "what is added counts"),
        (PAD, ONE.replace("= 1)", "= -0.0)"), "what is added counts"),
        ("%4)", "%4) {auto_pad=same_upper}", "the paddings follow from the sizes"),
    ],
)
def test_other_pads_stay(old: str, new: str, reason: str | None) -> None:
    text = CONVOLUTION.format("").replace(" {}", "").replace(old, new)
    if "0, 1, 0, 1" in text:
        text = text.replace("f32[5, 3, 3, 3]", "f32[5, 4, 3, 3]")
    stays(text, fold_pads, reason)


def test_paddings_seen_at_run_time_stay() -> None:
    text = CONVOLUTION.format("").replace(SIZES.splitlines()[0], "%1 = Input(i64[4])")
    stays(text, fold_pads, "the paddings are known at run time only")


def trimmed(attributes: str, kernel: str, image: str = "f32[2, 3, 7, 9]") -> tuple[int, ...]:
    """The spatial sizes of the filters that are left; answers stay the same."""
    kind = "Group" if kernel.count(",") == 4 else ""
    text = f"""%0 = Input({image})
%1 = Const(f32[{kernel}] = ~1)
%2 = {kind}Convolution.1(%0, %1) {{{attributes}}}
%3 = Result.1(%2)
"""
    source = graph(text)
    found = run(text, fold_pads)
    same_values(source, found)
    _check_compiled(source)
    (node,) = (n for n in found.order() if "Convolution" in found.op(n).kind)
    filters = found.fact(found.input(node, 1)).tensor.shape
    op = found.op(node)
    assert filters is not None and isinstance(op, Convolving)
    assert all(d == 1 or size != 1 for d, size in zip(op.dilations, filters[-2:], strict=True))
    return tuple(filters[-2:])


@pytest.mark.parametrize(
    ("attributes", "kernel", "left"),
    [
        ("pads_begin=[9, 9], pads_end=[9, 9], dilations=[9, 9]", "4, 3, 3, 3", (1, 1)),
        ("pads_begin=[7, 7], pads_end=[7, 7], dilations=[7, 7]", "4, 3, 3, 3", (1, 3)),
        ("pads_begin=[6, 8], pads_end=[6, 8], dilations=[6, 8]", "4, 3, 3, 3", (3, 3)),
        ("auto_pad=same_upper, dilations=[8, 4]", "3, 1, 1, 3, 5", (1, 5)),
        ("auto_pad=same_lower, dilations=[3, 5], strides=[2, 3]", "4, 3, 7, 5", (5, 3)),
        ("pads_begin=[0, 9], pads_end=[9, 0], dilations=[9, 9]", "4, 3, 2, 2", (1, 1)),
        ("pads_begin=[4, 0], pads_end=[4, 0], strides=[8, 1]", "4, 3, 9, 1", (5, 1)),
    ],
)
def test_filters_lose_what_reads_padding_alone(
    attributes: str, kernel: str, left: tuple[int, int]
) -> None:
    """Dilated beyond the image on both axes or one, by one pixel less, with paddings that follow
    from sizes, with strides, at one end of an axis alone, and strides that skip pixels."""
    assert trimmed(attributes, kernel) == left


def test_filters_over_images_of_one_pixel_are_products() -> None:
    same = "pads_begin=[1, 1], pads_end=[1, 1]"
    assert trimmed(same, "4, 3, 3, 3", "f32[N, 3, 1, 1]") == (1, 1)
    assert trimmed(same, "4, 3, 3, 3", "f32[N, 3, 2, 1]") == (3, 1)


@pytest.mark.parametrize(
    ("image", "filters", "attributes", "reason"),
    [
        ("N, 3, H, 9", "~1", "pads_begin=[9, 9], pads_end=[9, 9], dilations=[9, 9]", None),
        (
            "2, 3, 10, 9",
            "~1",
            "pads_begin=[12, 1], pads_end=[12, 1], dilations=[15, 1]",
            "windows begin behind the image's first element, or hold none",
        ),
        (
            "2, 3, 5, 9",
            "~1",
            "pads_end=[8, 0], dilations=[6, 1]",
            "windows end before the image's last element",
        ),
        (
            "2, 3, 7, 9",
            ", ".join(["Infinity"] * 108),
            "pads_begin=[9, 9], pads_end=[9, 9], dilations=[9, 9]",
            "an infinite weight times a padding is not 0",
        ),
    ],
)
def test_filters_that_stay(image: str, filters: str, attributes: str, reason: str | None) -> None:
    """Of symbolic sizes; whose windows would cut the image; and infinite weights."""
    text = f"""%0 = Input(f32[{image}])
%1 = Const(f32[4, 3, 3, 3] = {filters})
%2 = Convolution.1(%0, %1) {{{attributes}}}
%3 = Result.1(%2)
"""
    stays(text, fold_pads, reason)
