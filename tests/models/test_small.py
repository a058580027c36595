"""The small builders make valid models that onnxruntime and OpenVINO run alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.models import small
from support.models.openvino_ir import write_ir
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino

DIMS = {"N": 3, "S": 5, "B": 2, "M": 7}
F32 = np.float32
MODELS: dict[str, onnx.ModelProto] = {
    "mlp": small.mlp(),
    "mlp_mixed": small.mlp(
        (8, 6, 5, 4), final="Softmax", dense=("MatMul", "Gemm", "GemmT"), activation="Tanh"
    ),
    "mlp_fixed": small.mlp((4, 3), 2, final="Sigmoid", bias=False, opset=13),
    "gemm_relu": small.gemm_relu(4, 6, 5),
    "gemm_batched": small.gemm_relu("M", 6, 5, batch=("B", 3)),
    "gemm_transposed": small.gemm_relu("M", 6, 5, dense="GemmT", activation=None, bias=False),
    "attention": small.attention(),
    "attention_plain": small.attention(2, 4, 12, 3, mask=False),
    "softmax": small.op_model("Softmax", {"x": (("N", 8), F32)}, axis=-1),
    "split": small.op_model("Split", {"x": ((6, 2), F32), "split": np.array([2, 4])}, 2, axis=0),
    "clip": small.op_model("Clip", {"x": (("N", 8), F32), "min": None, "max": np.array(0.5, F32)}),
    "cast": small.op_model("Cast", {"x": ((3,), np.int64)}, {"z": ((3,), F32)}, opset=13, to=1),
    "chain": small.chain(["Relu", ("Mul", 0.5), ("Add", "x"), "Tanh"], ("N", "M"), outputs=[1]),
    "chain_bool": small.chain(["Abs", ("Greater", 0.5), "Not"]),
    "chain_array": small.chain([("Pow", np.full((1, 16), 2.0)), ("Sub", 1)]),
    "layer_norm_pow": small.layer_norm(),
    "layer_norm_mul": small.layer_norm(("B", "S", 16), form="mul", opset=18, affine=False),
    "layer_norm_op": small.layer_norm(form="op"),
    "gelu_erf": small.gelu(),
    "gelu_tanh": small.gelu(form="tanh"),
    "gelu_op": small.gelu(form="op", opset=20),
}


def same(actual: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-5) -> None:
    assert list(actual) == list(expected)
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype
        np.testing.assert_allclose(actual[name], value, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_are_valid_and_run_alike(name: str) -> None:
    model = MODELS[name]
    onnx.checker.check_model(model, full_check=True)
    inputs = random_inputs(model, **DIMS)
    expected = run_onnxruntime(model, inputs)
    assert all(np.asarray(value).size for value in expected.values())
    same(run_openvino(model, inputs), expected)


def test_integer_weights_give_exact_products() -> None:
    model = small.mlp((16, 8, 4), dense="GemmT", integers=True)
    inputs = random_inputs(model, integers=True, N=5)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    x = inputs["x"].astype(np.int64)
    for layer in ("layer0", "layer1"):
        weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
        x = x @ weight.T.astype(np.int64) + bias.astype(np.int64)
        x = np.maximum(x, 0) if layer == "layer0" else x
    np.testing.assert_array_equal(run_onnxruntime(model, inputs)["y"], x)
    assert len(np.unique(x)) > 5


def test_layer_norm_and_gelu_forms_are_the_same_function() -> None:
    x = {"x": np.linspace(-3, 3, 96, dtype=F32).reshape(3, 32)}
    norms = [run_onnxruntime(small.layer_norm(form=form), x) for form in ("pow", "mul", "op")]
    same(norms[1], norms[0])
    same(norms[2], norms[0])
    x = {"x": np.linspace(-3, 3, 48, dtype=F32).reshape(3, 16)}
    erf = run_onnxruntime(small.gelu(), x)
    same(run_onnxruntime(small.gelu(form="op", opset=20), x), erf)
    same(run_onnxruntime(small.gelu(form="tanh"), x), erf, tolerance=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize("raw", [False, True])
def test_written_ir_runs_alike(tmp_path: Path, version: Any, fp16: bool, raw: bool) -> None:
    for name in ("mlp_mixed", "attention", "layer_norm_pow"):
        model = MODELS[name]
        xml = write_ir(model, tmp_path, name, version=version, fp16=fp16, raw=raw)
        text = xml.read_text()
        assert f'version="{version}"' in text.partition("<layers>")[0]
        assert ('element_type="f16"' in text) == fp16
        inputs = random_inputs(model, **DIMS)
        expected = list(run_onnxruntime(model, inputs).values())
        actual = list(run_openvino(xml, inputs).values())
        tolerance = 5e-3 if fp16 else 1e-5
        for one, two in zip(actual, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted([".bin", ".xml"] * 3)
