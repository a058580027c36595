"""The generic ONNX node: which operators become one, what it says, and what it refuses."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.ops import _FAMILIES
from onnx import helper

F32 = onnx.TensorProto.FLOAT


def one_node(op_type: str, inputs: dict[str, Any], domain: str = "", **attributes: Any) -> Any:
    node = helper.make_node(op_type, list(inputs), ["y"], domain=domain, name="it", **attributes)
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in inputs.items()
    ]
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22), *opsets])


def test_the_report_names_what_onnx_reference_evaluates() -> None:
    x = np.array([[2, 1], [1, 3]], np.float32)
    net = irc.compile_model(one_node("Det", {"x": x}))
    assert "onnx.reference evaluates Det" in net.report()
    np.testing.assert_allclose(net({"x": x})["y"], 5)
    assert net.outputs[0].shape == ()


def test_its_errors_name_the_node() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(irc.ExecutionError, match="could not evaluate Det") as caught:
        irc.compile_model(one_node("Det", {"x": x}))({"x": x})
    assert "it" in str(caught.value)


def test_inputs_are_not_written_to() -> None:
    state = {n: np.ones(2, np.float32) for n in ("x", "g", "v")}
    scalars = {"r": np.array(0.1, np.float32), "t": np.array(1, np.int64)}
    given = {"r": scalars["r"], "t": scalars["t"], **state}
    node = helper.make_node(
        "Momentum",
        list(given),
        ["x2", "v2"],
        domain="ai.onnx.preview.training",
        alpha=0.9,
        beta=1.0,
        mode="standard",
        norm_coefficient=0.0,
    )
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
    ]
    outs = [helper.make_tensor_value_info(n, F32, [2]) for n in ("x2", "v2")]
    graph = helper.make_graph([node], "g", ports, outs)
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.preview.training", 1)]
    net = irc.compile_model(helper.make_model(graph, opset_imports=opsets))
    net(given)
    assert all((v == 1).all() for v in state.values())


def test_it_survives_the_artefact(tmp_path: Any) -> None:
    x = np.array([[2, 1], [1, 3]], np.float32)
    irc.compile_model(one_node("Det", {"x": x})).export(tmp_path / "m.irc")
    np.testing.assert_allclose(irc.compile_model(tmp_path / "m.irc")({"x": x})["y"], 5)


def test_it_is_a_list_and_no_net() -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(irc.UnsupportedOperationError, match="Strange"):
        irc.compile_model(one_node("Strange", {"x": x}, "nobody"))
    with pytest.raises(irc.UnsupportedOperationError, match="Gradient"):
        domain = "ai.onnx.preview.training"
        irc.compile_model(one_node("Gradient", {"x": x}, domain, xs=["x"], y="y"))


def test_no_operator_has_importers_in_two_families() -> None:
    names = [name for family in _FAMILIES for name in family]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("linear", {"antialias": 1}),
        ("cubic", {"exclude_outside": 1}),
        ("linear", {"coordinate_transformation_mode": "half_pixel_symmetric"}),
    ],
)
def test_forms_of_resize_that_interpolate_cannot_say(mode: str, more: dict[str, Any]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, **more)
    scales = helper.make_tensor("s", F32, [4], [1, 1, 0.5, 0.5])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", F32, [1, 1, 4, 4])],
        [onnx.ValueInfoProto(name="y")],
        [scales],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    net = irc.compile_model(model)
    assert "onnx.reference evaluates Resize" in net.report()
    assert net({"x": x})["y"].shape == (1, 1, 2, 2)
