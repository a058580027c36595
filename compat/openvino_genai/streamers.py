"""Streamers of OpenVINO GenAI: objects and functions that get a text as it is generated."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Sequence
from typing import Any

from ...llm.result import TextPiece
from .tokenizer import Tokenizer


class StreamingStatus(enum.Enum):
    """What a streamer returns: generate on, stop, or stop and forget the turn."""

    RUNNING = 0
    STOP = 1
    CANCEL = 2


class StreamerBase(abc.ABC):
    """Gets tokens: override `write`, and `end` for what follows the last one."""

    @abc.abstractmethod
    def write(self, token: int | Sequence[int]) -> Any:
        """A token, or several. Returns a StreamingStatus, or whether to stop."""

    def end(self) -> None:  # noqa: B027 - a streamer need not do anything at the end
        """The text has ended."""


class TextStreamer(StreamerBase):
    """Passes texts to a function as tokens complete them."""

    def __init__(self, tokenizer: Tokenizer, callback: Callable[[str], Any]) -> None:
        self._callback = callback
        self._decode = tokenizer.llm.tokenizer.stream()

    def write(self, token: int | Sequence[int]) -> Any:
        """Decode, and call the function where there is text."""
        tokens = [token] if isinstance(token, int) else list(token)
        text = "".join(self._decode.step(t) for t in tokens)
        return self._callback(text) if text else StreamingStatus.RUNNING

    def end(self) -> None:
        """Pass the text that waits."""
        text = self._decode.flush()
        if text:
            self._callback(text)


class StreamFeed:
    """Passes the pieces of a text to a streamer, and reads what it returns."""

    def __init__(self, streamer: Any, tokenizer: Tokenizer) -> None:
        self._streamer, self._tokenizer = streamer, tokenizer

    def write(self, piece: TextPiece) -> StreamingStatus:
        """Pass a piece: its token to a StreamerBase, its text to a function."""
        found: Any = None
        if callable(getattr(self._streamer, "write", None)):
            if piece.token is not None:
                found = self._streamer.write(piece.token)
        elif piece.text:
            found = self._streamer(piece.text)
        if isinstance(found, StreamingStatus):
            return found
        return StreamingStatus.STOP if found else StreamingStatus.RUNNING

    def end(self) -> None:
        """The text has ended."""
        end = getattr(self._streamer, "end", None)
        if callable(end):
            end()
