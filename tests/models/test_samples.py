"""The committed samples and IR files are what their descriptions say, seen by other engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits"
MATMUL = ROOT / "samples" / "matmul1"
IR = ROOT / "tests" / "data" / "ir"


def test_digits_are_recognised() -> None:
    held_out = np.load(DIGITS / "held_out.npz")
    images, labels = held_out["images"], held_out["labels"]
    assert images.dtype == labels.dtype == np.uint8
    assert images.shape == (360, 8, 8) and labels.shape == (360,)
    assert images.max() == 16
    pixels = (images.reshape(-1, 64) / 16).astype(np.float32)
    expected = run_onnxruntime(DIGITS / "digits.onnx", {"image": pixels})["probabilities"]
    assert np.mean(expected.argmax(axis=1) == labels) >= 0.97
    actual = run_openvino(DIGITS / "digits.onnx", {"image": pixels})["probabilities"]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_digits_show_every_form_of_a_dense_layer() -> None:
    model = onnx.load(DIGITS / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    forms = [
        node.op_type + "T" * any(a.name == "transB" for a in node.attribute)
        for node in model.graph.node
    ]
    expected = [
        "MatMul",
        "Add",
        "Relu",
        "Gemm",
        "Relu",
        "GemmT",
        "Relu",
        "MatMul",
        "Add",
        "Softmax",
    ]
    assert forms == expected


@pytest.mark.parametrize(
    ("name", "a", "b", "output"),
    [
        ("vector_matrix", (1024,), (1024, 1000), (1000,)),  # OpenVINO's rule is NumPy's
        ("matrix_matrix", (1, 1024), (1024, 1000), (1, 1000)),
        ("matrix_vector_transposed", (1, 1024), (1000, 1024), (1, 1000)),
        ("batch10", (10, 1024), (1024, 1000), (10, 1000)),
        ("batch5_broadcast", (5, 10, 1024), (1024, 1000), (5, 10, 1000)),
    ],
)
def test_matmul_examples_run(
    name: str, a: tuple[int, ...], b: tuple[int, ...], output: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    inputs = {k: rng.integers(-3, 4, size=s).astype(np.float32) for k, s in (("a", a), ("b", b))}
    y = run_openvino(MATMUL / f"{name}.xml", inputs)["product"]
    assert y.shape == output
    second = inputs["b"].T if name == "matrix_vector_transposed" else inputs["b"]
    np.testing.assert_array_equal(y, inputs["a"] @ second)


@pytest.mark.parametrize("path", sorted(IR.glob("*.onnx")), ids=lambda path: path.stem)
def test_ir_files_do_what_their_onnx_sources_do(path: Path) -> None:
    model = onnx.load(path)
    symbols = {
        dim.dim_param for port in model.graph.input for dim in port.type.tensor_type.shape.dim
    }
    inputs = random_inputs(model, **dict.fromkeys(symbols - {""}, 2))
    # Most of the files keep their weights in float16.
    tolerance = 2e-3 if 'element_type="f16"' in path.with_suffix(".xml").read_text() else 1e-5
    expected = list(run_onnxruntime(model, inputs).values())
    actual = list(run_openvino(path.with_suffix(".xml"), inputs).values())
    for one, two in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
