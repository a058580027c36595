"""config.json of a Hugging Face folder as a decoder's sizes and features."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...ir.errors import UnsupportedOperationError
from ...ir.lazy_dataclass import dataclass
from ..architectures.decoder import DecoderFeatures, Rotary, llama3_factors
from .json_files import JsonObject

_GELU = ("gelu_pytorch_tanh", "gelu_new", "gelu_fast")
_LOCAL, _GLOBAL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class HfArchitecture:
    """What config.json leaves unsaid about a `model_type`.

    centred_norms: weights of norms are stored less 1. four_norms: a layer also has norms behind its
    halves. scaled: embeddings are multiplied by the root of their size. global_layer: every so many
    layers one sees all keys and the others have a window; 1: all layers have a window where the
    config gives one; 0: as `layer_types` says, else none.
    """

    centred_norms: bool = False
    four_norms: bool = False
    scaled: bool = False
    global_layer: int = 0


_GEMMA = HfArchitecture(centred_norms=True, four_norms=True, scaled=True)
HF_ARCHITECTURES: dict[str, HfArchitecture] = {
    "llama": HfArchitecture(),
    "mistral": HfArchitecture(global_layer=1),
    "granite": HfArchitecture(),
    "qwen2": HfArchitecture(),
    "qwen3": HfArchitecture(),
    "gemma2": replace(_GEMMA, global_layer=2),
    "gemma3_text": replace(_GEMMA, global_layer=6),
    "phi3": HfArchitecture(global_layer=1),
}


def find_architecture(config: JsonObject) -> HfArchitecture:
    """The features of the config's `model_type`. UnsupportedOperationError for others."""
    name = config.text("model_type")
    found = HF_ARCHITECTURES.get(name)
    if found is None or "quantization_config" in config:
        raise UnsupportedOperationError(
            "this model is not supported",
            where=config.where,
            got=name[:80] if found is None else f"{name} with quantization_config",
            expected=f"weights in f32, f16 or bf16 of {', '.join(HF_ARCHITECTURES)}",
        )
    return found


def read_decoder(config: JsonObject, features: HfArchitecture) -> DecoderFeatures:
    """Sizes and features of the decoder."""
    width, heads = config.count("hidden_size"), config.count("num_attention_heads")
    kv_heads = config.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise config.fail("num_attention_heads", heads, f"a multiple of {kv_heads}")
    head_size = config.count("head_dim", width // heads)
    layers = config.count("num_hidden_layers")
    activation = config.text("hidden_activation", config.text("hidden_act", "silu"))
    if activation not in ("silu", *_GELU):
        raise config.fail("hidden_act", activation, ", ".join(("silu", *_GELU)))
    windows = _read_windows(config, features, layers)
    rotary, local = _read_rotaries(config, head_size)
    default = config.number("query_pre_attn_scalar", head_size)
    if default <= 0:
        raise config.fail("query_pre_attn_scalar", default, "a positive number")
    return DecoderFeatures(
        layers=layers,
        width=width,
        inner_width=config.count("intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        eps=config.number("rms_norm_eps", 1e-6),
        rotary=rotary,
        windows=windows,
        attention_scale=config.number("attention_multiplier", 1 / math.sqrt(default)),
        local_rotary=local,
        activation="silu" if activation == "silu" else "gelu",
        embedding_scale=config.number(
            "embedding_multiplier", math.sqrt(width) if features.scaled else 1.0
        ),
        residual_scale=config.number("residual_multiplier", 1.0),
        logit_scale=1 / (config.number("logits_scaling", 1.0) or 1.0),
        score_cap=config.number("attn_logit_softcapping", 0.0),
        logit_cap=config.number("final_logit_softcapping", 0.0),
    )


def _read_windows(
    config: JsonObject, features: HfArchitecture, layers: int
) -> tuple[int | None, ...]:
    if "sliding_window" not in config or config.get("use_sliding_window") is False:
        return (None,) * layers
    window = config.count("sliding_window")
    kinds = config.get("layer_types")
    if kinds is None:
        every = config.count("sliding_window_pattern", features.global_layer, least=0)
        if not every:
            return (None,) * layers
        return tuple(None if every > 1 and (i + 1) % every == 0 else window for i in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers or {*kinds} - {_LOCAL, _GLOBAL}:
        raise config.fail("layer_types", kinds, f"{layers} of {_LOCAL}, {_GLOBAL}")
    return tuple(window if kind == _LOCAL else None for kind in kinds)


def _read_rotaries(config: JsonObject, head_size: int) -> tuple[Rotary, Rotary | None]:
    """The rotation of all layers, and of those with a window where it differs. A config has
    `rope_parameters` (of each kind of layer, or of all), or rope_theta and rope_scaling."""
    dims = int(head_size * config.number("partial_rotary_factor", 1.0))
    found = config.read_object("rope_parameters")
    if found is not None and _GLOBAL in found:
        wide, near = found.read_object(_GLOBAL), found.read_object(_LOCAL)
        assert wide is not None
        local = None if near is None else _read_rotary(config, near, dims)
        return _read_rotary(config, wide, dims), local
    if found is None:
        scaling = config.read_object("rope_scaling")
        values = {} if scaling is None else dict(scaling.values)
        values.setdefault("rope_theta", config.number("rope_theta", 10000.0))
        found = JsonObject(values, config.where)
    near = None
    if "rope_local_base_freq" in config:
        near = Rotary(dims, config.number("rope_local_base_freq"))
    return _read_rotary(config, found, dims), near


def _read_rotary(config: JsonObject, values: JsonObject, dims: int) -> Rotary:
    dims = int(dims * values.number("partial_rotary_factor", 1.0)) if (
        "partial_rotary_factor" not in config) else dims  # fmt: skip
    if dims < 2 or dims % 2:
        raise config.fail("partial_rotary_factor", dims, "an even number of rotated elements")
    base = values.number("rope_theta", 10000.0)
    rotary = Rotary(dims, base)
    kind = values.text("rope_type", values.text("type", "default"))
    if kind == "default":
        return rotary
    if kind == "linear":
        factor = values.number("factor")
        return replace(rotary, factors=np.full(dims // 2, factor, np.float32))
    if kind == "llama3":
        factors = llama3_factors(
            dims,
            base,
            values.number("factor"),
            values.number("low_freq_factor"),
            values.number("high_freq_factor"),
            values.count("original_max_position_embeddings"),
        )
        return replace(rotary, factors=factors)
    if kind in ("longrope", "su"):
        return _read_longrope(config, values, rotary)
    raise UnsupportedOperationError(
        "this scaling of rotary positions is not supported",
        where=config.where,
        got=kind[:80],
        expected="default, linear, llama3, longrope",
    )


def _read_longrope(config: JsonObject, values: JsonObject, rotary: Rotary) -> Rotary:
    longest = config.count("max_position_embeddings")
    inner = config.count("original_max_position_embeddings", longest)
    length = values.count("original_max_position_embeddings", inner)
    half = rotary.dims // 2
    ratio = values.number("factor", longest / length)
    magnitude = math.sqrt(1 + math.log(ratio) / math.log(length)) if ratio > 1 else 1.0
    return replace(
        rotary,
        factors=np.array(values.numbers("short_factor", half), np.float32),
        long_factors=np.array(values.numbers("long_factor", half), np.float32),
        original_length=length,
        magnitude=values.number("attention_factor", magnitude),
    )
