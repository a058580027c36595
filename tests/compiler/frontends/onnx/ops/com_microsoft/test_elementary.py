"""onnxruntime's own operators against onnxruntime, alone and in models that its optimiser wrote."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from support.formulas import sigmoid, softmax
from support.frontends.ml_models import compare, one_node
from support.models.convnets import resnet
from support.models.encoders import bert
from support.models.families import gpt2, vit
from support.models.quantized import dynamic

MODELS = Path(__file__).resolve().parents[5] / "support" / "models"
MS = "com.microsoft"
_R = np.random.default_rng(3)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


B, S, T, N, H = 2, 5, 7, 2, 4
D = N * H
LENGTHS = np.array([5, 3], np.int32)
KEYS = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
PAIRS = (_R.integers(0, 3, (2, 5, 5)) > 0).astype(np.int32)
IDS = _R.integers(0, 9, (2, 5)).astype(np.int32)
STREAMS = _R.integers(0, 9, (3, 2, 5))
# Words, positions, segments, scale and offset in 8 bits.
TABLES = [
    _R.integers(0, 256, shape).astype(np.uint8) for shape in ((9, 8), (6, 8), (2, 8), (8,), (8,))
]
FACTORS = [np.array(v, np.float32) for v in (0.1, 0.02, 0.05, 0.01, 0.03)]
STARTS = [np.array(v, np.uint8) for v in (128, 100, 3, 20, 200)]

NODES: list[tuple[str, list[Any], list[str], dict[str, Any]]] = [
    ("Gelu", [f(3, 4)], ["y"], {}),
    ("FastGelu", [f(3, 4)], ["y"], {}),
    ("FastGelu", [f(3, 4), f(4)], ["y"], {}),
    ("BiasGelu", [f(3, 4), f(4)], ["y"], {}),
    ("QuickGelu", [f(3, 4)], ["y"], {"alpha": 1.5}),
    ("FusedMatMul", [f(2, 3, 4), f(2, 4, 5)], ["y"], {"alpha": 0.5}),
    ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], ["y"], {"transA": 1, "transB": 1}),
    ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], ["y"], {"transBatchA": 1}),
    ("SkipLayerNormalization", [f(2, 3, 4), f(2, 3, 4), f(4), f(4), f(4)], ["y", "", "", "s"],
     {"epsilon": 1e-3}),
    ("SkipLayerNormalization", [f(2, 3, 4), f(3, 4), f(4), f(4)], ["y"], {}),
    ("SkipSimplifiedLayerNormalization", [f(2, 3, 4), f(2, 3, 4), f(4), f(4)], ["y", "", "", "s"],
     {"epsilon": 1e-3}),
    ("EmbedLayerNormalization", [IDS, IDS % 2, f(9, 8), f(6, 8), f(2, 8), f(8), f(8), KEYS],
     ["y", "m"], {}),
    ("EmbedLayerNormalization", [IDS, None, f(9, 8), f(6, 8), None, f(8), f(8)], ["y", "m", "s"],
     {}),
    ("MRotaryEmbedding", [f(2, 5, 16), STREAMS, f(9, 4), f(9, 4)], ["y"],
     {"mrope_section": [2, 1, 1], "num_heads": 2}),
    ("MRotaryEmbedding", [f(2, 2, 5, 8), STREAMS, f(9, 4), f(9, 4)], ["y"],
     {"mrope_section": [1, 2, 1], "interleaved": 1}),
    ("MRotaryEmbedding", [f(2, 5, 32), STREAMS, f(9, 6), f(9, 6)], ["y"],
     {"mrope_section": [2, 2, 2], "mrope_layout": 1, "num_heads": 2, "rotary_embedding_dim": 12}),
    ("QEmbedLayerNormalization", [IDS, IDS % 2, *TABLES, KEYS, *FACTORS, *STARTS], ["y", "m"], {}),
    ("QEmbedLayerNormalization", [IDS, None, *TABLES[:2], None, *TABLES[3:], None,
     *FACTORS[:2], None, *FACTORS[3:], *STARTS[:2], None, *STARTS[3:]], ["y", "m"], {}),
    ("Attention", [f(B, S, D), f(D, 3 * D), f(3 * D), None, f(2, B, N, 3, H)], ["y", "p"],
     {"num_heads": N, "unidirectional": 1}),
    ("MultiHeadAttention", [f(B, S, D), f(B, T, D), f(B, T, D)], ["y"], {"num_heads": N}),
    ("MultiHeadAttention",
     [f(B, S, D), f(B, T, D), f(B, T, D), f(3 * D), np.ones((2, T), np.int32), f(1, N, S, T)],
     ["y"], {"num_heads": N, "scale": 0.3}),
    ("MultiHeadAttention",
     [f(B, S, D), f(B, S, D), f(B, S, D), f(3 * D), None, None, f(B, N, 3, H), f(B, N, 3, H)],
     ["y", "k", "v"], {"num_heads": N, "unidirectional": 1}),
]  # fmt: skip
NODES += [
    ("Attention", [f(B, S, D), f(D, 3 * D), f(3 * D), mask], ["y"], {"num_heads": N, **flags})
    for mask in (None, LENGTHS, KEYS, PAIRS)
    for flags in ({}, {"unidirectional": 1}, {"scale": 0.3})
]
# [B, M, K] x [B, K, N], with axes where the node says that they are.
NODES += [
    ("FusedMatMul",
     [np.moveaxis(np.swapaxes(f(2, 3, 4), 1, 1 + a), 0, int(u)),
      np.moveaxis(np.swapaxes(f(2, 4, 5), 1, 1 + b), 0, int(v))],
     ["y"], {"transA": a, "transB": b, "transBatchA": u, "transBatchB": v, "alpha": 0.5})
    for a, b, u, v in itertools.product((0, 1), repeat=4)
]  # fmt: skip
NODES += [
    ("FusedMatMul", [f(3, 4), f(4, 5)], ["y"], {"alpha": -2.0}),
    ("FusedMatMul", [f(2, 1, 3, 4), f(6, 4, 5)], ["y"], {"alpha": -2.0}),
    ("FusedMatMul", [f(3, 2, 6, 4), f(2, 6, 4, 5)], ["y"], {"transBatchA": 1}),
    ("SkipLayerNormalization", [f(3, 4), f(3, 4), f(4)], ["y", "", "", "s"], {}),
    ("SkipLayerNormalization", [f(2, 3, 4), f(1, 3, 4), f(4), None, f(4)], ["y", "", "", "s"], {}),
    ("SkipSimplifiedLayerNormalization", [f(2, 3, 4), f(1, 3, 4), f(4)], ["y", "", "", "s"], {}),
    ("QuickGelu", [f(3, 4)], ["y"], {}),
    ("QuickGelu", [f(3, 4)], ["y"], {"alpha": -0.7}),
]
NODES += [
    ("FusedGemm", [f(*((4, 3) if a else (3, 4))), f(*((5, 4) if b else (4, 5))), *c], ["y"],
     {"activation": "Tanh", "transA": a, "transB": b, "alpha": 0.5, "beta": 0.3})
    for a, b in itertools.product((0, 1), repeat=2)
    for c in ([], [f()], [f(1)], [f(1, 5)], [f(3, 1)], [f(3, 5)])
]  # fmt: skip
NODES += [
    ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), *more], ["y"],
     {"kernel_shape": [3, 3], "pads": [1] * 4, **given})
    for more in ([], [f(4)], [f(4), f(1, 4, 6, 6)], [None, f(1, 4, 6, 6)])
    for given in (
        {"activation": "Relu"}, {"activation": "LeakyRelu", "activation_params": [0.2]},
        {"activation": "Clip", "activation_params": [-0.2, 0.4]}, {"activation": "Tanh"},
        {"activation": "HardSigmoid", "activation_params": [0.2, 0.4]}, {"activation": "Sigmoid"},
    )
]  # fmt: skip
A8, B8 = (_R.integers(0, 256, s).astype(np.uint8) for s in ((3, 4), (4, 5)))
SCALES = [np.array(v, np.float32) for v in (0.1, 0.02)]
ZEROS = [np.array(3, np.uint8), np.array(120, np.uint8)]
NODES += [
    ("MatMulIntegerToFloat", [A8, b, *SCALES, *more], ["y"], {})
    for b, zero in ((B8, ZEROS[1]), (B8.view(np.int8), np.array(-7, np.int8)))
    for more in ([], ZEROS[:1], [ZEROS[0], zero], [None, None, f(5)])
]
NODES += [
    ("QAttention", [codes, weight, f(3 * D), *SCALES, mask, zero, turn, *past], ["y", "p"],
     {"num_heads": N, "unidirectional": int(mask is None)})
    for codes in (_R.integers(0, 256, (B, S, D)).astype(np.uint8),)
    for weight, zero, turn in (
        (_R.integers(-128, 128, (D, 3 * D)).astype(np.int8), *ZEROS[:1], np.array(-7, np.int8)),
        (_R.integers(0, 256, (D, 3 * D)).astype(np.uint8), None, ZEROS[1]),
    )
    for mask, past in ((None, [f(2, B, N, 3, H)]), (LENGTHS, []))
]  # fmt: skip
NODES += [
    ("DynamicQuantizeMatMul", [a, b, scale, *more], ["y"], {})
    for a in (f(3, 4), abs(f(3, 4)), -abs(f(3, 4)), 0 * f(3, 4))
    for b in (B8, B8.view(np.int8))
    for scale in (SCALES[0], abs(f(5)))
    for more in ([], [None, f(5)])
]
NODES += [
    (name, [x, *([x[0]] if name == "BiasGelu" else [])], ["y"], {})
    for x in (f(3, 4).astype(np.float16), f(3, 4).astype(np.float64))
    for name in ("Gelu", "FastGelu", "QuickGelu", "BiasGelu")
    if name in ("FastGelu", "QuickGelu") or x.dtype == np.float16
]
NODES += [
    ("FusedGemm", [f(3, 4), f(4, 5), f(5)], ["y"],
     {"activation": name, "alpha": 0.5, "beta": 2.0, **parameters})
    for name, parameters in (
        ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("Softsign", {}), ("Softplus", {}),
        ("LeakyRelu", {"activation_alpha": 0.3}), ("Elu", {"activation_alpha": 0.3}),
        ("ThresholdedRelu", {"activation_alpha": 0.3}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
    )
]  # fmt: skip
# Operators with a CPU kernel in onnxruntime; those without one are tested below.
NODES += [
    ("TransposeMatMul", [f(2, 4, 3), f(2, 5, 4)], ["y"], {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("QLinearWhere", [A8 > 100, A8, *SCALES[:1], ZEROS[0], A8[:1], *SCALES[1:], ZEROS[1],
                      np.array(0.2, np.float32), ZEROS[0]], ["y"], {}),
]  # fmt: skip
# Two heads of eight numbers, of which all or the first four are turned.
NODES += [
    ("RotaryEmbedding", [f(*shape), places, f(9, half), f(9, half)], ["y"],
     {"interleaved": interleaved, **given})
    for shape in ((2, 3, 16), (2, 2, 3, 8))
    for places in (np.array([[0, 1, 2], [4, 2, 7]]), np.array([5]))
    for interleaved in (0, 1)
    for half, given in ((4, {"scale": 0.5}), (2, {"rotary_embedding_dim": 4, "num_heads": 2}))
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], list[str], dict[str, Any]]) -> None:
    op_type, inputs, outputs, attributes = case
    close = 2e-3 if inputs[0].dtype == np.float16 else 1e-5
    compare(*one_node(op_type, inputs, outputs, domain=MS, **attributes), rtol=close, atol=close)


def gelu(x: Any, *, tanh: bool = False) -> Any:
    if tanh:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


X, Y, V, W = f(2, 3, 8), f(2, 3, 8), f(8), f(8, 5)
NO = np.array(False)
QUANTIZED = np.clip(np.rint((A8.astype(np.float32) - 3).mean(1) * 0.1 / 0.2) + 9, 0, 255)
# Operators without a CPU kernel in onnxruntime, by NumPy.
BY_NUMPY: list[tuple[str, list[Any], Any, dict[str, Any]]] = [
    ("GemmFastGelu", [X, W, f(5)], None, {}),
    ("BiasAdd", [X, V, Y], X + V + Y, {}),
    ("BiasDropout", [X, V, Y], X + V + Y, {"seed": 3}),
    ("BiasDropout", [X, V, None, np.array(0.5, np.float32)], X + V, {}),
    ("BiasSplitGelu", [X, V], (X + V)[..., :4] * gelu((X + V)[..., 4:]), {}),
    ("BiasSoftmax", [X, Y[:1]], softmax(X + Y[:1]), {"axis": -1, "is_inner_broadcast": 0}),
    ("BiasSoftmax", [X, Y], softmax((X + Y).reshape(2, -1)).reshape(X.shape),
     {"axis": 1, "is_inner_broadcast": 0}),
    ("ScaledSiLU", [X], X * 0.5 * sigmoid(0.5 * X), {"alpha": 0.5}),
    ("ScaledSiLU", [X, np.array(2, np.float32)], X * 2 * sigmoid(2 * X), {}),
    ("SwiGLU", [X, Y], X * sigmoid(X) * Y, {}),
    ("SwiGLU", [X], None, {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": 0.5}),
    ("QLinearReduceMean",
     [A8, SCALES[0], ZEROS[0], np.array(0.2, np.float32), np.array(9, np.uint8)],
     QUANTIZED.astype(np.uint8), {"axes": [1], "keepdims": 0}),
]  # fmt: skip


def expected(op_type: str, inputs: list[Any], want: Any) -> Any:
    if want is not None:
        return want
    if op_type == "GemmFastGelu":
        return gelu(inputs[0] @ inputs[1] + inputs[2], tanh=True)
    gate, linear = np.minimum(X[..., :4], 0.5), np.clip(X[..., 4:], -0.5, 0.5)
    return gate * sigmoid(1.7 * gate) * (linear + 1)


@pytest.mark.parametrize("case", BY_NUMPY, ids=lambda c: c[0])
def test_nodes_by_numpy(case: tuple[str, list[Any], Any, dict[str, Any]]) -> None:
    op_type, inputs, want, attributes = case
    model, feeds = one_node(op_type, inputs, ["y"], domain=MS, **attributes)
    (got,) = irc.compile_model(model)(feeds)
    np.testing.assert_allclose(got, expected(op_type, inputs, want), rtol=1e-5, atol=1e-5)


def test_dropout_gives_a_mask_of_ones_and_refuses_training() -> None:
    model, feeds = one_node("BiasDropout", [X, V], ["y", "m"], domain=MS)
    assert irc.compile_model(model)(feeds)[1].all()
    model, _ = one_node("BiasDropout", [X, V, None, None, NO], ["y"], domain=MS)
    with pytest.raises(irc.UnsupportedOperationError, match="training"):
        irc.read_model(model)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs"),
    [
        ("SimplifiedLayerNormalization", [f(2, 3, 4), f(4)], ["y", "inv"]),
        ("LayerNormalization", [f(2, 3, 4), f(4), f(4)], ["y", "m", "inv"]),
    ],
)
def test_what_onnxruntime_puts_into_onnxs_domain(
    op_type: str, inputs: list[Any], outputs: list[str]
) -> None:
    model, feeds = one_node(op_type, inputs, outputs, domain="", opset=14, axis=-1, epsilon=1e-3)
    compare(model, feeds)


def optimised(model: str | bytes, folder: Path) -> onnx.ModelProto:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def sentences(vocab: int) -> dict[str, Any]:
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3])
    ids = np.random.default_rng(0).integers(0, vocab, (2, 7))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 2}


@pytest.mark.slow
@pytest.mark.parametrize("gelu", ["erf", "tanh"])
@pytest.mark.parametrize("mask", ["mul", "where"])
def test_an_optimised_encoder(gelu: Any, mask: Any, tmp_path: Path) -> None:
    source = bert(2, 32, 4, 64, 50, positions=16, gelu=gelu, mask=mask)
    model = optimised(source.SerializeToString(), tmp_path)
    kinds = Counter(node.op_type for node in model.graph.node if node.domain)
    assert kinds["BiasGelu" if gelu == "erf" else "FastGelu"] == 2
    assert kinds["FusedMatMul"] and kinds["FusedGemm"]
    compare(model, sentences(50), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_an_optimised_convnet(tmp_path: Path) -> None:
    model = optimised(resnet(32).SerializeToString(), tmp_path)
    assert sum(node.op_type == "FusedConv" for node in model.graph.node) == 9
    compare(model, {"x": f(1, 3, 32, 32)}, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_an_optimised_encoder_quantised_as_it_runs(tmp_path: Path) -> None:
    source = dynamic(bert(1, 32, 4, 64, 50, positions=16))
    model = optimised(source.SerializeToString(), tmp_path)
    kinds = Counter(node.op_type for node in model.graph.node if node.domain)
    assert kinds["DynamicQuantizeMatMul"] or kinds["MatMulIntegerToFloat"]
    compare(model, sentences(50), rtol=1e-4, atol=1e-4)


def of_the_transformers_optimiser(name: str) -> tuple[onnx.ModelProto, dict[str, Any], str]:
    """A model, inputs, and which kind of model the optimiser is told that it is."""
    if name == "gpt2":
        past = {n: f(2, 2, 4, 8) for n in ("past_k", "past_v")}
        return gpt2(), {"ids": np.array([[1, 2, 3], [4, 5, 6]]), **past}, "gpt2"
    if name == "vit":
        return vit(), {"image": f(2, 3, 16, 16)}, "vit"
    return bert(1, 32, 4, 64, 50, positions=16, mask=name), sentences(50), "bert"  # type: ignore


@pytest.mark.slow
def test_multimodal_rotation_of_f16() -> None:
    halves = [v.astype(np.float16) for v in (f(2, 2, 5, 8), f(9, 4), f(9, 4))]
    inputs = [halves[0], STREAMS, *halves[1:]]
    model = one_node("MRotaryEmbedding", inputs, ["y"], domain=MS, mrope_section=[1, 2, 1])
    compare(*model, rtol=5e-3, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mul", "where", "gpt2", "vit"])
def test_what_the_transformers_optimiser_writes(name: str, tmp_path: Path) -> None:
    """In memory its models use com.microsoft without importing it, as onnxruntime accepts."""
    from onnxruntime.transformers.optimizer import optimize_model

    model, feeds, kind = of_the_transformers_optimiser(name)
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    made = optimize_model(path, model_type=kind, num_heads=0, hidden_size=0, opt_level=0).model
    assert not any(opset.domain == MS for opset in made.opset_import)
    used = {node.op_type for node in made.graph.node if node.domain == MS}
    assert {"SkipLayerNormalization", "BiasGelu"} <= used
    assert name != "mul" or {"Attention", "EmbedLayerNormalization"} <= used
    compare(made, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(MODELS.glob("encoder_*.onnx")), ids=lambda p: p.stem)
def test_what_torch_wrote_and_onnxruntime_optimised(path: Path, tmp_path: Path) -> None:
    model = optimised(str(path), tmp_path)
    assert any(node.domain == MS for node in model.graph.node)
    shapes = {p.name: p.type.tensor_type for p in model.graph.input}
    feeds = {k: v for k, v in sentences(20).items() if k in shapes}
    assert feeds.keys() == shapes.keys()
    compare(model, feeds, rtol=1e-5, atol=1e-5)
