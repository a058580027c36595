"""Movements without a kernel become slices, reshapes and gathers of the same elements."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.decompose.data_movement import decompose_data_movement
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import print_graph
from support.rewriting import graph, run

SLICE = "%1 = Const(i64[3] = {})\n%2 = Const(i64[3] = {})\n%3 = Const(i64[3] = {})\n"
BLOCKS = "%1 = Const(i64[4] = {})\n%2 = Const(i64[4] = {})\n%3 = Const(i64[4] = {})\n"
STRIDED = "%4 = StridedSlice.1(%0, %1, %2, %3) "
# name: lines from %1 on; the last one is the result.
MOVES = {
    "bounds": SLICE.format("0, 1, -3", "9, -1, 4", "1, 2, 1") + STRIDED,
    "masks": SLICE.format("1, 1, 1", "1, 3, 1", "1, 1, 2")
    + STRIDED + "{begin_mask=[1, 0, 0], end_mask=[1, 0, 1]}",
    "backwards": SLICE.format("0, -1, 3", "0, -9, 0", "1, -1, -2") + STRIDED
    + "{begin_mask=[1], end_mask=[1]}",
    "free_backwards": SLICE.format("0, 0, 0", "0, 0, 0", "1, -1, -3") + STRIDED
    + "{begin_mask=[1, 1, 1], end_mask=[1, 1, 1]}",
    "shrink": SLICE.format("0, -1, 2", "0, 0, 3", "1, 1, 1") + STRIDED
    + "{begin_mask=[1], end_mask=[1], shrink_axis_mask=[0, 1, 1]}",
    "shrink_a_size": "%1 = Const(i64[2] = 4, 1)\n%2 = Const(i64[2] = 5, 2)\n"
    "%3 = StridedSlice.1(%0, %1, %2) {shrink_axis_mask=[1, 1]}",
    "ends_of_axes": "%1 = Const(i64[4] = 0, 1, 0, 3)\n%2 = ShapeOf.3(%0)\n"
    "%3 = StridedSlice.1(%0, %1, %2)",
    "ends_at_sizes": "%1 = Const(i32[4] = 0, 1, 0, -2)\n%2 = ShapeOf.3(%0) {output_type=i32}\n"
    "%3 = Const(i32[4] = 2, 2, 2, 2)\n%4 = Divide.1(%2, %3)\n%5 = StridedSlice.1(%0, %1, %4)",
    "begins_at_sizes": "%1 = ShapeOf.3(%0)\n%2 = Const(i64[4] = 2, 4, 5, 2)\n"
    "%3 = Divide.1(%1, %2)\n%4 = Const(i64[4] = 1, 2, 1, 3)\n"
    "%5 = StridedSlice.1(%0, %3, %1, %4) {end_mask=[1, 0, 0, 1]}",
    "new_axis": SLICE.format("0, 0, 1", "0, 0, 3", "1, 1, 1") + STRIDED
    + "{begin_mask=[1], end_mask=[1], new_axis_mask=[0, 1]}",
    "ellipsis": SLICE.format("0, 0, 1", "0, 0, 3", "1, 1, 1") + STRIDED
    + "{begin_mask=[1], end_mask=[1], ellipsis_mask=[0, 1], shrink_axis_mask=[0, 0, 1]}",
    "ellipsis_first": SLICE.format("0, 0, 1", "0, 0, 3", "1, 1, 1") + STRIDED
    + "{ellipsis_mask=[1], new_axis_mask=[0, 1]}",
    "reverse": "%1 = Const(i64[2] = -1, 1)\n%2 = Reverse.1(%0, %1) {mode=\"index\"}",
    "reverse_mask": "%1 = Const(boolean[4] = false, true, false, true)\n"
    "%2 = Reverse.1(%0, %1) {mode=\"mask\"}",
    "roll": "%1 = Const(i64[3] = 1, -2, 12)\n%2 = Const(i64[3] = 1, 2, 2)\n%3 = Roll.7(%0, %1, %2)",
    "roll_of_few": "%1 = Const(i64[2] = 4, -9)\n%2 = Const(i64[2] = 0, 0)\n%3 = Roll.7(%0, %1, %2)",
    "roll_alike": "%1 = Const(i32[1] = 3)\n%2 = Const(i32[2] = -1, 1)\n%3 = Roll.7(%0, %1, %2)",
    "to_batch": BLOCKS.format("1, 2, 3, 1", "0, 1, 2, 0", "0, 1, 2, 1")
    + "%4 = SpaceToBatch.2(%0, %1, %2, %3)",
    "to_batch_plain": BLOCKS.format("1, 2, 1, 4", "0, 0, 0, 0", "0, 0, 0, 0")
    + "%4 = SpaceToBatch.2(%0, %1, %2, %3)",
    "to_space": BLOCKS.format("1, 3, 2, 1", "0, 1, 0, 0", "0, 0, 3, 0")
    + "%4 = BatchToSpace.2(%0, %1, %2, %3)",
    "sequences": "%1 = Input(i32[N])\n%2 = ReverseSequence.1(%0, %1) {batch_axis=0, seq_axis=2}",
    "sequences_first": "%1 = Input(i64[5])\n"
    "%2 = ReverseSequence.1(%0, %1) {batch_axis=2, seq_axis=1}",
    "convert": "%1 = Input(i32[N])\n%2 = ConvertLike.1(%0, %1)",
}  # fmt: skip


def made(name: str) -> Graph:
    lines = MOVES[name].split("\n")
    text = "\n".join(["%0 = Input(f32[N, 4, 5, 8])", *lines])
    return graph(f"\n{text}\n%{len(lines) + 1} = Result.1(%{len(lines)})\n")


def inputs(name: str, batch: int) -> list[np.ndarray]:
    x = np.arange(batch * 160, dtype=np.float32).reshape(batch, 4, 5, 8)
    if name == "convert":
        return [x / 3, np.zeros(batch, np.int32)]
    if name == "sequences":
        # One of nothing, one of all, and one that is longer than the axis.
        return [x, np.array([0, 5, 3, 1, 4, 9][:batch], np.int32)]
    return [x, np.array([4, 0, 1, 3, 2])] if name == "sequences_first" else [x]


@pytest.mark.parametrize("name", MOVES)
def test_same_elements(name: str) -> None:
    before, given = made(name), inputs(name, 6)
    (want,) = interpret(before, given)
    after = run(before, decompose_data_movement)
    gone = "StridedSlice Reverse Roll SpaceToBatch BatchToSpace ReverseSequence ConvertLike".split()
    assert not {after.op(n).kind for n in after.ids()} & set(gone)
    (found,) = interpret(after, given)
    np.testing.assert_array_equal(found, want)


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVES)
def test_natively(name: str) -> None:
    before = made(name)
    net = irc.compile_model(irc.Model(before.copy()))
    assert not net.plan.host_steps()
    for batch in (6,) if name in ("to_space", "shrink_a_size") else (1, 6):
        given = inputs(name, batch)
        (want,) = interpret(before, given)
        np.testing.assert_array_equal(net(given)[0], want)


@pytest.mark.parametrize(
    "text",
    [
        "%0 = Input(f32[N, 4])\n%1 = Input(i64[1])\n%2 = Const(i64[1] = 0)\n"
        "%3 = Roll.7(%0, %1, %2)\n",
        "%0 = Input(f32[N, 4])\n%1 = Input(i64[2])\n%2 = Input(i64[2])\n"
        "%3 = StridedSlice.1(%0, %1, %2)\n",
        "%0 = Input(f32[N, M])\n%5 = Input(f32[M])\n%1 = Const(i64[1] = 0)\n%2 = ShapeOf.3(%5)\n"
        "%3 = StridedSlice.1(%0, %2, %1) {shrink_axis_mask=[1]}\n",
        "%0 = Input(f32[N, 4])\n%1 = Input(i32[...])\n"
        "%3 = ReverseSequence.1(%0, %1) {batch_axis=0, seq_axis=1}\n",
    ],
    ids=[
        "roll_by_run_time",
        "bounds_of_run_time",
        "an_element_at_a_size",
        "lengths_of_unknown_rank",
    ],
)
def test_what_stays(text: str) -> None:
    lines = "\n" + text + "%4 = Result.1(%3)\n"
    after = run(graph(lines), decompose_data_movement)
    assert print_graph(after) == print_graph(graph(lines))


def test_an_element_that_is_not_there_is_an_error() -> None:
    net = irc.compile_model(irc.Model(made("shrink_a_size")))
    with pytest.raises(irc.Error, match="a size that the model does not allow"):
        net(inputs("shrink_a_size", 4))
