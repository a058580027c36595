"""Graphs as OpenVINO's tools make them: compressed weights of language models, variables, sparse
opset versions. Built with OpenVINO's own API, so that the file is as it writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array
from irc_compiler.ir.verify import verify
from openvino import opset13 as op
from openvino.op.util import Variable, VariableInfo
from support.models.exact_int8 import OPENVINO_CONFIG

OPTIONS: dict[str, Any] = OPENVINO_CONFIG | {"INFERENCE_NUM_THREADS": 1}


def saved(
    outputs: list[Any], inputs: list[Any], path: Path, sinks: list[Any] | None = None
) -> Path:
    results = [op.result(node, name=f"y{i}") for i, node in enumerate(outputs)]
    ov.serialize(ov.Model(results, sinks or [], inputs, "made"), str(path))
    return path


def infer(path: Path, *inputs: Array) -> list[Array]:
    compiled = ov.Core().compile_model(str(path), "CPU", OPTIONS)
    found = compiled(list(inputs))
    return [np.array(found[i]) for i in range(len(compiled.outputs))]


def kinds(graph: Graph) -> list[str]:
    return sorted(graph.op(n).kind for n in graph.ids())


def packed(codes: Array, kind: ov.Type) -> Any:
    """A constant of a four-bit type from codes 0..15."""
    low, high = codes.reshape(-1)[0::2], codes.reshape(-1)[1::2]
    data = (low | high << 4).astype(np.uint8)  # the tensor only borrows it
    return op.constant(ov.Tensor(data, ov.Shape(list(codes.shape)), kind), shared_memory=False)


@pytest.mark.parametrize("kind", ["u4", "i4", "u8", "i8"])
def test_compressed_weights_of_a_language_model(kind: str, tmp_path: Path) -> None:
    """Const -> Convert f16 -> Subtract zero point -> Multiply scale -> Reshape -> Convert f32."""
    rng = np.random.default_rng(0)
    out, groups, size = 6, 2, 4
    codes = rng.integers(0, 16, (out, groups, size)).astype(np.uint8)
    if kind.endswith("4"):
        weights = packed(codes, getattr(ov.Type, kind))
    else:
        weights = op.constant(codes.astype(np.uint8 if kind == "u8" else np.int8))
    value = op.convert(weights, "f16")
    if kind.startswith("u"):
        zero = op.convert(op.constant(np.full((out, groups, 1), 7, np.uint8)), "f16")
        value = op.subtract(value, zero)
    scales = rng.uniform(0.1, 1, (out, groups, 1)).astype(np.float16)
    value = op.multiply(value, op.constant(scales))
    value = op.reshape(value, op.constant(np.array([out, groups * size])), special_zero=False)
    value = op.convert(value, "f32")
    x = op.parameter([-1, groups * size], np.float32, name="x")
    path = saved([op.matmul(x, value, False, True)], [x], tmp_path / "m.xml")
    graph = read_xml(path)
    verify(graph)
    data = rng.standard_normal((3, groups * size)).astype(np.float32)
    whole = codes.astype(np.int8)
    whole = (whole ^ 8) - 8 if kind == "i4" else whole - 7 * kind.startswith("u")
    # docs/numerics.md: weights are rounded to the scales' type; OpenVINO keeps more digits.
    rounded = (whole.astype(np.float16) * scales).reshape(out, -1).astype(np.float32)
    (found,), (expected,) = interpret(graph, [data]), infer(path, data)
    np.testing.assert_allclose(found, data @ rounded.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)
    write_xml(graph, tmp_path / "again.xml")
    np.testing.assert_array_equal(infer(tmp_path / "again.xml", data)[0], expected)
    assert (tmp_path / "again.bin").read_bytes() == path.with_suffix(".bin").read_bytes()


def test_variables(tmp_path: Path) -> None:
    info = VariableInfo()
    info.data_shape, info.data_type = ov.PartialShape([-1, 4]), ov.Type.f32
    info.variable_id = "past.0"
    variable = Variable(info)
    x = op.parameter([-1, 4], np.float32, name="x")
    held = op.read_value(op.constant(np.zeros((1, 4), np.float32)), variable)
    grown = op.concat([held, x], 0)
    total = op.reduce_sum(grown, op.constant(np.array([0])), False)
    path = saved([total], [x], tmp_path / "m.xml", [op.assign(grown, variable)])
    graph = read_xml(path)
    verify(graph)
    assert [graph.op(n).kind for n in graph.sinks] == ["Assign"]
    write_xml(graph, tmp_path / "again.xml")
    sums = []
    for file in (path, tmp_path / "again.xml"):
        request = ov.Core().compile_model(str(file), "CPU", OPTIONS).create_infer_request()
        sums.append([request.infer([np.full((2, 4), i, np.float32)])[0][0] for i in range(3)])
    assert sums[0] == sums[1] == [0, 2, 6]


def test_ports_read_twice(tmp_path: Path) -> None:
    x = op.parameter([2, 2], np.float32, name="x")
    path = saved([op.add(x, x), op.multiply(x, x), x], [x], tmp_path / "m.xml")
    data = np.float32([[1, 2], [3, 4]])
    graph = read_xml(path)
    write_xml(graph, tmp_path / "again.xml")
    for found in (interpret(graph, [data]), infer(tmp_path / "again.xml", data)):
        for one, two in zip(found, [data + data, data * data, data], strict=True):
            np.testing.assert_array_equal(one, two)


def test_symbolic_shape_arithmetic(tmp_path: Path) -> None:
    """ShapeOf, Gather, Concat, Reshape: what every exporter writes around attention."""
    x = op.parameter([-1, -1, 8], np.float32, name="x")
    zero, two = op.constant(np.array([0])), op.constant(np.array([2, 4]))
    sizes = op.gather(op.shape_of(x), op.constant(np.array([0, 1])), op.constant(np.int64(0)))
    split = op.reshape(x, op.concat([sizes, two], 0), special_zero=False)
    moved = op.transpose(split, op.constant(np.array([0, 2, 1, 3])))
    first = op.gather(moved, zero, op.constant(np.int64(1)))
    path = saved([moved, first], [x], tmp_path / "m.xml")
    graph = read_xml(path)
    types = [str(graph.node(r).types[0]) for r in graph.results]
    assert types == ["f32[x.0, 2, x.1, 4]", "f32[x.0, 1, x.1, 4]"]
    data = np.arange(2 * 3 * 8, dtype=np.float32).reshape(2, 3, 8)
    for one, two_ in zip(interpret(graph, [data]), infer(path, data), strict=True):
        np.testing.assert_array_equal(one, two_)
