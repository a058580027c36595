"""Language models of GGUF files: sizes and features from the metadata, weights, tokenizer."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import replace

import numpy as np

from ...compiler.model import Model, Origin
from ...ir.errors import ModelFormatError, UnsupportedOperationError
from ...ir.lazy_dataclass import dataclass
from ...ir.op import Array
from ..architectures.build_decoder import build_decoder
from ..architectures.decoder import DecoderFeatures, Rotary
from ..architectures.matrix import FloatMatrix, Matrix
from ..language_model import LanguageModel, ModelConfig, Weights
from .gguf_blocks import read_matrix, read_vector
from .gguf_file import GgufFile
from .gguf_metadata import Metadata
from .gguf_tokenizer import read_chat_template, read_special_tokens, read_tokenizer


@dataclass(frozen=True)
class _Architecture:
    """What the metadata of an architecture leave unsaid.

    interleaved: pairs of a rotation are neighbours in the rows of queries and keys. global_layer:
    every so many layers one sees all keys, where the others have a window; 0: none has a window,
    1: all have. gelu: the activation. scaled: embeddings are multiplied by the root of their size.
    local_base: the rotation's base in layers with a window. scale_layers: the number of layers of
    the one size whose attention divides by the root of width / heads.
    """

    interleaved: bool = False
    global_layer: int = 0
    gelu: bool = False
    scaled: bool = False
    local_base: float = 0.0
    scale_layers: int = 0


ARCHITECTURES: dict[str, _Architecture] = {
    "llama": _Architecture(interleaved=True),
    "granite": _Architecture(interleaved=True),
    "qwen2": _Architecture(),
    "qwen3": _Architecture(),
    "gemma2": _Architecture(global_layer=2, gelu=True, scaled=True, scale_layers=46),
    "gemma3": _Architecture(
        global_layer=6, gelu=True, scaled=True, local_base=10000.0, scale_layers=62
    ),
    "phi3": _Architecture(),
}


def read_gguf_model(
    path: str | os.PathLike[str], *, weights: Weights = "stored", max_memory: int | None = None
) -> LanguageModel:
    """A language model of a GGUF file. weights "f32": dequantized."""
    file = GgufFile(path, max_memory=max_memory)  # open while codes may be read
    metadata = Metadata(file)
    features = ARCHITECTURES.get(metadata.architecture)
    if features is None:
        raise UnsupportedOperationError(
            "this architecture is not supported",
            where=repr(file.path),
            got=metadata.architecture[:80],
            expected=", ".join(ARCHITECTURES),
        )
    if metadata.count(".expert_count", 0, least=0):
        raise UnsupportedOperationError(
            "mixtures of experts are not supported", where=repr(file.path),
            got=f"{metadata.count('.expert_count')} experts", expected="one feed-forward layer",
        )  # fmt: skip
    config = _read_config(metadata, file)
    tensors = _GgufWeights(file, features, config, weights)
    decoder = _read_decoder(metadata, features, config, tensors)
    tokenizer = read_tokenizer(metadata)
    name = config.name

    def reload() -> Model:
        again = GgufFile(path, max_memory=max_memory)
        return build_decoder(decoder, _GgufWeights(again, features, config, weights), name)

    model = build_decoder(decoder, tensors, name)
    model.origin = Origin(reload, file.files)
    config = replace(config, cache_window=decoder.common_window)
    return LanguageModel(
        model, tokenizer, read_chat_template(metadata), config, dict(tensors.forms)
    )


def _read_config(metadata: Metadata, file: GgufFile) -> ModelConfig:
    heads = metadata.count(".attention.head_count")
    kv_heads = metadata.count(".attention.head_count_kv", heads)
    width = metadata.count(".embedding_length")
    if heads % kv_heads:
        raise metadata.fail(".attention.head_count", heads, f"a multiple of {kv_heads}")
    head_size = metadata.count(".attention.key_length", width // heads)
    if metadata.count(".attention.value_length", head_size) != head_size:
        raise UnsupportedOperationError(
            "keys and values of different sizes are not supported", where=repr(file.path)
        )
    special = read_special_tokens(metadata)
    window = metadata.count(".attention.sliding_window", 0, least=0)
    has_window = ARCHITECTURES[metadata.architecture].global_layer and window
    return ModelConfig(
        name=metadata.text("general.name", "model")[:200],
        architecture=metadata.architecture,
        context_length=metadata.count(".context_length"),
        vocabulary=len(metadata.texts("tokenizer.ggml.tokens")),
        layers=metadata.count(".block_count"),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        eos_token_ids=special.ends,
        bos_token_id=special.begin,
        sliding_window=window if has_window else None,
    )


def _read_decoder(
    metadata: Metadata, features: _Architecture, config: ModelConfig, weights: _GgufWeights
) -> DecoderFeatures:
    width = metadata.count(".embedding_length")
    rotary = _read_rotary(metadata, config, weights)
    local = None
    if features.local_base:
        base = metadata.number(".rope.freq_base_swa", features.local_base)
        local = Rotary(rotary.dims, base)
    every = features.global_layer
    windows = tuple(
        None if not every or (layer + 1) % every == 0 and every > 1 else config.sliding_window
        for layer in range(config.layers)
    )
    size = config.head_size
    if config.layers == features.scale_layers:
        size = width // config.heads
    return DecoderFeatures(
        layers=config.layers,
        width=width,
        inner_width=metadata.count(".feed_forward_length"),
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
        eps=metadata.number(".attention.layer_norm_rms_epsilon"),
        rotary=rotary,
        windows=windows,
        attention_scale=metadata.number(".attention.scale", 0.0) or 1 / math.sqrt(size),
        local_rotary=local,
        activation="gelu" if features.gelu else "silu",
        embedding_scale=metadata.number(
            ".embedding_scale", math.sqrt(width) if features.scaled else 1.0
        ),
        residual_scale=metadata.number(".residual_scale", 1.0),
        logit_scale=1 / (metadata.number(".logit_scale", 1.0) or 1.0),
        score_cap=metadata.number(".attn_logit_softcapping", 0.0),
        logit_cap=metadata.number(".final_logit_softcapping", 0.0),
    )


def _read_rotary(metadata: Metadata, config: ModelConfig, weights: _GgufWeights) -> Rotary:
    dims = metadata.count(".rope.dimension_count", config.head_size)
    if dims > config.head_size or dims % 2:
        raise metadata.fail(".rope.dimension_count", dims, f"an even number to {config.head_size}")
    rotary = Rotary(dims, metadata.number(".rope.freq_base", 10000.0))
    if "rope_freqs.weight" in weights:
        rotary = replace(rotary, factors=weights.factors("rope_freqs.weight", dims))
    if "rope_factors_long.weight" in weights and "rope_factors_short.weight" in weights:
        length = metadata.count(".rope.scaling.original_context_length", config.context_length)
        return replace(
            rotary,
            factors=weights.factors("rope_factors_short.weight", dims),
            long_factors=weights.factors("rope_factors_long.weight", dims),
            original_length=length,
            magnitude=metadata.number(".rope.scaling.attn_factor", 1.0),
        )
    kind = metadata.text(".rope.scaling.type", "none")
    if kind == "linear":
        factor = metadata.number(".rope.scaling.factor", 1.0) or 1.0
        return replace(rotary, factors=np.full(dims // 2, factor, np.float32))
    if kind not in ("none", "longrope"):
        raise UnsupportedOperationError(
            "this scaling of rotary positions is not supported",
            where=metadata.where,
            got=kind[:80],
            expected="none, linear, longrope, or factors in rope_freqs.weight",
        )
    return rotary


class _GgufWeights:
    """Tensors of a file as a decoder needs them. forms: how many matrices have each form."""

    def __init__(
        self, file: GgufFile, features: _Architecture, config: ModelConfig, weights: Weights
    ) -> None:
        self._file, self._features, self._config = file, features, config
        self._dense = weights == "f32"
        self.forms: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def matrix(self, name: str) -> Matrix:
        info = self._file.tensors[name]
        if len(info.shape) != 2:
            raise self._wrong_rank(name, info.shape, "2 axes")
        found = read_matrix(info.kind, self._file.row_reader(info), info.shape)
        if self._dense and info.kind != "F32":
            found = FloatMatrix(found.values(), f"{info.kind} as f32")
        self.forms[found.form] += 1
        order = self._row_order(name, info.shape[0])
        return found if order is None else found.take_rows(order)

    def vector(self, name: str) -> Array:
        info = self._file.tensors[name]
        if len(info.shape) != 1:
            raise self._wrong_rank(name, info.shape, "1 axis")
        found = read_vector(info.kind, self._file.bytes_of(info))
        order = self._row_order(name, info.shape[0])
        return found if order is None else found[order]

    def factors(self, name: str, dims: int) -> Array:
        """Factors of a rotation's frequencies."""
        found = self.vector(name)
        if found.shape != (dims // 2,) or not (np.isfinite(found) & (found > 0)).all():
            raise ModelFormatError(
                "factors of rotary frequencies do not fit the model",
                where=f"{self._file.path!r}, {name}",
                got=found.shape,
                expected=f"{dims // 2} positive numbers",
            )
        return found

    def _row_order(self, name: str, rows: int) -> Array | None:
        """Where pairs are neighbours: the rows that put them into the two halves of a head."""
        last = name.removesuffix(".weight").removesuffix(".bias").rpartition(".")[2]
        if not self._features.interleaved or last not in ("attn_q", "attn_k"):
            return None
        heads = self._config.heads if last == "attn_q" else self._config.kv_heads
        size = self._config.head_size
        if rows != heads * size:
            return None  # the builder reports the shape
        return np.arange(rows).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)

    def _wrong_rank(self, name: str, got: tuple[int, ...], expected: str) -> ModelFormatError:
        where = f"{self._file.path!r}, {name}"
        return ModelFormatError(
            "a tensor has another rank", where=where, got=got, expected=expected
        )
