"""ONNX's Attention: one kernel where the dialect says it, else the operator's own function."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

F, BOOL = TensorProto.FLOAT, TensorProto.BOOL
Ports = dict[str, tuple[int, list[int | str]]]
SIZES = {"B": 2, "S": 5, "T": 5, "P": 3, "K": 8}
FOUR: Ports = {
    "q": (F, ["B", 4, "S", 16]), "k": (F, ["B", 4, "S", 16]), "v": (F, ["B", 4, "S", 8]),
}  # fmt: skip
SHARED: Ports = {
    "q": (F, ["B", 6, "S", 16]), "k": (F, ["B", 2, "T", 16]), "v": (F, ["B", 2, "T", 8]),
}  # fmt: skip
FLAT: Ports = {
    "q": (F, ["B", "S", 64]), "k": (F, ["B", "S", 32]), "v": (F, ["B", "S", 16]),
}  # fmt: skip
PAST: Ports = {"pk": (F, ["B", 4, "P", 16]), "pv": (F, ["B", 4, "P", 8])}
GROUPS = {"q_num_heads": 4, "kv_num_heads": 2}


def check(
    ports: Ports,
    outputs: int = 1,
    names: str = "",
    version: int = 23,
    reference: bool = False,
    **given: Any,
) -> int:
    """Compare with onnxruntime or onnx's reference. Returns the number of attention kernels."""
    wanted = names.split() or list(ports)
    listed = [n if n != "_" else "" for n in wanted]
    outs = ["y", "nk", "nv", "qk"][:outputs]
    node = helper.make_node("Attention", listed, outs, **given)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in ports.items()],
        [helper.make_tensor_value_info(n, F, None) for n in outs],
    )
    opset = [helper.make_opsetid("", version)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    rng = np.random.default_rng(0)
    inputs: dict[str, np.ndarray] = {}
    for name, (dtype, shape) in ports.items():
        drawn = rng.standard_normal([SIZES.get(str(d), d) for d in shape]).astype(np.float32)
        inputs[name] = drawn > -0.5 if dtype == BOOL else drawn
        if name == "m":
            inputs[name][..., 1, :] = False if dtype == BOOL else -np.inf
    net = irc.compile_model(model)
    provider = ["CPUExecutionProvider"]
    if reference:
        expected = ReferenceEvaluator(onnx.load_from_string(model)).run(None, inputs)
    else:
        expected = onnxruntime.InferenceSession(model, providers=provider).run(None, inputs)
    for a, b in zip(net(list(inputs.values())), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return sum(s.family == "attention" for s in net.plan.specs())


@pytest.mark.slow
@pytest.mark.parametrize("version", [23, 24])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("ports", [FOUR, SHARED], ids=["four", "shared"])
def test_heads_apart(ports: Ports, causal: int, version: int) -> None:
    assert check(ports, version=version, is_causal=causal, scale=0.3) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mask", [(F, ["S", "S"]), (BOOL, ["S", "S"]), (BOOL, ["B", 1, "S", "S"])])
def test_masks_and_heads_side_by_side(mask: tuple[int, list[int | str]]) -> None:
    """Row 1 sees nothing."""
    assert check({**FLAT, "m": mask}, **GROUPS) == 1
    assert check({**FOUR, "m": mask}) == 1


@pytest.mark.slow
def test_a_past_goes_first() -> None:
    assert check({**FOUR, **PAST}, 3, "q k v _ pk pv", is_causal=1) == 1
    mask: Ports = {"m": (BOOL, ["S", "K"])}
    assert check({**FOUR, **mask, **PAST}, 3) == 0


@pytest.mark.slow
@pytest.mark.parametrize("ports", [FOUR, SHARED], ids=["four", "shared"])
def test_scores_are_capped_before_they_are_masked(ports: Ports) -> None:
    assert check(ports, softcap=0.5, is_causal=1) == 1
    scores: list[int | str] = ["S", ports["k"][1][2]]
    assert check({**ports, "m": (BOOL, scores)}, softcap=0.5) == 1
    assert check({**ports, "m": (F, scores)}, softcap=0.5, scale=0.7) == 1


@pytest.mark.slow
@pytest.mark.parametrize("windows", [(0, -1), (1, -1), (-1, 2), (1, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("kind", ["", "bool", "float", "causal", "past"])
def test_windows(windows: tuple[int, int], kind: str) -> None:
    """Against the onnx package: rows, with what is past, see keys near their own place."""
    ports, names, given = dict(FOUR), "", {}
    if kind in ("bool", "float"):
        ports["m"] = (BOOL if kind == "bool" else F, ["S", "S"])
    if kind == "past":
        ports, names = {**FOUR, **PAST}, "q k v _ pk pv"
    if kind == "causal":
        given["is_causal"] = 1
    left, right = windows
    sizes = {"left_window_size": left, "right_window_size": right}
    outputs = 3 if kind == "past" else 1
    assert check(ports, outputs, names, 25, reference=True, **sizes, **given) == 1


@pytest.mark.slow
def test_what_the_dialect_does_not_say() -> None:
    assert check(FOUR, 4, qk_matmul_output_mode=0) == 0
    assert check({**SHARED, "m": (F, ["B", 6, "S", "T"])}) == 0
