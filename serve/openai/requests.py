"""OpenAI's requests: decoded and checked, and what they request of a language model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from ...ir.errors import UsageError
from ...llm.sampling import GenerationOptions
from ..errors import RequestError, UnsupportedError

MAX_CHOICES = 32  # of one request
MAX_TEXTS = 256  # of one request for embeddings
MAX_TOP_LOGPROBS = 20
ModelName = Annotated[str, Meta(min_length=1, max_length=200)]
Request = TypeVar("Request", bound="CompletionRequest | ChatRequest | EmbeddingRequest")


class StreamOptions(Struct, frozen=True):
    """include_usage: a last chunk with the counts of tokens."""

    include_usage: bool | None = None


class JsonSchema(Struct, frozen=True):
    """The schema of `response_format`."""

    schema: dict[str, Any] | None = None


class ResponseFormat(Struct, frozen=True):
    """`json_schema` and `json_object` constrain the text."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class Sampling(Struct, frozen=True, kw_only=True):
    """Fields of both kinds of requests. Those at the end are refused unless they change nothing;
    fields that are not listed are ignored, as OpenAI's clients send ones that only OpenAI reads."""

    model: ModelName
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    logit_bias: dict[str, Any] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None

    def refuse_unsupported(self, **others: object) -> None:
        """UnsupportedError for a field that would change the text and is not offered."""
        given = {
            "n": self.n if self.n != 1 else None,
            "logit_bias": self.logit_bias,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            **others,
        }
        for name, value in given.items():
            if value:
                raise UnsupportedError(
                    f"{name} is not supported", got=str(value)[:80], fix=f"leave {name} out"
                )

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the counts of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def make_options(
        self, max_tokens: int | None, default: int, logprobs: int | None
    ) -> GenerationOptions:
        """RequestError for a value out of range."""
        stop = self.stop or ()
        if not isinstance(stop, str) and len(stop) > 16:
            raise RequestError("too many stop texts", got=len(stop), expected="at most 16")
        numbers = {
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
        }
        try:
            return GenerationOptions(
                max_tokens=default if max_tokens is None else max_tokens,
                temperature=1.0 if self.temperature is None else self.temperature,
                stop=stop,
                seed=self.seed,
                logprobs=logprobs,
                json_schema=self._read_schema(),
                **{name: value for name, value in numbers.items() if value is not None},  # pyright: ignore[reportArgumentType]
            )
        except UsageError as error:
            raise RequestError(error.what, got=error.got, expected=error.expected) from None

    def _read_schema(self) -> dict[str, Any] | None:
        wanted = self.response_format
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type == "json_object":
            return {"type": "object"}
        if wanted.json_schema is None or wanted.json_schema.schema is None:
            raise RequestError(
                "response_format has no schema", expected="response_format.json_schema.schema"
            )
        return wanted.json_schema.schema


class TextPart(Struct, frozen=True):
    """A part of a message's content."""

    type: str
    text: str | None = None


class Message(Struct, frozen=True):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[Any] | None = None

    def as_mapping(self) -> dict[str, str]:
        """The message as a chat template reads it. UnsupportedError for images and tools."""
        if self.tool_calls or self.role == "tool":
            raise UnsupportedError("tools are not supported", fix="send texts only")
        content = self.content or ""
        if not isinstance(content, str):
            for part in content:
                if part.type != "text" or part.text is None:
                    raise UnsupportedError(
                        "a part of a message is not a text", got=part.type[:80], fix="send texts"
                    )
            content = "".join(part.text or "" for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class ChatRequest(Sampling, frozen=True, kw_only=True):
    """/v1/chat/completions."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=10_000)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    audio: dict[str, Any] | None = None

    def prompts(self) -> list[Any]:
        """One conversation."""
        return [[message.as_mapping() for message in self.messages]]

    def options(self) -> GenerationOptions:
        """Without max_tokens the text may fill the context."""
        self.refuse_unsupported(tools=self.tools, functions=self.functions, audio=self.audio)
        count = (self.top_logprobs or 0) if self.logprobs else None
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestError("top_logprobs without logprobs", expected='"logprobs": true')
        if count is not None and not 0 <= count <= MAX_TOP_LOGPROBS:
            raise RequestError(
                "top_logprobs is out of range", got=count, expected=f"0 to {MAX_TOP_LOGPROBS}"
            )
        given = self.max_completion_tokens
        return self.make_options(self.max_tokens if given is None else given, 1 << 30, count)


class CompletionRequest(Sampling, frozen=True, kw_only=True):
    """/v1/completions."""

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    def prompts(self) -> list[Any]:
        """Texts, or tokens."""
        given: Any = self.prompt
        if isinstance(given, str) or (given and isinstance(given[0], int)):
            return [given]
        if not 1 <= len(given) <= MAX_CHOICES:
            raise RequestError(
                "the number of prompts is out of range",
                got=len(given),
                expected=f"1..{MAX_CHOICES}",
            )
        return list(given)

    def options(self) -> GenerationOptions:
        """16 tokens unless max_tokens is given."""
        best = self.best_of if self.best_of != 1 else None
        self.refuse_unsupported(echo=self.echo, suffix=self.suffix, best_of=best)
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_TOP_LOGPROBS:
            raise RequestError(
                "logprobs is out of range", got=self.logprobs, expected=f"0 to {MAX_TOP_LOGPROBS}"
            )
        return self.make_options(self.max_tokens, 16, self.logprobs)


class EmbeddingRequest(Struct, frozen=True):
    """/v1/embeddings."""

    model: ModelName
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None

    def texts(self) -> list[str]:
        """The texts. UnsupportedError for `dimensions`."""
        if self.dimensions is not None:
            raise UnsupportedError("dimensions is not supported", fix="leave dimensions out")
        texts = [self.input] if isinstance(self.input, str) else self.input
        if not 1 <= len(texts) <= MAX_TEXTS:
            raise RequestError(
                "the number of texts is out of range", got=len(texts), expected=f"1..{MAX_TEXTS}"
            )
        return texts


def decode_request(kind: type[Request], body: bytes) -> Request:
    """RequestError that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError("the request is not valid", got=str(error)[:300]) from None
