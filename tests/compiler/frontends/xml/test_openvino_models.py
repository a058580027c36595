"""Models that OpenVINO converts from ONNX while the test runs: f32 and f16 weights, versions 10 and
11, with the converter's fusions and without them. irc reads them and computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array
from irc_compiler.ir.verify import verify
from support.models.encoders import bert, bert_inputs
from support.models.openvino_ir import write_ir
from support.models.oracles import run_onnxruntime, run_openvino
from support.models.small import attention, gelu, layer_norm, mlp

DIGITS = Path(__file__).resolve().parents[4] / "samples" / "digits"
ENCODERS = Path(__file__).resolve().parents[3] / "support" / "models"


def named_outputs(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    found = interpret(graph, inputs)
    return {min(graph.node(r).names[0]): y for r, y in zip(graph.results, found, strict=True)}


def small_encoder() -> onnx.ModelProto:
    return bert(layers=2, hidden=16, heads=2, intermediate=24, vocab=30, positions=32, scale=0.3)


VARIANTS: list[tuple[Literal[10, 11], bool, bool]] = [
    (11, False, False),
    (11, True, False),
    (11, False, True),
    (10, False, False),
    (10, True, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "fp16", "raw"), VARIANTS)
def test_encoder(version: Literal[10, 11], fp16: bool, raw: bool, tmp_path: Path) -> None:
    model = small_encoder()
    path = write_ir(model, tmp_path, version=version, fp16=fp16, raw=raw)
    inputs: dict[str, Array] = dict(bert_inputs(2, 5, 30))
    graph = read_xml(path)
    verify(graph)
    found = named_outputs(graph, inputs)
    expected = run_openvino(path, inputs)
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)
    # f16 weights and all: what we write is the same model to OpenVINO.
    write_xml(graph, tmp_path / "again.xml", compress_to_fp16=fp16)
    again = run_openvino(tmp_path / "again.xml", inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(again[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("stem", sorted(p.stem for p in ENCODERS.glob("encoder_torch*.onnx")))
@pytest.mark.parametrize("raw", [False, True])
def test_encoders_exported_by_pytorch(stem: str, raw: bool, tmp_path: Path) -> None:
    model = onnx.load(ENCODERS / f"{stem}.onnx")
    path = write_ir(model, tmp_path, raw=raw)
    inputs: dict[str, Array] = dict(bert_inputs(2, 7, 50))
    expected = run_onnxruntime(model, inputs)
    found = named_outputs(read_xml(path), inputs)
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_digits(tmp_path: Path) -> None:
    model = onnx.load(DIGITS / "digits.onnx")
    images = np.load(DIGITS / "held_out.npz")["images"][:40]
    pixels = (images.reshape(-1, 64) / 16).astype(np.float32)
    expected = run_onnxruntime(model, {"image": pixels})["probabilities"]
    path = write_ir(model, tmp_path)
    found = named_outputs(read_xml(path), {"image": pixels})["probabilities"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "attention", "layer_norm", "gelu"])
@pytest.mark.parametrize("raw", [False, True])
def test_small_models(name: str, raw: bool, tmp_path: Path) -> None:
    makers = {"mlp": mlp, "attention": attention, "layer_norm": layer_norm, "gelu": gelu}
    model = makers[name]()  # type: ignore[operator]
    path = write_ir(model, tmp_path, raw=raw)
    graph = read_xml(path)
    rng = np.random.default_rng(0)
    inputs = {
        port.name: rng.standard_normal(
            [d.dim_value or 3 for d in port.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for port in model.graph.input
    }
    expected = run_onnxruntime(model, inputs)
    for key, array in named_outputs(graph, inputs).items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-5, atol=1e-5)
