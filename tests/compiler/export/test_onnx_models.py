"""ONNX models saved as IR: OpenVINO reads them and computes what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.verify import verify
from support.frontends.ir_text import DATA
from support.models.encoders import bert_inputs
from support.models.exact_int8 import products_saturate
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino

ROOT = Path(__file__).resolve().parents[3]
MODELS = [
    *sorted(DATA.glob("*.onnx")),
    *sorted((ROOT / "tests" / "support" / "models").glob("encoder_*.onnx")),
    ROOT / "samples" / "digits" / "digits.onnx",
]


@pytest.mark.slow
@pytest.mark.parametrize("fp16", [False, True], ids=["f32", "f16"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_openvino_computes_the_same(path: Path, fp16: bool, tmp_path: Path) -> None:
    if path.stem == "qdq" and products_saturate():
        pytest.skip("not run: OpenVINO saturates products of u8 and i8 on this processor")
    model = onnx.load(path)
    symbols = {d.dim_param for p in model.graph.input for d in p.type.tensor_type.shape.dim}
    if "encoder" in path.stem:
        inputs = bert_inputs(2, 5, 50)
    else:
        inputs = random_inputs(model, **dict.fromkeys(symbols - {""}, 3))
    written = tmp_path / "model.xml"
    write_xml(read_onnx(path), written, compress_to_fp16=fp16)
    verify(read_xml(written))
    expected = run_onnxruntime(model, inputs)
    found = run_openvino(written, inputs)
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        tolerance = 1e-2 if fp16 else 1e-5
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance)
