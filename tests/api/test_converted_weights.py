"""Weights that are too large to be folded, and that their readers convert (fp16 and others)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.gemm import GemmSpec
from openvino import opset13 as op
from support.models.stateful import CONFIG, parameter, save

SIZE = 304  # more than 64 KiB of any type once they are f32


def weights(dtype: str) -> Any:
    rng = np.random.default_rng(0)
    if dtype in ("f16", "f64"):
        values = rng.standard_normal((SIZE, SIZE))
        return op.constant(values.astype({"f16": np.float16, "f64": np.float64}[dtype]))
    kind = getattr(ov.Type, dtype)
    bits = {"u3": 3, "nf4": 4, "i8": 8}[dtype]
    raw = rng.integers(0, 256, SIZE * SIZE * bits // 8, np.uint8)
    return op.constant(ov.Tensor(raw, ov.Shape([SIZE, SIZE]), kind))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f16", "f64", "i8", "u3", "nf4"])
def test_readers_convert(dtype: str, tmp_path: Path) -> None:
    """A product either way round, rows by number, an elementwise operation, and the weights as an
    output; all of one constant. OpenVINO says what the weights are; NumPy does the rest, because
    OpenVINO 2026.4 mixes up the two products."""
    x, rows = parameter("x", [-1, SIZE]), parameter("rows", [-1], np.int64)
    table = op.convert(weights(dtype), "f32")
    zero = op.constant(np.int64(0))
    made = [
        op.matmul(x, table, False, False),
        op.matmul(x, table, False, True),
        op.gather(table, rows, zero),
        op.add(table, op.reduce_sum(x, zero, True)),
        table,
    ]
    path = save(tmp_path / "m.xml", [op.result(m) for m in made], [x, rows], [])
    net = irc.compile_model(path)
    assert not net.plan.host_steps() and len(net.plan.kernel_steps()) == 6
    rng = np.random.default_rng(1)
    feeds = [rng.integers(-2, 3, (3, SIZE)).astype(np.float32), np.array([3, 0, 303])]
    t = ov.Core().compile_model(path, "CPU", CONFIG)(feeds)[4].astype(np.float64)
    a = feeds[0].astype(np.float64)
    expected = [a @ t, a @ t.T, t[feeds[1]], t + a.sum(0, keepdims=True), t]
    net.export(tmp_path / "m.irc")
    for each in (net, irc.compile_model(tmp_path / "m.irc")):
        for found, wanted in zip(each(feeds), expected, strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-3)


def half(*shape: int) -> Any:
    """A constant of f16 as OpenVINO compresses models, converted."""
    values = np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float16)
    return op.convert(op.constant(values), "f32")


def test_filters_of_16_bits_are_packed(tmp_path: Path) -> None:
    """Convolutions of each kind with filters of more than 64 KiB."""
    x = parameter("x", [1, 32, 9, 7], np.float32)
    ones, edges = [1, 1], [1, 1]
    y = op.convolution(x, half(64, 32, 3, 3), ones, edges, edges, ones)
    grouped = op.reshape(half(4, 32, 16 * 3, 3), np.array([4, 32, 16, 3, 3]), False)
    y = op.group_convolution(y, grouped, ones, edges, edges, ones)
    y = op.convolution_backprop_data(y, half(128, 24, 3, 3), [2, 2])
    path = save(tmp_path / "m.xml", [op.result(y)], [x], [])
    net = irc.compile_model(path)
    assert not net.plan.host_steps(), net.report()
    given = np.random.default_rng(1).integers(-2, 3, (1, 32, 9, 7)).astype(np.float32)
    expected = ov.Core().compile_model(path, "CPU", CONFIG)([given])[0]
    np.testing.assert_array_equal(net([given])[0], expected)


def test_weights_are_reshaped_as_they_are_stored(tmp_path: Path) -> None:
    """A product packs weights whose conversion is its operand, and stores them once."""
    x = parameter("x", [3, SIZE])
    weight = op.reshape(half(SIZE, 8, SIZE // 8), np.array([SIZE, SIZE]), False)
    path = save(tmp_path / "m.xml", [op.result(op.matmul(x, weight, False, False))], [x], [])
    net = irc.compile_model(path)
    (step,) = net.plan.kernel_steps()
    assert isinstance(step.spec, GemmSpec) and step.spec.packed is not None
    assert step.spec.b.dtype is DType.f16
    given = np.random.default_rng(1).integers(-2, 3, (3, SIZE)).astype(np.float32)
    expected = ov.Core().compile_model(path, "CPU", CONFIG)([given])[0]
    np.testing.assert_array_equal(net([given])[0], expected)


def test_products_of_constants_are_folded(tmp_path: Path) -> None:
    """Positions by their weights, both of 16 bits, and rows that are gathered by constants."""
    x = parameter("x", [-1, SIZE])
    rows = op.gather(half(SIZE, SIZE), np.array([5, 1, 7]), np.array(0))
    made = op.matmul(rows, op.transpose(half(SIZE, SIZE), np.array([1, 0])), False, False)
    path = save(tmp_path / "m.xml", [op.result(op.add(x, op.reduce_sum(made, 0, True)))], [x], [])
    net = irc.compile_model(path)
    (step,) = net.plan.kernel_steps()
    assert step.spec.family == "elementwise"
    given = np.random.default_rng(1).integers(-2, 3, (3, SIZE)).astype(np.float32)
    expected = ov.Core().compile_model(path, "CPU", CONFIG)([given])[0]
    np.testing.assert_array_equal(net([given])[0], expected)
