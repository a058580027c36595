"""A language model that is compiled: the decoder's net, tokenizer, chat template, configuration.

As a file it is an artefact (.irc) of the net to which the rest is attached, as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..compiler.options import Options
from ..ir.errors import ArtifactError, Error, ModelFormatError, UsageError
from ..ir.lazy_dataclass import dataclass
from ..ir.serialization.dataclass_json import decode, encode
from .chat_template import ChatTemplate
from .decoder import compile_decoder, prepare_decoder
from .language_model import KVCache, LanguageModel, ModelConfig, check_cache_form
from .tokenizer import StoredTokenizer, Tokenizer

if TYPE_CHECKING:
    from ..api.compiled_model import CompiledModel
    from ..api.model_cache import ModelEntry

# The attachment of an artefact that makes it a language model.
ATTACHMENT: Final = "language_model"
_MAX_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class CompiledLanguageModel:
    """kv_cache: the form of keys and values; weight_forms: as in LanguageModel."""

    net: CompiledModel
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    config: ModelConfig
    weight_forms: dict[str, int]
    kv_cache: KVCache

    def export(self, path: str | os.PathLike[str], *, code: bool = False) -> None:
        """Write a `.irc` file, whole or not at all. code: with the machine code."""
        attached = _make_attachment(
            self.tokenizer, self.chat_template, self.config, self.weight_forms, self.kv_cache
        )
        text = json.dumps(encode(attached), separators=(",", ":"), ensure_ascii=False)
        self.net.export(path, code=code, attachments={ATTACHMENT: text.encode()})


@dataclass(frozen=True)
class _Attached:
    """What is stored with the net."""

    tokenizer: StoredTokenizer | str
    vocabulary: int
    template: str | None
    template_tokens: tuple[tuple[str, str], ...]
    config: ModelConfig
    weight_forms: tuple[tuple[str, int], ...]
    kv_cache: str


def _make_attachment(
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    config: ModelConfig,
    weight_forms: Mapping[str, int],
    kv_cache: KVCache,
) -> _Attached:
    return _Attached(
        tokenizer=StoredTokenizer.of(tokenizer.library),
        vocabulary=tokenizer.vocabulary,
        template=None if template is None else template.source,
        template_tokens=() if template is None else tuple(template.tokens.items()),
        config=config,
        weight_forms=tuple(weight_forms.items()),
        kv_cache=kv_cache,
    )


def is_artifact(path: object) -> bool:
    """Whether a path is that of an artefact."""
    return isinstance(path, str | os.PathLike) and Path(path).suffix.lower() == ".irc"


def is_language_model(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a language model: a folder, a .gguf file, or an artefact of one.
    An artefact that cannot be read is none: who loads it says why."""
    from ..api.model_source import list_attachments

    if not is_artifact(path):
        return Path(path).is_dir() or Path(path).suffix.lower() == ".gguf"
    try:
        return ATTACHMENT in list_attachments(path)
    except Error:
        return False


def compile_language_model(
    source: LanguageModel,
    *,
    read_again: Callable[[], LanguageModel] | None,
    num_threads: int | None,
    max_memory: int | None,
    kv_cache: KVCache | None,
    activations: str | None,
    precision: str | None,
    entry: ModelEntry | None = None,
) -> CompiledLanguageModel:
    """Compile a model. read_again, entry: as in `compile_decoder`; None for options: f32."""
    form: KVCache = kv_cache or "f32"
    check_cache_form(form)
    template, config, forms = source.chat_template, source.config, source.weight_forms
    if entry is not None:
        attached = _make_attachment(source.tokenizer, template, config, forms, form)
        entry = replace(entry, attached={ATTACHMENT: attached})
    net = compile_decoder(
        source.model,
        read_again=None if read_again is None else lambda: read_again().model,
        num_threads=num_threads,
        max_memory=max_memory,
        kv_cache=form,
        activations=activations or "f32",
        precision=precision or "f32",
        entry=entry,
    )
    return CompiledLanguageModel(net, source.tokenizer, template, config, forms, form)


def compile_or_find(
    path: str | os.PathLike[str],
    read: Callable[[], LanguageModel],
    weights: str,
    **options: Any,
) -> CompiledLanguageModel:
    """Compile the model of a file or a folder, or take it from the cache, if it was compiled so
    before (api/model_cache.py). read: gives the model. weights: the form in which it does."""
    from ..api.compiled_model import start_found
    from ..api.model_cache import LANGUAGE_MODEL_SHARE, find_entry
    from ..api.model_source import CompileConfig

    form: KVCache = options["kv_cache"] or "f32"
    how = Options(
        activations=options["activations"] or "f32", precision=options["precision"] or "f32"
    )
    config = CompileConfig(how, {}, options["num_threads"], options["max_memory"])
    entry = find_entry(path, config, "language model", weights, form, share=LANGUAGE_MODEL_SHARE)
    found = None if entry is None else entry.find()
    if found is not None:
        # The library keeps the interpreter's lock while it reads a tokenizer: files are read
        # meanwhile, nothing is computed in Python.
        with ThreadPoolExecutor(1, "irc-tokenizer") as pool:
            attached: _Attached = found.program.attached[ATTACHMENT]
            tokenizer = pool.submit(_read_tokenizer, attached, repr(os.fspath(path)))
            net = start_found(found, lambda: prepare_decoder(read().model, form), config)
            if net is not None:
                return _attach(net, attached, tokenizer.result())
    return compile_language_model(read(), read_again=read, entry=entry, **options)


def load_language_model(
    path: str | os.PathLike[str],
    *,
    num_threads: int | None,
    max_memory: int | None,
    kv_cache: KVCache | None,
    activations: str | None,
    precision: str | None,
    trust_code: bool = False,
) -> CompiledLanguageModel:
    """Load a `.irc` file that `CompiledLanguageModel.export` wrote. None for options: those it was
    compiled with; with other activations or another precision its graph is compiled again.

    ArtifactError for a broken file or one of another model, UsageError for another kv_cache: the
    graph has the form of its cache.
    """
    from ..api.compiled_model import CompiledModel

    where = repr(os.fspath(path))
    net = CompiledModel.load(
        path,
        num_threads=num_threads,
        max_memory=max_memory,
        activations=activations,
        precision=precision,
        trust_code=trust_code,
    )
    content = net.read_attachments().get(ATTACHMENT)
    if content is None:
        raise ArtifactError(
            "this artefact is not a language model",
            where=where,
            got="a model without a tokenizer",
            expected="a file that `irc compile` wrote from a .gguf file or a folder",
            fix="compile the language model again",
        )
    attached = _decode(content, where)
    compiled = _attach(net, attached, _read_tokenizer(attached, where))
    if kv_cache not in (None, compiled.kv_cache):
        raise UsageError(
            "the artefact was compiled for another kv_cache",
            where=where,
            got=kv_cache,
            expected=compiled.kv_cache,
            fix=f"leave kv_cache out, or compile the model with kv_cache={kv_cache!r}",
        )
    return compiled


def _attach(net: CompiledModel, attached: _Attached, tokenizer: Tokenizer) -> CompiledLanguageModel:
    """The language model of a net and what is stored with it."""
    tokens = dict(attached.template_tokens)
    template = None
    if attached.template is not None:
        template = ChatTemplate(attached.template, tokens, was_checked=True)
    forms, kv_cache = dict(attached.weight_forms), cast(KVCache, attached.kv_cache)
    return CompiledLanguageModel(net, tokenizer, template, attached.config, forms, kv_cache)


def _decode(content: bytes, where: str) -> _Attached:
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError(f"{len(content)} bytes")
        found: _Attached = decode(_Attached, json.loads(content))
        check_cache_form(cast(Any, found.kv_cache))
        _check_config(found.config)
    except (Error, ValueError, RecursionError) as error:
        raise ArtifactError(
            "the artefact's language model is broken",
            where=where,
            got=str(error)[:200],
            expected="what irc wrote, unchanged",
            fix="copy the file again, or compile the model again",
        ) from error
    return found


def _check_config(config: ModelConfig) -> None:
    sizes = (config.context_length, config.vocabulary, config.layers, config.heads)
    windows = [w for w in (config.sliding_window, config.cache_window) if w is not None]
    if min(*sizes, config.kv_heads, config.head_size, *windows) < 1:
        raise ValueError(f"a size below 1: {config}")


def _read_tokenizer(attached: _Attached, where: str) -> Tokenizer:
    try:
        stored = attached.tokenizer
        # Files of earlier versions have the library's text.
        stored = StoredTokenizer(stored) if isinstance(stored, str) else stored
        library = stored.load()
    except Exception as error:  # the library raises Exception itself
        raise ModelFormatError(
            "the tokenizer of this artefact is broken", where=where, got=str(error)[:200]
        ) from error
    least = library.get_vocab_size(with_added_tokens=True)
    return Tokenizer(library, max(attached.vocabulary, least))
