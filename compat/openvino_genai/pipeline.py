"""LLMPipeline: texts by irc.LLM under the names of OpenVINO GenAI."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...ir.errors import UsageError
from ...llm.chat_session import ChatSession
from ...llm.llm import LLM
from ...llm.result import Generation, TextPiece
from ..nearest import NamesNearest
from .results import DecodedResults, PerfMetrics
from .settings import GenerationConfig, make_settings, make_text_options
from .streamers import StreamFeed, StreamingStatus
from .tokenizer import TokenizedInputs, Tokenizer


class LLMPipeline(NamesNearest):
    """A language model that generates texts; `llm` is the irc.LLM behind it."""

    def __init__(
        self,
        models_path: str | os.PathLike[str],
        device: str | Tokenizer = "CPU",
        *more: Any,
        **properties: Any,
    ) -> None:
        """`(path, device, **properties)`, or `(path, tokenizer, device, **properties)` as in
        OpenVINO GenAI: the model's own tokenizer is used in either case."""
        if isinstance(device, Tokenizer):
            device, more = (more[0] if more else "CPU"), more[1:]
        for given in more:  # a mapping of properties
            properties = {**given, **properties}
        start = time.perf_counter()
        settings = make_settings(str(device), properties)
        self.llm = LLM(models_path, **settings.llm)
        self._load_seconds = time.perf_counter() - start
        self._lookup = settings.lookup
        self._config = GenerationConfig()
        self._session: ChatSession | None = None

    def get_tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.llm)

    def get_generation_config(self) -> GenerationConfig:
        """The defaults of `generate`."""
        return self._config

    def set_generation_config(self, config: GenerationConfig) -> None:
        """Other defaults for `generate`."""
        self._config = config

    def start_chat(self, system_message: str = "") -> None:
        """From now on a text is a message of one conversation, whose cache is kept."""
        self._session = self.llm.session(system_message or None)

    def finish_chat(self) -> None:
        """End the conversation."""
        self._session = None

    def generate(
        self,
        inputs: Any,
        generation_config: GenerationConfig | None = None,
        streamer: Any = None,
        **options: Any,
    ) -> Any:
        """The text for a text; DecodedResults for a list of texts, and for tokens.

        inputs: a text, a list of texts, a list of messages, or TokenizedInputs of one row.
        generation_config: or its fields by name. streamer: a function of a text that returns a
        StreamingStatus (or whether to stop), or a StreamerBase.
        """
        config = (generation_config or self._config).with_options(options)
        texts: list[Any] = [inputs]
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            listed: list[Any] = list(inputs)
            if not (listed and isinstance(listed[0], dict)):
                texts = listed
        if streamer is not None and len(texts) != 1:
            raise UsageError("a streamer has one text", got=len(texts), expected="one prompt")
        feed = None if streamer is None else StreamFeed(streamer, self.get_tokenizer())
        found = [self._generate(text, config, feed) for text in texts]
        results = DecodedResults([g.text for g in found], PerfMetrics(found, self._load_seconds))
        return results.texts[0] if isinstance(inputs, str) else results

    __call__ = generate

    def _generate(self, text: Any, config: GenerationConfig, feed: StreamFeed | None) -> Generation:
        if self._session is not None and isinstance(text, str):
            return self._answer(self._session, text, config, feed)
        tokens = self._encode(text, config)
        options = make_text_options(self.llm, config, len(tokens), lookup=self._lookup)
        if options.num_beams > 1 and feed is None:
            return self.llm.generate_tokens([tokens], options)[0]
        stream = self.llm.start_stream(tokens, options)
        _follow(iter(stream), feed)
        return stream.result

    def _answer(
        self, session: ChatSession, text: str, config: GenerationConfig, feed: StreamFeed | None
    ) -> Generation:
        """A turn of the conversation. One that the streamer stops is part of it, one that it
        cancels is not."""
        asked = [*session.messages, {"role": "user", "content": text}]
        options = make_text_options(
            self.llm, config, len(self.llm.encode(asked)), lookup=self._lookup
        )
        status = _follow(session.stream(text, options), feed)
        return session.end_turn(keep=status is not StreamingStatus.CANCEL)

    def _encode(self, text: Any, config: GenerationConfig) -> list[int]:
        if isinstance(text, TokenizedInputs):
            return text.row()
        if isinstance(text, str) and config.apply_chat_template and self.llm.chat_template:
            return self.llm.encode([{"role": "user", "content": text}])
        return self.llm.encode(text if isinstance(text, str) else list(text))


def _follow(pieces: Iterator[TextPiece], feed: StreamFeed | None) -> StreamingStatus:
    """Generate, and pass each piece to the streamer. Returns its last status."""
    status = StreamingStatus.RUNNING
    try:
        for piece in pieces:
            status = status if feed is None else feed.write(piece)
            if status is not StreamingStatus.RUNNING:
                break
    finally:
        getattr(pieces, "close", lambda: None)()
        if feed is not None:
            feed.end()
    return status


def draft_model(models_path: str | os.PathLike[str], device: str = "CPU", **properties: Any) -> Any:
    """The value of `LLMPipeline(draft_model=)`: a smaller model of the same tokens."""
    return LLM(models_path, **make_settings(device, properties).llm)
