"""LabelEncoder of integers as a table: where it is one, and its values."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

TOP = (1 << 31) - 1
X = np.array([-(1 << 63), -(1 << 31), -8, -7, -1, 0, 1, 2, 5, 9, 10, TOP, 1 << 31, (1 << 63) - 1])


def make_model(element: int = TensorProto.INT64, **attributes: Any) -> bytes:
    values = next(k for k in attributes if k.startswith("values_")).removeprefix("values_")
    made = {"floats": 1, "int64s": 7, "strings": 8}[values]
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, ["n"])],
        [helper.make_tensor_value_info("y", made, None)],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()


@pytest.mark.parametrize(
    "keys",
    [
        [0],
        [2, -7, 9, 1],
        [1, 1, 5],
        [TOP - 1, TOP - 3],
        [1 - TOP, 3 - TOP],
        list(range(-3000, 900)),
    ],
    ids=len,
)
def test_a_table_holds_the_values(keys: list[int]) -> None:
    values = np.arange(1.0, len(keys) + 1).tolist()
    if len(set(keys)) < len(keys):  # onnxruntime takes the first of equal keys
        want = dict(zip(keys, values, strict=True))
        net = irc.compile_model(make_model(keys_int64s=keys, values_floats=values))
        assert net(X)[0].tolist() == [want.get(x, -0.0) for x in X.tolist()]
    else:
        model = make_model(keys_int64s=keys, values_floats=values, default_float=0.5)
        net = irc.compile_model(model)
        expected: Any = onnxruntime.InferenceSession(model).run(None, {"x": X})[0]
        np.testing.assert_array_equal(net(X)[0], expected)
    assert not net.plan.host_steps()


@pytest.mark.parametrize(
    "given",
    [
        {"keys_int64s": [0, 1 << 20], "values_floats": [1.0, 2.0]},
        {"keys_int64s": [0, TOP], "values_floats": [1.0, 2.0]},
        {"keys_int64s": [TOP, 1 << 31], "values_int64s": [1, 2]},
        {"keys_int64s": [-(1 << 63), 0], "values_int64s": [1, 2]},
        {"keys_int64s": [0, 1], "values_strings": ["a", "b"]},
    ],
)
def test_what_is_not_a_table(given: dict[str, Any]) -> None:
    model = make_model(**given)
    net = irc.compile_model(model)
    expected: Any = onnxruntime.InferenceSession(model).run(None, {"x": X})[0]
    assert net(X)[0].tolist() == expected.tolist()
    assert len(net.plan.host_steps()) == 1
