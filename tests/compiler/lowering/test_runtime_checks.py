"""Inputs whose sizes contradict what the model needs are refused, never computed with in part."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.model import Model
from irc_compiler.ir.text.graph_text import parse_graph

PARAMETER = '%{n} = Parameter.1() {{element_type=f32, shape={shape}}} "x{n}"\n'

# Parameters' shapes, the rest of the graph, sizes that fit, sizes that contradict each other.
CASES = {
    "a product of two inputs": (
        ['["N", "K"]', '["L", 4]'],
        "%2 = MatMul.1(%0, %1)\n%3 = Result.1(%2)",
        [[(2, 3), (3, 4)], [(2, 0), (0, 4)]],
        [[(2, 3), (5, 4)], [(2, 5), (3, 4)], [(2, 1), (3, 4)], [(2, 3), (1, 4)]],
    ),
    "a product with a weight": (
        ['["N", "K"]'],
        "%1 = Constant.1() {data=~1, dtype=f32, shape=[8, 20]}\n"
        "%2 = MatMul.1(%0, %1)\n%3 = Result.1(%2)",
        [[(2, 8)], [(0, 8)]],
        [[(2, 9)], [(2, 7)], [(2, 1)], [(2, 0)]],
    ),
    "batches of a product": (
        ['["B", 2, 3]', '["C", 3, 4]'],
        "%2 = MatMul.1(%0, %1)\n%3 = Result.1(%2)",
        [[(2, 2, 3), (2, 3, 4)], [(1, 2, 3), (3, 3, 4)]],
        [[(2, 2, 3), (3, 3, 4)]],
    ),
    "a sum with a row": (
        ['["N", "K"]'],
        "%1 = Constant.1() {data=~1, dtype=f32, shape=[8]}\n%2 = Add.1(%0, %1)\n%3 = Result.1(%2)",
        [[(2, 8)], [(2, 1)]],
        [[(2, 9)], [(2, 7)], [(2, 0)]],
    ),
    "a bias that is a column longer than the data": (
        ['[3, "N"]'],
        "%1 = Constant.1() {data=[0, -1], dtype=i64, shape=[2]}\n"
        "%2 = Constant.1() {data=[0, 0], dtype=i64, shape=[2]}\n"
        '%3 = Pad.12(%0, %1, %2) {pad_mode="edge"}\n%4 = Exp.1(%0)\n'
        "%5 = LayerNorm.0(%3, _, %4)\n%6 = Result.1(%5)",
        [[(3, 1)]],
        [[(3, 5)], [(3, 2)], [(3, 0)]],
    ),
    "parts of a concatenation": (
        ['["N", "K"]', '["M", "L"]'],
        "%2 = Concat.1(%0, %1) {axis=0}\n%3 = Result.1(%2)",
        [[(2, 8), (1, 8)]],
        [[(2, 8), (1, 9)], [(2, 9), (1, 8)], [(2, 8), (1, 1)]],
    ),
    "channels of a convolution": (
        ['["N", "C", 5, 5]'],
        "%1 = Constant.1() {data=~1, dtype=f32, shape=[4, 3, 2, 2]}\n"
        "%2 = Convolution.1(%0, %1)\n%3 = Result.1(%2)",
        [[(1, 3, 5, 5)]],
        [[(1, 2, 5, 5)], [(1, 4, 5, 5)]],
    ),
    "a window on its axis": (
        ['["N", 2, "H", 5]'],
        "%1 = MaxPool.8(%0) {strides=[1, 1], pads_begin=[1, 0], pads_end=[0, 0], kernel=[4, 2]}\n"
        "%2 = Result.1(%1)",
        [[(1, 2, 3, 5)], [(0, 2, 8, 5)]],
        [[(1, 2, 2, 5)], [(1, 2, 0, 5)]],
    ),
    "a window whose shape alone is read": (
        ['["N", 2, "H", 5]'],
        "%1 = AvgPool.1(%0) {exclude_pad=true, strides=[1, 1], pads_begin=[0, 0], "
        "pads_end=[0, 0], kernel=[4, 2]}\n%2 = ShapeOf.3(%1)\n%3 = Result.1(%2)",
        [[(1, 2, 4, 5)]],
        [[(1, 2, 3, 5)], [(1, 2, 0, 5)]],
    ),
    "a zero point of bytes": (
        ["[3, 4]", '["M", "K"]'],
        "%2 = Constant.1() {data=~1, dtype=u8, shape=[4, 5]}\n"
        "%3 = Convert.1(%0) {destination_type=u8}\n%4 = Convert.1(%1) {destination_type=u8}\n"
        "%5 = MatMulInteger.0(%3, %2, %4)\n%6 = Result.1(%5)",
        [[(3, 4), (3, 1)], [(3, 4), (1, 1)]],
        [[(3, 4), (3, 4)], [(3, 4), (1, 2)], [(3, 4), (2, 1)]],
    ),
    "elements of a reshape": (
        ['["N", "C"]'],
        "%1 = Constant.1() {data=[2, 3], dtype=i64, shape=[2]}\n"
        "%2 = Reshape.1(%0, %1)\n%3 = Result.1(%2)",
        [[(2, 3)], [(6, 1)]],
        [[(2, 4)], [(1, 3)], [(0, 3)]],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sizes_that_contradict_each_other_are_refused(name: str) -> None:
    shapes, rest, good, bad = CASES[name]
    head = "".join(PARAMETER.format(n=n, shape=s) for n, s in enumerate(shapes))
    net = irc.compile_model(Model(parse_graph(f'graph "t"\n{head}{rest}\n')))
    assert not net.plan.host_steps()
    for sizes in good:
        net([np.ones(s, np.float32) for s in sizes])
    for sizes in bad:
        with pytest.raises(irc.InputError):
            net([np.ones(s, np.float32) for s in sizes])
    for sizes in good:  # what was refused leaves nothing behind
        net([np.ones(s, np.float32) for s in sizes])
