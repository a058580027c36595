"""The interface of onnx.backend.base: every function of it, with what each promises."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compat import onnx_backend
from onnx import TensorProto as P
from onnx import helper
from onnx.backend.base import Backend, BackendRep

X = np.array([[-2.0, 0.5, 3.0]], np.float32)


def model(op_type: str = "Relu") -> Any:
    node = helper.make_node(op_type, ["x"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [value("x", P.FLOAT, [1, 3])], [value("y", P.FLOAT, [1, 3])]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def test_it_is_onnxs_interface() -> None:
    assert issubclass(onnx_backend.IrcBackend, Backend)
    assert isinstance(onnx_backend.prepare(model()), BackendRep)


@pytest.mark.parametrize("inputs", [X, [X], (X,), {"x": X}], ids=["array", "list", "tuple", "dict"])
def test_prepared_models_run(inputs: Any) -> None:
    found = onnx_backend.prepare(model()).run(inputs)
    np.testing.assert_array_equal(found[0], np.maximum(X, 0))
    np.testing.assert_array_equal(found.y, found[0])  # by name too


def test_a_model_runs_at_once() -> None:
    (found,) = onnx_backend.run_model(model(), [X], num_threads=1)
    np.testing.assert_array_equal(found, np.maximum(X, 0))


def test_a_node_runs_alone() -> None:
    node = helper.make_node("Sub", ["a", "b"], ["y"])
    (found,) = onnx_backend.run_node(node, [X, X[:, :1]])
    np.testing.assert_array_equal(found, X - X[:, :1])
    (found,) = onnx_backend.run_node(node, {"b": X, "a": X * 2})
    np.testing.assert_array_equal(found, X)
    same = helper.make_node("Sub", ["a", "a"], ["y"])
    np.testing.assert_array_equal(onnx_backend.run_node(same, X)[0], 0 * X)


def test_a_node_of_an_older_operator_set() -> None:
    """Softmax joined the axes from `axis` on before version 13."""
    node, x = helper.make_node("Softmax", ["x"], ["y"], axis=1), np.ones((1, 2, 3), np.float32)
    old, new = (onnx_backend.run_node(node, x, opset_version=v)[0] for v in (11, 13))
    np.testing.assert_allclose(old, np.full_like(x, 1 / 6), rtol=1e-6)
    np.testing.assert_allclose(new, np.full_like(x, 1 / 2), rtol=1e-6)


def test_a_node_of_a_sequence_and_of_another_domain() -> None:
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    (found,) = onnx_backend.run_node(node, [[X, X + 1], np.array(1)])
    np.testing.assert_array_equal(found, X + 1)
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.0)
    np.testing.assert_array_equal(onnx_backend.run_node(node, X)[0], [[0, 0, 1]])


def test_the_wrong_number_of_inputs() -> None:
    with pytest.raises(irc.UsageError, match="number of inputs"):
        onnx_backend.run_node(helper.make_node("Sub", ["a", "b"], ["y"]), [X])


def test_devices() -> None:
    assert onnx_backend.supports_device("CPU") and onnx_backend.supports_device("cpu:0")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(irc.UsageError, match="CPUs only"):
        onnx_backend.prepare(model(), "CUDA:1")


def test_compatible_is_what_compiles() -> None:
    assert onnx_backend.is_compatible(model())
    assert not onnx_backend.is_compatible(model("NoSuchOperator"))
    assert not onnx_backend.is_compatible(model(), "CUDA")
