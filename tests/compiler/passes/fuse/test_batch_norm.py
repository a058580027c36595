"""Batch normalisation and scales per channel go into the filters of convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.passes.fuse.batch_norm import fold_batch_norm
from irc_compiler.ir.graph import Graph
from support.rewriting import graph, run, same_values, stays

STATISTICS = """
%1 = Const(f32[3] = 1, 2, 0.5)
%2 = Const(f32[3] = 0.5, -1, 2)
%3 = Const(f32[3] = 0.25, 1, -2)
%4 = Const(f32[3] = 1, 4, 0.25)
"""
CONVOLUTION = """
%0 = Input(f32[2, 2, 5, 6])
%10 = Const(f32[3, 2, 2, 3] = ~1)
%11 = Convolution.1(%0, %10)
"""
NORM = "%20 = BatchNormInference.5(%11, %1, %2, %3, %4) {epsilon=0.5}\n%21 = Result.1(%20)\n"


def kinds(g: Graph) -> list[str]:
    found = [g.op(n).kind for n in g.order()]
    return [k for k in found if k not in ("Constant", "Parameter", "Result")]


def check(text: str, expected: list[str]) -> Graph:
    found = run(text, fold_batch_norm)
    assert kinds(found) == expected
    same_values(graph(text), found)
    return found


def test_after_a_convolution() -> None:
    check(CONVOLUTION + STATISTICS + NORM, ["Convolution", "Add"])


def test_after_a_convolution_with_a_bias() -> None:
    bias = "%12 = Const(f32[1, 3, 1, 1] = 1, 2, 3)\n%13 = Add.1(%12, %11)\n"
    text = CONVOLUTION + STATISTICS + bias + NORM.replace("(%11", "(%13")
    check(text, ["Convolution", "Add"])


def test_after_a_grouped_convolution() -> None:
    text = """
%0 = Input(f32[2, 4, 5, 6])
%10 = Const(f32[4, 1, 1, 2, 3] = ~1)
%11 = GroupConvolution.1(%0, %10)
%12 = Const(f32[4, 1, 1] = 1, 2, 3, 4)
%13 = Multiply.1(%11, %12)
%14 = Const(f32[1] = 2)
%15 = Multiply.1(%14, %13)
%16 = Result.1(%15)
"""
    check(text, ["GroupConvolution"])


def test_operation_set_1_takes_its_data_third() -> None:
    norm = "%20 = BatchNormInference.1(%1, %2, %11, %3, %4) {epsilon=0.5}\n%21 = Result.1(%20)\n"
    check(CONVOLUTION + STATISTICS + norm, ["Convolution", "Add"])


def test_alone() -> None:
    text = "%11 = Input(f32[2, 3, 4])" + STATISTICS + NORM
    check(text, ["Multiply", "Add"])


def test_two_shifts_are_one() -> None:
    shifts = """
%12 = Const(f32[3, 1, 1] = 1, 2, 3)
%13 = Add.1(%11, %12)
%14 = Const(f32[] = 5)
%15 = Add.1(%13, %14)
%16 = Result.1(%15)
"""
    found = check(CONVOLUTION + shifts, ["Convolution", "Add"])
    add = next(n for n in found.order() if found.op(n).kind == "Add")
    constant = found.op(found.input(add, 1).node)
    np.testing.assert_array_equal(constant.data.reshape(-1), [6, 7, 8])


@pytest.mark.parametrize(
    "constant",
    ["f32[1, 1, 1, 4] = 1, 2, 3, 4", "f32[2, 1, 1, 1] = 1, 2", "f32[1, 1, 1, 1, 1] = 3"],
)
def test_a_scale_along_another_axis_stays(constant: str) -> None:
    scale = f"%12 = Const({constant})\n%13 = Multiply.1(%11, %12)\n%14 = Result.1(%13)\n"
    stays(CONVOLUTION + scale, fold_batch_norm, None)


def test_a_convolution_with_other_readers_stays() -> None:
    scale = """
%12 = Const(f32[3, 1, 1] = 1, 2, 3)
%13 = Multiply.1(%11, %12)
%14 = Result.1(%13)
%15 = Result.1(%11)
"""
    stays(CONVOLUTION + scale, fold_batch_norm, "the convolution has other readers")


def test_statistics_of_run_time_stay() -> None:
    text = CONVOLUTION + STATISTICS.replace("Const(f32[3] = 1, 4, 0.25)", "Input(f32[3])") + NORM
    stays(text, fold_batch_norm, "the statistics are not constants")
