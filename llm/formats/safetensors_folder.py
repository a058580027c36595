"""Folders of Hugging Face: config.json, *.safetensors and the tokenizer's files."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...compiler.model import Model, Origin
from ...ir.errors import ModelFormatError
from ...ir.op import Array
from ..architectures.build_decoder import build_decoder
from ..architectures.decoder import DecoderFeatures
from ..architectures.matrix import FloatMatrix, Matrix
from ..language_model import LanguageModel, Weights
from .folder_files import read_chat_template, read_folder_config, read_model_config, read_tokenizer
from .hf_config import HfArchitecture, find_architecture, read_decoder
from .safetensors_file import SafetensorsFile

_OUTSIDE = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip
_INSIDE = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
_TWO_NORMS = {"post_attention_layernorm": "ffn_norm"}
_FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_LAYER = re.compile(r"model\.layers\.(\d{1,6})\.(.+)\.(weight|bias)\Z")


def read_safetensors_folder(
    folder: Path, *, weights: Weights = "stored", max_memory: int | None = None
) -> LanguageModel:
    """A language model of a folder of safetensors. weights "f32": f16 and bf16 are widened."""
    config = read_folder_config(folder)
    features = find_architecture(config)
    decoder = read_decoder(config, features)
    tied = config.get("tie_word_embeddings")

    def build() -> tuple[Model, _FolderWeights]:
        tensors = _FolderWeights(folder, features, decoder, weights, max_memory)
        try:
            if tied is False and "output.weight" not in tensors:
                raise ModelFormatError(
                    "the folder lacks the matrix of the logits",
                    where=repr(str(folder)),
                    expected="lm_head.weight, or tie_word_embeddings in config.json",
                )
            return build_decoder(decoder, tensors, folder.resolve().name), tensors
        finally:
            tensors.close()

    model, tensors = build()
    model.origin = Origin(lambda: build()[0], tuple(s for f in tensors.files for s in f.files))
    sizes = read_model_config(folder, config, decoder)
    sizes = replace(sizes, cache_window=decoder.common_window)
    tokenizer = read_tokenizer(folder, sizes.vocabulary)
    return LanguageModel(model, tokenizer, read_chat_template(folder), sizes, dict(tensors.forms))


class _FolderWeights:
    """Tensors of all files of a folder by GGUF's names."""

    def __init__(
        self,
        folder: Path,
        features: HfArchitecture,
        decoder: DecoderFeatures,
        weights: Weights,
        max_memory: int | None,
    ) -> None:
        self._features, self._decoder, self._dense = features, decoder, weights == "f32"
        self.forms: Counter[str] = Counter()
        self.files: list[SafetensorsFile] = []
        self._found: dict[str, tuple[SafetensorsFile, str]] = {}
        try:
            for path in sorted(folder.glob("*.safetensors")):
                self.files.append(SafetensorsFile(path, max_memory=max_memory))
                self._add(self.files[-1])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for file in self.files:
            file.close()

    def _add(self, file: SafetensorsFile) -> None:
        for name in file.tensors:
            known = _map_name(name, self._features)
            if known is None:
                continue
            if known in self._found:
                where = f"{file.path!r}, {name[:80]}"
                raise ModelFormatError(
                    "two files have one tensor", where=where, expected="one model in the folder"
                )
            self._found[known] = (file, name)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def matrix(self, name: str) -> Matrix:
        data = self._read(name, 2)
        kind = self._kind(name)
        if self._dense and data.dtype != np.float32:
            data = data.astype(np.float32)
            kind += " as f32"
        self.forms[kind] += 1
        return FloatMatrix(data, kind)

    def vector(self, name: str) -> Array:
        found = self._read(name, 1).astype(np.float32)
        is_norm = name.endswith("norm.weight")
        return found + np.float32(1) if is_norm and self._features.centred_norms else found

    def _kind(self, name: str) -> str:
        file, stored = self._found[name]
        return file.tensors[stored].kind

    def _read(self, name: str, rank: int) -> Array:
        file, stored = self._found[name]
        found = file.read(stored)
        if found.ndim != rank:
            where = f"{file.path!r}, {stored[:80]}"
            raise ModelFormatError(
                "a tensor has another rank", where=where, got=found.shape, expected=f"{rank} axes"
            )
        return found


def _map_name(name: str, features: HfArchitecture) -> str | None:
    """GGUF's name of a tensor, None for one that a decoder does not have."""
    stem, _, last = name.rpartition(".")
    if stem in _OUTSIDE:
        return f"{_OUTSIDE[stem]}.{last}"
    found = _LAYER.match(name)
    if found is None:
        return None
    layer, part, last = found.groups()
    norms = _FOUR_NORMS if features.four_norms else _TWO_NORMS
    inner = norms.get(part) or _INSIDE.get(part)
    return None if inner is None else f"blk.{int(layer)}.{inner}.{last}"
