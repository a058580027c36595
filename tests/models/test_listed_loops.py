"""Loops that fill a list, as scripted recurrent networks are exported, run in native code."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.models.oracles import run_onnxruntime


def recurrent(axis: int, new_axis: int, *, position: bool = False) -> onnx.ModelProto:
    """h = tanh(x[t] + h), each of them inserted into a sequence that is joined in the end."""
    node, info = helper.make_node, helper.make_tensor_value_info
    at = ["zero"] if position else []
    body = helper.make_graph(
        [
            node("Gather", ["x", "t"], ["part"]),
            node("Add", ["part", "h"], ["sum"]),
            node("Tanh", ["sum"], ["next"]),
            node("SequenceInsert", ["list", "next", *at], ["longer"]),
            node("Identity", ["go"], ["on"]),
        ],
        "step",
        [
            info("t", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("h", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
        ],
        [
            info("on", TensorProto.BOOL, []),
            info("next", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_sequence_value_info("longer", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["trips"]),
            node("SequenceEmpty", [], ["nothing"], dtype=TensorProto.FLOAT),
            node("Loop", ["trips", "true", "h0", "nothing"], ["last", "all"], body=body),
            node("ConcatFromSequence", ["all"], ["y"], axis=axis, new_axis=new_axis),
        ],
        "recurrent",
        [info("x", TensorProto.FLOAT, ["t", "n", 3]), info("h0", TensorProto.FLOAT, ["n", 3])],
        [info("y", TensorProto.FLOAT, None), info("last", TensorProto.FLOAT, ["n", 3])],
        [
            helper.make_tensor("zero", TensorProto.INT64, [], [0]),
            helper.make_tensor("true", TensorProto.BOOL, [], [True]),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(model: onnx.ModelProto, net: irc.CompiledModel, steps: int) -> None:
    rng = np.random.default_rng(steps)
    x = rng.standard_normal((steps, 2, 3)).astype(np.float32)
    inputs = {"x": x, "h0": rng.standard_normal((2, 3)).astype(np.float32)}
    wanted = run_onnxruntime(model, inputs)
    found = net(inputs)
    for name, want in wanted.items():
        assert found[name].shape == want.shape
        np.testing.assert_allclose(found[name], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 1), (1, 1), (-1, 1), (0, 0), (-1, 0)])
def test_lists_that_are_joined(axis: int, new_axis: int) -> None:
    model = recurrent(axis, new_axis)
    net = irc.compile_model(model.SerializeToString(), num_threads=1)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    check(model, net, 1)
    check(model, net, 5)


def test_lists_filled_from_the_front_stay_lists() -> None:
    model = recurrent(0, 1, position=True)
    net = irc.compile_model(model.SerializeToString(), num_threads=1)
    assert net.plan.host_steps()
    check(model, net, 3)
