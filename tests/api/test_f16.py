"""precision="f16": matrix products round their factors, nothing else changes, files keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.cli.main import main
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.panel_params import F16_SUM_STEPS, adds_in_f16, describe_f16_sums
from irc_compiler.plan.processors import processor_target
from irc_compiler.runtime.machine.detect import host_target
from support.models.encoders import bert, bert_inputs
from support.plan_steps import gemm_specs

F16 = DType.f16
VOCABULARY = 50
DIGITS = str(Path(irc.__file__).parent / "samples" / "digits" / "digits.onnx")


@pytest.fixture(scope="module")
def encoder() -> Any:
    return irc.read_model(bert(2, 64, 4, 128, VOCABULARY, positions=32, scale=0.2))


@pytest.mark.aarch64
@pytest.mark.slow
def test_an_encoder_multiplies_in_f16_and_stays_close(encoder: Any) -> None:
    inputs = bert_inputs(3, 17, VOCABULARY)
    exact = irc.compile_model(encoder)(inputs)
    nets = [irc.compile_model(encoder, precision="f16", num_threads=n) for n in (1, 2)]
    found, shared = ([np.array(a) for a in net(inputs)] for net in nets)
    # Half of bf16's bound where sums are f16; a tenth where they are f32 (docs/numerics.md).
    limit = 1e-2 if adds_in_f16(host_target(), F16) else 2e-3
    for a, b, c in zip(found, exact, shared, strict=True):
        assert 1e-5 < np.linalg.norm(a - b) / np.linalg.norm(b) < limit
        assert a.dtype == np.float32 and a.tobytes() == c.tobytes()
    specs = gemm_specs(nets[0].plan)
    assert len(specs) > 8 and all(s.compute_dtype is F16 for s in specs)
    report = nets[0].report()
    assert f"f16 ({len(specs)} of {len(specs)} matrix products" in report
    assert f"sums       {describe_f16_sums(host_target())}" in report


def test_the_report_names_the_type_of_the_sums() -> None:
    for processor, f16 in (("sapphirerapids", True), ("neoverse-n1", True), ("znver4", False),
                           ("cortex-a72", False), ("haswell", False)):  # fmt: skip
        target = processor_target(processor)
        assert adds_in_f16(target, F16) == f16
        assert describe_f16_sums(target).startswith("f16 over 64" if f16 else "f32: this processor")
    assert "sums " not in irc.compile_model(DIGITS).report()


def test_weights_take_half_the_memory() -> None:
    x = ops.parameter("x", ["N", 256])
    w = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    model = ops.model({"y": ops.matmul(x, w)})
    nets = [irc.compile_model(model, precision=p) for p in ("f32", "f16")]
    assert [n.plan.constants[0].dtype.bits for n in nets] == [32, 16]
    given = np.random.default_rng(1).standard_normal((5, 256)).astype(np.float32)
    u, v = (a.astype(np.float16).astype(np.float64) for a in (given, w))
    # The bound of docs/numerics.md.
    limit = F16_SUM_STEPS * 2.0**-11 if adds_in_f16(host_target(), F16) else 5 * 2.0**-24
    assert np.max(np.abs(nets[1](given)[0] - u @ v) / (np.abs(u) @ np.abs(v))) <= limit


def test_other_types_and_other_operations_are_left_alone() -> None:
    x = ops.parameter("x", [4, 4], "f64")
    y = ops.parameter("y", [4, 4], "f32")
    model = ops.model({"x": ops.matmul(x, x), "y": y * y + y})
    net = irc.compile_model(model, precision="f16", num_threads=1)
    a = np.random.default_rng(2).standard_normal((4, 4))
    found = net({"x": a, "y": a.astype(np.float32)})
    np.testing.assert_allclose(found["x"], a @ a, rtol=1e-14)
    assert "f16 (0 of 1 matrix products" in net.report()


def test_models_stored_in_f16_have_f16_factors() -> None:
    x = ops.parameter("x", ["N", 70], "f16")
    w = np.random.default_rng(0).integers(-3, 4, (70, 40)).astype(np.float16)
    net = irc.compile_model(ops.model({"y": ops.matmul(x, w)}), precision="f16", num_threads=1)
    given = np.random.default_rng(1).integers(-3, 4, (5, 70)).astype(np.float16)
    np.testing.assert_array_equal(net(given)[0], (given.astype(int) @ w.astype(int)).astype("f2"))
    assert all(s.compute_dtype is F16 for s in gemm_specs(net.plan))


def test_values_beyond_65504_become_infinite() -> None:
    x = ops.parameter("x", [1, 2])
    net = irc.compile_model(
        ops.model({"y": ops.matmul(x, np.ones((2, 3), np.float32))}), precision="f16"
    )
    assert np.isposinf(net(np.array([[7e4, 1]], np.float32))[0]).all()


def test_a_file_keeps_the_precision(tmp_path: Path) -> None:
    path = str(tmp_path / "digits.irc")
    assert main(["compile", DIGITS, "--precision", "f16", "-o", path]) == 0
    assert irc.compile_model(path).plan.precision == "f16"
