"""Streams that are normalized, mixed and gated, and routed experts, against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
B, S, C, H = 2, 3, 4, 8
_R = np.random.default_rng(21)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


NODES: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    ("BranchwiseRMSNorm", [f(B, S, C, H)], 1, {}),
    ("BranchwiseRMSNorm", [f(B, S, C, H), f(H)], 1, {"epsilon": 1e-2}),
    ("BranchwiseRMSNorm", [f(B, S, C, H), f(C, H)], 1, {}),
    ("BranchwiseRMSNorm", [f(B, S, C * H), f(C * H)], 1, {"num_branches": C}),
    ("GatedRMSNorm", [f(B, S, H), f(H), f(B, S, H)], 1, {}),
    ("GatedRMSNorm", [f(B, S, C * H), f(H), f(B, S, C * H)], 1,
     {"activation": "sigmoid", "epsilon": 1e-2}),
    ("GatedAdd", [f(B, S, H), f(B, S, H), f(B, S, 1)], 1, {}),
    ("HyperConnectionPreMix", [f(B, S, C, H), f(B, S, C)], 1, {}),
    ("HyperConnectionPreMix", [f(B, S, C, H), f(B, S, C, 1)], 1, {"reduction_scale": 0.5}),
    ("HyperConnectionPreMix", [f(B, S, C, H), f(B, S, C, H)], 1, {}),
    ("HyperConnectionPreMix", [f(B, S, C * H), f(B, S, C * H)], 1, {"num_branches": C}),
    ("HyperConnectionPostMix", [f(B, S, C, H), f(B, S, H), f(B, S, C)], 1, {}),
    ("HyperConnectionPostMix", [f(B, S, C, H), f(B, S, H), f(B, S, C, H), f(B, S, C, C)], 1, {}),
    ("HyperConnectionPostMix", [f(B, S, C * H), f(B, S, H), f(B, S, C, 1), f(B, S, C, C)], 1,
     {"num_branches": C}),
    ("EngramGate", [f(B, S, C, H), f(B, S, C, H), f(B, S, H), f(C, H), f(C, H)], 1, {}),
    ("EngramGate", [f(B, S, C, H), f(B, S, C, H), f(B, S, H), f(C, H), f(C, H), f(C, H)], 2,
     {"epsilon": 1e-3}),
    ("MoEGroupRouter", [f(6, 8), f(8)], 1, {"top_k": 3}),
    ("MoEGroupRouter", [f(2, 3, 16), f(16)], 1,
     {"top_k": 3, "n_group": 4, "topk_group": 2, "group_topk": 3, "router_sentinel": -7.0}),
]  # fmt: skip
F16 = [
    "BranchwiseRMSNorm",
    "GatedRMSNorm",
    "HyperConnectionPreMix",
    "HyperConnectionPostMix",
    "EngramGate",
]


def outputs(count: int) -> list[str]:
    return [f"y{i}" for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], int, dict[str, Any]]) -> None:
    op_type, inputs, count, attributes = case
    model = one_node(op_type, inputs, outputs(count), domain=MS, **attributes)
    compare(*model, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in NODES if c[0] in F16], ids=lambda c: c[0])
def test_nodes_of_f16(case: tuple[str, list[Any], int, dict[str, Any]]) -> None:
    op_type, inputs, count, attributes = case
    halves = [v.astype(np.float16) for v in inputs]
    model = one_node(op_type, halves, outputs(count), domain=MS, **attributes)
    compare(*model, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [[f(6, 8), f(8)], [f(6, 256), f(8), f(8, 256)]])
def test_scores_of_all_experts(inputs: list[Any]) -> None:
    model = one_node("MoEGroupRouter", inputs, ["", "s", "w"], domain=MS, top_k=2)
    compare(*model, rtol=1e-5, atol=1e-5)


def test_a_gate_that_only_cuda_projects_is_named() -> None:
    inputs = [f(B, H), f(B, H), f(B, C), f(C, 1)]
    model, _ = one_node("GatedAdd", inputs, ["y"], domain=MS)
    with pytest.raises(irc.UnsupportedOperationError, match="CUDA only"):
        irc.read_model(model)
