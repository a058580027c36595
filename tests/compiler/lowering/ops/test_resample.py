"""Resizing, padding, adaptive pools and blocks of channels: native, as `evaluate` says."""

from __future__ import annotations

from collections.abc import Callable

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.resample import ResampleSpec
from support.plan_steps import step_families

# Channels-last values between convolutions, and values that no convolution has written.
IMAGE = '%0 = Parameter.1() {element_type=f32, shape=["N", 8, "H", "W"]} "x"\n'
TURNED = """%90 = Constant.1() {data=~1, dtype=f32, shape=[12, 8, 1, 1]}
%91 = Convolution.1(%0, %90)
"""
FIXED = '%0 = Parameter.1() {element_type=f32, shape=["N", 12, 7, 9]} "x"\n'
PLANE = '%0 = Parameter.1() {element_type=f32, shape=[2, 3, "H", "W"]} "x"\n'
AXES = "%2 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}\n"


def ints(name: int, *numbers: int) -> str:
    return f"%{name} = Constant.1() {{data={list(numbers)}, dtype=i64, shape=[{len(numbers)}]}}\n"


def floats(name: int, *numbers: float) -> str:
    return f"%{name} = Constant.1() {{data={list(numbers)}, dtype=f32, shape=[{len(numbers)}]}}\n"


def resize(of: int, by: str, how: str) -> str:
    mode = "scales" if "f32" in by else "sizes"
    return (
        by
        + AXES
        + f'%3 = Interpolate.11(%{of}, %1, %2) {{shape_calculation_mode="{mode}", {how}}}\n'
    )


def pad(of: int, begin: list[int], end: list[int], mode: str, number: str = "") -> str:
    extra = "%4 = Constant.1() {data=[2.5], dtype=f32, shape=[]}\n" if number else ""
    listed = ints(1, *begin) + ints(2, *end) + extra
    return listed + f'%3 = Pad.12(%{of}, %1, %2{number}) {{pad_mode="{mode}"}}\n'


END = '%9 = Result.1(%3) "y"\n'
HALF = 'coordinate_transformation_mode="half_pixel"'
CASES: dict[str, str] = {
    "bilinear": IMAGE
    + TURNED
    + resize(91, floats(1, 2.0, 3.0), f'mode="linear_onnx", {HALF}')
    + END,
    "bilinear_of_planes": PLANE
    + resize(0, ints(1, 11, 5), 'mode="linear", coordinate_transformation_mode="align_corners"')
    + END,
    "nearest": IMAGE
    + TURNED
    + resize(
        91,
        floats(1, 2.0, 2.0),
        'mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"',
    )
    + END,
    "cubic": PLANE + resize(0, ints(1, 13, 6), f'mode="cubic", {HALF}') + END,
    "halves": IMAGE + resize(0, floats(1, 0.5, 1.75), f'mode="linear_onnx", {HALF}') + END,
    "joined": IMAGE
    + TURNED
    + resize(91, ints(1, 12, 7), f'mode="linear_onnx", {HALF}')
    + """%5 = AdaptiveAvgPool.8(%0, %1)
%6 = Concat.1(%5, %3) {axis=1}
%7 = Result.1(%6) "y"
""",
    "edges": IMAGE + TURNED + pad(91, [0, 1, 2, 0], [0, 0, 1, 3], "edge") + END,
    "turned_for_a_convolution": IMAGE
    + pad(0, [0, 0, 2, 1], [0, 0, 1, 2], "symmetric")
    + """%5 = Constant.1() {data=~1, dtype=f32, shape=[12, 8, 3, 3]}
%6 = Convolution.1(%3, %5)
%7 = Result.1(%6) "y"
""",
    "mirrors": FIXED + pad(0, [0, 0, 3, 2], [0, 0, 2, 4], "reflect") + END,
    "numbers_around": IMAGE
    + TURNED
    + pad(91, [0, 0, 1, -1], [1, 0, 2, 3], "constant", ", %4")
    + END,
    "uneven_means": FIXED + ints(1, 3, 4) + "%3 = AdaptiveAvgPool.8(%0, %1)\n" + END,
    "uneven_maxima": IMAGE + TURNED + ints(1, 3, 2) + "%3 = AdaptiveMaxPool.8(%91, %1)\n" + END,
    "shuffled": IMAGE + TURNED + "%3 = ShuffleChannels.1(%91) {axis=1, group=3}\n" + END,
    "deep": FIXED + '%3 = DepthToSpace.1(%0) {mode="depth_first", block_size=2}\n' + END,
    "blocks": IMAGE
    + TURNED
    + """%1 = DepthToSpace.1(%91) {mode="blocks_first", block_size=2}
%2 = SpaceToDepth.1(%1) {mode="depth_first", block_size=2}
%3 = SpaceToDepth.1(%1) {mode="blocks_first", block_size=2}
%4 = Result.1(%2) "z"
"""
    + END,
}
CASES["places_of_maxima"] = """%0 = Parameter.1() {element_type=f32, shape=[2, 9, 7, 6]} "x"
%1 = Round.5(%0) {mode="half_to_even"}
%2 = MaxPool.14(%1) {kernel=[2, 2], strides=[2, 2], axis=2}
%4 = MaxPool.14(%1) {kernel=[3, 2], strides=[2, 1], dilations=[1, 2], axis=0}
%6 = Result.1(%2:1) "z"
%7 = Result.1(%4:1) "y"
"""
SIZES = ({"N": 1, "H": 6, "W": 8}, {"N": 3, "H": 5, "W": 4})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, compile_graph) -> None:
    graph = parse_graph(f'graph "{name}"\n{CASES[name]}')
    first: list[np.ndarray] = []
    for threads in (1, 2):
        net: irc.CompiledModel = compile_graph(graph.copy(), True, threads)
        assert not net.plan.host_steps()
        for number, sizes in enumerate(SIZES):
            (port,) = net.inputs
            assert port.shape is not None
            shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
            rng = np.random.default_rng(number)
            inputs = [rng.standard_normal(shape).astype(np.float32)]
            got = list(net(inputs))
            for g, w in zip(got, interpret(graph, inputs), strict=True):
                assert g.shape == w.shape and g.dtype == w.dtype
                np.testing.assert_allclose(g, w, rtol=0, atol=1e-5 * max(1, np.abs(w).max()))
            if threads == 1:
                first += got
            else:
                count = len(got)
                same = first[number * count : (number + 1) * count]
                assert [a.tobytes() for a in got] == [a.tobytes() for a in same]


def test_many_channels_are_resampled_in_vectors_and_turned_for_the_caller() -> None:
    """As at the end of a segmentation network: single pixels would take four times as long."""
    text = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=[1, 8, 6, 5]} "x"
%90 = Constant.1() {data=~1, dtype=f32, shape=[21, 8, 1, 1]}
%91 = Convolution.1(%0, %90)
"""
    graph = parse_graph(text + resize(91, floats(1, 8.0, 8.0), f'mode="linear_onnx", {HALF}') + END)
    plan = irc.compile_model(irc.Model(graph)).plan
    assert step_families(plan)[-3:] == ["gemm", "resample", "elementwise"]
    (spec,) = (s for s in plan.specs() if isinstance(s, ResampleSpec))
    assert all(o.strides[-1] == 1 for o in spec.operands()) and spec.inner == 21


@pytest.mark.parametrize(
    ("how", "by", "steps"),
    [
        (f'mode="linear_onnx", {HALF}', floats(1, 2.0, 3.0), 1),
        (f'mode="linear_onnx", {HALF}', ints(1, 12, 7), 2),  # a size may stay as it was
        ('mode="nearest", nearest_mode="floor"', ints(1, 12, 8), 1),
        (f'mode="cubic", {HALF}', floats(1, 2.0, 3.0), 2),  # 16 elements for one
    ],
    ids=["linear", "linear_to_sizes", "nearest_to_sizes", "cubic"],
)
def test_rows_and_columns_are_one_step(
    how: str, by: str, steps: int, compile_graph: Callable[..., irc.CompiledModel]
) -> None:
    graph = parse_graph(f'graph "g"\n{IMAGE}{TURNED}{resize(91, by, how)}{END}')
    net = compile_graph(graph.copy(), True, 2)
    assert step_families(net.plan).count("resample") == steps
    x = np.random.default_rng(1).standard_normal((2, 8, 6, 4)).astype(np.float32)
    (want,) = interpret(graph, [x])
    np.testing.assert_allclose(net([x])[0], want, rtol=0, atol=1e-5 * np.abs(want).max())
