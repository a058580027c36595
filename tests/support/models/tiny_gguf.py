"""GGUF files of the tiny decoders, written by the `gguf` library with its own names of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .tiny_language_models import CHAT_TEMPLATE, CONFIGS, make_tokenizer_json, make_weights

_NAMES = {"mistral": "llama", "gemma3_text": "gemma3"}


# What llama.cpp does not read from the metadata, or applies at once: the scale of gemma's scores,
# the rotation of gemma3's layers with a window, and phi3's factors for long texts.
LLAMA_CPP_CHANGES: dict[str, dict[str, Any]] = {
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3": {"query_pre_attn_scalar": 16, "rope_local_base_freq": 10000.0, "rope_theta": 50000.0},
    "phi3": {"original_max_position_embeddings": 256, "max_position_embeddings": 512},
}
LLAMA_CPP_CASES = [c for c in CONFIGS if c != "mistral"]


def write_gguf(
    path: Path, case: str, kind: str = "F32", changes: dict[str, Any] | None = None
) -> Path:
    """One of the tiny decoders; `kind` is the type of its matrices, `changes` are to its config."""
    config = {**CONFIGS[case], **(changes or {})}
    name = _NAMES.get(config["model_type"], config["model_type"])
    w = gguf.GGUFWriter(path, name)
    _add_sizes(w, config, name)
    _add_tokenizer(w)
    names = gguf.get_tensor_name_map(
        next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == name), config["num_hidden_layers"]
    )
    for tensor, array in make_weights(config).items():
        known = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
        assert known is not None, tensor
        data = array
        if name in ("llama", "granite") and "_proj.weight" in tensor and "self_attn" in tensor:
            heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
            key = heads.get(tensor.split(".")[-2])
            data = array if key is None else _interleave(array, config[key])
        if name.startswith("gemma") and "norm" in tensor:
            data = data + 1
        one = data.ndim == 1
        quantized = gguf.GGMLQuantizationType.F32 if one else gguf.GGMLQuantizationType[kind]
        stored = gguf.quants.quantize(np.ascontiguousarray(data, np.float32), quantized)
        w.add_tensor(known, stored, raw_dtype=quantized)
    for tensor, data in _rotary_tensors(config).items():
        w.add_tensor(tensor, data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def _interleave(array: np.ndarray, heads: int) -> np.ndarray:
    """The two halves of a head's pairs side by side, as converters store them."""
    parts = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return parts.swapaxes(1, 2).reshape(array.shape)


def _add_sizes(w: gguf.GGUFWriter, c: dict[str, Any], name: str) -> None:
    w.add_name("tiny")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_rope_dimension_count(int(c["head_dim"] * c.get("partial_rotary_factor", 1)))
    if name.startswith("gemma"):
        w.add_sliding_window(c["sliding_window"])
        w.add_attention_scale(c["query_pre_attn_scalar"] ** -0.5)
    if name == "gemma3":
        w.add_float32("gemma3.rope.freq_base_swa", c["rope_local_base_freq"])
    if name == "gemma2":
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    if name == "granite":
        w.add_attention_scale(c["attention_multiplier"])
        w.add_embedding_scale(c["embedding_multiplier"])
        w.add_residual_scale(c["residual_multiplier"])
        w.add_logit_scale(c["logits_scaling"])
    if name == "phi3":
        w.add_rope_scaling_orig_ctx_len(c["original_max_position_embeddings"])
        ratio = c["max_position_embeddings"] / c["original_max_position_embeddings"]
        length = c["original_max_position_embeddings"]
        w.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(ratio) / np.log(length))))


def _rotary_tensors(c: dict[str, Any]) -> dict[str, np.ndarray]:
    scaling = c.get("rope_scaling", {})
    kind = scaling.get("rope_type")
    if kind == "longrope":
        return {
            f"rope_factors_{n}.weight": np.array(scaling[f"{n}_factor"], np.float32)
            for n in ("long", "short")
        }
    if kind != "llama3":
        return {}
    # As llama.cpp's converter computes them.
    found = []
    for power in range(0, c["head_dim"], 2):
        wave = 2 * np.pi * c["rope_theta"] ** (power / c["head_dim"])
        length = scaling["original_max_position_embeddings"]
        low, high = (scaling[f"{n}_freq_factor"] for n in ("low", "high"))
        if wave < length / high:
            found.append(1.0)
        elif wave > length / low:
            found.append(scaling["factor"])
        else:
            smooth = (length / wave - low) / (high - low)
            found.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return {"rope_freqs.weight": np.array(found, np.float32)}


def _add_tokenizer(w: gguf.GGUFWriter) -> None:
    model = make_tokenizer_json()["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([2, 3, 3, *[1] * (len(tokens) - 3)])
    w.add_token_merges([" ".join(m) for m in model["merges"]])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_chat_template(CHAT_TEMPLATE)
