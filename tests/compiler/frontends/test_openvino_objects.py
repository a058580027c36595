"""Models that the openvino package holds, and formats that it reads for irc."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import openvino
import openvino.opset13 as opset
import pytest
from irc_compiler.compiler.frontends.openvino_objects import (
    is_openvino_model,
    read_with_openvino,
    serialize_model,
)

CONFIG = {"INFERENCE_PRECISION_HINT": "f32"}


def make_model() -> openvino.Model:
    x = opset.parameter([-1, 3], np.float32, name="x")
    weight = opset.constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    y = opset.softmax(opset.matmul(x, weight, False, False), axis=1)
    return openvino.Model([opset.result(y)], [x], "memory")


def test_a_model_of_openvino_is_compiled_in_memory() -> None:
    model = make_model()
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    want = openvino.compile_model(model, "CPU", CONFIG)(x)[0]
    np.testing.assert_allclose(irc.compile_model(model)(x)[0], want, rtol=1e-5, atol=1e-6)
    read = irc.read_model(model)
    assert read.name == "memory" and read.origin is None
    assert irc.compile_model(read)(x)[0].shape == (5, 4)


def test_the_files_are_removed() -> None:
    with serialize_model(make_model()) as path:
        assert path.exists() and path.with_suffix(".bin").exists()
    assert not path.exists() and not path.parent.exists()


def test_other_objects_are_not_models_of_openvino() -> None:
    assert is_openvino_model(make_model())
    assert not is_openvino_model(b"") and not is_openvino_model(openvino.Core())


def test_a_file_that_openvino_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"nothing")
    with pytest.raises(irc.ModelFormatError, match="OpenVINO cannot read"):
        read_with_openvino(path)
