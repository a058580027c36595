"""Models cut and reshaped: other inputs and outputs, sizes and element types."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.main import main
from irc_compiler.compiler.cut import InputSpec, parse_input
from irc_compiler.ir.dtype import DType
from onnx import TensorProto, helper, save


def model() -> object:
    """y = relu(x * 2) + b, z = x * 2 - b"""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["y"]),
        helper.make_node("Sub", ["m", "b"], ["z"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xbyz"]
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], [two])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def names(held: irc.Model) -> tuple[list[str], list[str]]:
    return [p.name for p in held.inputs], [p.name for p in held.outputs]


def test_outputs_and_inputs_are_any_tensors() -> None:
    assert names(irc.read_model(model(), outputs=["r"])) == (["x"], ["r"])
    cut = irc.read_model(model(), inputs=["r"], outputs=["y"])
    assert names(cut) == (["r", "b"], ["y"])
    r, b = np.full((2, 3), 4, np.float32), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(irc.compile_model(cut)([r, b])[0], r + b)
    # What is not cut off stays an input, behind those that are listed.
    assert names(irc.read_model(model(), inputs=["r"])) == (["r", "x", "b"], ["y", "z"])


def test_sizes_and_types_of_inputs_change() -> None:
    held = irc.read_model(model(), inputs=["x[2,3]{u8}", "b[2,3]"])
    assert [(p.name, p.shape, p.dtype) for p in held.inputs] == [
        ("x", (2, 3), "u8"),
        ("b", (2, 3), "f32"),
    ]
    assert [p.shape for p in held.outputs] == [(2, 3)] * 2
    x, b = np.full((2, 3), 200, np.uint8), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(irc.compile_model(held)([x, b])[1], np.full((2, 3), 399))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x", InputSpec("x")),
        ("a:0[1,?,n]", InputSpec("a:0", (1, None, "n"))),
        ("x[]{i64}", InputSpec("x", (), DType.i64)),
        ("x{f16}", InputSpec("x", None, DType.f16)),
    ],
)
def test_inputs_are_parsed(text: str, spec: InputSpec) -> None:
    assert parse_input(text) == spec


@pytest.mark.parametrize("text", ["x[1,a b]", "x{float}", "", "nothing", "x[1.5]"])
def test_what_is_no_input_is_refused(text: str) -> None:
    with pytest.raises(irc.UsageError):
        irc.read_model(model(), inputs=[text])


def test_errors_name_the_nearest_tensors_and_wrong_shapes() -> None:
    with pytest.raises(
        irc.UsageError, match="no tensor of the model has the name of this output"
    ) as caught:
        irc.read_model(model(), outputs=["yy"])
    assert "expected: y" in str(caught.value)
    with pytest.raises(irc.UsageError, match="listed twice"):
        irc.read_model(model(), inputs=["x", "x[1,3]"])
    with pytest.raises(irc.ShapeError):
        irc.read_model(model(), inputs=["b[2,5]"])


def test_convert_cuts(tmp_path: Path) -> None:
    save(model(), tmp_path / "m.onnx")
    command = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.xml")]
    assert main([*command, "--input", "r[2,3]", "--output", "y"]) == 0
    held = irc.read_model(tmp_path / "m.xml")
    assert names(held) == (["r", "b"], ["y"]) and held.outputs[0].shape == (2, 3)
