"""Sizes that are read as data run in native code, and new sizes compile nothing."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.rows import NormSpec, ReduceSpec, SoftmaxSpec


def compiled(text: str, compile_graph) -> irc.CompiledModel:
    return compile_graph(parse_graph(f'graph "g"\n{text}'), True, 1)


RANGES = """
%0 = Parameter.1() {element_type=f32, shape=["N", "M"]} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {data=[0], dtype=i64, shape=[]}
%3 = Gather.8(%1, %2, %2)
%4 = Constant.1() {data=[1], dtype=i64, shape=[]}
%5 = Gather.8(%1, %4, %2)
%6 = Add.1(%3, %5)
%7 = Range.4(%3, %6, %4) {output_type=i64}
%8 = Range.4(%2, %3, %4) {output_type=f32}
%9 = Result.1(%1) "shape"
%10 = Result.1(%7) "places"
%11 = Result.1(%8) "rows"
%12 = Result.1(%6) "sum"
"""


def test_shapes_and_ranges_are_native(compile_graph) -> None:
    net = compiled(RANGES, compile_graph)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    before = [s.spec for s in net.plan.kernel_steps()]
    assert {s.family for s in before} == {"iota"}
    for n, m in ((2, 3), (1, 1), (40, 5)):
        shape, places, rows, total = net([np.zeros((n, m), np.float32)])
        assert shape.tolist() == [n, m] and total.item() == n + m
        assert places.tolist() == list(range(n, n + m)) and places.dtype == np.int64
        assert rows.tolist() == list(range(n)) and rows.dtype == np.float32


CHAIN = """
%0 = Parameter.1() {{element_type=f32, shape=["N", 40]}} "x"
%1 = Parameter.1() {{element_type=f32, shape=["N", 40]}} "y"
%2 = Add.1(%0, %1)
%3 = {op}.1(%2)
%4 = Multiply.1(%3, %1)
%5 = {consumer}
%6 = Result.1(%5) "z"
"""


@pytest.mark.parametrize("op, cheap", [("Abs", True), ("Exp", False)])
def test_a_softmax_takes_cheap_groups_only(op: str, cheap: bool, compile_graph) -> None:
    net = compiled(CHAIN.format(op=op, consumer="Softmax.8(%4) {axis=1}"), compile_graph)
    families = [s.spec.family for s in net.plan.kernel_steps()]
    assert families == (["softmax"] if cheap else ["elementwise", "softmax"])
    assert not any(isinstance(s, NormSpec) for s in net.plan.specs())
    (made,) = [s for s in net.plan.specs() if isinstance(s, SoftmaxSpec)]
    assert len(made.inputs) == (2 if cheap else 1)


def test_a_reduction_takes_any_group(compile_graph) -> None:
    text = CHAIN.format(op="Exp", consumer="ReduceSum.1(%4, %7)")
    text = text.replace("%5 =", "%7 = Constant.1() {data=[1], dtype=i64, shape=[1]}\n%5 =")
    (made,) = compiled(text, compile_graph).plan.specs()
    assert isinstance(made, ReduceSpec)
