"""Makes IR files with OpenVINO itself, for tests of the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import onnx


def write_ir(
    model: onnx.ModelProto,
    folder: Path,
    name: str = "model",
    *,
    version: Literal[10, 11] = 11,
    fp16: bool = False,
    raw: bool = False,
) -> Path:
    """Converts `model` and writes folder/name.xml and .bin; returns the path of the .xml.

    `fp16` stores float32 weights as float16 behind a decompressing Convert. `raw` leaves out the
    fusions of OpenVINO's converter: the operations are then close to those of the ONNX model.
    """
    import openvino as ov

    folder.mkdir(parents=True, exist_ok=True)
    xml = folder / f"{name}.xml"
    source = folder / f"{name}.source.onnx"
    onnx.save(model, source)
    core = ov.Core()
    # convert_model is what ovc runs; read_model alone only translates the operations.
    converted = core.read_model(str(source)) if raw else ov.convert_model(str(source))
    source.unlink()
    ov.save_model(converted, str(xml), compress_to_fp16=fp16)
    if version == 10:
        # Read from memory: the file is about to be written, and OpenVINO maps what it reads.
        weights = xml.with_suffix(".bin")
        saved = core.read_model(xml.read_bytes(), weights.read_bytes())
        # A model remembers the version it was read from and is refused another; a new one does not.
        saved = ov.Model(saved.get_results(), saved.get_parameters(), saved.get_friendly_name())
        ov.serialize(saved, str(xml), str(weights), "IR_V10")
    return xml
