"""Tensors that lie in memory as bf16: only where nobody can tell, and then always."""

from __future__ import annotations

import importlib

import irc
import numpy as np
import pytest
from irc import ops
from irc.ir.dtype import DType

LOWER = importlib.import_module("irc.compiler.lowering.lower")
RNG = np.random.default_rng(7)
W = [(RNG.standard_normal((48, 48)) / 7).astype(np.float32) for _ in range(3)]
X = RNG.standard_normal((5, 48)).astype(np.float32)


def chain() -> irc.Model:
    """Product, ReLU, product: the middle is read by the second product alone."""
    x = ops.parameter("x", ["N", 48])
    return ops.model({"y": ops.matmul(ops.relu(ops.matmul(x, W[0])), W[1])})


def residual() -> irc.Model:
    """The middle is also added to the end: rounding it in memory would be seen."""
    x = ops.parameter("x", ["N", 48])
    middle = ops.relu(ops.matmul(x, W[0]))
    return ops.model({"y": ops.matmul(middle, W[1]) + middle})


def delivered() -> irc.Model:
    """The middle is a result, too."""
    x = ops.parameter("x", ["N", 48])
    middle = ops.relu(ops.matmul(x, W[0]))
    return ops.model({"y": ops.matmul(middle, W[1]), "middle": middle})


def types(net: irc.CompiledModel) -> set[DType]:
    return {b.dtype for r in net.plan.regions for b in r.buffers if b.kind == "arena"}


def test_a_layer_hands_rounded_factors_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    net = irc.compile_model(chain(), precision="bf16")
    assert types(net) == {DType.bf16}
    found = net(X)[0]
    assert types(irc.compile_model(chain())) == {DType.f32}
    monkeypatch.setattr(LOWER, "rounded_values", lambda *_: frozenset())
    wide = irc.compile_model(chain(), precision="bf16")
    assert types(wide) == {DType.f32} and wide(X)[0].tobytes() == found.tobytes()


@pytest.mark.parametrize("make", [residual, delivered])
def test_what_others_read_stays_f32(make, monkeypatch: pytest.MonkeyPatch) -> None:
    net = irc.compile_model(make(), precision="bf16")
    assert DType.bf16 not in types(net)
    found = [np.array(y) for y in net(X)]
    monkeypatch.setattr(LOWER, "rounded_values", lambda *_: frozenset())
    wide = irc.compile_model(make(), precision="bf16")(X)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, wide, strict=True))
