"""Weights that are too large to be folded, and that their readers convert (fp16 and others)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
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
