"""Every operator of every version that the onnx package defines is read, and the first versions of
operators compute what the later form of the same node computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.ops import find_importer
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import ModelFormatError
from irc_compiler.ir.interpret import interpret
from onnx import defs, helper

RNG = np.random.default_rng(5)
# Operators that irc does not read, and why.
NOT_READ = {
    ("ai.onnx.preview.training", "Gradient"): "it differentiates a part of the graph: training",
}


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_every_operator_that_onnx_defines_is_read() -> None:
    missing = {
        (schema.domain, schema.name)
        for schema in defs.get_all_schemas_with_history()
        if find_importer(schema.name, schema.domain, schema.since_version) is None
        and not (schema.has_function or schema.has_context_dependent_function)
    }
    assert missing == set(NOT_READ)


def run(
    op_type: str, inputs: dict[str, Any], opset: int, outputs: int = 1, **attributes: Any
) -> list[Any]:
    """The outputs of one node; inputs whose names begin with c are constants."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, list(inputs), names, **attributes)
    element = helper.np_dtype_to_tensor_dtype
    ports = {n: v for n, v in inputs.items() if not n.startswith("c")}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, element(v.dtype), v.shape) for n, v in ports.items()],
        [onnx.ValueInfoProto(name=n) for n in names],
        [onnx.numpy_helper.from_array(v, n) for n, v in inputs.items() if n.startswith("c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return list(interpret(read_onnx(model), ports))


def same(old: list[Any], new: list[Any]) -> None:
    for a, b in zip(old, new, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_operators(op_type: str, gates: int, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    given = {
        "x": normal(4, 2, 3),
        "w": normal(count, gates * 5, 3),
        "r": normal(count, gates * 5, 5),
        "b": normal(count, 2 * gates * 5),
    }
    shared = {"hidden_size": 5, "direction": direction, "outputs": 2}
    old = run(op_type, given, 1, output_sequence=1, **shared)
    same(old, run(op_type, given, 14, **shared))


def test_the_default_direction_of_the_first_gru() -> None:
    given = {"x": normal(4, 2, 3), "w": normal(1, 15, 3), "r": normal(1, 15, 5)}
    same(run("GRU", given, 1, hidden_size=5, direction="foward"), run("GRU", given, 14))


@pytest.mark.parametrize("name", ["FLOAT16", "int64", "BOOL"])
def test_cast_by_the_name_of_a_type(name: str) -> None:
    given = {"x": normal(3, 4) * 3}
    number = onnx.TensorProto.DataType.Value(name.upper())
    same(run("Cast", given, 1, to=name), run("Cast", given, 13, to=number))
    with pytest.raises(ModelFormatError, match="unknown type"):
        run("Cast", given, 1, to="FLOAT17")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tile_of_one_axis(axis: int) -> None:
    x = normal(2, 3, 4)
    number, repeats = np.array([axis], np.float32), np.array([3], np.float32)
    old = run("Tile", {"x": x, "tiles": repeats, "c": number}, 1)
    same(old, [np.tile(x, [3 if i == axis else 1 for i in range(3)])])


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample_of_an_image(mode: str) -> None:
    x = normal(1, 2, 3, 4)
    old = run("Upsample", {"x": x}, 1, mode=mode, height_scale=2.0, width_scale=3.0)
    new = "linear" if mode == "bilinear" else mode
    same(old, run("Upsample", {"x": x}, 7, mode=new, scales=[1.0, 1.0, 2.0, 3.0]))


def test_norms_of_windows() -> None:
    x = normal(1, 2, 6, 6)
    for p in (1.0, 2.0, 3.0):
        same(run("GlobalLpPool", {"x": x}, 1, p=p), run("GlobalLpPool", {"x": x}, 2, p=int(p)))
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}
        same(
            run("LpPool", {"x": x}, 1, p=p, **window),
            run("LpPool", {"x": x}, 2, p=int(p), **window),
        )


def test_instance_normalization() -> None:
    given = {"x": normal(2, 3, 4), "s": normal(3), "b": normal(3)}
    old = run("InstanceNormalization", given, 1, epsilon=1e-3, consumed_inputs=[0, 0, 0])
    same(old, run("InstanceNormalization", given, 6, epsilon=1e-3))
