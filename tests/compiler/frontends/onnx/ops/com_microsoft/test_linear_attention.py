"""Linear attention and causal convolutions with states against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
B, T, N, K, V = 2, 5, 2, 4, 3
_R = np.random.default_rng(11)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


def unit(*shape: int) -> Any:
    """Keys of length 1, as the delta rules need them."""
    x = f(*shape, K)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return x.reshape(*shape[:-1], -1)


def gate(*shape: int) -> Any:
    return -abs(f(*shape))


def rate(*shape: int) -> Any:
    return 1 / (1 + np.exp(-f(*shape)))


def check(op_type: str, inputs: list[Any], outputs: int, **attributes: Any) -> None:
    names = [f"y{i}" for i in range(outputs)]
    model = one_node(op_type, inputs, names, domain=MS, **attributes)
    compare(*model, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("past", [False, True])
def test_linear_attention(rule: str, heads: tuple[int, int], past: bool) -> None:
    queries, keys = heads
    decay = gate(B, T, keys * (K if past else 1)) if "gated" in rule else None
    beta = rate(B, T, 1 if past else keys) if "delta" in rule else None
    inputs = [unit(B, T, queries), unit(B, T, keys), f(B, T, keys * V),
              f(B, keys, K, V) if past else None, decay, beta]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    how = {"scale": 0.3} if past else {}
    counts = {"q_num_heads": queries, "kv_num_heads": keys}
    check("LinearAttention", inputs, 2, update_rule=rule, **counts, **how)


def test_the_recurrence_is_native() -> None:
    inputs = [unit(B, T, N), unit(B, T, N), f(B, T, N * V), None, gate(B, T, N), rate(B, T, N)]
    model, _ = one_node("LinearAttention", inputs, ["y", "s"], domain=MS, q_num_heads=N,
                        kv_num_heads=N)  # fmt: skip
    assert not irc.compile_model(model).plan.host_steps()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("second", [False, True])
def test_gates(kind: type, second: bool) -> None:
    more = [f(B, T, N).astype(kind)] if second else []
    inputs = [f(B, T, N).astype(kind), f(N), -abs(f(N)), *more]
    model = one_node("LinearAttentionGate", inputs, ["d", "b"][: 1 + second], domain=MS)
    close = 1e-3 if kind is np.float16 else 1e-6
    compare(*model, rtol=close, atol=close)


ENDS = np.array([0, 2, 3, 8], np.int32)
NETS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "packed": (
        [unit(8, N), unit(8, N), f(8, 4 * V), ENDS, gate(8, 4), rate(8, 4), f(3, 4, V, K)], {}),
    "uniform": (
        [unit(8, N), unit(8, N), f(8, 4 * V), None, gate(8, 4, K), rate(8, 4), f(2, 4, V, K)], {}),
    "gates": (
        [f(8, N * K), f(8, N * K), f(8, 4 * V), ENDS, f(8, 4), f(8, 4), f(3, 4, V, K), f(4), f(4)],
        {"gate_activation": "softplus", "beta_activation": "sigmoid", "qk_l2_norm": 1}),
    "bounded gates": (
        [f(8, N * K), f(8, N * K), f(8, 4 * V), ENDS, f(8, 4, K), f(8, 4), f(3, 4, V, K), f(4),
         f(4, K)],
        {"gate_activation": "sigmoid", "beta_activation": "sigmoid", "qk_l2_norm": 1,
         "gate_lower_bound": -3.0}),
    "linear": (
        [unit(8, N), unit(8, N), f(8, 4 * V), ENDS, None, None, f(3, 4, V, K)],
        {"update_rule": "linear", "scale": 0.2}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("form", ["apart", "joined"])
def test_gated_delta_net(name: str, form: str) -> None:
    inputs, how = NETS[name]
    if form == "apart":
        sizes = (N, K), (N, K), (4, V)
        parts = [v.reshape(8, *size) for v, size in zip(inputs[:3], sizes, strict=True)]
        check("GatedDeltaNet", [*parts, *inputs[3:]], 2, **how)
    else:
        check("GatedDeltaNet", [np.concatenate(inputs[:3], 1), None, None, *inputs[3:]], 2, **how)


def test_a_batch_of_the_gated_delta_net() -> None:
    inputs = [unit(2, 4, N).reshape(2, 4, N, K), unit(2, 4, N).reshape(2, 4, N, K),
              f(2, 4, N, V), None, gate(2, 4, N), rate(2, 4, N), f(2, N, V, K)]  # fmt: skip
    check("GatedDeltaNet", inputs, 2)


@pytest.mark.parametrize(
    "how", [{}, {"activation": "silu"}, {"dilation": 2}, {"channels_last": 1, "dilation": 2}]
)
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.slow
def test_causal_convolution(how: dict[str, Any], past: bool) -> None:
    state = 3 * how.get("dilation", 1)
    last = bool(how.get("channels_last"))
    x = f(B, T, 2, 3) if last else f(B, 6, T)
    before = (f(B, state, 2, 3) if last else f(B, 6, state)) if past else None
    inputs = [x, f(6, 1, 4), f(6) if past else None, before]
    while inputs[-1] is None:
        inputs.pop()
    check("CausalConvWithState", inputs, 2, **how)


@pytest.mark.parametrize("how", [{}, {"activation": "silu", "dilation": 2}])
@pytest.mark.slow
def test_causal_convolution_of_packed_sequences(how: dict[str, Any]) -> None:
    state = 2 * how.get("dilation", 1)
    inputs = [f(8, 6), f(6, 1, 3), ENDS, f(6), f(3, 6, state)]
    check("VarlenCausalConvWithState", inputs, 2, **how)
    captured = [*inputs, np.array([1, 5, 2], np.int32)]
    check("VarlenCausalConvWithState", captured, 3, state_update_capacity=3, **how)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed", "gates"])
def test_gated_delta_net_of_f16(name: str) -> None:
    """Queries, keys, values and gates; states stay f32."""
    inputs, how = NETS[name]
    joined = np.concatenate(inputs[:3], 1).astype(np.float16)
    gates = [v.astype(np.float16) for v in inputs[4:6]]
    given = [joined, None, None, inputs[3], *gates, *inputs[6:]]
    model = one_node("GatedDeltaNet", given, ["y", "s"], domain=MS, **how)
    compare(*model, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_causal_convolution_of_f16() -> None:
    halves = [v.astype(np.float16) for v in (f(8, 6), f(6, 1, 3), f(6), f(3, 6, 2))]
    inputs = [*halves[:2], ENDS, *halves[2:]]
    model = one_node("VarlenCausalConvWithState", inputs, ["y", "s"], domain=MS)
    compare(*model, rtol=5e-3, atol=5e-3)


TOKENS = [f(8, N, K), f(8, N, K), f(8, N, V), ENDS, f(8, N), f(8, N), f(3, N, V, K)]
ONLY_CUDA: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "states of more tokens": (
        "LinearAttention", [f(B, T, N * K), f(B, T, N * K), f(B, T, N * V)],
        {"q_num_heads": N, "kv_num_heads": N, "state_window": 2}, "window of states"),
    "inputs of more tokens": (
        "CausalConvWithState", [f(B, 6, T), f(6, 1, 4)], {"state_window": 2}, "window of states"),
    "updates": (
        "GatedDeltaNet", [*TOKENS, None, None, np.ones(3, np.int32)], {"state_update_capacity": 2},
        "updates of its state"),
    "two axes": ("CausalConvWithState", [f(B, 6, T, T), f(6, 1, 3, 3)], {"ndim": 2}, "one spatial"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONLY_CUDA)
def test_what_is_not_supported_is_named(name: str) -> None:
    op_type, inputs, attributes, reason = ONLY_CUDA[name]
    model, _ = one_node(op_type, inputs, ["y", "s"], domain=MS, **attributes)
    with pytest.raises(irc.UnsupportedOperationError, match=reason):
        irc.read_model(model)
