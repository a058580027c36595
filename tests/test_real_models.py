"""Whole models from file to numbers, against onnxruntime and OpenVINO."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.runtime.jit.program import compilations
from support.models import small
from support.models.encoders import bert, bert_inputs
from support.models.openvino_ir import write_ir
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = sorted((ROOT / "tests" / "support" / "models").glob("encoder_torch_*.onnx"))


def digits() -> tuple[onnx.ModelProto, dict[str, Any]]:
    held_out = np.load(ROOT / "samples" / "digits" / "held_out.npz")
    images = (held_out["images"].reshape(-1, 64) / 16).astype(np.float32)
    return onnx.load(ROOT / "samples" / "digits" / "digits.onnx"), {"image": images}


def tiny_bert(**options: Any) -> tuple[onnx.ModelProto, dict[str, Any]]:
    model = bert(layers=2, hidden=48, heads=4, intermediate=96, vocab=50, **options)
    return model, bert_inputs(3, 11, 50)


def fixture(path: Path) -> tuple[onnx.ModelProto, dict[str, Any]]:
    model = onnx.load(path)
    sizes = {"batch": 2, "sequence": 9}
    inputs = {}
    rng = np.random.default_rng(0)
    for port in model.graph.input:
        dims = [d.dim_value or sizes.get(d.dim_param, 9) for d in port.type.tensor_type.shape.dim]
        if "mask" in port.name:
            inputs[port.name] = np.ones(dims, np.int64)
        else:
            high = 2 if "type" in port.name else 40
            inputs[port.name] = rng.integers(0, high, dims)
    return model, inputs


MODELS = {
    "digits": digits,
    "mlp": lambda: (m := small.mlp(), random_inputs(m, N=5)),
    "attention": lambda: (m := small.attention(), random_inputs(m, N=2, S=7)),
    "bert": tiny_bert,
    "bert_op_norms": lambda: tiny_bert(opset=20, norm="op", gelu="op", mask="where"),
    "bert_tanh": lambda: tiny_bert(gelu="tanh"),
    **{p.stem: (lambda p=p: fixture(p)) for p in FIXTURES},
}


def agree(got: Any, wanted: dict[str, Any], tolerance: float = 1e-5) -> None:
    for name, w in wanted.items():
        g = got[name]
        assert g.shape == w.shape and g.dtype == w.dtype
        scale = max(1e-30, float(np.abs(w).max()))
        assert float(np.abs(g - w).max()) <= tolerance * scale, name


# Other exports of the same encoders.
REPEATED = {"bert_op_norms", "bert_tanh", "encoder_torch_legacy", "encoder_torch_dynamo"}


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["name"] in REPEATED)
@pytest.mark.parametrize("name", MODELS)
def test_onnx_against_both_peers(name: str, tmp_path: Path) -> None:
    model, inputs = MODELS[name]()
    wanted = run_onnxruntime(model, inputs)
    net = irc.compile_model(model, verify=True)
    assert not net.plan.host_steps(), net.report()
    agree(net(inputs), wanted)
    # Converted, read by OpenVINO, and read back by irc: the same numbers.
    irc.save_model(model, tmp_path / "m.xml")
    agree(run_openvino(tmp_path / "m.xml", inputs), wanted, 2e-5)
    agree(irc.compile_model(tmp_path / "m.xml", verify=True)(inputs), wanted)


SAVED = [
    *(
        (name, fp16, version)
        for name in ("digits", "mlp")
        for fp16 in (0, 1)
        for version in (10, 11)
    ),
    *(("bert", False, 11), ("bert", True, 10)),
    *(("encoder_torch_legacy", False, 10), ("encoder_torch_legacy", True, 11)),
]


@pytest.mark.slow
@pytest.mark.extended(
    when=lambda p: (p["name"], p["version"]) in {("bert", 10), ("encoder_torch_legacy", 10)}
)
@pytest.mark.parametrize(("name", "fp16", "version"), SAVED)
def test_openvino_ir(name: str, fp16: bool, version: int, tmp_path: Path) -> None:
    model, inputs = MODELS[name]()
    path = write_ir(model, tmp_path, version=version, fp16=fp16)
    wanted = run_openvino(path, inputs)
    net = irc.compile_model(path, verify=True)
    got = net(inputs)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted.values(), strict=True):
        scale = float(np.abs(w).max())
        assert float(np.abs(g.astype(np.float64) - w).max()) <= 1e-5 * scale


@pytest.mark.slow
def test_fp16_writer(tmp_path: Path) -> None:
    model, inputs = tiny_bert()
    irc.save_model(model, tmp_path / "whole.xml")
    irc.save_model(model, tmp_path / "half.xml", compress_to_fp16=True)
    whole, half = ((tmp_path / f"{n}.bin").stat().st_size for n in ("whole", "half"))
    assert half < 0.6 * whole
    wanted = run_openvino(tmp_path / "half.xml", inputs)
    agree(irc.compile_model(tmp_path / "half.xml")(inputs), wanted)


@pytest.mark.slow
def test_new_shapes_start_no_pass_and_no_compiler() -> None:
    model, _ = tiny_bert()
    net = irc.compile_model(model)
    assert net.trace is not None
    events, compiled = len(net.trace.events), compilations()
    for batch, sequence in ((1, 1), (1, 2), (2, 16), (5, 31), (3, 128), (1, 7)):
        inputs = bert_inputs(batch, sequence, 50)
        agree(net(inputs), run_onnxruntime(model, inputs))
    assert compilations() == compiled and len(net.trace.events) == events


@pytest.mark.slow
def test_fixed_shapes_give_the_same_bits() -> None:
    model, inputs = tiny_bert()
    free = irc.compile_model(model)(inputs)
    shapes = {name: list(x.shape) for name, x in inputs.items()}
    fixed = irc.compile_model(model, shapes=shapes)
    assert all(isinstance(d, int) for p in fixed.inputs for d in p.shape or ())
    for a, b in zip(free, fixed(inputs), strict=True):
        assert a.tobytes() == b.tobytes()


def test_threads_and_batches_give_the_same_bits() -> None:
    model, inputs = digits()
    wanted = irc.compile_model(model, num_threads=1)(inputs)[0]
    for threads in (2, 3, 4):
        assert (
            irc.compile_model(model, num_threads=threads)(inputs)[0].tobytes() == wanted.tobytes()
        )
    net = irc.compile_model(model)
    alone = np.concatenate([net(inputs["image"][i : i + 1])[0] for i in range(20)])
    assert alone.tobytes() == wanted[:20].tobytes()


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "samples/matmul1").glob("*.xml")))
def test_matmul_1_examples_give_the_declared_shapes(name: str) -> None:
    from lxml import etree

    path = ROOT / "samples" / "matmul1" / f"{name}.xml"
    layer = etree.parse(path).find(".//layer[@type='MatMul']")
    declared = [int(d.text) for d in layer.findall("output/port/dim")]
    flipped = (data := layer.find("data")) is not None and data.get("transpose_b") == "true"
    net = irc.compile_model(path)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, p.shape).astype(np.float32) for p in net.inputs)
    (got,) = net([a, b])
    assert list(got.shape) == declared
    assert (got == (a @ (b.T if flipped else b)).reshape(declared)).all()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_another_instruction_set(isa: str, tmp_path: Path) -> None:
    """A whole encoder with the instruction set forced from outside."""
    from irc_compiler.runtime.jit.host_features import available_isas

    if isa not in available_isas():
        pytest.skip(f"not run: this machine has no {isa}")
    model, inputs = tiny_bert()
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", **inputs)
    words = ["run", "m.onnx", "--input", "x.npz", "-o", "y.npz"]
    subprocess.run(
        [sys.executable, "-m", "irc_compiler", *words],
        cwd=tmp_path,
        env={**os.environ, "IRC_ISA": isa},
        check=True,
        capture_output=True,
    )
    agree(dict(np.load(tmp_path / "y.npz")), run_onnxruntime(model, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("opset", range(7, 23))
def test_every_opset_from_7_up(opset: int) -> None:
    for dense in ("MatMul", "Gemm"):
        # Below 9 the builder's file format would want weights listed as inputs; the operators of
        # these models are the same from 7 to 10.
        model = small.mlp((9, 20, 5), opset=max(opset, 9), dense=dense, final="Softmax")
        model.opset_import[0].version = opset
        inputs = random_inputs(model, N=3)
        agree(irc.compile_model(model, verify=True)(inputs), run_onnxruntime(model, inputs))
