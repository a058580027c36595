"""Handlers of /v1: completions of chats and texts, whole or streamed, embeddings, models."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson

from ...llm.batching.generation_task import GenerationTask
from ...llm.result import Generation, TextPiece
from ...llm.sampling import TokenLogprob
from ..errors import RequestError, UnavailableError, describe_failure
from ..inference import Engine
from ..logs import log
from ..rest.body import BodyBudget, BodyReader, ClientGoneError
from ..rest.exchange import Exchange, Handler
from .answers import ChatAnswer, CompletionAnswer
from .errors import describe_openai_error, translate
from .requests import ChatRequest, CompletionRequest, EmbeddingRequest, Request, decode_request
from .served_language_model import ServedLanguageModel

Answer: TypeAlias = ChatAnswer | CompletionAnswer


class OpenAI:
    """OpenAI's endpoints over the models of one engine."""

    def __init__(self, engine: Engine, budget: BodyBudget) -> None:
        self._engine, self._budget = engine, budget

    def list_routes(self) -> list[tuple[str, tuple[str, ...], Handler]]:
        """(path, methods, handler) of each endpoint."""
        get, post = ("GET",), ("POST",)
        return [
            ("/v1/chat/completions", post, self._chat),
            ("/v1/completions", post, self._complete),
            ("/v1/embeddings", post, self._embed),
            ("/v1/models", get, self._models),
            ("/v1/models/{model}", get, self._model),
        ]

    async def _chat(self, x: Exchange) -> None:
        request = await self._read(x, ChatRequest)
        model = self._find(request.model)
        await self._generate(x, model, request, ChatAnswer(x.id, model.name, model.llm.tokenizer))

    async def _complete(self, x: Exchange) -> None:
        request = await self._read(x, CompletionRequest)
        model = self._find(request.model)
        answer = CompletionAnswer(x.id, model.name, model.llm.tokenizer)
        await self._generate(x, model, request, answer)

    async def _read(self, x: Exchange, kind: type[Request]) -> Request:
        if self._engine.draining:
            raise UnavailableError("the server is shutting down")
        reader = BodyReader(x.headers, self._engine.settings.limits, self._budget)
        try:
            return decode_request(kind, await reader.read(x.receive))
        finally:
            reader.release()

    def _find(self, name: str) -> ServedLanguageModel:
        found = self._engine.registry.find(name)
        if not isinstance(found, ServedLanguageModel):
            raise RequestError(
                "the model is not a language model", got=name[:200], fix="use /v2/models"
            )
        return found

    async def _generate(
        self,
        x: Exchange,
        model: ServedLanguageModel,
        request: ChatRequest | CompletionRequest,
        answer: Answer,
    ) -> None:
        start, tasks = time.perf_counter(), list[GenerationTask]()

        async def work() -> None:
            tasks.extend(await model.submit(request.prompts(), request.options()))
            if request.stream:
                await _stream(x, tasks, answer, usage=request.wants_usage)
                return
            texts = [await task for task in tasks]
            body = await asyncio.to_thread(lambda: orjson.dumps(answer.show(texts)))
            await x.respond(body)

        try:
            await x.run_unless_gone(work())
        except (ClientGoneError, asyncio.CancelledError):
            model.statistics.record_failure("cancelled", time.perf_counter() - start)
            raise
        except Exception as error:
            found = translate(error, submitted=True)
            cause = describe_failure(found).cause
            model.statistics.record_failure(cause, time.perf_counter() - start)
            if not x.started:
                raise found from error
            await _end_broken_stream(x, found)
        else:
            queued = max(task.queue_seconds for task in tasks)
            texts = [task.partial() for task in tasks]
            model.statistics.record_success(time.perf_counter() - start, queued)
            model.statistics.record_tokens(
                sum(found.stats.prompt_tokens for found in texts),
                sum(len(found.tokens) for found in texts),
            )
        finally:
            for task in tasks:
                if not task.is_done:
                    task.cancel()

    async def _embed(self, x: Exchange) -> None:
        request = await self._read(x, EmbeddingRequest)
        model, texts = self._find(request.model), request.texts()
        start = time.perf_counter()

        async def work() -> tuple[list[Any], int]:
            vectors, count = [], 0
            async with model.embedding_lock:
                for text in texts:  # one by one: a client that goes away ends it
                    model.require_short(text)
                    vector, read = await asyncio.to_thread(_embed_text, model, text)
                    vectors.append(vector)
                    count += read
            return vectors, count

        try:
            vectors, count = await x.run_unless_gone(work())
        except Exception as error:
            found = translate(error, submitted=False)
            gone = isinstance(error, ClientGoneError)
            cause = "cancelled" if gone else describe_failure(found).cause
            model.statistics.record_failure(cause, time.perf_counter() - start)
            raise found from error
        model.statistics.record_success(time.perf_counter() - start, 0.0)
        model.statistics.record_tokens(count, 0)
        packed = request.encoding_format == "base64"
        data = [
            {
                "object": "embedding",
                "index": n,
                "embedding": base64.b64encode(v.tobytes()).decode() if packed else v.tolist(),
            }
            for n, v in enumerate(vectors)
        ]
        usage = {"prompt_tokens": count, "total_tokens": count}
        await x.respond_json({"object": "list", "data": data, "model": model.name, "usage": usage})

    async def _models(self, x: Exchange) -> None:
        found = [
            max(served.items())[1]
            for model in self._engine.registry.models.values()
            if (served := model.served_versions())
        ]
        data = [_describe(m) for m in found if isinstance(m, ServedLanguageModel)]
        await x.respond_json({"object": "list", "data": data})

    async def _model(self, x: Exchange) -> None:
        await x.respond_json(_describe(self._find(x.path["model"])))


def _describe(model: ServedLanguageModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "irc"}


def _embed_text(model: ServedLanguageModel, text: str) -> tuple[Any, int]:
    tokens = model.llm.encode(text)
    (vector,) = model.llm.embed_tokens([tokens]).astype("<f4")
    return np.ascontiguousarray(vector), len(tokens)


async def _stream(
    x: Exchange, tasks: Sequence[GenerationTask], answer: Answer, *, usage: bool
) -> None:
    """Server-sent events of all texts, each piece as it comes."""
    await x.start_stream("text/event-stream; charset=utf-8")
    for n in range(len(tasks)):
        for chunk in answer.begin(n):
            await x.send_piece(_event(chunk))
    # Log-probabilities of tokens whose text is not known yet go with the next text.
    waiting: list[list[TokenLogprob]] = [[] for _ in tasks]
    async for n, piece in _merge(tasks):
        if piece is None:
            reason = tasks[n].partial().finish_reason
            await x.send_piece(_event(answer.finish(n, reason)))
            continue
        if piece.logprob is not None:
            waiting[n].append(piece.logprob)
        if piece.text or (tasks[n].is_done and waiting[n]):
            await x.send_piece(_event(answer.show_piece(n, piece.text, waiting[n])))
            waiting[n] = []
    if usage:
        texts: list[Generation] = [task.partial() for task in tasks]
        await x.send_piece(_event(answer.usage(texts)))
    await x.send_piece(b"data: [DONE]\n\n", last=True)


async def _merge(tasks: Sequence[GenerationTask]) -> AsyncIterator[tuple[int, TextPiece | None]]:
    """Pieces of several texts as they come, each with its number; None behind the last of one."""
    queue: asyncio.Queue[tuple[int, TextPiece | None, Exception | None]] = asyncio.Queue(64)

    async def read(n: int, task: GenerationTask) -> None:
        try:
            async for piece in task:
                await queue.put((n, piece, None))
            await queue.put((n, None, None))
        except Exception as error:
            await queue.put((n, None, error))

    readers = [asyncio.create_task(read(n, task)) for n, task in enumerate(tasks)]
    try:
        left = len(tasks)
        while left:
            n, piece, error = await queue.get()
            if error is not None:
                raise error
            left -= piece is None
            yield n, piece
    finally:
        for reader in readers:
            reader.cancel()


async def _end_broken_stream(x: Exchange, error: Exception) -> None:
    failure = describe_failure(error)
    if failure.cause == "internal":
        log.exception("a stream failed")
    await x.send_piece(_event({"error": describe_openai_error(failure)}), last=True)


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
