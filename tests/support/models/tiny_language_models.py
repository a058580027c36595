"""Tiny random decoders of each architecture, as a Hugging Face folder and as a GGUF file.

Weights follow from a seed, so that transformers' logits of the same weights
(scripts/reference_logits.py, tests/data/llm/logits.npz) are all that has to be stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 96
_BASE: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "head_dim": 16,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
_GEMMA = {
    "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True, "query_pre_attn_scalar": 24, "sliding_window": 8,
}  # fmt: skip
_LONG = {
    "type": "longrope", "rope_type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.3, 1.5, 2.0],
    "long_factor": [1.5, 1.8, 2.0, 3.0, 4.5, 8.0],
}  # fmt: skip
# Name of a case -> config.json.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_BASE, "model_type": "llama", "rope_scaling": _LLAMA3},
    "smollm": {**_BASE, "model_type": "llama", "tie_word_embeddings": True, "rope_theta": 1e5},
    "mistral": {**_BASE, "model_type": "mistral", "sliding_window": 7},
    "granite": {
        **_BASE, "model_type": "granite", "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
        "attention_multiplier": 0.3, "logits_scaling": 2.0,
    },
    "qwen2": {**_BASE, "model_type": "qwen2", "tie_word_embeddings": True, "head_dim": 8},
    "qwen3": {**_BASE, "model_type": "qwen3"},
    "gemma2": {
        **_BASE, **_GEMMA, "model_type": "gemma2", "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        **_BASE, **_GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 7,
        "rope_local_base_freq": 1000.0,
    },
    "phi3": {
        **_BASE, "model_type": "phi3", "head_dim": 16, "hidden_size": 64, "rope_scaling": _LONG,
        "partial_rotary_factor": 0.75, "original_max_position_embeddings": 32, "sliding_window": 9,
        "pad_token_id": 0,
    },
}  # fmt: skip
# Tokens of a prompt: longer than the windows, and with the generated ones than 32 positions.
PROMPT = tuple(int(x) for x in np.random.default_rng(5).integers(3, VOCABULARY, 12))
GENERATED = 64


def make_weights(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Tensors by transformers' names."""
    kind, width, size = config["model_type"], config["hidden_size"], config["head_dim"]
    inner, heads, kv = (config[k] for k in ("intermediate_size", "num_attention_heads",
                                            "num_key_value_heads"))  # fmt: skip
    gemma = kind.startswith("gemma")
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, width)}
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        q, k, v, o = (f"{p}self_attn.{n}_proj" for n in "qkvo")
        gate, up, down = (f"{p}mlp.{n}_proj" for n in ("gate", "up", "down"))
        if kind == "phi3":
            shapes[f"{p}self_attn.qkv_proj.weight"] = ((heads + 2 * kv) * size, width)
            shapes[f"{p}mlp.gate_up_proj.weight"] = (2 * inner, width)
        else:
            shapes |= {f"{q}.weight": (heads * size, width), f"{k}.weight": (kv * size, width),
                       f"{v}.weight": (kv * size, width), f"{gate}.weight": (inner, width),
                       f"{up}.weight": (inner, width)}  # fmt: skip
        if kind == "qwen2":
            shapes |= {f"{q}.bias": (heads * size,), f"{k}.bias": (kv * size,),
                       f"{v}.bias": (kv * size,)}  # fmt: skip
        shapes |= {f"{o}.weight": (width, heads * size), f"{down}.weight": (width, inner)}
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if gemma else []
        shapes |= {f"{p}{n}.weight": (width,) for n in norms}
        if kind in ("qwen3", "gemma3_text"):
            shapes |= {f"{p}self_attn.{n}_norm.weight": (size,) for n in "qk"}
    shapes["model.norm.weight"] = (width,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCABULARY, width)
    rng = np.random.default_rng(7)
    found: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        noise = rng.standard_normal(shape)
        if "norm" in name:
            found[name] = (0.2 * noise + (0 if gemma else 1)).astype(np.float32)
        else:
            found[name] = (noise * (0.3 if len(shape) == 1 else 1.2 / shape[1] ** 0.5)).astype("f4")
    return found


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], dtype: str = "F32") -> None:
    """A safetensors file; BF16 rounds the arrays."""
    kinds = {"F32": np.dtype("f4"), "F16": np.dtype("f2")}
    if dtype == "BF16":
        import ml_dtypes

        kinds[dtype] = np.dtype(ml_dtypes.bfloat16)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name, array in tensors.items():
        data = array.astype(kinds[dtype]).tobytes()
        header[name] = {
            "dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]
        }  # fmt: skip
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def make_tokenizer_json() -> dict[str, Any]:
    """A byte-level tokenizer of as many tokens as the models have, with a few merges."""
    specials = ["<unk>", "<s>", "</s>"]
    letters = [chr(c) for c in range(33, 33 + VOCABULARY - 8)]
    tokens = [*specials, *letters, "th", "the", "in", "\u0120", "\u0120the"][:VOCABULARY]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i, t in enumerate(specials)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [["t", "h"], ["th", "e"], ["i", "n"], ["\u0120", "the"]]},
    }  # fmt: skip


CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ': ' + m['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant: ' }}{% endif %}"
)


def write_folder(place: Path, case: str, dtype: str = "F32") -> Path:
    """A folder of Hugging Face."""
    place.mkdir(parents=True, exist_ok=True)
    config = CONFIGS[case]
    (place / "config.json").write_text(json.dumps(config))
    write_safetensors(place / "model.safetensors", make_weights(config), dtype)
    (place / "tokenizer.json").write_text(json.dumps(make_tokenizer_json()))
    settings = {"chat_template": CHAT_TEMPLATE, "bos_token": "<s>",
                "eos_token": {"content": "</s>"}}  # fmt: skip
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    return place
