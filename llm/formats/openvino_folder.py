"""Folders of optimum-intel: stateful IR (openvino_model.xml), config.json and the tokenizer's
files."""

from __future__ import annotations

from pathlib import Path

from ...compiler.model import Model, read_model
from ...ir.errors import UnsupportedOperationError
from ...ir.ops import ReadValue
from ..language_model import LanguageModel, ModelConfig
from .folder_files import read_chat_template, read_eos_tokens, read_folder_config, read_tokenizer
from .json_files import JsonObject

_REQUIRED = ("input_ids", "attention_mask", "beam_idx")
_OPTIONAL = ("position_ids",)


def read_openvino_folder(folder: Path, *, max_memory: int | None = None) -> LanguageModel:
    """A language model of a folder of optimum-intel. UnsupportedOperationError for a graph with
    other inputs, or without state."""
    config = read_folder_config(folder)
    model = read_model(folder / "openvino_model.xml", max_memory=max_memory)
    _check_interface(model, folder)
    sizes = read_ir_config(folder, config)
    tokenizer = read_tokenizer(folder, sizes.vocabulary)
    return LanguageModel(model, tokenizer, read_chat_template(folder), sizes)


def _check_interface(model: Model, folder: Path) -> None:
    names = {name for port in model.inputs for name in (port.name, *port.names)}
    missing = [n for n in _REQUIRED if n not in names]
    others = [p.name for p in model.inputs if not {p.name, *p.names} & {*_REQUIRED, *_OPTIONAL}]
    outputs = {name for port in model.outputs for name in (port.name, *port.names)}
    stateful = any(isinstance(model.graph.op(n), ReadValue) for n in model.graph.ids())
    if missing or others or "logits" not in outputs or not stateful:
        raise UnsupportedOperationError(
            "this is not the stateful graph of a decoder",
            where=repr(str(folder / "openvino_model.xml")),
            got=f"inputs {', '.join(p.name for p in model.inputs)[:200]}"
            + ("" if stateful else ", no variables"),
            expected=f"inputs {', '.join((*_REQUIRED, *_OPTIONAL))}, output logits, and the cache"
            " in variables",
            fix="export the model for text generation with past",
        )


def read_ir_config(folder: Path, config: JsonObject) -> ModelConfig:
    """Sizes and special tokens of a folder whose graph is given."""
    heads = config.count("num_attention_heads")
    window = config.get("sliding_window")
    if config.get("use_sliding_window") is False:
        window = None
    begin = config.get("bos_token_id")
    return ModelConfig(
        name=folder.resolve().name,
        architecture=config.text("model_type"),
        context_length=config.count("max_position_embeddings"),
        vocabulary=config.count("vocab_size"),
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=config.count("num_key_value_heads", heads),
        head_size=config.count("head_dim", config.count("hidden_size") // heads),
        eos_token_ids=read_eos_tokens(folder, config),
        bos_token_id=begin if type(begin) is int else None,
        sliding_window=window if type(window) is int else None,
    )
