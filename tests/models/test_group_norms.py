"""Norms over groups of channels between convolutions, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.plan.specs.rows import NormSpec
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import random_inputs, run_onnxruntime

Dims = Sequence[int | str]


def spelled(
    g: OnnxGraph, x: str, channels: int, groups: int, places: int, rng: np.random.Generator
) -> str:
    """A norm of groups as PyTorch's exporters write it."""
    split = g.op("Reshape", x, g.constant([0, groups, -1], np.int64))
    ones = g.weight(g.path + f"ones{len(g.nodes)}", rng.random(groups, np.float32) + 1)
    zeros = g.weight(g.path + f"zeros{len(g.nodes)}", rng.random(groups, np.float32))
    normal = g.op("InstanceNormalization", split, ones, zeros, epsilon=1e-3)
    whole = g.op("Reshape", normal, g.op("Shape", x))
    shape = (channels, *(1,) * places)
    for kind in ("Mul", "Add"):
        term = rng.standard_normal(shape).astype(np.float32)
        whole = g.op(kind, whole, g.weight(f"{kind}{len(g.nodes)}", term))
    return whole


def network(sizes: Dims, channels: int, groups: int) -> onnx.ModelProto:
    """Convolution, norm and activation twice; the second one's sum is the output."""
    rng, g, places = np.random.default_rng(channels + groups), OnnxGraph(), len(sizes)
    y, have = g.input("x", ("N", 5, *sizes)), 5
    for _ in range(2):
        filters = rng.standard_normal((channels, have, *(3,) * places)) / have
        weight = g.weight(f"w{len(g.nodes)}", filters.astype(np.float32))
        z = g.op("Conv", y, weight, pads=[1] * 2 * places)
        y = g.op("Sigmoid", spelled(g, z, channels, groups, places, rng))
        have = channels
    g.output(g.op("Neg", y, result="y"))
    return g.model()


def check(model: onnx.ModelProto, inputs: dict[str, Any], **options: Any) -> np.ndarray:
    net = irc.compile_model(model, **options)
    assert not net.plan.host_steps()
    assert not any(isinstance(s, NormSpec) for s in net.plan.specs())
    (expected,), (found,) = run_onnxruntime(model, inputs).values(), net(inputs)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 8, 24])
@pytest.mark.parametrize("sizes", [("T",), (7, "W")], ids=["1d", "2d"])
def test_groups(sizes: Dims, groups: int) -> None:
    """All numbers of groups; the same bits for any number of threads and with fixed sizes."""
    model = network(sizes, 24, groups)
    for count, length in ((1, 33), (3, 2)):
        inputs = random_inputs(model, N=count, T=length, W=length)
        shape = list(inputs["x"].shape)
        results = [
            check(model, inputs, num_threads=1),
            check(model, inputs, num_threads=2),
            check(model, inputs, num_threads=2, shapes={"x": shape}),
        ]
        assert len({r.tobytes() for r in results}) == 1


def test_far_from_zero() -> None:
    """Sums lose nothing: a constant image is exactly its mean, however large."""
    g = OnnxGraph()
    g.weight("w", np.eye(16, dtype=np.float32).reshape(16, 16, 1))
    y = g.op("Conv", g.input("x", (1, 16, 40000)), "w", kernel_shape=[1])
    rng = np.random.default_rng(0)
    for name, values in (("scale", np.ones(16)), ("bias", np.zeros(16))):
        g.weight(name, values.astype(np.float32))
    g.output(g.op("InstanceNormalization", y, "scale", "bias", result="y"))
    model = g.model()
    level = rng.random((1, 16, 1), np.float32) * 1000
    (found,) = irc.compile_model(model)({"x": np.broadcast_to(level, (1, 16, 40000)).copy()})
    assert not np.any(found)


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("first", [1e6, -3e30, 0.0])
def test_deviations_from_an_element_far_from_all_others(groups: int, first: float) -> None:
    """The first element of each group is what deviations are summed from."""
    g = OnnxGraph(21)
    g.weight("w", np.eye(16, dtype=np.float32).reshape(16, 16, 1))
    y = g.op("Conv", g.input("x", (1, 16, 5000)), "w", kernel_shape=[1])
    for name, values in (("scale", np.ones(16)), ("bias", np.zeros(16))):
        g.weight(name, values.astype(np.float32))
    g.op("GroupNormalization", y, "scale", "bias", num_groups=groups, epsilon=1e-5, result="y")
    g.output("y", (1, 16, 5000), np.float32)
    x = np.random.default_rng(0).standard_normal((1, 16, 5000)).astype(np.float32) + 3
    x.reshape(groups, -1)[:, 0] = first
    (found,) = irc.compile_model(g.model())({"x": x})
    split = x.reshape(groups, -1).astype(np.float64)
    centred = split - split.mean(1, keepdims=True)
    wanted = centred / np.sqrt(split.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found.reshape(groups, -1), wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("groups", [2, 4, 16])
@pytest.mark.parametrize("at", [0, 15])
def test_an_infinity_stays_in_its_group(groups: int, at: int) -> None:
    g, rng = OnnxGraph(21), np.random.default_rng(1)
    g.weight("w", rng.standard_normal((16, 3, 3, 3)).astype(np.float32))
    y = g.op("Conv", g.input("x", (2, 3, 9, 9)), "w", pads=[1] * 4)
    far = np.zeros((2, 16, 1, 1), np.float32)
    far[0, at] = np.inf
    y = g.op("Add", y, g.weight("far", far))
    for name in ("scale", "bias"):
        g.weight(name, np.ones(16, np.float32))
    g.op("GroupNormalization", y, "scale", "bias", num_groups=groups, epsilon=1e-5, result="y")
    g.output("y", (2, 16, 9, 9), np.float32)
    x = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    (found,) = irc.compile_model(g.model())({"x": x})
    wanted = np.zeros((2, groups), bool)
    wanted[0, at * groups // 16] = True
    unknown = np.isnan(np.array(found).reshape(2, groups, -1))
    assert np.array_equal(unknown.all(2), wanted) and np.array_equal(unknown.any(2), wanted)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("given", [False, True])
def test_operator_itself(groups: int, given: bool) -> None:
    """ONNX's GroupNormalization of planes, with constant scales and with given ones."""
    rng, g = np.random.default_rng(3), OnnxGraph(21)
    vectors = {n: rng.standard_normal(6).astype(np.float32) for n in ("scale", "bias")}
    x = g.input("x", ("N", 6, "H", 5))
    for name, values in vectors.items():
        _ = g.input(name, (6,)) if given else g.weight(name, values)
    g.op("GroupNormalization", x, "scale", "bias", num_groups=groups, epsilon=0.1, result="y")
    g.output("y", ("N", 6, "H", 5), np.float32)
    model = g.model()
    inputs = {"x": rng.standard_normal((2, 6, 9, 5)).astype(np.float32)}
    check(model, inputs | (vectors if given else {}))
