"""Axes, lengths and counts that are a symbolic size: known at compile time, and no numbers."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph

# %2 is the list [N], %3 the number N, which is 1 when it runs.
BEGIN = """\
%0 = Parameter.1() {element_type=f32, shape=[2, 2, 6, 6]} "x"
%1 = Parameter.1() {element_type=f32, shape=["N"]} "sized"
%2 = ShapeOf.3(%1)
%10 = Constant.1() {data=[0], dtype=i64, shape=[]}
%3 = Gather.8(%2, %10, %10)
%4 = Constant.1() {data=[1], dtype=i64, shape=[1]}
%5 = Concat.1(%2, %2) {axis=0}
%6 = Concat.1(%5, %5) {axis=0}
%7 = Constant.1() {data=[0, 2, 3], dtype=i64, shape=[3]}
%11 = Concat.1(%2, %7) {axis=0}
%12 = Constant.1() {data=[0, 0, 0, 0], dtype=i64, shape=[4]}
%13 = Constant.1() {data=[1.0], dtype=f32, shape=[]}
%14 = Constant.1() {data=[0.0], dtype=f32, shape=[]}
%15 = Constant.1() {data=[3, 1, 0, 2], dtype=i64, shape=[4]}
%16 = Constant.1() {data=[2, 1, 6, 6], dtype=i64, shape=[4]}
"""
BEGIN += "%18 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}\n%17 = Unsqueeze.1(%15, %10)\n"
END = '%9 = Result.1(%8) "y"\n'
CASES = {
    "reverse": 'Reverse.1(%0, %2) {mode="index"}',
    "mvn": "MVN.6(%0, %2) {eps=0.01}",
    "adaptive": "AdaptiveAvgPool.8(%0, %5)",
    "adaptive_max": "AdaptiveMaxPool.8(%0, %5)",
    "mean": "ReduceMean.1(%0, %2)",
    "turned": "Transpose.1(%0, %11)",
    "roll_axis": "Roll.7(%0, %4, %2)",
    "roll_shift": "Roll.7(%0, %2, %4)",
    "unsqueeze": "Unsqueeze.1(%0, %2)",
    "cumsum": "CumSum.3(%0, %3)",
    "split": "Split.1(%0, %3) {num_splits=2}",
    "parts": "VariadicSplit.1(%0, %3, %5) {num_outputs=2}",
    "gather_axis": "Gather.8(%0, %4, %3)",
    "gather_places": "Gather.8(%0, %2, %3)",
    "tile": "Tile.1(%0, %6)",
    "top": 'TopK.11(%0, %3) {axis=3, mode="max", sort="value"}',
    "normalize": 'NormalizeL2.1(%0, %2) {eps=0.1, eps_mode="max"}',
    "lrn": "LRN.1(%0, %2) {alpha=0.3, beta=0.75, bias=2.0, size=3}",
    "pad": 'Pad.12(%0, %6, %12) {pad_mode="constant"}',
    "slice": "Slice.8(%0, %4, %4, %2, %2)",
    "slice_start": "Slice.8(%0, %2, %4, %4, %4)",
    "blocks": "SpaceToBatch.2(%0, %6, %12, %12)",
    "unblocks": "BatchToSpace.2(%0, %6, %12, %12)",
    "scatter": "ScatterElementsUpdate.12(%15, %4, %2, %10)",
    "scatter_axis": "ScatterElementsUpdate.12(%17, %17, %17, %3)",
    "broadcast": 'Broadcast.3(%13, %6) {mode="numpy"}',
    "reshape": "Reshape.1(%13, %6) {special_zero=false}",
    "eye": "Eye.9(%3, %3, %3) {output_type=f32}",
    "range": "Range.4(%10, %3, %3) {output_type=i64}",
    "one_hot": "OneHot.1(%15, %3, %13, %14) {axis=-1}",
    "interpolate": 'Interpolate.11(%0, %5, %18) {mode="nearest", shape_calculation_mode="sizes"}',
    "spectrum": "RDFT.9(%0, %2)",
    "turned_sequences": "ReverseSequence.1(%0, %5) {batch_axis=0, seq_axis=2}",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_an_operand_is_a_size(case: str) -> None:
    graph = parse_graph(f'graph "g"\n{BEGIN}%8 = {CASES[case]}\n{END}')
    image = np.random.default_rng(0).standard_normal((2, 2, 6, 6)).astype(np.float32)
    inputs = [image, np.zeros(1, np.float32)]
    (want,) = interpret(graph, inputs)
    (got,) = irc.compile_model(irc.Model(graph))(inputs)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


# What is computed of x, f32[2, 4, N], and z, f32[5, M]; %2 is N, %14 N - 2; sizes of N and M that
# fit, and that do not.
TAKEN_FOR_GRANTED = {
    "complex numbers": ("IRDFT.9(%0, %3)", (2, 1), (3, 1)),
    "blocks of a batch": ("SpaceToBatch.2(%0, %4, %5, %5)", (1, 1), (2, 1)),
    "a letter's sizes": ('Einsum.7(%0, %6) {equation="abc,cd->abd"}', (7, 1), (6, 1)),
    "lengths of parts": ("VariadicSplit.1(%0, %13, %16) {num_outputs=2}", (4, 1), (0, 1)),
    "sizes to reshape to": ("Reshape.1(%0, %16) {special_zero=false}", (4, 1), (0, 1)),
    "sizes to broadcast to": ('Broadcast.3(%17, %18) {mode="numpy"}', (4, 1), (0, 1)),
    "sizes to pool to": ("AdaptiveAvgPool.8(%0, %14)", (4, 1), (1, 1)),
    "sizes to resize to": (
        'Interpolate.11(%0, %14, %10) {mode="nearest", shape_calculation_mode="sizes"}',
        (4, 1),
        (0, 1),
    ),
    "what is cut off": ('Pad.12(%0, %18, %5) {pad_mode="constant"}', (4, 1), (0, 1)),
    "what is cut off where as much is added": (
        'Pad.12(%0, %18, %24) {pad_mode="constant"}',
        (1, 1),
        (0, 1),
    ),
    "groups of channels": (
        "GroupNormalization.12(%20, %21, %21) {num_groups=2, epsilon=0.1}",
        (4, 1),
        (3, 1),
    ),
    "an element of an axis": (
        "StridedSlice.1(%0, %24, %24) {begin_mask=[1, 1], end_mask=[1, 1], "
        "shrink_axis_mask=[0, 0, 1]}",
        (3, 1),
        (2, 1),
    ),
    "a letter of two symbols": ('Einsum.7(%0, %1) {equation="abc,dc->abd"}', (3, 3), (3, 4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TAKEN_FOR_GRANTED)
def test_a_size_that_does_not_fit_is_refused_where_only_the_shape_is_read(case: str) -> None:
    """Then nothing computes what the size does not fit."""
    made, fit, unfit = TAKEN_FOR_GRANTED[case]
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[2, 4, "N"]}} "x"
%1 = Parameter.1() {{element_type=f32, shape=[5, "M"]}} "z"
%9 = ShapeOf.3(%0)
%10 = Constant.1() {{data=[2], dtype=i64, shape=[1]}}
%3 = Constant.1() {{data=[0], dtype=i64, shape=[1]}}
%2 = Gather.8(%9, %10, %3)
%11 = Constant.1() {{data=[1, 1], dtype=i64, shape=[2]}}
%4 = Concat.1(%2, %11) {{axis=0}}
%5 = Constant.1() {{data=[0, 0, 0], dtype=i64, shape=[3]}}
%6 = Parameter.1() {{element_type=f32, shape=[7, 3]}} "w"
%22 = Parameter.1() {{element_type=f32, shape=[1, "N"]}} "scale"
%13 = Constant.1() {{data=[1], dtype=i64, shape=[]}}
%19 = Constant.1() {{data=[2], dtype=i64, shape=[1]}}
%14 = Subtract.1(%2, %19)
%15 = Constant.1() {{data=[-1], dtype=i64, shape=[1]}}
%16 = Concat.1(%14, %15) {{axis=0}}
%17 = Constant.1() {{data=[1.0], dtype=f32, shape=[1]}}
%18 = Concat.1(%11, %14) {{axis=0}}
%24 = Constant.1() {{data=[0, 0, 2], dtype=i64, shape=[3]}}
%23 = Constant.1() {{data=[0, 2, 1], dtype=i64, shape=[3]}}
%20 = Transpose.1(%0, %23)
%21 = Squeeze.1(%22, %3)
%7 = {made}
%8 = ShapeOf.3(%7)
%12 = Result.1(%8) "y"
""")
    net = irc.compile_model(irc.Model(graph))
    for (n, m), fits in ((fit, True), (unfit, False)):
        inputs = [np.ones(s, np.float32) for s in ((2, 4, n), (5, m), (7, 3), (1, n))]
        if fits:
            assert np.array_equal(net(inputs)[0], interpret(graph, inputs)[0])
            continue
        with pytest.raises(irc.Error):
            interpret(graph, inputs)
        with pytest.raises(irc.Error):
            net(inputs)


SINGLE = {
    "pad value": 'Pad.12(%0, %2, %2, %1) {pad_mode="constant"}',
    "pad value unread": 'Pad.12(%0, %2, %2, %1) {pad_mode="edge"}',
    "scale": "ScaledDotProductAttention.13(%4, %4, %4, _, %1)",
}


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_number_of_so_many_elements_as_a_run_says(case: str) -> None:
    graph = parse_graph(
        'graph "g"\n%0 = Parameter.1() {element_type=f32, shape=[3]} "x"\n'
        '%1 = Parameter.1() {element_type=f32, shape=["N"]} "number"\n'
        "%2 = Constant.1() {data=[1], dtype=i64, shape=[1]}\n"
        "%4 = Constant.1() {data=[1.0, 2.0, 3.0, 4.0], dtype=f32, shape=[2, 2]}\n"
        f'%8 = {SINGLE[case]}\n%9 = Result.1(%8) "y"\n'
    )
    net = irc.compile_model(irc.Model(graph))
    x = np.array([1, 2, 3], np.float32)
    for number in ([0.5], [0.0]):
        one = [x, np.array(number, np.float32)]
        np.testing.assert_allclose(net(one)[0], interpret(graph, one)[0], 1e-6)
    for count in (0, 2):
        several = [x, np.ones(count, np.float32)]
        with pytest.raises(irc.Error, match="has another shape"):
            net(several)
        with pytest.raises(irc.Error):
            interpret(graph, several)
