"""Col2Im: sums of views, as `evaluate` adds them up; else on the host, and why."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_coverage import Coverage


def image(
    shape: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    attributes: str = "",
    dtype: str = "f32",
    before: str = "",
) -> Graph:
    """%3 of columns %0; `before` makes other columns %9 of them."""
    return parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape={shape}}} "x"
%1 = Constant.1() {{data={list(size)}, dtype=i64, shape=[2]}}
%2 = Constant.1() {{data={list(kernel)}, dtype=i64, shape=[2]}}
{before}%3 = Col2Im.15({"%9" if before else "%0"}, %1, %2) {{{attributes}}}
%4 = Result.1(%3) "y"
""")


# Columns as attention makes them: the channels of a window follow one another.
TURNED = """%5 = Constant.1() {data=[0, 16, 4, 16], dtype=i64, shape=[4]}
%6 = Reshape.1(%0, %5) {special_zero=true}
%7 = Constant.1() {data=[0, 3, 2, 1], dtype=i64, shape=[4]}
%8 = Transpose.1(%6, %7)
%10 = Constant.1() {data=[0, 64, 16], dtype=i64, shape=[3]}
%9 = Reshape.1(%8, %10) {special_zero=true}
"""
# Every second column.
STRIDED = """%5 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%6 = Constant.1() {data=[18], dtype=i64, shape=[1]}
%7 = Constant.1() {data=[2], dtype=i64, shape=[1]}
%9 = Slice.8(%0, %5, %6, %7, %7)
"""
CASES: dict[str, tuple[Graph, tuple[int, ...]]] = {
    "windows apart": (image("[2, 12, 4]", (4, 6), (2, 3), "strides=[2, 3]"), (2, 12, 4)),
    "gaps between windows": (image("[2, 12, 9]", (8, 8), (2, 2), "strides=[3, 3]"), (2, 12, 9)),
    "every pixel": (image("[2, 18, 30]", (7, 8), (3, 3)), (2, 18, 30)),
    "padded": (
        image("[2, 27, 16]", (8, 7), (3, 3), "strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]"),
        (2, 27, 16),
    ),
    "uneven": (
        image("[2, 30, 12]", (9, 8), (5, 3), "strides=[2, 3], pads_begin=[0, 2], pads_end=[2, 1]"),
        (2, 30, 12),
    ),
    "dilated": (
        image("[1, 8, 20]", (9, 7), (2, 2), "strides=[2, 1], dilations=[3, 3], pads_end=[2, 1]"),
        (1, 8, 20),
    ),
    "overlapping frames": (
        image('["B", 64, 13]', (1, 256), (1, 64), "strides=[1, 16]"),
        (3, 64, 13),
    ),
    "no batch": (image("[8, 9]", (4, 4), (2, 2)), (8, 9)),
    "symbolic batch": (image('["B", 8, 9]', (4, 4), (2, 2)), (5, 8, 9)),
    "channels of a window": (image("[2, 16, 64]", (5, 5), (2, 2), before=TURNED), (2, 16, 64)),
    "strided": (image("[2, 8, 18]", (4, 4), (2, 2), before=STRIDED), (2, 8, 18)),
    "doubles": (image("[1, 9, 25]", (7, 7), (3, 3), dtype="f64"), (1, 9, 25)),
    "halves": (image("[1, 9, 25]", (7, 7), (3, 3), dtype="f16"), (1, 9, 25)),
    "bf16": (image("[1, 9, 25]", (7, 7), (3, 3), dtype="bf16"), (1, 9, 25)),
    "integers": (image("[1, 9, 25]", (7, 7), (3, 3), dtype="i32"), (1, 9, 25)),
    "long integers": (image("[1, 9, 25]", (7, 7), (3, 3), dtype="i64"), (1, 9, 25)),
}


@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, optimised: bool, compile_graph: Any) -> None:
    graph, shape = CASES[name]
    for threads in (1, 2):
        net: irc.CompiledModel = compile_graph(graph.copy(), optimised, threads)
        assert not net.plan.host_steps()
        dtype = DType[net.inputs[0].dtype].numpy
        x = np.random.default_rng(0).uniform(-99, 99, shape).astype(dtype)
        (got,), (want,) = net([x]), interpret(graph, [x])
        assert got.shape == want.shape and got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_no_step_reads_unwritten_memory(name: str) -> None:
    plan = irc.compile_model(irc.Model(CASES[name][0].copy())).plan
    tables = RegionLayoutTables(plan.regions[0], plan.constants)
    assert not Coverage(tables).unwritten(tables.sizes({"B": 3}))


def test_paddings_of_a_network_are_dropped() -> None:
    """Each pixel of a window without neighbours is its tap; what is in the padding is nowhere."""
    graph = image("[1, 4, 4]", (2, 2), (2, 2), "strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]")
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    (got,) = irc.compile_model(irc.Model(graph))([x])
    np.testing.assert_array_equal(got, [[[[12, 9], [6, 3]]]])


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (image("[1, 4, 4]", (2, 2), (2, 2), "strides=[2, 2]", "i8"), "no kernel for Col2Im of i8"),
        (image("[1, 1156, 9]", (36, 36), (34, 34)), "a window of more than 256 sums"),
        (image('[1, 4, "L"]', (3, 3), (2, 2)), "other windows than the image has"),
    ],
)
def test_other_forms_are_evaluated(graph: Graph, reason: str) -> None:
    net = irc.compile_model(irc.Model(graph))
    assert reason in net.report()
