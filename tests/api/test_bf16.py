"""precision="bf16": matrix products round their factors, nothing else changes, files keep it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from support.models.encoders import bert, bert_inputs
from support.plan_steps import gemm_specs

F32, BF16 = DType.f32, DType.bf16
VOCABULARY = 50


@pytest.fixture(scope="module")
def encoder() -> Any:
    return irc.read_model(bert(2, 64, 4, 128, VOCABULARY, positions=32, scale=0.2))


@pytest.mark.slow
def test_an_encoder_multiplies_in_bf16_and_stays_close(encoder: Any) -> None:
    inputs = bert_inputs(3, 17, VOCABULARY)
    exact = irc.compile_model(encoder)(inputs)
    net = irc.compile_model(encoder, precision="bf16")
    found = net(inputs)
    for a, b in zip(found, exact, strict=True):
        error = np.linalg.norm(a - b) / np.linalg.norm(b)
        assert 1e-4 < error < 2e-2
    specs = gemm_specs(net.plan)
    assert len(specs) > 8 and all(s.compute_dtype is BF16 for s in specs)
    assert f"bf16 ({len(specs)} of {len(specs)} matrix products" in net.report()
    assert all(o.dtype == np.float32 for o in found)


@pytest.mark.slow
def test_f32_stays_f32(encoder: Any) -> None:
    net = irc.compile_model(encoder)
    assert all(s.compute_dtype is None for s in gemm_specs(net.plan)) and "bf16" not in net.report()


def test_weights_take_half_the_memory() -> None:
    x = ops.parameter("x", ["N", 256])
    w = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    model = ops.model({"y": ops.matmul(x, w)})
    nets = [irc.compile_model(model, precision=p) for p in ("f32", "bf16")]
    sizes = [n.plan.constants[0].dtype.bits for n in nets]
    assert sizes == [32, 16]
    given = np.random.default_rng(1).standard_normal((5, 256)).astype(np.float32)
    u, v = (a.astype(ml_dtypes.bfloat16).astype(np.float64) for a in (given, w))
    np.testing.assert_allclose(nets[1](given)[0], u @ v, rtol=0, atol=1e-4)
    np.testing.assert_allclose(nets[0](given)[0], given.astype(float) @ w, rtol=0, atol=1e-4)


def test_other_types_and_other_operations_are_left_alone() -> None:
    x = ops.parameter("x", [4, 4], "f64")
    y = ops.parameter("y", [4, 4], "f32")
    net = irc.compile_model(
        ops.model({"x": ops.matmul(x, x), "y": y * y + y}), precision="bf16", num_threads=1
    )
    a = np.random.default_rng(2).standard_normal((4, 4))
    b = a.astype(np.float32)
    found = net({"x": a, "y": b})
    np.testing.assert_allclose(found["x"], a @ a, rtol=1e-14)
    np.testing.assert_allclose(found["y"], b * b + b, rtol=1e-6)
    assert "bf16 (0 of 1 matrix products" in net.report()


@pytest.mark.slow
def test_threads_and_new_shapes_give_the_same_bits(encoder: Any) -> None:
    nets = [irc.compile_model(encoder, precision="bf16", num_threads=n) for n in (1, 2)]
    inputs = bert_inputs(2, 24, VOCABULARY)
    one, two = ([np.array(o) for o in net(inputs)] for net in nets)
    row = {k: v[:1] for k, v in inputs.items()}
    alone = nets[0](row)
    for a, b, c in zip(one, two, alone, strict=True):
        assert a.tobytes() == b.tobytes()
        assert a[:1].tobytes() == c.tobytes()


@pytest.mark.slow
def test_a_file_keeps_the_precision(encoder: Any, tmp_path: Path) -> None:
    inputs = bert_inputs(1, 9, VOCABULARY)
    net = irc.compile_model(encoder, precision="bf16")
    plain = irc.compile_model(encoder)
    path = tmp_path / "both.irc"
    net.export(path, also=[plain])
    for precision, made in (("bf16", net), ("f32", plain)):
        read = irc.compile_model(path, precision=precision)
        assert read.plan == made.plan
        for a, b in zip(read(inputs), made(inputs), strict=True):
            assert a.tobytes() == b.tobytes()
    net.export(tmp_path / "one.irc")
    assert irc.compile_model(tmp_path / "one.irc").plan.precision == "bf16"


def test_forged_products_are_refused(encoder: Any) -> None:
    target = host_target()
    spec = next(
        s for s in gemm_specs(irc.compile_model(encoder, precision="bf16").plan) if s.packed
    )
    verify_specs([spec], target)
    assert spec.packed is not None
    forged = [
        dataclasses.replace(spec, packed=PackedB(spec.packed.nr, 3 - spec.packed.kr)),
        dataclasses.replace(spec, packed=PackedB(spec.packed.nr, 0)),
        dataclasses.replace(spec, compute_dtype=DType.f16),
        dataclasses.replace(spec, compute_dtype=DType.f32),
        dataclasses.replace(spec, a=Operand(DType.f16, spec.a.strides)),
        dataclasses.replace(spec, b=Operand(F32, spec.b.strides)),
        dataclasses.replace(spec, packed=None, b=Operand(DType.f16, spec.b.strides)),
    ]
    for each in forged:
        with pytest.raises(VerificationError):
            verify_specs([each], target)
    if spec.packed.kr == 2:
        with pytest.raises(VerificationError):
            verify_specs([spec], generic_target("avx512"))
