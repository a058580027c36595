"""Sizes that an exporter does not know are sizes of their own, whatever it writes for them."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

WORDS = ["?", "", " ", "None", "none", "unk__12", "-1", "unknown"]


def model(size: str | int) -> bytes:
    """Two inputs with this size on all axes, and the sums of all their elements."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size, 3, size]) for n in "xz"]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in "yw"]
    nodes = [
        helper.make_node("ReduceSum", [a], [b], keepdims=0) for a, b in zip("xz", "yw", strict=True)
    ]
    graph = helper.make_graph(nodes, "g", ports, ends)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


@pytest.mark.parametrize("word", [*WORDS, -1])
def test_axes_of_unknown_size_are_independent(word: str | int) -> None:
    inputs = {"x": np.ones((2, 3, 5), np.float32), "z": np.ones((7, 3, 1), np.float32)}
    source = model(word)
    assert [a.tolist() for a in irc.compile_model(source)(inputs)] == [30, 21]
    shapes = [p.shape for p in irc.read_model(source).inputs]
    assert len({d for shape in shapes for d in shape or () if d != 3}) == 4
    if word != -1:  # onnxruntime refuses that one
        session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        assert [a.tolist() for a in session.run(None, inputs)] == [30, 21]


@pytest.mark.parametrize("name", ["N", "batch", "unknown_batch", "unk_length", "n?"])
def test_names_of_sizes_stay_names(name: str) -> None:
    shapes = [p.shape for p in irc.read_model(model(name)).inputs]
    assert len({d for shape in shapes for d in shape or () if d != 3}) == 1
    with pytest.raises(irc.InputError, match="another shape"):
        wrong = np.ones((2, 3, 5), np.float32)
        irc.compile_model(model(name))({"x": wrong, "z": wrong})
