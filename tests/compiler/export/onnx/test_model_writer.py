"""ONNX that irc writes: names, sizes, constants inside and outside, operator sets, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.cli.main import main
from irc_compiler.compiler.export.onnx.model_writer import to_onnx_model, write_onnx
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import (
    Abs,
    Constant,
    Convert,
    Gelu,
    GroupNormalization,
    Inverse,
    MatMul,
    Multiply,
    Parameter,
    ReduceMax,
    Reshape,
    Result,
    Subtract,
)
from support.frontends.ir_text import DATA
from support.frontends.small_graphs import constant, graph_of
from support.models import stateful
from support.models.oracles import run_onnxruntime


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def test_names_of_ports_and_sizes_are_kept() -> None:
    source = onnx.load(DATA / "mlp.onnx")
    proto = to_onnx_model(read_onnx(source))
    for ours, theirs in (
        (proto.graph.input, source.graph.input),
        (proto.graph.output, source.graph.output),
    ):
        assert [p.name for p in ours] == [p.name for p in theirs]
        for one, two in zip(ours, theirs, strict=True):
            assert one.type.tensor_type == two.type.tensor_type
    assert proto.opset_import[0].version == 21 and proto.ir_version == 10


def test_outputs_that_are_inputs_constants_or_one_value_have_nodes_of_their_own() -> None:
    graph = graph_of(
        (Parameter(DType.f32, (symbol("n"), 2)), []),
        (constant([1.0, 2.0]), []),
        (Abs(), [0]),
        *[(Result(), [source]) for source in (0, 1, 2, 2)],
    )
    proto = to_onnx_model(graph)
    x = np.array([[-1, 2]], np.float32)
    found = run_onnxruntime(proto, {proto.graph.input[0].name: x})
    for value, wanted in zip(found.values(), (x, [1, 2], abs(x), abs(x)), strict=True):
        np.testing.assert_array_equal(value, np.asarray(wanted, np.float32))


@pytest.mark.parametrize("opset", [13, 16, 18, 20, 21, 23])
def test_operator_sets_differ_in_operators_and_attributes(opset: int) -> None:
    """Reductions take axes as an attribute before 18; Gelu and GroupNormalization are composed
    where the set lacks them, or defines them otherwise."""
    rng = np.random.default_rng(0)
    graph = graph_of(
        (Parameter(DType.f32, (2, 4, 3)), []),
        (constant(rng.random(4).tolist()), []),
        (GroupNormalization(2, 1e-5), [0, 1, 1]),
        (Gelu("ERF"), [2]),
        (constant([2], DType.i64), []),
        (ReduceMax(keep_dims=False), [3, 4]),
        (Result(), [5]),
    )
    x = rng.standard_normal((2, 4, 3)).astype(np.float32)
    proto = to_onnx_model(graph, opset=opset)
    assert ("Gelu" in kinds(proto)) == (opset >= 20)
    assert ("GroupNormalization" in kinds(proto)) == (opset >= 21)
    read = {name for node in proto.graph.node for name in node.input}
    assert {tensor.name for tensor in proto.graph.initializer} <= read
    (found,) = run_onnxruntime(proto, {proto.graph.input[0].name: x}).values()
    np.testing.assert_allclose(found, interpret(graph, [x])[0], rtol=1e-5, atol=1e-6)


def test_large_constants_go_to_a_file_of_their_own(tmp_path: Path) -> None:
    """Equal ones once, at the start of a page; small ones stay in the model."""
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    graph = graph_of(
        (Parameter(DType.f32, (2, 64)), []),
        (Constant.of(weight, DType.f32), []),
        (Constant.of(weight.copy(), DType.f32), []),
        (constant([3.0]), []),
        (MatMul(), [0, 1]),
        (MatMul(), [4, 2]),
        (Multiply(), [5, 3]),
        (Result(), [6]),
    )
    path = tmp_path / "m.onnx"
    files = write_onnx(graph, path, max_embedded_bytes=1000)
    assert files == (path, tmp_path / "m.onnx.data")
    assert files[1].stat().st_size == weight.nbytes
    onnx.checker.check_model(str(path), full_check=True)
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    name = irc.read_model(path).inputs[0].name
    (found,) = run_onnxruntime(path, {name: x}).values()
    np.testing.assert_allclose(found, 3 * (x @ weight @ weight), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(irc.compile_model(path)(x)[0], found, rtol=1e-3, atol=1e-3)
    assert write_onnx(graph, path) == (path,)


def test_a_constant_of_a_reshape_keeps_its_file(tmp_path: Path) -> None:
    """What fails leaves the file that was there."""
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    graph = graph_of((Parameter(DType.f32, (2, 2)), []), (Inverse(), [0]), (Result(), [1]))
    with pytest.raises(irc.UnsupportedOperationError, match="Inverse cannot be written as ONNX"):
        irc.save_model(irc.Model(graph), path)
    assert path.read_bytes() == b"old" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("signed", [True, False], ids=["i4", "u4"])
def test_compressed_weights_are_blocks_of_dequantize_linear(signed: bool) -> None:
    """[N, groups, group] integers, converted, shifted and scaled, as OpenVINO compresses them."""
    rng = np.random.default_rng(0)
    dtype = DType.i4 if signed else DType.u4
    codes = rng.integers(-8 if signed else 0, 8 if signed else 16, (6, 2, 16))
    zero = rng.integers(1, 5, (6, 2, 1))
    scale = rng.random((6, 2, 1)).astype(np.float16)
    graph = graph_of(
        (Parameter(DType.f32, (symbol("n"), 32)), []),
        (Constant.of(codes.astype(dtype.numpy), dtype), []),
        (Convert(DType.f16), [1]),
        (Constant.of(zero.astype(dtype.numpy), dtype), []),
        (Convert(DType.f16), [3]),
        (Subtract(), [2, 4]),
        (Constant.of(scale, DType.f16), []),
        (Multiply(), [5, 6]),
        (constant([6, 32], DType.i64), []),
        (Reshape(), [7, 8]),
        (Convert(DType.f32), [9]),
        (MatMul(transpose_b=True), [0, 10]),
        (Result(), [11]),
    )
    proto = to_onnx_model(graph)
    (node,) = [n for n in proto.graph.node if n.op_type == "DequantizeLinear"]
    block = {a.name: a.i for a in node.attribute}["block_size"]
    assert block == 16
    types = {t.name: t.data_type for t in proto.graph.initializer}
    assert types[node.input[0]] == (onnx.TensorProto.INT4 if signed else onnx.TensorProto.UINT4)
    x = rng.standard_normal((3, 32)).astype(np.float32)
    (found,) = run_onnxruntime(proto, {proto.graph.input[0].name: x}).values()
    np.testing.assert_allclose(found, interpret(graph, [x])[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(irc.UnsupportedOperationError, match="later operator set") as caught:
        to_onnx_model(graph, opset=20)
    assert "--opset 21" in str(caught.value)


def test_variables_are_inputs_and_outputs(tmp_path: Path) -> None:
    graph = read_xml(stateful.growing(tmp_path / "m.xml"))
    proto = to_onnx_model(graph)
    assert [p.name for p in proto.graph.input] == ["x", "past.rows"]
    assert [p.name for p in proto.graph.output] == ["total", "present.rows"]
    x = np.ones((2, 4), np.float32)
    first = run_onnxruntime(proto, {"x": x})  # the initial value is the input's default
    np.testing.assert_array_equal(first["total"], np.full(4, 7, np.float32))
    second = run_onnxruntime(proto, {"x": x, "past.rows": first["present.rows"]})
    np.testing.assert_array_equal(second["total"], np.full(4, 9, np.float32))


def test_f16_weights_are_cast(tmp_path: Path) -> None:
    irc.save_model(DATA / "mlp.onnx", tmp_path / "m.onnx", compress_to_fp16=True)
    proto = onnx.load(tmp_path / "m.onnx")
    halves = [t for t in proto.graph.initializer if t.data_type == onnx.TensorProto.FLOAT16]
    assert halves and "Cast" in kinds(proto)


def test_a_value_of_unknown_rank_is_written() -> None:
    graph = graph_of((Parameter(DType.f32, None), []), (Abs(), [0]), (Result(), [1]))
    proto = to_onnx_model(graph)
    x = np.array([[-1.0]], np.float32)
    (found,) = run_onnxruntime(proto, {proto.graph.input[0].name: x}).values()
    np.testing.assert_array_equal(found, [[1.0]])


@pytest.mark.parametrize(
    ("arguments", "path", "expected"),
    [
        ({"opset": 12}, "m.onnx", "13 to"),
        ({"opset": 99}, "m.onnx", "13 to"),
        ({"dialect": True}, "m.onnx", r"\*.xml"),
        ({"opset": 21}, "m.xml", r"\*.onnx"),
        ({}, "m.tflite", r"\*.xml or \*.onnx"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: dict[str, Any], path: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(irc.UsageError, match=expected):
        irc.save_model(DATA / "mlp.onnx", tmp_path / path, **arguments)
    assert not [*tmp_path.iterdir()]


def test_the_command_line_writes_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m.onnx"
    assert main(["convert", str(DATA / "mlp.xml"), "-o", str(out), "--opset", "17"]) == 0
    assert "m.onnx" in capsys.readouterr().out
    assert onnx.load(out).opset_import[0].version == 17
