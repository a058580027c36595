"""The encoder builder writes what PyTorch writes, and the committed exports run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.models.encoders import bert, bert_inputs
from support.models.oracles import run_onnxruntime, run_openvino

HERE = Path(__file__).resolve().parents[2] / "tests" / "support" / "models"
TINY: dict[str, Any] = {
    "layers": 2,
    "hidden": 32,
    "heads": 4,
    "intermediate": 64,
    "vocab": 50,
    "positions": 40,
}
FIXTURES = sorted(HERE.glob("encoder_torch_*.onnx"))


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Every constant of the graph by name: initialisers, Constant nodes, Identities of either."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
    return known


def steps(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    """The nodes without their weights: small constants by value, large ones by shape."""
    known = constants(model)

    def operand(name: str) -> object:
        if name not in known:
            return name
        array = known[name]
        return array.tolist() if array.size == 1 else (array.dtype.str, array.shape)

    return [
        (
            node.op_type,
            node.name,
            [operand(name) for name in node.input],
            list(node.output),
            {a.name: helper.get_attribute_value(a) for a in node.attribute},
        )
        for node in model.graph.node
        if node.op_type not in ("Constant", "Identity")
    ]


def legacy() -> onnx.ModelProto:
    return onnx.load(HERE / "encoder_torch_legacy.onnx")


def test_nodes_are_those_of_the_export() -> None:
    ours, theirs = steps(bert(**TINY, opset=14)), steps(legacy())
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine == yours


def test_signature_is_that_of_the_export() -> None:
    ours, theirs = bert(**TINY, opset=14).graph, legacy().graph
    assert list(ours.input) == list(theirs.input)
    assert list(ours.output) == list(theirs.output)


def test_with_the_weights_of_the_export_outputs_are_equal() -> None:
    ours, theirs = bert(**TINY, opset=14), legacy()
    values = constants(theirs)
    weights = {tensor.name: tensor for tensor in ours.graph.initializer}
    nodes = [n for n in theirs.graph.node if n.op_type not in ("Constant", "Identity")]
    mine = [n for n in ours.graph.node if n.op_type != "Constant"]
    for node, source in zip(mine, nodes, strict=True):
        for name, origin in zip(node.input, source.input, strict=True):
            if name in weights:
                weights[name].CopyFrom(numpy_helper.from_array(values[origin], name))
    inputs = bert_inputs(3, 11, 50)
    expected, actual = run_onnxruntime(theirs, inputs), run_onnxruntime(ours, inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value)


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize(("batch", "sequence"), [(1, 1), (3, 9), (2, 40)])
def test_exports_run_alike_in_both_engines(path: Path, batch: int, sequence: int) -> None:
    inputs = bert_inputs(batch, sequence, 50)
    expected, actual = run_onnxruntime(path, inputs), run_openvino(path, inputs)
    assert expected["last_hidden_state"].shape == (batch, sequence, 32)
    assert expected["pooler_output"].shape == (batch, 32)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=2e-5)


def test_both_exporters_write_the_same_function() -> None:
    inputs = bert_inputs(4, 13, 50)
    for suffix in ("", "_sdpa"):
        one = run_onnxruntime(HERE / f"encoder_torch_legacy{suffix}.onnx", inputs)
        two = run_onnxruntime(HERE / f"encoder_torch_dynamo{suffix}.onnx", inputs)
        for name, value in one.items():
            np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-5)


VARIANTS: list[dict[str, Any]] = [
    {"opset": 11},
    {"opset": 14},
    {"opset": 17},
    {"opset": 18, "norm": "primitive"},
    {"opset": 20},
    {"opset": 14, "gelu": "tanh"},
    {"opset": 14, "mask": "where"},
    {"opset": 12, "mask": "where", "gelu": "tanh"},
    {"opset": 14, "batch": 2, "sequence": 9},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_variants_run_alike_in_both_engines(options: dict[str, Any]) -> None:
    model = bert(**TINY, **options)
    onnx.checker.check_model(model, full_check=True)
    inputs = bert_inputs(2, 9, 50)
    expected, actual = run_onnxruntime(model, inputs), run_openvino(model, inputs)
    for name, value in expected.items():
        assert np.isfinite(value).all()
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=2e-5)


def test_forms_are_the_same_function() -> None:
    inputs = bert_inputs(3, 10, 50)
    reference = run_onnxruntime(bert(**TINY, opset=14), inputs)
    for options in ({"opset": 20}, {"opset": 18, "norm": "primitive"}, {"mask": "where"}):
        for name, value in run_onnxruntime(bert(**TINY, **options), inputs).items():
            np.testing.assert_allclose(value, reference[name], rtol=1e-4, atol=1e-5)


def test_tanh_gelu_is_close_to_erf_gelu() -> None:
    inputs = bert_inputs(3, 10, 50)
    reference = run_onnxruntime(bert(**TINY, scale=0.2), inputs)
    for name, value in run_onnxruntime(bert(**TINY, scale=0.2, gelu="tanh"), inputs).items():
        difference = np.abs(value - reference[name]).max()
        assert 1e-5 < difference < 1e-3


def test_padding_and_every_input_matter() -> None:
    model = bert(**TINY, scale=0.2)
    inputs = bert_inputs(3, 12, 50)
    reference = run_onnxruntime(model, inputs)["last_hidden_state"]
    padded = inputs | {"input_ids": np.where(inputs["attention_mask"] == 1, inputs["input_ids"], 0)}
    attended = inputs["attention_mask"] == 1
    unchanged = run_onnxruntime(model, padded)["last_hidden_state"]
    np.testing.assert_allclose(unchanged[attended], reference[attended], rtol=1e-5, atol=1e-6)
    for name, array in inputs.items():
        changed = run_onnxruntime(model, inputs | {name: 1 - np.minimum(array, 1)})
        assert np.abs(changed["last_hidden_state"] - reference).max() > 1e-2, name


def test_refuses_forms_that_the_opset_lacks() -> None:
    for options in ({"opset": 10}, {"opset": 16, "norm": "op"}, {"opset": 19, "gelu": "op"}):
        with pytest.raises(ValueError, match="opset"):
            bert(**TINY, **options)
