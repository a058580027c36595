"""OpenAI's answers: objects of whole texts, and chunks of texts that are streamed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...llm.result import Generation
from ...llm.sampling import TokenLogprob
from ...llm.tokenizer import Tokenizer

LEAST_LOGPROB = -9999.0  # JSON has no infinities


class ChatAnswer:
    """/v1/chat/completions."""

    def __init__(self, id_: str, model: str, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._head = {"id": f"chatcmpl-{id_}", "created": int(time.time()), "model": model}

    def show(self, texts: Sequence[Generation]) -> dict[str, Any]:
        """The whole answer."""
        choices = [
            {
                "index": n,
                "message": {"role": "assistant", "content": found.text, "refusal": None},
                "logprobs": self._show_logprobs(found.logprobs),
                "finish_reason": found.finish_reason,
            }
            for n, found in enumerate(texts)
        ]
        return {
            **self._head,
            "object": "chat.completion",
            "choices": choices,
            "usage": count_usage(texts),
        }

    def begin(self, index: int) -> list[dict[str, Any]]:
        """Chunks before the first piece."""
        return [self._chunk(index, {"role": "assistant", "content": ""})]

    def show_piece(self, index: int, text: str, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        """A chunk with a piece of a text."""
        return self._chunk(index, {"content": text}, self._show_logprobs(logprobs or None))

    def finish(self, index: int, reason: str) -> dict[str, Any]:
        """The last chunk of a text."""
        return self._chunk(index, {}, None, reason)

    def usage(self, texts: Sequence[Generation]) -> dict[str, Any]:
        """The chunk with the counts."""
        head = {**self._head, "object": "chat.completion.chunk"}
        return {**head, "choices": [], "usage": count_usage(texts)}

    def _chunk(
        self, index: int, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def _show_logprobs(self, given: Sequence[TokenLogprob] | None) -> dict[str, Any] | None:
        if given is None:
            return None
        found: list[dict[str, Any]] = []
        for entry in given:
            top = [self._show_token(*pair) for pair in entry.top]
            found.append({**self._show_token(entry.token, entry.logprob), "top_logprobs": top})
        return {"content": found, "refusal": None}

    def _show_token(self, token: int, logprob: float) -> dict[str, Any]:
        text = show_token(self._tokenizer, token)
        number = max(logprob, LEAST_LOGPROB)
        return {"token": text, "logprob": number, "bytes": list(text.encode())}


class CompletionAnswer:
    """/v1/completions."""

    def __init__(self, id_: str, model: str, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._head = {
            "id": f"cmpl-{id_}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def show(self, texts: Sequence[Generation]) -> dict[str, Any]:
        """The whole answer."""
        choices = [
            self._choice(n, found.text, found.logprobs, found.finish_reason)
            for n, found in enumerate(texts)
        ]
        return {**self._head, "choices": choices, "usage": count_usage(texts)}

    def begin(self, index: int) -> list[dict[str, Any]]:
        """Chunks before the first piece: none."""
        return []

    def show_piece(self, index: int, text: str, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        """A chunk with a piece of a text."""
        return {**self._head, "choices": [self._choice(index, text, logprobs or None, None)]}

    def finish(self, index: int, reason: str) -> dict[str, Any]:
        """The last chunk of a text."""
        return {**self._head, "choices": [self._choice(index, "", None, reason)]}

    def usage(self, texts: Sequence[Generation]) -> dict[str, Any]:
        """The chunk with the counts."""
        return {**self._head, "choices": [], "usage": count_usage(texts)}

    def _choice(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob] | None, reason: str | None
    ) -> dict[str, Any]:
        shown = None if logprobs is None else self._show_logprobs(logprobs)
        return {"index": index, "text": text, "logprobs": shown, "finish_reason": reason}

    def _show_logprobs(self, given: Sequence[TokenLogprob]) -> dict[str, Any]:
        tokens = [show_token(self._tokenizer, entry.token) for entry in given]
        top = [
            {show_token(self._tokenizer, t): max(p, LEAST_LOGPROB) for t, p in entry.top}
            for entry in given
        ]
        offsets = list(accumulate(map(len, tokens), initial=0))[:-1]
        return {
            "tokens": tokens,
            "token_logprobs": [max(entry.logprob, LEAST_LOGPROB) for entry in given],
            "top_logprobs": top,
            "text_offset": offsets,
        }


def show_token(tokenizer: Tokenizer, token: int) -> str:
    """A token's text; bytes that are not UTF-8 alone are U+FFFD."""
    return tokenizer.decode([token], skip_special=False)


def count_usage(texts: Sequence[Generation]) -> dict[str, Any]:
    """Tokens of prompts and of texts."""
    read = sum(found.stats.prompt_tokens for found in texts)
    made = sum(len(found.tokens) for found in texts)
    cached = sum(found.stats.cached_tokens for found in texts)
    return {
        "prompt_tokens": read,
        "completion_tokens": made,
        "total_tokens": read + made,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
