"""Paddings computed from sizes: what is negative when it runs cuts, the rest grows, natively."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from onnx import TensorProto, helper

MODES = ("constant", "edge", "reflect", "symmetric")
# x is padded along its first two axes by A - 4 and B - 4, at either end: A, B as it runs.
BOTH = """graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape=["N", "K", 3]}} "x"
%1 = Parameter.1() {{element_type=f32, shape=["A"]}} "a"
%2 = Parameter.1() {{element_type=f32, shape=["B"]}} "b"
%3 = ShapeOf.3(%1)
%4 = ShapeOf.3(%2)
%5 = Constant.1() {{data=[4], dtype=i64, shape=[1]}}
%6 = Constant.1() {{data=[0], dtype=i64, shape=[1]}}
%7 = Subtract.1(%3, %5)
%8 = Subtract.1(%4, %5)
%9 = Concat.1(%7, %8, %6) {{axis=0}}
%10 = Concat.1(%8, %7, %6) {{axis=0}}
%11 = Constant.1() {{data=[2], dtype={dtype}, shape=[]}}
%12 = Pad.12(%0, %9, %10{number}) {{pad_mode="{mode}"}}
%13 = Result.1(%12) "y"
"""


def both(mode: str, dtype: str) -> Graph:
    number = ", %11" if mode == "constant" else ""
    return parse_graph(BOTH.format(mode=mode, dtype=dtype, number=number))


def check(nets: Sequence[irc.CompiledModel], graph: Graph, inputs: Sequence[np.ndarray]) -> bool:
    """The bits of `evaluate` from every net, or an error where that has one. Was there a result?"""
    try:
        (want,) = interpret(graph, inputs)
    except Exception as error:
        assert isinstance(error, irc.Error | ValueError)  # NumPy's for what an empty axis mirrors
        for net in nets:
            with pytest.raises(irc.Error):
                net(inputs)
        return False
    for net in nets:
        (got,) = net(inputs)
        assert got.shape == want.shape and got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()
    return True


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i64", "u8"])
def test_either_sign_at_both_ends_of_two_axes(mode: str, dtype: str, compile_graph) -> None:
    graph = both(mode, dtype)
    nets = [compile_graph(graph.copy(), True, threads) for threads in (1, 2)]
    assert not any(net.plan.host_steps() for net in nets)
    rng = np.random.default_rng(0)
    made = 0
    for n, k, a, b in itertools.product((0, 1, 5), (0, 2, 6), (0, 3, 4, 7), (1, 4, 9)):
        x = rng.integers(0, 100, (n, k, 3)).astype(DType(dtype).numpy)
        made += check(nets, graph, [x, np.zeros(a, np.float32), np.zeros(b, np.float32)])
    assert made >= 32


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_long_rows_are_shared(mode: str, compile_graph) -> None:
    """Rows of more than one piece, channels behind the axis or none, on any number of threads."""
    for behind in ("", ", 2"):
        graph = parse_graph(
            f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[2, "T"{behind}]}} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {{data=[1], dtype=i64, shape=[1]}}
%3 = Constant.1() {{data=[0], dtype=i64, shape=[]}}
%4 = Gather.8(%1, %2, %3)
%5 = Constant.1() {{data=[30000], dtype=i64, shape=[1]}}
%6 = Subtract.1(%5, %4)
%7 = Constant.1() {{data=[0], dtype=i64, shape=[1]}}
%8 = Concat.1(%7, %6{", %7" * bool(behind)}) {{axis=0}}
%9 = Constant.1() {{data=[0, 7{", 0" * bool(behind)}], dtype=i64, shape=[{2 + bool(behind)}]}}
%10 = Pad.12(%0, %9, %8) {{pad_mode="{mode}"}}
%11 = Result.1(%10) "y"
"""
        )
        nets = [compile_graph(graph.copy(), True, threads) for threads in (1, 2)]
        for size in (1, 9000, 29999, 30000, 30001, 50000):
            shape = (2, size, 2) if behind else (2, size)
            x = np.random.default_rng(size).standard_normal(shape).astype(np.float32)
            assert check(nets, graph, [x])


def test_paddings_that_add_up_to_nothing_are_not_taken_for_none(compile_graph) -> None:
    """The shape stays, the elements move."""
    text = BOTH.format(mode="edge", dtype="f32", number="")
    graph = parse_graph(text.replace("%10 = Concat.1(%8, %7, %6) {axis=0}", "%10 = Negative.1(%9)"))
    nets = [compile_graph(graph.copy(), True, 1)]
    x = np.random.default_rng(0).standard_normal((5, 6, 3)).astype(np.float32)
    for a, b in ((4, 4), (6, 3), (1, 9)):
        assert check(nets, graph, [x, np.zeros(a, np.float32), np.zeros(b, np.float32)])


def test_only_ever_cut_is_no_step(compile_graph) -> None:
    """Paddings that are negative for certain are a view of what is left."""
    graph = parse_graph(
        """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {data=[0], dtype=i64, shape=[]}
%3 = Constant.1() {data=[3, 3], dtype=i64, shape=[2]}
%4 = Divide.1(%1, %3) {m_pythondiv=true}
%5 = Negative.1(%4)
%6 = Constant.1() {data=[0, 0], dtype=i64, shape=[2]}
%7 = Pad.12(%0, %5, %6) {pad_mode="constant"}
%8 = Relu.1(%7)
%9 = Result.1(%8) "y"
"""
    )
    nets = [compile_graph(graph.copy(), True, 1)]
    kinds = [step.spec for region in nets[0].plan.regions for step in region.steps]
    assert len(kinds) == 1
    for n in (0, 1, 3, 8):
        assert check(nets, graph, [np.random.default_rng(n).normal(size=(n, 3)).astype("f")])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_against_onnxruntime(mode: str) -> None:
    """A waveform padded or cut to 12 samples, as models of speech begin."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=1, end=2),
        helper.make_node("Sub", ["length", "n"], ["missing"]),
        helper.make_node("Mul", ["missing", "last"], ["pads"]),
        helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode),
    ]
    held = [
        helper.make_tensor("length", TensorProto.INT64, [1], [12]),
        helper.make_tensor("last", TensorProto.INT64, [4], [0, 0, 0, 1]),
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", t])
        for n, t in (("x", "T"), ("y", "U"))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    reference = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    net = irc.compile_model(irc.read_model(onnx.load_from_string(model)), num_threads=1)
    assert not net.plan.host_steps()
    for rows, size in itertools.product((1, 3), (7, 11, 12, 13, 40)):
        x = np.random.default_rng(size).standard_normal((rows, size)).astype(np.float32)
        (want,) = reference.run(None, {"x": x})
        assert np.array_equal(net([x])[0], want)
