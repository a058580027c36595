"""The QDQ form of ONNX models: batch normalization, shared weights, movers, older operator sets,
and layers that are found or stay float."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.quantization.layers import find_layers
from irc_compiler.quantization.onnx_source import load_source, prepare_source
from onnx import numpy_helper
from support.models.onnx_graph import OnnxGraph
from support.quantization import nets

RNG = np.random.default_rng(0)
STEPS = 0.03


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def image(rows: int = 8, channels: int = 3) -> nets.Batches:
    return [{"x": normal(rows, channels, 8, 8)}]


def check(model: onnx.ModelProto, data: nets.Batches, **options: Any) -> onnx.ModelProto:
    """The quantized ONNX model, which irc runs as it runs the quantized graph."""
    made = irc.quantize(model, data, **options)
    written = made.to_onnx()
    onnx.checker.check_model(written, full_check=True)
    (wanted,) = irc.compile_model(model)(data[0])
    (graph,) = irc.compile_model(made.model)(data[0])
    (found,) = irc.compile_model(written)(data[0])
    limit = np.abs(wanted).max()
    assert np.abs(graph - wanted).max() < 0.1 * limit
    assert np.abs(found - graph).max() < STEPS * limit
    return written


def operators(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def test_batch_normalization_is_folded() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 3, 8, 8])
    y = g.op("Conv", x, g.weight("w", normal(6, 3, 3, 3)), pads=[1] * 4)
    parameters = [g.weight(n, np.abs(normal(6)) + 0.5) for n in ("s", "b", "m", "v")]
    g.output(g.op("Relu", g.op("BatchNormalization", y, *parameters), result="y"))
    model, data = g.model(), image()
    prepared = load_source(model)
    prepare_source(prepared)
    assert operators(prepared) == ["Conv", "Relu"]
    pair = [irc.compile_model(m)(data[0])[0] for m in (model, prepared)]
    np.testing.assert_allclose(pair[0], pair[1], rtol=1e-4, atol=1e-4)
    assert operators(check(model, data)).count("BatchNormalization") == 0


def test_a_norm_that_is_not_alone_is_kept() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 3, 8, 8])
    y = g.op("Conv", x, g.weight("w", normal(3, 3, 1, 1)))
    parameters = [g.weight(n, np.abs(normal(3)) + 0.5) for n in ("s", "b", "m", "v")]
    g.output(g.op("Add", g.op("BatchNormalization", y, *parameters), y, result="y"))
    assert "BatchNormalization" in operators(check(g.model(), image()))


@pytest.mark.slow
def test_quantization_is_above_movers() -> None:
    """MaxPool and Flatten work on 8-bit elements."""
    g = OnnxGraph(17)
    x = g.input("x", ["N", 3, 8, 8])
    y = g.op("Relu", g.op("Conv", x, g.weight("w", normal(4, 3, 1, 1)), g.weight("c", normal(4))))
    y = g.op("Flatten", g.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    g.output(g.op("MatMul", y, g.weight("f", normal(64, 10)), result="y"))
    order = operators(check(g.model(), image()))
    pool = order.index("MaxPool")
    assert order[pool - 2 : pool] == ["QuantizeLinear", "DequantizeLinear"]
    assert order.count("QuantizeLinear") == 2


@pytest.mark.slow
def test_a_weight_that_two_layers_share() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 16])
    w = g.weight("w", normal(16, 16))
    g.output(g.op("MatMul", g.op("Tanh", g.op("MatMul", x, w)), w, result="y"))
    written = check(g.model(), [{"x": normal(16, 16)}])
    assert "w" not in {t.name for t in written.graph.initializer}
    kept = irc.quantize(g.model(), [{"x": normal(16, 16)}])
    first = kept.layers[0].name
    half = irc.quantize(g.model(), [{"x": normal(16, 16)}], keep=[first]).to_onnx()
    assert "w" in {t.name for t in half.graph.initializer}


def test_names_that_are_taken_get_a_number() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 16])
    y = g.op("Relu", x, result="x_quantized")
    y = g.op("Add", y, g.op("MatMul", x, g.weight("w", normal(16, 16))))
    g.output(g.op("Mul", y, g.weight("w_scale", normal(16)), result="y"))
    check(g.model(), [{"x": normal(16, 16)}])


@pytest.mark.slow
def test_nodes_without_names_or_with_one_name_and_constants_as_nodes() -> None:
    model, data = nets.mlp()
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for number, node in enumerate(changed.graph.node):
        node.name = "" if number % 2 else "twice"
    weight = next(t for t in changed.graph.initializer if t.name == "w1")
    array = numpy_helper.to_array(weight)
    changed.graph.initializer.remove(weight)
    made = onnx.helper.make_node("Constant", [], ["w1"], value=numpy_helper.from_array(array))
    changed.graph.node.insert(0, made)
    written = check(changed, data)
    assert operators(written).count("DequantizeLinear") == 3 + 4 + 1


@pytest.mark.parametrize("shared", [False, True])
def test_weights_behind_a_transpose(shared: bool) -> None:
    """As exporters write the weight of a Linear, or a product by the matrix of an embedding."""
    g = OnnxGraph(17, constants="initializers")
    x = g.input("x", ["N", 16])
    table = g.weight("table", normal(24, 16))
    y = g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0]))
    if shared:
        row = g.op("Gather", table, g.weight("row", np.array(3)))
        y = g.op("Add", y, g.op("ReduceSum", row, keepdims=0))
    g.output(g.op("MatMul", y, g.op("Transpose", g.weight("last", normal(8, 24))), result="y"))
    written = check(g.model(), [{"x": normal(16, 16)}])
    assert operators(written).count("DequantizeLinear") == 2 + 2
    assert "Transpose" not in operators(written)
    assert ("table" in {t.name for t in written.graph.initializer}) == shared


def test_initializers_that_are_inputs() -> None:
    """Files before version 4: the float weights do not stay in the file as inputs."""
    model, data = nets.mlp()
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.ir_version = 3
    for tensor in changed.graph.initializer:
        port = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        changed.graph.input.append(port)
    written = check(changed, data)
    assert [port.name for port in written.graph.input] == ["x"]
    assert "w1" not in {t.name for t in written.graph.initializer}


def test_grouped_and_one_dimensional_convolutions() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 4, 16])
    y = g.op("Conv", x, g.weight("w1", normal(8, 2, 3)), g.weight("b1", normal(8)), group=2)
    y = g.op("Conv", g.op("Relu", y), g.weight("w2", normal(8, 1, 3)), group=8)
    g.output(g.op("GlobalAveragePool", y, result="y"))
    written = check(g.model(), [{"x": normal(8, 4, 16)}])
    shapes = {t.name: tuple(t.dims) for t in written.graph.initializer}
    assert shapes["w1_quantized"] == (8, 2, 3) and shapes["w1_scale"] == (8,)
    assert shapes["w2_quantized"] == (8, 1, 3) and shapes["b1_quantized"] == (8,)


@pytest.mark.parametrize(("opset", "options", "wanted"), [
    (11, {}, 13), (17, {}, 17), (17, {"weights": "int4", "group": 16}, 21),
])  # fmt: skip
def test_operator_sets_are_raised(opset: int, options: dict[str, Any], wanted: int) -> None:
    g = OnnxGraph(opset)
    x = g.input("x", ["N", 16])
    g.output(g.op("Softmax", g.op("MatMul", x, g.weight("w", normal(16, 4))), axis=1, result="y"))
    written = irc.quantize(g.model(), [{"x": normal(16, 16)}], **options).to_onnx()
    assert [o.version for o in written.opset_import if o.domain == ""] == [wanted]
    onnx.checker.check_model(written, full_check=True)


def test_what_stays_float() -> None:
    """Products of two activations, with a vector or a stack of matrices, and of f64."""
    g = OnnxGraph(17)
    x = g.input("x", [4, 8])
    g.output(g.op("MatMul", x, g.op("Transpose", x), result="a"))
    g.output(g.op("MatMul", x, g.weight("vector", normal(8)), result="b"))
    g.output(g.op("MatMul", x, g.weight("stack", normal(3, 8, 4)), result="c"))
    double = g.op("Cast", x, to=onnx.TensorProto.DOUBLE)
    g.output(g.op("MatMul", double, g.weight("d", normal(8, 4).astype(np.float64)), result="e"))
    g.output(g.op("MatMul", x, g.weight("w", normal(8, 4)), result="f"))
    layers = find_layers(irc.read_model(g.model()).graph)
    assert [layer.weight.shape for layer in layers] == [(8, 4)]


def test_sums_that_32_bits_might_not_hold_stay_float() -> None:
    g = OnnxGraph(17)
    x = g.input("x", ["N", 70_000])
    g.output(g.op("MatMul", x, g.weight("w", np.ones((70_000, 1), np.float32)), result="y"))
    assert find_layers(irc.read_model(g.model()).graph) == []
