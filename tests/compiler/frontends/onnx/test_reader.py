"""Whole ONNX models: the same numbers as onnxruntime, and what of a file is kept in the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.verify import verify
from onnx import TensorProto, helper, numpy_helper
from support.models import encoders, small
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import random_inputs, run_onnxruntime

DIMS = {"N": 3, "S": 5, "B": 2, "M": 7, "batch": 2, "sequence": 6}
F32 = np.float32
FIXTURES = sorted(
    (Path(__file__).resolve().parents[3] / "support" / "models").glob("encoder_torch_*.onnx")
)
MODELS: dict[str, onnx.ModelProto] = {
    "mlp": small.mlp(final="Softmax"),
    "mlp_gemm": small.mlp((8, 6, 4), dense=("Gemm", "GemmT"), activation="Tanh", opset=11),
    "gemm_batched": small.gemm_relu("M", 6, 5, batch=("B", 3)),
    "attention": small.attention(),
    "chain": small.chain(["Relu", ("Mul", 0.5), ("Add", "x"), "Tanh"], ("N", "M"), outputs=[1]),
    "layer_norm": small.layer_norm(("B", "S", 16), form="mul", opset=18),
    "layer_norm_op": small.layer_norm(form="op"),
    "gelu": small.gelu(form="op", opset=20),
    "gelu_tanh": small.gelu(form="tanh"),
    "softmax_flat": small.op_model("Softmax", {"x": (("N", "M", 4), F32)}, opset=11),
    "log_softmax_flat": small.op_model("LogSoftmax", {"x": ((2, 3, 4), F32)}, opset=9, axis=0),
    "split": small.op_model("Split", {"x": (("N", 6), F32)}, 2, opset=13, axis=1),
    "split_uneven": small.op_model(
        "Split", {"x": (("M", 2), F32)}, 3, opset=18, axis=0, num_outputs=3
    ),
    "clip": small.op_model("Clip", {"x": (("N", 8), F32), "min": None, "max": np.array(0.5, F32)}),
    "bert": encoders.bert(2, 32, 4, 64, 50, positions=12),
    "bert_new": encoders.bert(1, 32, 4, 64, 50, positions=12, opset=20, mask="where"),
}


def compare(source: Any, model: onnx.ModelProto, tolerance: float = 1e-5) -> Graph:
    graph = read_onnx(source)
    verify(graph)
    inputs = random_inputs(model, **DIMS)
    want = run_onnxruntime(model, inputs)
    got = interpret(graph, inputs)
    assert [min(graph.node(r).names[0]) for r in graph.results] == list(want)
    for one, two in zip(got, want.values(), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
    return graph


@pytest.mark.parametrize("name", MODELS)
def test_models_give_onnxruntimes_numbers(name: str) -> None:
    compare(MODELS[name], MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_exported_encoders_from_files(path: Path) -> None:
    assert len(FIXTURES) == 4
    graph = compare(path, onnx.load(path))
    shapes = [str(graph.type(Value(p))) for p in graph.parameters]
    assert shapes[0] == "i64[batch, sequence]"


def test_paths_bytes_and_protos_are_one_model(tmp_path: Path) -> None:
    model = small.mlp((40, 64, 30), batch=2)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    x = random_inputs(model)
    sources: list[Any] = [model, model.SerializeToString(), str(path), path]
    sources.append(bytearray(model.SerializeToString()))
    results = [interpret(read_onnx(s), x)[0] for s in sources]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_large_payloads_are_lifted_and_right() -> None:
    from irc_compiler.compiler.frontends.onnx.files.zero_copy_weights import lift_payloads
    from irc_compiler.compiler.frontends.xml.source import HeldBytes

    model = small.mlp((64, 64, 32), batch=2)
    text = model.SerializeToString()
    rest, payloads = lift_payloads(HeldBytes(text))
    assert sorted(payloads) == [0, 2] and len(rest) < 2048 < len(text)
    for position, payload in payloads.items():
        assert payload.tobytes() == model.graph.initializer[position].raw_data
        assert payload.flags.aligned and payload.flags.owndata
    parsed = onnx.ModelProto.FromString(rest)
    assert [t.name for t in parsed.graph.initializer] == [t.name for t in model.graph.initializer]
    assert parsed.graph.node == model.graph.node
    # A copy without the payloads and nothing else.
    for position in payloads:
        parsed.graph.initializer[position].raw_data = payloads[position].tobytes()
    assert parsed == model


def test_names_order_and_symbols_are_kept() -> None:
    graph = OnnxGraph(17)
    b = graph.input("b", ["N", None, 3])
    a = graph.input("a", ["N", 4, 3])
    first = graph.op("Add", a, b, result="sum")
    graph.op("Relu", first, result="late")
    graph.op("Neg", first, result="early")
    graph.output("late", None, F32)
    graph.output("early", None, F32)
    read = read_onnx(graph.model(check=False))
    assert [read.node(p).name for p in read.parameters] == ["b", "a"]
    assert [read.node(p).names for p in read.parameters] == [[{"b"}], [{"a"}]]
    assert [read.node(r).names for r in read.results] == [[{"late"}], [{"early"}]]
    assert [str(read.type(Value(p))) for p in read.parameters] == ["f32[N, b.1, 3]", "f32[N, 4, 3]"]
    named = {read.node(n).name: n for n in read.ids()}
    assert read.node(named["/Add"]).names == [{"sum"}]
    assert read.op(named["/Relu"]).kind == "Relu"
    assert "node" in read.node(named["/Relu"]).origin
    assert str(read.type(Value(named["/Add"]))) == "f32[N, 4, 3]"


def test_fresh_symbols_do_not_meet_named_ones() -> None:
    graph = OnnxGraph(17)
    graph.input("x", [None, "x.0"])
    graph.op("Relu", "x", result="y")
    graph.output("y", None, F32)
    read = read_onnx(graph.model(check=False))
    assert str(read.type(Value(read.parameters[0]))) == "f32[x.0_2, x.0]"


def test_initialisers_that_are_inputs_are_constants() -> None:
    model = small.mlp((4, 3), 2, bias=False)
    weight = model.graph.initializer[0]
    model.graph.input.append(helper.make_tensor_value_info(weight.name, 1, list(weight.dims)))
    graph = read_onnx(model)
    assert [graph.node(p).name for p in graph.parameters] == ["x"]


def test_unsorted_nodes_are_sorted_and_unneeded_ones_dropped() -> None:
    model = small.chain(["Relu", ("Add", 1), "Neg"])
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    model.graph.node.append(helper.make_node("NoSuchOperator", ["x"], ["unread"]))
    compare_model = small.chain(["Relu", ("Add", 1), "Neg"])
    compare(model, compare_model)


def test_constants_share_the_models_memory_and_are_read_only(tmp_path: Path) -> None:
    data = np.arange(24, dtype=F32).reshape(4, 6)
    model = small.op_model("MatMul", {"x": ((2, 4), F32), "w": data})
    graph = read_onnx(model)
    (constant,) = [n for n in graph.ids() if graph.op(n).kind == "Constant"]
    (array,) = graph.op(constant).evaluate()
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, data)
    assert graph.node(constant).names == [{"w"}]


@pytest.mark.slow
def test_a_long_chain_needs_no_recursion() -> None:
    count = 5000
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])]
        for name in ("t0", f"t{count}")
    ]
    graph = helper.make_graph(list(reversed(nodes)), "chain", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert len(read_onnx(model)) == count + 2


@pytest.mark.parametrize(
    ("type_name", "values"),
    [
        ("float16", [0.5, -2]),
        ("int8", [-128, 127]),
        ("uint64", [0, 2**64 - 1]),
        ("bool", [True, False]),
        ("float64", [np.pi, -np.inf]),
        ("str", ["a", "\u00e9"]),
        ("bfloat16", [1.5, -3]),
        ("float8_e4m3fn", [448, -0.5]),
        ("int4", [-8, 7, 3]),
        ("uint4", [15, 1, 2]),
        ("int2", [-2, 1, -1, 0, 1]),
        ("uint2", [3, 0, 2]),
        ("float4_e2m1fn", [6, -0.5, 1]),
        ("complex64", [1 + 2j, -3j]),
    ],
)
def test_every_element_type_by_bytes_and_by_field(type_name: str, values: list[Any]) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, type_name, type_name))
    exact = np.array(values, dtype=object)
    array = exact if dtype.kind == "U" else exact.astype(dtype)
    data_type = TensorProto.STRING if dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(dtype)
    flat = [v.encode() if isinstance(v, str) else v for v in array.tolist()]
    if dtype.kind == "V" or dtype.name in ("float16", "bfloat16"):
        flat = [float(v) for v in array]
    by_field = helper.make_tensor("w", data_type, array.shape, flat)
    tensors = [numpy_helper.from_array(array, "w"), by_field]
    for tensor in tensors:
        node = helper.make_node("Identity", ["w"], ["y"])
        output = helper.make_tensor_value_info("y", data_type, array.shape)
        graph = helper.make_graph([node], "g", [], [output], [tensor])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
        (got,) = interpret(read_onnx(model))
        assert got.dtype == array.dtype
        assert got.tolist() == array.tolist()


@pytest.mark.slow
def test_import_of_irc_leaves_onnx_alone() -> None:
    import subprocess
    import sys

    code = (
        "import sys, irc_compiler.compiler.frontends.onnx.reader;"
        "sys.exit(any(m == 'onnx' or m.startswith('onnx.') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
