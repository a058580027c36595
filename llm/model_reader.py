"""Read a language model from a file or a folder, whatever its format."""

from __future__ import annotations

import os
from pathlib import Path

from ..ir.errors import ModelFormatError, UsageError
from .language_model import LanguageModel, Weights


def read_language_model(
    path: str | os.PathLike[str], *, weights: Weights = "stored", max_memory: int | None = None
) -> LanguageModel:
    """Read a language model: a `.gguf` file, or a folder of optimum-intel, of safetensors (Hugging
    Face), or of ONNX (optimum, onnxruntime-genai).

    max_memory: bytes for any file and any constant. Raises ModelFormatError,
    UnsupportedOperationError or MemoryLimitError.
    """
    if weights not in ("stored", "f32"):
        raise UsageError("unknown form of weights", got=weights, expected="'stored' or 'f32'")
    place = Path(path)
    if place.is_dir():
        return _read_folder(place, weights, max_memory)
    if place.suffix.lower() == ".gguf" or not place.exists():
        from .formats.gguf_model import read_gguf_model

        return read_gguf_model(place, weights=weights, max_memory=max_memory)
    raise ModelFormatError(
        "this file is not a language model",
        where=repr(str(place)),
        got=place.suffix or "no suffix",
        expected="a .gguf file, or a folder with a model, tokenizer.json and config.json",
    )


def _read_folder(place: Path, weights: Weights, max_memory: int | None) -> LanguageModel:
    if (place / "openvino_model.xml").exists():
        from .formats.openvino_folder import read_openvino_folder

        return read_openvino_folder(place, max_memory=max_memory)
    if any(place.glob("*.safetensors")):
        from .formats.safetensors_folder import read_safetensors_folder

        return read_safetensors_folder(place, weights=weights, max_memory=max_memory)
    from .formats.onnx_folder import find_onnx_model, read_onnx_folder

    if find_onnx_model(place) is not None:
        return read_onnx_folder(place, max_memory=max_memory)
    files = sorted(place.glob("*.gguf"))
    if len(files) == 1:
        return read_language_model(files[0], weights=weights, max_memory=max_memory)
    raise ModelFormatError(
        "no language model in this folder",
        where=repr(str(place)),
        got=", ".join(sorted(p.name for p in place.iterdir())[:8]) or "an empty folder",
        expected="openvino_model.xml, *.safetensors, model.onnx, or one .gguf file",
    )
