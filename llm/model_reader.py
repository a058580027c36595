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
    source = Path(path)
    if source.is_dir():
        return _read_folder(source, weights, max_memory)
    if source.suffix.lower() == ".gguf" or not source.exists():
        from .formats.gguf_model import read_gguf_model

        return read_gguf_model(source, weights=weights, max_memory=max_memory)
    raise ModelFormatError(
        "this file is not a language model",
        where=repr(str(source)),
        got=source.suffix or "no suffix",
        expected="a .gguf file, or a folder with a model, tokenizer.json and config.json",
    )


def _read_folder(folder: Path, weights: Weights, max_memory: int | None) -> LanguageModel:
    if (folder / "openvino_model.xml").exists():
        from .formats.openvino_folder import read_openvino_folder

        return read_openvino_folder(folder, max_memory=max_memory)
    if any(folder.glob("*.safetensors")):
        from .formats.safetensors_folder import read_safetensors_folder

        return read_safetensors_folder(folder, weights=weights, max_memory=max_memory)
    from .formats.onnx_folder import find_onnx_model, read_onnx_folder

    if find_onnx_model(folder) is not None:
        return read_onnx_folder(folder, max_memory=max_memory)
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return read_language_model(files[0], weights=weights, max_memory=max_memory)
    raise ModelFormatError(
        "no language model in this folder",
        where=repr(str(folder)),
        got=", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "an empty folder",
        expected="openvino_model.xml, *.safetensors, model.onnx, or one .gguf file",
    )
