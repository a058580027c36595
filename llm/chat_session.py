"""Conversations that keep their cache: a turn reads the tokens that it adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..ir.errors import UsageError
from .generation import StreamedText, TextSettings
from .result import Generation, TextPiece
from .sampling import GenerationOptions, make_options

if TYPE_CHECKING:
    from .chat_template import ChatTemplate
    from .decoder import Decoder
    from .draft_model import DraftModel
    from .tokenizer import Tokenizer

Messages: TypeAlias = "Sequence[Mapping[str, Any]]"


def check_messages(messages: object) -> None:
    """UsageError unless each message has a `role` and a `content` that are texts."""
    listed = cast("list[Any]", list(messages)) if isinstance(messages, Sequence) else []
    for message in listed:
        if not isinstance(message, Mapping) or not all(
            isinstance(cast("Any", message).get(key), str) for key in ("role", "content")
        ):
            raise UsageError(
                "this is not a message",
                got=str(cast(object, message))[:80],
                expected='{"role": "user", "content": "..."}',
            )
    if not listed or isinstance(messages, str):
        raise UsageError("there are no messages", got=str(messages)[:80], expected="a list of them")


def encode_messages(tokenizer: Tokenizer, template: ChatTemplate, messages: Messages) -> list[int]:
    """Tokens of a conversation up to where the model's answer begins. The template writes the
    tokens that begin a text."""
    return tokenizer.encode(template.render(messages, True), add_special=False)


class ChatSession:
    """A conversation. `messages` may be changed between turns: what the rendered conversation
    shares with the tokens that were read is not read again.

    A turn that is interrupted (Ctrl-C, or a stream that is left) leaves the session as it was
    before the turn, with a cache that the next turn uses.
    """

    def __init__(
        self,
        decoder: Decoder,
        settings: TextSettings,
        template: ChatTemplate,
        system: str | None,
        name: str,
        draft: DraftModel | None = None,
    ) -> None:
        self._draft = draft
        self._settings, self._template, self._name = settings, template, name
        self._cache = decoder.start()
        self._known: list[int] = []
        self._turn: tuple[StreamedText, list[dict[str, Any]]] | None = None
        self._system = system
        self.messages: list[dict[str, Any]] = []
        self.last: Generation | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the conversation, except the system message."""
        self.messages = [] if self._system is None else [_message("system", self._system)]

    def send(self, text: str, options: GenerationOptions | None = None, **named: Any) -> Generation:
        """The answer to a message of the user. Options are those of `LLM.generate`."""
        for _ in self.stream(text, options, **named):
            pass
        assert self.last is not None
        return self.last

    def stream(
        self, text: str, options: GenerationOptions | None = None, **named: Any
    ) -> Iterator[TextPiece]:
        """The pieces of the answer as they come. The turn is part of the conversation once the
        last piece has come; `last` is its result."""
        how = make_options(options, named)
        if how.num_beams > 1:
            raise UsageError("a session has no beams", got=how.num_beams, expected="num_beams=1")
        asked = [*self.messages, _message("user", text)]
        check_messages(asked)
        tokens = encode_messages(self._settings.tokenizer, self._template, asked)
        stream = StreamedText(self._cache, self._settings, tokens, how, self._known, self._draft)
        return self._follow(stream, asked)

    def end_turn(self, *, keep: bool) -> Generation:
        """The text so far of the turn that was streamed last; `keep` makes it part of the
        conversation, also where the stream was left."""
        if self._turn is None:
            raise UsageError("no turn has begun", fix="call stream first")
        stream, asked = self._turn
        found = stream.result
        if keep:
            self.last = found
            self.messages = [*asked, _message("assistant", found.text)]
        return found

    def _follow(self, stream: StreamedText, asked: list[dict[str, Any]]) -> Iterator[TextPiece]:
        self._turn = stream, asked
        try:
            yield from stream
        finally:
            self._known = stream.tokens_read
        self.end_turn(keep=True)

    def __repr__(self) -> str:
        return f"<irc.ChatSession {self._name!r}: {len(self.messages)} messages>"


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
