"""`irc.LLM`: a language model that continues texts and answers messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..compiler.options import ACTIVATIONS, PRECISIONS
from ..compiler.report import describe_activations
from ..ir.errors import UsageError
from .beam_search import search_beams
from .chat_session import ChatSession, Messages, check_messages, encode_messages
from .compiled_language_model import (
    CompiledLanguageModel,
    compile_language_model,
    compile_or_find,
    is_artifact,
    load_language_model,
)
from .decoder import Decoder
from .draft_model import DraftModel, check_draft
from .generation import StreamedText, TextSettings, generate_rows, pad_left
from .language_model import KVCache, LanguageModel, check_cache_form
from .model_reader import read_language_model
from .result import Generation, TextPiece
from .sampling import GenerationOptions, make_options

if TYPE_CHECKING:
    from .batching.engine import GenerationEngine

# A text to continue, or messages to answer.
Prompt: TypeAlias = "str | Messages"


class LLM:
    """A language model, compiled for this machine.

    path: a `.gguf` file, a folder (llm/model_reader.py lists the forms), a `.irc` file that
    `export` wrote, or a LanguageModel.
    num_threads: None for the CPUs this process may use. max_memory: bytes for any file, tensor or
    arena. chunk: positions of a prompt that one run reads. context_length: the most tokens of
    prompt and text (default: what the model declares). kv_cache: "f32", or "f16" or "bf16" for keys
    and values in half the memory, each rounded once, or "u8" or "u4" for codes with a scale per
    token and head, of u4 per 32 values. weights: "stored" keeps compressed weights as
    the file has them, "f32" decompresses them. draft: a smaller model of the same tokens (an LLM, a
    path or a LanguageModel) that guesses tokens of texts that are generated one at a time; the text
    is the same as without.
    activations: what compressed weights are multiplied by: "f32", or "int8", which is quantized per
    token and group of channels. precision: "bf16" rounds the factors of matrix products, "f16"
    those without compressed weights. Products of compressed weights and up to 8 tokens stay f32, so
    "bf16" makes the reading of prompts faster, on a processor with a unit for it. kv_cache,
    activations and precision are "f32" by default, or what a `.irc` file was compiled with.

    Calls are independent of one another; `session` gives a conversation that keeps its cache.
    Raises an irc.Error that says what is wrong with the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | LanguageModel,
        *,
        num_threads: int | None = None,
        max_memory: int | None = None,
        chunk: int = 512,
        context_length: int | None = None,
        kv_cache: KVCache | None = None,
        weights: str = "stored",
        draft: LLM | str | os.PathLike[str] | LanguageModel | None = None,
        activations: str | None = None,
        precision: str | None = None,
    ) -> None:
        for name, value in (("chunk", chunk), ("context_length", context_length)):
            if value is not None and (type(value) is not int or not 1 <= value < 1 << 31):
                raise UsageError(f"{name} is out of range", got=value, expected="an integer from 1")

        if activations not in (None, *ACTIVATIONS):
            raise UsageError(
                "unknown activations", got=activations, expected=" or ".join(ACTIVATIONS)
            )
        if precision not in (None, *PRECISIONS):
            raise UsageError("unknown precision", got=precision, expected=" or ".join(PRECISIONS))

        if kv_cache is not None:
            check_cache_form(kv_cache)
        compiled = _compile_or_load(
            path,
            weights,
            num_threads=num_threads,
            max_memory=max_memory,
            kv_cache=kv_cache,
            activations=activations,
            precision=precision,
        )
        self.compiled, self.config, self.tokenizer = compiled, compiled.config, compiled.tokenizer
        self.chat_template, self.weight_forms = compiled.chat_template, compiled.weight_forms
        self.decoder = Decoder(compiled.net, chunk=chunk, window=self.config.cache_window)
        self.settings = TextSettings(
            self.tokenizer,
            frozenset(self.config.eos_token_ids),
            context_length or self.config.context_length,
            self.decoder.net.stats().constant_bytes,
            compiled.kv_cache,
            describe_activations(self.decoder.net.plan),
        )
        if draft is not None and not isinstance(draft, LLM):
            draft = LLM(
                draft,
                num_threads=num_threads,
                max_memory=max_memory,
                chunk=chunk,
                kv_cache=kv_cache,
                precision=precision,
            )
        self.draft = draft
        if draft is not None:
            check_draft(self.tokenizer, draft.tokenizer, draft.config.name)

    def export(self, path: str | os.PathLike[str], *, code: bool = False) -> None:
        """Write the compiled model with its tokenizer and chat template as one `.irc` file, whole
        or not at all, which `LLM(path)` loads without compiling. code: with the machine code."""
        self.compiled.export(path, code=code)

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        options: GenerationOptions | None = None,
        **named: Any,
    ) -> Any:
        """Continue a text as it is, or answer messages (mappings of `role` and `content`)
        through the model's chat template. A list of prompts is one batch.

        options: or the fields of GenerationOptions by name (max_tokens=, temperature=, top_k=,
        top_p=, min_p=, repetition_penalty=, stop=, seed=, num_beams=, logprobs=). Returns a
        Generation, of a list of prompts a list of them. A row of a batch has the text that it has
        alone, up to the rounding of sums. UsageError for an option out of range, and for a prompt
        longer than the context.
        """
        how = make_options(options, named)
        if _is_one(prompt):
            return self.generate_tokens([self.encode(cast(Prompt, prompt))], how)[0]
        listed = [self.encode(cast(Prompt, p)) for p in cast("Sequence[Any]", prompt)]
        return self.generate_tokens(listed, how) if listed else []

    def chat(
        self, messages: Messages, options: GenerationOptions | None = None, **named: Any
    ) -> Generation:
        """Answer messages: `generate` for one conversation."""
        check_messages(messages)
        return cast(Generation, self.generate(messages, options, **named))

    def stream(
        self, prompt: Prompt, options: GenerationOptions | None = None, **named: Any
    ) -> Iterator[TextPiece]:
        """The pieces of one text as they come; `print(piece, end="", flush=True)` prints one.

        UsageError for what `generate` refuses, and for num_beams above 1, as beams overtake one
        another.
        """
        how = make_options(options, named)
        return iter(self.start_stream(self.encode(prompt), how))

    def start_stream(self, tokens: Sequence[int], options: GenerationOptions) -> StreamedText:
        """A stream behind tokens, whose `result` is the whole text at any time."""
        if options.num_beams > 1:
            raise UsageError(
                "a beam search cannot be streamed", got=options.num_beams, expected="num_beams=1"
            )
        cache = self.decoder.start()
        return StreamedText(cache, self.settings, tokens, options, draft=self._start_draft())

    def _start_draft(self) -> DraftModel | None:
        if self.draft is None:
            return None
        context_length = self.draft.settings.context_length
        return DraftModel(self.draft.decoder, context_length, self.config.vocabulary)

    def session(self, system: str | None = None) -> ChatSession:
        """A conversation that keeps its cache between turns. system: the system message."""
        return ChatSession(
            self.decoder,
            self.settings,
            self._require_template(),
            system,
            self.config.name,
            self._start_draft(),
        )

    def engine(
        self,
        *,
        max_rows: int = 8,
        queue_size: int = 128,
        prefill_chunk: int = 128,
        prefix_cache_bytes: int = 256 << 20,
        on_step: Callable[[int, float], None] | None = None,
    ) -> GenerationEngine:
        """Continuous batching for requests of several threads or tasks (batching/engine.py)."""
        from .batching.engine import GenerationEngine
        from .batching.row_pool import takes_gaps

        return GenerationEngine(
            self.decoder,
            self.settings,
            self.encode,
            takes_gaps=takes_gaps(self.config, self.settings.context_length),
            max_rows=max_rows,
            queue_size=queue_size,
            prefill_chunk=prefill_chunk,
            prefix_cache_bytes=prefix_cache_bytes,
            on_step=on_step,
        )

    def embed(self, texts: str | Sequence[str]) -> npt.NDArray[np.float32]:
        """f32 [texts, width]: per text, the mean over its tokens of the hidden states before the
        last product, of length 1. [width] for one text that is not in a list."""
        if isinstance(texts, str):
            return self.embed([texts])[0]
        return self.embed_tokens([self.encode(text) for text in texts])

    def embed_tokens(self, prompts: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """`embed` of texts that are given as tokens: f32 [texts, width]."""
        for prompt in prompts:
            self.settings.require_room(prompt)
        if not prompts:
            raise UsageError("there is no text to embed", got="[]", expected="texts")
        ids, valid = pad_left(prompts)
        hidden = self.decoder.start(len(prompts)).read_hidden(ids, valid)
        means = np.einsum("rcw,rc->rw", hidden, valid.astype(np.float32))
        norms = np.linalg.norm(means, axis=1, keepdims=True)
        return (means / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32)

    def encode(self, prompt: Prompt) -> list[int]:
        """Tokens of a text, or of messages through the chat template."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        check_messages(prompt)
        return encode_messages(self.tokenizer, self._require_template(), prompt)

    def _require_template(self) -> Any:
        if self.chat_template is None:
            raise UsageError(
                "the model has no chat template",
                where=self.config.name,
                expected="a text, which is continued as it is",
                fix="pass a string, or a model that is trained for conversations",
            )
        return self.chat_template

    def generate_tokens(
        self, prompts: Sequence[Sequence[int]], options: GenerationOptions
    ) -> list[Generation]:
        """`generate` for prompts that are given as tokens."""
        if options.num_beams > 1:
            if options.logprobs is not None:
                raise UsageError(
                    "a beam search gives no logprobs",
                    got=options.logprobs,
                    expected="logprobs=None",
                )
            return [
                search_beams(self.decoder.start(), self.settings, prompt, options)
                for prompt in prompts
            ]
        drafts = self.draft is not None and options.draft_tokens != 0
        if (
            options.lookup or options.draft_tokens or drafts
        ):  # rows of a batch would accept different numbers of tokens
            streams = [self.start_stream(prompt, options) for prompt in prompts]
            return [stream.finish() for stream in streams]
        cache = self.decoder.start(len(prompts))
        return generate_rows(cache, self.settings, prompts, options)

    def __repr__(self) -> str:
        return f"<irc.LLM {self.config.name!r}: {self.config.architecture}>"


def _is_one(prompt: object) -> bool:
    """Whether this is one prompt: a text, or a list of messages. UsageError for neither."""
    if isinstance(prompt, str):
        return True
    if isinstance(prompt, Sequence):
        return any(isinstance(m, Mapping) for m in cast("Sequence[Any]", prompt))
    raise UsageError(
        "this is not a prompt", got=type(prompt).__name__, expected="a text, messages, or a list"
    )


def _compile_or_load(
    path: str | os.PathLike[str] | LanguageModel, weights: str, **options: Any
) -> CompiledLanguageModel:
    """The compiled model of a file, a folder or a LanguageModel."""
    if isinstance(path, LanguageModel):
        return compile_language_model(path, read_again=None, **options)
    if is_artifact(path):
        if weights != "stored":
            raise UsageError("an artefact has its weights as they were compiled", got=weights,
                             expected="weights='stored'")  # fmt: skip
        return load_language_model(path, **options)

    def read() -> LanguageModel:
        how: Any = {"weights": weights, "max_memory": options["max_memory"]}
        return read_language_model(path, **how)

    return compile_or_find(path, read, weights, **options)
