"""Files next to a model in its folder: config.json, tokenizer, chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ...ir.errors import ModelFormatError
from ..architectures.decoder import DecoderFeatures
from ..chat_template import ChatTemplate
from ..language_model import ModelConfig
from ..tokenizer import Tokenizer
from .json_files import JsonObject, read_text


def read_folder_config(folder: Path) -> JsonObject:
    """config.json; of a model of text and images, the part about text."""
    config = JsonObject.read(folder / "config.json", "the model's config")
    return config.read_object("text_config") or config


def read_model_config(folder: Path, config: JsonObject, decoder: DecoderFeatures) -> ModelConfig:
    """Sizes and special tokens of a folder whose sizes are `decoder`'s."""
    window = next((w for w in decoder.windows if w is not None), None)
    return ModelConfig(
        name=folder.resolve().name,
        architecture=config.text("model_type"),
        context_length=config.count("max_position_embeddings"),
        vocabulary=config.count("vocab_size"),
        layers=decoder.layers,
        heads=decoder.heads,
        kv_heads=decoder.kv_heads,
        head_size=decoder.head_size,
        eos_token_ids=read_eos_tokens(folder, config),
        bos_token_id=_begin_token(config),
        sliding_window=window,
    )


def _begin_token(config: JsonObject) -> int | None:
    found = config.get("bos_token_id")
    return found if type(found) is int else None


def read_eos_tokens(folder: Path, config: JsonObject) -> tuple[int, ...]:
    """Tokens that end a generation: generation_config.json's, else config.json's."""
    sources = [config]
    if (folder / "generation_config.json").exists():
        path = folder / "generation_config.json"
        sources.insert(0, JsonObject.read(path, "the generation config"))
    for source in sources:
        found = source.get("eos_token_id")
        listed = cast("list[Any]", found) if isinstance(found, list) else [found]
        if found is not None and all(type(x) is int for x in listed):
            return tuple(listed)
    return ()


def read_tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """tokenizer.json. vocabulary: how many tokens the model has, which may be more than have text.
    ModelFormatError where the file is missing or broken."""
    import tokenizers

    text = read_text(folder / "tokenizer.json", "the tokenizer")
    try:
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        raise ModelFormatError(
            "the tokenizer is broken", where=repr(str(folder / "tokenizer.json")),
            got=str(error)[:200],
        ) from error  # fmt: skip
    # A text is encoded whole; what a file says about padding is for training.
    library.no_padding()
    library.no_truncation()
    return Tokenizer(library, max(vocabulary, library.get_vocab_size(with_added_tokens=True)))


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """chat_template.jinja, else the template in tokenizer_config.json; None without either."""
    settings = folder / "tokenizer_config.json"
    config = JsonObject({}, repr(str(folder)))
    if settings.exists():
        config = JsonObject.read(settings, "the tokenizer's config")
    source: Any = config.get("chat_template")
    if (folder / "chat_template.jinja").exists():
        source = read_text(folder / "chat_template.jinja", "the chat template")
    if isinstance(source, list):  # several by name
        named = [cast("dict[str, Any]", t) for t in cast("list[Any]", source) if type(t) is dict]
        source = next((t.get("template") for t in named if t.get("name") == "default"), None)
    if source is None:
        return None
    if not isinstance(source, str):
        raise config.fail("chat_template", source, "a string")
    tokens: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value: Any = config.get(name)
        value = cast("dict[str, Any]", value).get("content") if type(value) is dict else value
        if isinstance(value, str):
            tokens[name] = value
    return ChatTemplate(source, tokens)
