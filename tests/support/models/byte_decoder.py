"""A tiny decoder over bytes with a tokenizer of the real library."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from irc_compiler import save_model
from irc_compiler.llm import LanguageModel, ModelConfig
from irc_compiler.llm.chat_template import ChatTemplate
from irc_compiler.llm.llm import LLM
from irc_compiler.llm.tokenizer import Tokenizer

from .tiny_decoder import decoder_model

END = 256
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


@cache
def byte_tokenizer() -> Tokenizer:
    """One token per byte; the last token ends a text."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    model: Any = models.BPE({letter: n for n, letter in enumerate(letters)}, [])
    made = Library(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    made.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    made.add_special_tokens([AddedToken("</s>", special=True)])
    return Tokenizer(made)


def byte_language_model(seed: int = 0) -> LanguageModel:
    """A random model over bytes."""
    config = ModelConfig(
        name="bytes", architecture="llama", context_length=1024, vocabulary=END + 1, layers=2,
        heads=4, kv_heads=2, head_size=8, eos_token_ids=(END,),
    )  # fmt: skip
    model = decoder_model(vocabulary=END + 1, seed=seed)
    return LanguageModel(model, byte_tokenizer(), ChatTemplate(TEMPLATE), config)


@cache
def byte_llm() -> LLM:
    """It, compiled."""
    return LLM(byte_language_model(), num_threads=1)


def save_byte_model(folder: Path, context_length: int = 1024) -> Path:
    """The model in the form of optimum-intel."""
    folder.mkdir(parents=True)
    save_model(decoder_model(vocabulary=END + 1), folder / "openvino_model.xml")
    config = {
        "model_type": "llama",
        "max_position_embeddings": context_length,
        "vocab_size": END + 1,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 32,
        "eos_token_id": END,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    byte_tokenizer().library.save(str(folder / "tokenizer.json"))
    return folder
