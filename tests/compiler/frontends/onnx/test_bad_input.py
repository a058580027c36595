"""Broken and hostile ONNX files: one error that says what, where, got and expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import (
    Error,
    MemoryLimitError,
    ModelFormatError,
    ShapeError,
    UnsupportedOperationError,
)
from onnx import TensorProto, helper, numpy_helper
from support.frontends.onnx_broken import FLOAT, model_of, node, refused
from support.models import small

F32 = np.float32


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<?xml version='1.0'?><net/>", "no ONNX model"),
        (b"\x00\xff" * 500, "no ONNX model"),
        (b"PK\x03\x04" + bytes(3000), "no ONNX model"),
        (b"\x08\x08", "without a graph"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    refused(path, ModelFormatError, part, str(path))
    refused(content, ModelFormatError, part, "<bytes>")


@pytest.mark.slow
def test_a_model_cut_short_at_any_length() -> None:
    text = small.mlp((64, 40, 3), 2).SerializeToString()
    for size in range(len(text)):
        with pytest.raises(ModelFormatError):
            read_onnx(text[:size])


def test_any_byte_changed_gives_an_error_or_a_graph() -> None:
    text = bytearray(small.mlp((3, 4), 2, dense="Gemm").SerializeToString())
    for position in range(len(text)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(text)
            changed[position] ^= flip
            try:
                read_onnx(bytes(changed), max_memory=1 << 28)
            except Error:
                pass


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.onnx", ModelFormatError, "cannot open")
    refused(tmp_path, ModelFormatError, "directory")
    with pytest.raises(ModelFormatError, match="not an ONNX model"):
        read_onnx(3)  # type: ignore[arg-type]


def test_memory_limit_of_files_and_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small.mlp((64, 64), 2), path)
    refused(path, MemoryLimitError, "max_memory", max_memory=1000)
    bomb = TensorProto(name="w", data_type=FLOAT, dims=[2**20, 2**20])
    model = model_of([node("Add", ["x", "w"], ["y"])], ["y"], [bomb])
    refused(model, MemoryLimitError, "'w'".replace("'", '"'), max_memory=1 << 30)
    refused(model, ModelFormatError, "no data")


# Model and graph --------------------------------------------------------------------------------


def edited(change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    model = model_of(
        [node("Relu", ["x"], ["a"], name="first"), node("Add", ["a", "w"], ["y"], name="second")],
        ["y"],
        [numpy_helper.from_array(np.ones(3, F32), "w")],
    )
    change(model)
    return model


def _extend(field: Any, value: Any) -> None:
    field.extend([value])


PORT = helper.make_tensor_value_info("x", FLOAT, [2, 3])
BROKEN_GRAPHS: dict[str, tuple[Callable[[onnx.ModelProto], Any], tuple[str, ...]]] = {
    "no graph": (lambda m: m.ClearField("graph"), ("without a graph",)),
    "no IR version": (lambda m: m.ClearField("ir_version"), ("IR version",)),
    "newer IR version": (
        lambda m: setattr(m, "ir_version", onnx.IR_VERSION + 1),
        ("IR version is newer", f"at most {onnx.IR_VERSION}", "upgrade the onnx package"),
    ),
    "no outputs": (lambda m: m.graph.ClearField("output"), ("no outputs",)),
    "no opset": (lambda m: m.ClearField("opset_import"), ("imports no operator set",)),
    "two opsets": (
        lambda m: m.opset_import.add(domain="ai.onnx", version=11),
        ("two versions", "17 and 11"),
    ),
    "opset 0": (lambda m: setattr(m.opset_import[0], "version", 0), ("does not exist",)),
    "two inputs": (lambda m: _extend(m.graph.input, PORT), ("two inputs", '"x"')),
    "unnamed input": (lambda m: setattr(m.graph.input[0], "name", ""), ("no name", "input 0")),
    "untyped input": (lambda m: m.graph.input[0].ClearField("type"), ("no type", '"x"')),
    "unknown type": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77),
        ("unknown element type", "77"),
    ),
    "negative size": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", -3),
        ("negative size", "axis 1"),
    ),
    "bad symbol": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_param", "a\nb"),
        ("unusable name",),
    ),
    "two initialisers": (
        lambda m: _extend(m.graph.initializer, m.graph.initializer[0]),
        ("two initialisers", '"w"'),
    ),
    "unnamed initialiser": (
        lambda m: setattr(m.graph.initializer[0], "name", ""),
        ("no name", "initialiser 0"),
    ),
    "two outputs": (lambda m: _extend(m.graph.output, m.graph.output[0]), ("two outputs", '"y"')),
    "unknown output": (
        lambda m: setattr(m.graph.output[0], "name", "yy"),
        ("nothing defines", '"yy"', 'nearest name is "y"'),
    ),
    "unknown input": (
        lambda m: m.graph.node[1].input.__setitem__(0, "b"),
        ("nothing defines", '"b"', 'node "second" (Add)'),
    ),
    "name defined twice": (
        lambda m: m.graph.node[1].output.__setitem__(0, "a"),
        ("defined twice", '"a"', '"first"', '"second"'),
    ),
    "input defined again": (
        lambda m: m.graph.node[1].output.__setitem__(0, "w"),
        ("defined twice", '"w"', "initialiser"),
    ),
    "cycle": (
        lambda m: m.graph.node[0].input.__setitem__(0, "y"),
        ("cycle", '"first"', '"second"', "->"),
    ),
    "missing input": (
        lambda m: m.graph.node[1].input.__setitem__(1, ""),
        ("second", "wrong number of inputs", "expected: 2"),
    ),
    "missing first input": (
        lambda m: m.graph.node[1].input.__setitem__(0, ""),
        ("second", "input 0", "missing"),
    ),
    "too many inputs": (
        lambda m: m.graph.node[0].input.append("w"),
        ("first", "wrong number of inputs", "expected: 1"),
    ),
    "too many outputs": (
        lambda m: m.graph.node[0].output.append("z"),
        ("first", "wrong number of outputs"),
    ),
    "unknown attribute": (
        lambda m: m.graph.node[0].attribute.extend([helper.make_attribute("alpha", 1.0)]),
        ("first", "alpha", "no attributes"),
    ),
}


@pytest.mark.parametrize("name", BROKEN_GRAPHS)
def test_broken_graphs(name: str) -> None:
    change, parts = BROKEN_GRAPHS[name]
    refused(edited(change), ModelFormatError, "<ModelProto>", *parts)


# Nodes ------------------------------------------------------------------------------------------

W34, I64 = np.ones((3, 4), F32), np.int64


def _quantised(**changed: Any) -> dict[str, Any]:
    """QLinearMatMul's inputs for [2, 3] x [3, 2] of int8."""
    one, zero = np.float32(1), np.int8(0)
    found: dict[str, Any] = {"a": ((2, 3), np.int8), "a_scale": one, "a_zero": zero}
    found |= {"b": ((3, 2), np.int8), "b_scale": one, "b_zero": zero}
    return {**found, "y_scale": one, "y_zero": zero} | changed


BROKEN_NODES: dict[str, tuple[onnx.ModelProto, type[Error], tuple[str, ...]]] = {
    "inner sizes": (
        small.op_model("MatMul", {"x": ((2, 5), F32), "w": W34}, check=False),
        ShapeError,
        ("MatMul", "5", "3"),
    ),
    "element type": (
        small.op_model("Relu", {"x": ((2,), np.uint8)}, {"y": ((2,), np.uint8)}, check=False),
        ShapeError,
        ("Relu", "u8", "f32", "since 14"),
    ),
    "element type of an old version": (
        small.op_model("Gemm", {"a": ((2, 3), I64), "b": ((3, 2), I64), "c": ((2,), I64)},
            {"y": ((2, 2), I64)}, 7, check=False),
        ShapeError,
        ("Gemm", "i64", "since 7", "f16, f32, f64"),
    ),
    "mixed types": (
        small.op_model("Add", {"x": ((2,), F32), "z": ((2,), I64)}, {"y": ((2,), F32)},
            check=False),
        ShapeError,
        ("one element type", "f32, i64"),
    ),
    "types of inputs that must agree": (
        small.op_model("QLinearMatMul", _quantised(a_zero=np.uint8(1)), {"y": ((2, 2), np.int8)},
            check=False),
        ShapeError,
        ("QLinearMatMul", "'a' and 'a_zero_point'", "i8, u8", "insert a Cast"),
    ),
    "a scale per row that is none": (
        small.op_model("QLinearMatMul", _quantised(a_scale=np.ones(3, F32)),
            {"y": ((2, 2), np.int8)}, check=False),
        ShapeError,
        ("one per row", "f32[3]", "i8[2, 3]", "[M]"),
    ),
    "a scale per column that is none": (
        small.op_model("QLinearMatMul", _quantised(b_scale=np.ones((1, 3), F32)),
            {"y": ((2, 2), np.int8)}, check=False),
        ShapeError,
        ("one per column", "f32[1, 3]", "i8[3, 2]", "[N]"),
    ),
    "broadcast": (
        small.op_model("Add", {"x": ((2, 3), F32), "z": ((4,), F32)}, {"y": ((2,), F32)},
            check=False),
        ShapeError,
        ("broadcast", "/Add"),
    ),
    "Gemm of rank 3": (
        small.op_model("Gemm", {"a": ((1, 2, 3), F32), "b": W34}, {"y": ((1,), F32)}, check=False),
        ShapeError,
        ("not a matrix", "rank 2"),
    ),
    "C that broadcasts up": (
        small.op_model("Gemm", {"a": ((1, 3), F32), "b": W34, "c": np.ones((2, 4), F32)},
            {"y": ((2, 4), F32)}, check=False),
        ShapeError,
        ("C does not broadcast",),
    ),
    "axis": (
        small.op_model("Softmax", {"x": ((2, 3), F32)}, {"y": ((2, 3), F32)}, axis=2, check=False),
        ShapeError,
        ("axis", "-2..1"),
    ),
    "attribute type": (
        small.op_model("Softmax", {"x": ((2,), F32)}, {"y": ((2,), F32)}, axis="1", check=False),
        ModelFormatError,
        ("'axis'", "a string", "an int"),
    ),
    "too many inputs": (
        small.op_model("Add", dict.fromkeys("xzw", ((2,), F32)), {"y": ((2,), F32)}, check=False),
        ModelFormatError,
        ("Add", "wrong number of inputs", "3", "2"),
    ),
    "too many outputs": (
        small.op_model("Relu", {"x": ((2,), F32)}, {"y": ((2,), F32), "z": ((2,), F32)},
            check=False),
        ModelFormatError,
        ("Relu", "wrong number of outputs", "2", "1"),
    ),
    "an input that is missing": (
        model_of([node("Gemm", ["x", "", "x"], ["y"])], ["y"]),
        ModelFormatError,
        ("Gemm", "input 1 ('B') is missing"),
    ),
    "an attribute that there is not": (
        small.op_model("Softmax", {"x": ((2,), F32)}, {"y": ((2,), F32)}, axes=0, check=False),
        ModelFormatError,
        ("Softmax", '"axes"', "expected: axis"),
    ),
    "attribute missing": (
        small.op_model("Cast", {"x": ((2,), F32)}, {"y": ((2,), F32)}, check=False),
        ModelFormatError,
        ("'to'", "missing"),
    ),
    "cast to nothing": (
        small.op_model("Cast", {"x": ((2,), F32)}, {"y": ((2,), F32)}, to=99, check=False),
        ModelFormatError,
        ("unknown element type", "99"),
    ),
    "perm": (
        small.op_model("Transpose", {"x": ((2, 3), F32)}, {"y": ((2, 3), F32)}, perm=[0, 0],
            check=False),
        ShapeError,
        ("perm", "every axis"),
    ),
    "reshape": (
        small.op_model("Reshape", {"x": ((2, 3), F32), "s": np.array([4, -1])},
            {"y": ((4, 1), F32)}, check=False),
        ShapeError,
        ("Reshape", "integer"),
    ),
    "another number of elements": (
        small.op_model("Reshape", {"x": ((2, 3), F32), "s": np.array([4, 2])},
            {"y": ((4, 2), F32)}, check=False),
        ShapeError,
        ("Reshape", "number of elements", "[2, 3] to [4, 2]", "product is 6"),
    ),
    "output type": (
        small.op_model("Shape", {"x": ((2, 3), F32)}, {"y": ((2,), F32)}, check=False),
        ShapeError,
        ('output "y"', "f32", "i64[2]"),
    ),
    "output shape": (
        small.op_model("Relu", {"x": ((2, 3), F32)}, {"y": ((2, 4), F32)}, check=False),
        ShapeError,
        ('output "y"', "f32[2, 4]", "f32[2, 3]", 'declared_shapes="ignore"'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_NODES)
def test_broken_nodes(name: str) -> None:
    model, kind, parts = BROKEN_NODES[name]
    refused(model, kind, *parts)


def test_declared_shapes_can_be_ignored() -> None:
    model = BROKEN_NODES["output shape"][0]
    graph = read_onnx(model, declared_shapes="ignore")
    assert str(graph.node(graph.results[0]).types[0]) == "f32[2, 3]"


def _declares(*declared: onnx.ValueInfoProto) -> onnx.ModelProto:
    model = model_of([node("Relu", ["x"], ["t"]), node("Relu", ["t"], ["y"])])
    model.graph.value_info.extend(declared)
    return model


def test_a_value_inside_may_say_less() -> None:
    """Fewer sizes known, symbolic names, no shape, no type; names that nothing computes."""
    info = helper.make_tensor_value_info
    shapes: list[Any] = [[2, 3], [2, "N"], ["N", None], None]
    said = [info("t", FLOAT, shape) for shape in shapes]
    said += [onnx.ValueInfoProto(name="t"), info("ghost", TensorProto.INT64, [7])]
    assert str(read_onnx(_declares(*said)).node(0).types[0]) == "f32[2, 3]"


def test_a_value_inside_may_be_ignored() -> None:
    model = _declares(helper.make_tensor_value_info("t", FLOAT, [2, 9]))
    refused(model, ShapeError, 'value_info "t"', "f32[2, 9]", "f32[2, 3]", "ignore")
    assert len(read_onnx(model, declared_shapes="ignore").results) == 1


def test_the_shape_of_a_constant_is_that_of_its_data() -> None:
    """onnxruntime-genai's builder declares lists that Constant nodes hold as scalars."""
    data = helper.make_tensor("", FLOAT, [3], [1.0, 2.0, 3.0])
    nodes = [node("Constant", [], ["t"], value=data), node("Add", ["x", "t"], ["y"])]
    model = model_of(nodes)
    model.graph.value_info.append(helper.make_tensor_value_info("t", FLOAT, []))
    assert str(read_onnx(model).node(read_onnx(model).results[0]).types[0]) == "f32[2, 3]"
    model.graph.value_info[0].type.tensor_type.elem_type = TensorProto.INT64
    refused(model, ShapeError, 'value_info "t"', "i64", "f32[3]", "ignore")


def test_an_attribute_given_twice() -> None:
    twice = node("Softmax", ["x"], ["y"], axis=0, name="s")
    twice.attribute.extend([helper.make_attribute("axis", 1)])
    refused(model_of([twice], ["y"]), ModelFormatError, "given twice", "axis", '"s"')


# Unsupported ------------------------------------------------------------------------------------


def test_all_unsupported_operations_come_in_one_error() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("NoSuch", ["a"], ["b"], name="n1"),
        node("NoSuch", ["b"], ["c"], name="n2"),
        node("Other", ["x", "i"], ["d"], domain="some.where", name="o"),
        node("Add", ["c", "d"], ["e"]),
        node("Custom", ["e"], ["y"], domain="not.imported", name="p"),
    ]
    model = model_of(nodes, ["y"], [numpy_helper.from_array(np.ones(2, np.int8), "i")])
    model.opset_import.append(helper.make_opsetid("some.where", 3))
    error = refused(model, UnsupportedOperationError, "4 nodes")
    assert error.exit_code == 4
    lines = str(error.got).strip().splitlines()
    assert [line.strip().partition(":")[0] for line in lines] == [
        "NoSuch of ai.onnx 17",
        "Custom of not.imported (not imported)",
        "Other of some.where 3",
    ]
    assert "2 x" in lines[0] and '"n1"' in lines[0] and '"n2"' in lines[0] and "[f32]" in lines[0]
    assert "[f32, i8]" in lines[2]


def test_a_newer_operator_set_is_refused() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], ["y"])
    model.opset_import[0].version = 1000
    refused(model, UnsupportedOperationError, "ai.onnx 1000", "upgrade the onnx package")


def test_a_model_saved_for_one_processor_says_how_to_save_it() -> None:
    """onnxruntime's last optimisation level writes weights in blocks of its processor's vectors."""
    node = onnx.helper.make_node("ReorderOutput", ["x"], ["y"], domain="com.microsoft.nchwc")
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8, 4, 4])
        for name in ("x", "y")
    ]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft.nchwc", 1)]
    model = onnx.helper.make_model(graph, opset_imports=sets)
    with pytest.raises(UnsupportedOperationError, match="ORT_ENABLE_EXTENDED"):
        read_onnx(model)
