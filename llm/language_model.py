"""A language model as it is read: graph, tokenizer, chat template and configuration.

The graph is the stateful form that optimum-intel exports, whatever the file was. Inputs:
input_ids i64 [B, S], attention_mask i64 [B, P + S] (1 for a token, 0 for padding), position_ids
i64 [B, S], beam_idx i32 [B] (row i of the cache continues row beam_idx[i]). Output: logits f32
[B, S, V]. Keys and values are variables named `past_key_values.{layer}.key.present.{layer}.key`
(and `value`), [B, kv_heads, P, head_size]; P is the number of tokens that the request has read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..ir.errors import ModelFormatError, UsageError

if TYPE_CHECKING:
    from ..compiler.model import Model
    from .chat_template import ChatTemplate
    from .tokenizer import Tokenizer

# stored: as the file has them, compressed where a kernel reads that form; f32: dequantized.
Weights = Literal["stored", "f32"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and special tokens. left_padding: rows of a batch may be padded on the left; without it
    they have one length. context_length: the most tokens that positions are trained for;
    sliding_window: keys that a layer with a window sees, None where no layer has one."""

    name: str
    architecture: str
    context_length: int
    vocabulary: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    sliding_window: int | None = None
    left_padding: bool = True


@dataclass(frozen=True)
class LanguageModel:
    """weight_forms: how each matrix is held, as text (`Q4_1 as u4 by 32`) -> number of matrices."""

    model: Model
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    config: ModelConfig
    weight_forms: dict[str, int] = field(default_factory=dict[str, int])


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
