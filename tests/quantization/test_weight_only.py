"""Weights alone: the compressed forms in three engines, and AWQ and GPTQ against rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.quantization import plan_layers
from irc_compiler.quantization.gptq import quantize_gptq
from irc_compiler.quantization.input_scales import scale_weight
from irc_compiler.quantization.nf4 import NF4_TABLE
from irc_compiler.quantization.weights import fit_group, quantize_groups
from support.models.onnx_graph import OnnxGraph
from support.models.tiny_decoder import tiny_language_model
from support.quantization import nets

RNG = np.random.default_rng(5)
KINDS = {"int8": 127, "int4": 7.5, "nf4": 3}  # steps of a group's range: a bound of the error


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_the_nearest(kind: str, axis: int) -> None:
    weight = RNG.standard_normal((64, 64)).astype(np.float32)
    made = quantize_groups(weight, axis, 16, kind)
    assert made.codes.shape == weight.shape
    assert made.scale.shape == ((4, 64) if axis == 0 else (64, 4))
    rows = weight if axis == 1 else weight.T
    found = made.dequantize()
    off = np.abs((found if axis == 1 else found.T) - rows).reshape(64, 4, 16)
    span = np.abs(rows).reshape(64, 4, 16).max(axis=-1, keepdims=True)
    assert (off <= span / KINDS[kind] * 0.51 + (kind == "int4") * span / 15).all()


def test_nf4_is_the_table_of_the_element_type() -> None:
    assert (len(NF4_TABLE), NF4_TABLE[0], NF4_TABLE[7], NF4_TABLE[15]) == (16, -1, 0, 1)
    weight = np.tile(NF4_TABLE * 3, (2, 1)).astype(np.float32)
    made = quantize_groups(weight, 1, 16, "nf4")
    np.testing.assert_array_equal(made.codes, np.tile(np.arange(16), (2, 1)))
    np.testing.assert_array_equal(made.dequantize(), weight)


@pytest.mark.parametrize(
    ("depth", "group", "wanted"),
    [(256, 128, 128), (96, 128, 96), (96, 64, 32), (160, 128, 32), (100, 32, 100), (7, 4, 7)],
)
def test_groups_divide_the_depth(depth: int, group: int, wanted: int) -> None:
    assert fit_group(depth, group) == wanted


def correlated(rows: int, depth: int) -> np.ndarray[Any, Any]:
    """Inputs whose channels are alike, as those of a network are; some are large."""
    base = RNG.standard_normal((rows, depth // 4)) @ RNG.standard_normal((depth // 4, depth))
    base += 0.3 * RNG.standard_normal((rows, depth))
    base[:, ::17] *= 8
    return base.astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["int4", "nf4"])
def test_gptq_reduces_the_squared_error_of_products(kind: str, axis: int) -> None:
    x, weight = correlated(512, 192), RNG.standard_normal((192, 64)).astype(np.float32)
    gram = (x.T @ x).astype(np.float64)
    given = weight if axis == 0 else np.ascontiguousarray(weight.T)

    def error(made: Any) -> float:
        found = made.dequantize()
        return float(((x @ (found if axis == 0 else found.T) - x @ weight) ** 2).sum())

    rounded = error(quantize_groups(given, axis, 64, kind))
    assert error(quantize_gptq(given, axis, 64, kind, gram)) < rounded / 2


def test_gptq_without_correlation_is_rounding() -> None:
    weight = RNG.standard_normal((64, 32)).astype(np.float32)
    made = quantize_gptq(weight, 0, 32, "int4", np.eye(64))
    plain = quantize_groups(weight, 0, 32, "int4", np.ones(64))
    np.testing.assert_array_equal(made.codes, plain.codes)
    np.testing.assert_array_equal(made.zero, plain.zero)


def test_gptq_with_groups_across_blocks_and_dead_inputs() -> None:
    x = correlated(400, 300)
    x[:, 5] = 0
    weight = RNG.standard_normal((300, 8)).astype(np.float32)
    made = quantize_gptq(weight, 0, 300, "int4", (x.T @ x).astype(np.float64))
    assert made.group == 300 and np.isfinite(made.dequantize()).all()


def outputs(model: Any, data: nets.Batches) -> np.ndarray[Any, Any]:
    net = irc.compile_model(model)
    return np.concatenate([net(batch)[0] for batch in data])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["rtn", "awq", "gptq", "awq-gptq"])
@pytest.mark.parametrize("kind", KINDS)
def test_three_engines(kind: str, algorithm: str, tmp_path: Path) -> None:
    import openvino as ov

    model, data = nets.mlp(outliers=True)
    made = irc.quantize(
        model, data, weights=kind, activations="none", group=32, algorithm=algorithm
    )
    wanted, found = outputs(model, data), outputs(made.model, data)
    assert np.abs(found - wanted).max() < 0.3 * np.abs(wanted).max()
    made.save(tmp_path / "q.xml")
    # OpenVINO quantizes activations of compressed products on some processors.
    config = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    peer = ov.Core().compile_model(str(tmp_path / "q.xml"), "CPU", config)(data[0])[0]
    np.testing.assert_allclose(peer, found[:8], atol=1e-4 * np.abs(wanted).max())
    again = outputs(tmp_path / "q.xml", data)
    assert again.tobytes() == found.tobytes()
    if kind == "nf4":
        with pytest.raises(irc.UnsupportedOperationError, match="ONNX has no element type nf4"):
            made.to_onnx()
        return
    made.save(tmp_path / "q.onnx")
    onnx.checker.check_model(str(tmp_path / "q.onnx"), full_check=True)
    net = irc.compile_model(tmp_path / "q.onnx")
    np.testing.assert_allclose(net(data[0])[0], found[:8], atol=1e-4 * np.abs(wanted).max())
    # onnxruntime's block kernel may quantize activations as well: without it, at the lowest level.
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(tmp_path / "q.onnx"), options)
    theirs = np.asarray(session.run(None, data[0])[0])
    np.testing.assert_allclose(theirs, found[:8], atol=1e-4 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_products_read_large_weights_compressed(kind: str) -> None:
    """Small ones are expanded when a model is compiled."""
    g = OnnxGraph(17)
    x = g.input("x", ["N", 1024])
    g.output(g.op("MatMul", x, g.weight("w", RNG.standard_normal((1024, 512)).astype(np.float32))))
    made = irc.quantize(g.model(), weights=kind, activations="none")
    size = {"int8": "512 KiB", "int4": "256 KiB"}[kind]
    for model in (made.model, made.to_onnx()):
        report = irc.compile_model(model).report()
        assert "compressed 1 " in report and size in report


@pytest.mark.slow
def test_awq_and_gptq_are_better_than_rounding() -> None:
    """On inputs with a few large channels, as those of transformers are."""
    model, data = nets.mlp(outliers=True)
    wanted = outputs(model, data)
    error = {}
    for algorithm in ("rtn", "awq", "gptq", "awq-gptq"):
        made = irc.quantize(model, data, weights="int4", group=32, algorithm=algorithm)
        error[algorithm] = float(((outputs(made.model, data) - wanted) ** 2).sum())
    assert error["awq"] < 0.8 * error["rtn"] and error["gptq"] < 0.8 * error["rtn"]
    assert error["awq-gptq"] < 0.8 * error["awq"]


@pytest.mark.slow
def test_smoothquant_is_better_on_outliers(tmp_path: Path) -> None:
    model, data = nets.mlp(outliers=True)
    wanted = outputs(model, data)
    error = {}
    for smooth in (None, 0.5):
        made = irc.quantize(model, data, smooth=smooth)
        error[smooth] = float(((outputs(made.model, data) - wanted) ** 2).sum())
        again = outputs(made.to_onnx(), data)
        assert np.abs(again - outputs(made.model, data)).max() < 0.02 * np.abs(wanted).max()
    assert error[0.5] < error[None] / 2


def test_scaled_weights_keep_products() -> None:
    model, _ = nets.mlp()
    made = irc.quantize(model, weights="int4")
    for layer in made.layers:
        assert layer.depth is not None
        factors = RNG.uniform(0.5, 2, layer.weight.shape[layer.depth]).astype(np.float32)
        x = RNG.standard_normal((3, len(factors))).astype(np.float32)
        turn = (lambda w: w) if layer.depth == 0 else (lambda w: w.T)
        found = (x / factors) @ turn(scale_weight(layer, factors))
        np.testing.assert_allclose(found, x @ turn(layer.weight), rtol=1e-4, atol=1e-5)


def test_types() -> None:
    model, _ = nets.mlp()
    for kind, dtype in (("int8", DType.i8), ("int4", DType.u4), ("nf4", DType.nf4)):
        made = irc.quantize(model, weights=kind, activations="none")
        *others, last = made.layers
        assert {made.plan.layers[layer.name].weight.dtype for layer in others} == {dtype}
        assert made.plan.layers[last.name].weight.dtype is DType.i8


def test_a_model_of_one_layer_has_no_last_layer() -> None:
    g = OnnxGraph(17)
    weight = g.weight("w", RNG.standard_normal((64, 32)).astype(np.float32))
    g.output(g.op("MatMul", g.input("x", ["N", 64]), weight))
    (plan,) = irc.quantize(g.model(), weights="int4").plan.layers.values()
    assert plan.weight.dtype is DType.u4


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["awq", "gptq", "awq-gptq"])
def test_parts_of_layers_give_the_same_codes(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statistics beyond the limit are gathered by another run over the data."""
    model, data = nets.mlp(outliers=True)
    runs: list[str] = []
    whole = irc.quantize(model, data, weights="int4", group=32, algorithm=algorithm)
    monkeypatch.setattr(plan_layers, "MAX_MOMENT_BYTES", 1)
    parts = irc.quantize(
        model,
        data,
        weights="int4",
        group=32,
        algorithm=algorithm,
        progress=lambda stage, done, total: runs.append(stage),
    )
    assert runs.count("calibrating") == 3 * len(data)  # three activations of four layers
    pairs = zip(whole.plan.layers.values(), parts.plan.layers.values(), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a.weight.codes, b.weight.codes)


@pytest.mark.slow
def test_a_decoder_with_variables(tmp_path: Path) -> None:
    """As read_language_model makes it of a GGUF file with weights="f32"; saved as IR, also for
    OpenVINO."""
    import openvino as ov

    decoder = tiny_language_model().model
    ids = RNG.integers(0, 32, (8, 12))
    feeds = [
        {
            "input_ids": ids,
            "attention_mask": np.ones((8, 12), np.int64),
            "position_ids": np.tile(np.arange(12, dtype=np.int64), (8, 1)),
            "beam_idx": np.arange(8, dtype=np.int32),
        }
    ]
    made = irc.quantize(decoder, feeds, weights="int4", group=16, algorithm="awq-gptq")
    assert len(made.quantized_layers) == len(made.layers) > 4
    made.save(tmp_path / "q.xml")
    wanted, found = (outputs(m, feeds) for m in (decoder, tmp_path / "q.xml"))
    assert 0 < np.abs(found - wanted).max() < 0.5 * np.abs(wanted).max()
    config = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    peer = ov.Core().compile_model(str(tmp_path / "q.xml"), "CPU", config)(feeds[0])[0]
    np.testing.assert_allclose(peer, found, atol=1e-3 * np.abs(wanted).max())
