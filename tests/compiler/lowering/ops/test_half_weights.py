"""Which products keep weights of f16 and bf16 as they are stored, and which pack them as f32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler.ir.dtype import DType
from openvino import opset13 as op
from support.kernels.harness import same_bits
from support.models.stateful import named, parameter, save, variable
from support.plan_steps import gemm_specs

K, N = 256, 192
TYPES = {"f16": ov.Type.f16, "bf16": ov.Type.bf16, "f32": ov.Type.f32}


def weights() -> np.ndarray:
    """Numbers that bf16 and f16 have."""
    rng = np.random.default_rng(3)
    return rng.integers(-127, 128, (K, N)).astype(np.float32) / np.float32(256)


def write_model(path: Path, kind: str, rows: int, *, keeps_state: bool = False) -> str:
    """x [rows, K] times weights of a type that are converted to f32. Of a stateful one the result
    is added to a variable."""
    x = parameter("x", [rows, K])
    w: Any = op.constant(weights())
    if kind != "f32":
        w = op.convert(op.constant(weights(), TYPES[kind]), "f32")
    y = op.matmul(x, w, False, False)
    sinks: list[Any] = []
    if keeps_state:
        held = variable("total", [1, N])
        read = op.read_value(op.constant(np.zeros((1, N), np.float32)), held)
        total = op.add(read, op.reduce_sum(y, op.constant(np.array([0])), True))
        sinks.append(op.assign(total, held))
    return save(path, [op.result(named(y, "y"))], [x], sinks)


def stored_type(net: irc.CompiledModel) -> DType:
    (spec,) = gemm_specs(net.plan)
    return spec.b.dtype


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rows, kept", [(1, True), (3, True), (4, False), (64, False)])
def test_few_rows_widen_weights(kind: str, rows: int, kept: bool, tmp_path: Path) -> None:
    net = irc.compile_model(write_model(tmp_path / "half.xml", kind, rows))
    assert stored_type(net) is (DType[kind] if kept else DType.f32)
    whole = irc.compile_model(write_model(tmp_path / "whole.xml", "f32", rows))
    x = np.random.default_rng(1).standard_normal((rows, K)).astype(np.float32)
    assert same_bits(net(x)["y"], whole(x)["y"])
    assert net.stats().constant_bytes < whole.stats().constant_bytes or not kept


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_dynamic_number_of_rows_widens_weights_of_models_with_variables(
    kind: str, keeps_state: bool, tmp_path: Path
) -> None:
    how = {"keeps_state": keeps_state}
    net = irc.compile_model(write_model(tmp_path / "half.xml", kind, -1, **how))
    assert stored_type(net) is (DType[kind] if keeps_state else DType.f32)
    whole = irc.compile_model(write_model(tmp_path / "whole.xml", "f32", -1, **how))
    for rows in (1, 7, 60):
        x = np.random.default_rng(rows).standard_normal((rows, K)).astype(np.float32)
        assert same_bits(net(x)["y"], whole(x)["y"])


def test_rounded_products_and_int8_activations_store_what_they_multiply(tmp_path: Path) -> None:
    path = write_model(tmp_path / "half.xml", "f16", -1, keeps_state=True)
    assert stored_type(irc.compile_model(path, precision="bf16")) is DType.bf16
    assert stored_type(irc.compile_model(path, activations="int8")) is DType.f16


def test_the_report_lists_weights_that_products_widen(tmp_path: Path) -> None:
    path = write_model(tmp_path / "half.xml", "f16", -1, keeps_state=True)
    assert "compressed 1 f16 weights (96 KiB)\n" in irc.compile_model(path).report()
    assert "compressed" not in irc.compile_model(path, precision="bf16").report()
