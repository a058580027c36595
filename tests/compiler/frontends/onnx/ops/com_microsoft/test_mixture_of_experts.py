"""MoE and QMoE against onnxruntime over activations, routing, bits, blocks and zero points."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
TOKENS, EXPERTS, HIDDEN, INNER = 5, 4, 32, 64
_R = np.random.default_rng(8)


def f(*shape: int, by: float = 0.3) -> Any:
    return (by * _R.standard_normal(shape)).astype(np.float32)


SWIGLU = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0}
CASES: dict[str, dict[str, Any]] = {
    "relu": {"k": 1},
    "gelu": {"k": 2, "activation_type": "gelu"},
    "silu": {"k": 2, "activation_type": "silu", "normalize_routing_weights": 1},
    "identity": {"k": 4, "activation_type": "identity", "normalize_routing_weights": 1},
    "swiglu, pairs": {"k": 2, **SWIGLU, "swiglu_fusion": 1, "swiglu_limit": 0.4},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_experts(name: str, bias: bool, rank: int) -> None:
    how = CASES[name]
    width = INNER * (2 if "swiglu_fusion" in how else 1)
    x = f(TOKENS, HIDDEN) if rank == 2 else f(1, TOKENS, HIDDEN)
    biases = [f(EXPERTS, width), f(EXPERTS, HIDDEN)] if bias else [None, None]
    inputs = [x, f(TOKENS, EXPERTS, by=2), f(EXPERTS, width, HIDDEN), biases[0],
              f(EXPERTS, HIDDEN, INNER), biases[1]]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    compare(*one_node("MoE", inputs, ["y"], domain=MS, **how), rtol=1e-4, atol=1e-4)


def test_two_expert_layers_equal_one_joined_layer() -> None:
    """onnxruntime's CPU kernel has the joined layer in pairs only."""
    x, router, second = f(TOKENS, HIDDEN), f(TOKENS, EXPERTS), f(EXPERTS, HIDDEN, INNER)
    gate, linear = f(EXPERTS, INNER, HIDDEN), f(EXPERTS, INNER, HIDDEN)
    pairs = np.stack([gate, linear], 2).reshape(EXPERTS, 2 * INNER, HIDDEN)
    forms = [
        (1, [x, router, pairs, None, second]),
        (2, [x, router, np.concatenate([gate, linear], 1), None, second]),
        (0, [x, router, gate, None, second, None, linear]),
    ]
    found = []
    for fusion, inputs in forms:
        how = {**SWIGLU, "swiglu_fusion": fusion, "k": 2}
        model, feeds = one_node("MoE", inputs, ["y"], domain=MS, **how)
        found.append(irc.compile_model(model)(feeds)[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5, atol=1e-5)


def quantized(
    bits: int, block: int, zero: bool, separate: bool = False, **how: Any
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """QMoE with constant weights and, if `separate`, weights for mixing besides the router's."""
    width = INNER * (2 if "swiglu_fusion" in how else 1)
    constants: dict[str, Any] = {}
    for port, rows, columns in ((1, width, HIDDEN), (2, HIDDEN, INNER)):
        blocks = columns // block if block else 1
        packed = _R.integers(0, 256, (EXPERTS, rows, columns * bits // 8)).astype(np.uint8)
        constants[f"w{port}"] = packed
        scale = _R.uniform(0.2, 1, (EXPERTS, rows, blocks)) / (2 << bits)
        shape = scale.shape if block else scale.shape[:2]
        constants[f"s{port}"] = scale.reshape(shape).astype(np.float32)
        if zero:
            size = (EXPERTS, rows, -(-blocks * bits // 8)) if block else (EXPERTS, rows * bits // 8)
            constants[f"z{port}"] = _R.integers(0, 256, size).astype(np.uint8)
    names = ["x", "router", "w1", "s1", "", "w2", "s2"]
    if zero or separate:
        names += ["", "", "", "", *(["z1", "z2", ""] if zero else ["", "", ""])]
    feeds = {"x": f(TOKENS, HIDDEN), "router": f(TOKENS, EXPERTS, by=2)}
    if separate:
        names.append("mixing")
        feeds["mixing"] = abs(f(TOKENS, EXPERTS))
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        "QMoE", names, ["y"], domain=MS, expert_weight_bits=bits, weights_prepacked=0,
        **({"block_size": block} if block else {}), **how,
    )  # fmt: skip
    ports = [helper.make_tensor_value_info(n, 1, v.shape) for n, v in feeds.items()]
    ends = [helper.make_tensor_value_info("y", 1, None)]
    tensors = [numpy_helper.from_array(v, n) for n, v in constants.items()]
    graph = helper.make_graph([node], "g", ports, ends, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16, 32])
@pytest.mark.parametrize("zero", [False, True])
def test_quantized_experts(bits: int, block: int, zero: bool) -> None:
    how = {**SWIGLU, "swiglu_fusion": 1, "swiglu_limit": 7.0}
    model, feeds = quantized(bits, block, zero, k=2, normalize_routing_weights=1, **how)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    (want,) = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    (got,) = irc.compile_model(model)(feeds)
    # onnxruntime rounds activations to 8 bits for blocks of 8-bit weights.
    close = 3e-2 if bits == 8 and block else 1e-4
    np.testing.assert_allclose(got, want, rtol=close, atol=close * np.abs(want).max())


def test_mixing_by_other_weights_than_the_routers() -> None:
    how = {**SWIGLU, "swiglu_fusion": 1, "k": 2}
    compare(*quantized(4, 0, False, separate=True, **how), rtol=1e-4, atol=1e-4)


def test_scales_that_do_not_fit_are_refused() -> None:
    model, _ = quantized(4, 16, False, activation_type="relu")
    model.graph.node[0].attribute.append(helper.make_attribute("fc1_expert_weight_bits", 8))
    with pytest.raises(irc.Error, match="another number of scales"):
        irc.read_model(model)
