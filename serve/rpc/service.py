"""The service inference.GRPCInferenceService over one engine."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from ..descriptions import (
    describe_config,
    describe_index,
    describe_model,
    describe_server,
    describe_statistics,
)
from ..errors import (
    ForbiddenError,
    NotFoundError,
    OverloadError,
    RequestError,
    TokenError,
    UnavailableError,
    UnsupportedError,
    describe_failure,
)
from ..inference import Engine
from ..logs import choose_request_id, log, log_request, request_id
from ..stubs import open_inference_pb2 as pb
from .messages import decode_infer, encode_result

SERVICE = "inference.GRPCInferenceService"
Method = Callable[[Any], Awaitable[Any]]
_OPEN = ("ServerLive", "ServerReady")  # need no token, for probes
_SHARED_MEMORY = tuple(
    f"{kind}SharedMemory{verb}"
    for kind in ("System", "Cuda")
    for verb in ("Status", "Register", "Unregister")
)


class Service:
    """The methods by name; each takes a request message and returns a response message."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.registry = engine, engine.registry
        self._limits, self._streams = engine.settings.limits, 0
        token = engine.settings.token
        self._token = None if token is None else f"Bearer {token}".encode()
        self.methods: dict[str, tuple[Any, Method]] = {
            "ServerLive": (pb.ServerLiveRequest, self._live),
            "ServerReady": (pb.ServerReadyRequest, self._ready),
            "ModelReady": (pb.ModelReadyRequest, self._model_ready),
            "ServerMetadata": (pb.ServerMetadataRequest, self._server),
            "ModelMetadata": (pb.ModelMetadataRequest, self._model),
            "ModelConfig": (pb.ModelConfigRequest, self._config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self._statistics),
            "ModelInfer": (pb.ModelInferRequest, self._infer),
            "RepositoryIndex": (pb.RepositoryIndexRequest, self._index),
            "RepositoryModelLoad": (pb.RepositoryModelLoadRequest, self._load),
            "RepositoryModelUnload": (pb.RepositoryModelUnloadRequest, self._unload),
            **dict.fromkeys(_SHARED_MEMORY, (pb.ServerLiveRequest, self._shared_memory)),
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """The handler to register with a server."""
        table: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(self._unary(name, kind, method))
            for name, (kind, method) in self.methods.items()
        }
        table["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.method_handlers_generic_handler(SERVICE, table)

    def _unary(self, name: str, kind: Any, method: Method) -> Any:
        async def call(data: bytes, context: Any) -> bytes:
            start, metadata = time.perf_counter(), dict(context.invocation_metadata() or ())
            id_ = choose_request_id(_text(metadata.get("x-request-id")))
            token, outcome = request_id.set(id_), "cancelled"
            try:
                if name not in _OPEN:
                    self._authorize(metadata)
                response = await method(_parse(kind, data))
                outcome = "ok"
                return response.SerializeToString()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                failure = describe_failure(error)
                outcome = failure.cause
                if outcome == "internal":
                    log.exception("a request failed")
                code = getattr(grpc.StatusCode, failure.code)
                await context.abort(code, failure.message, (("x-request-id", id_),))
                raise  # abort has raised
            finally:
                log_request("grpc", name, outcome, time.perf_counter() - start, id_)
                request_id.reset(token)

        return call

    def _authorize(self, metadata: dict[str, Any]) -> None:
        given = (_text(metadata.get("authorization")) or "").encode()
        if self._token is not None and not hmac.compare_digest(given, self._token):
            raise TokenError("the bearer token is missing or wrong", expected="authorization")

    async def _infer(self, request: pb.ModelInferRequest) -> pb.ModelInferResponse:
        # Without inputs, or with raw ones, the answer is raw, too.
        raw = bool(request.raw_input_contents) or not request.inputs
        final = None
        if "triton_enable_empty_final_response" in request.parameters:
            final = True
        with self.engine.counting_refusals(request.model_name, request.model_version):
            decoded = decode_infer(request, self._limits)
        result = await self.engine.infer(decoded)
        return encode_result(result, raw=raw, final=final)

    async def _stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Answers in the order of the requests, of which a bounded number is in progress."""
        try:
            self._authorize(dict(context.invocation_metadata() or ()))
            if self._streams >= self._limits.streams:
                raise OverloadError("too many streams", expected=self._limits.streams)
        except Exception as error:
            failure = describe_failure(error)
            await context.abort(getattr(grpc.StatusCode, failure.code), failure.message)
        self._streams += 1
        answers: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(
            self._limits.stream_window
        )

        async def read() -> None:
            async for data in requests:
                await answers.put(asyncio.create_task(self._stream_answer(data)))
            await answers.put(None)

        reader, current = asyncio.create_task(read()), None
        try:
            while (current := await _next_answer(answers, reader)) is not None:
                yield await current
        finally:
            self._streams -= 1
            reader.cancel()
            while not answers.empty():
                if (left := answers.get_nowait()) is not None:
                    left.cancel()
            if current is not None:
                current.cancel()

    async def _stream_answer(self, data: bytes) -> bytes:
        message, id_ = pb.ModelStreamInferResponse(), ""
        try:
            request = _parse(pb.ModelInferRequest, data)
            id_ = request.id
            message.infer_response.CopyFrom(await self._infer(request))
        except Exception as error:
            failure = describe_failure(error)
            if failure.cause == "internal":
                log.exception("a request of a stream failed")
            message.error_message = failure.message
            message.infer_response.id = id_
        return message.SerializeToString()

    async def _live(self, request: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def _ready(self, request: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self.engine.ready)

    async def _server(self, request: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        return ParseDict(describe_server(self.engine), pb.ServerMetadataResponse())

    async def _model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        try:
            self.registry.find(request.name, request.version)
        except (NotFoundError, UnavailableError):
            return pb.ModelReadyResponse(ready=False)
        return pb.ModelReadyResponse(ready=True)

    async def _model(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        model = self.registry.find(request.name, request.version)
        return ParseDict(describe_model(self.registry, model), pb.ModelMetadataResponse())

    async def _config(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        model = self.registry.find(request.name, request.version)
        return ParseDict({"config": describe_config(model)}, pb.ModelConfigResponse())

    async def _statistics(self, request: pb.ModelStatisticsRequest) -> pb.ModelStatisticsResponse:
        if request.name:
            chosen = [self.registry.find(request.name, request.version)]
        else:
            models = self.registry.models.values()
            chosen = [s for m in models for s in m.served_versions().values()]
        found = {"model_stats": [describe_statistics(m) for m in chosen]}
        return ParseDict(found, pb.ModelStatisticsResponse())

    async def _index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        found = {"models": describe_index(self.registry, ready=request.ready)}
        return ParseDict(found, pb.RepositoryIndexResponse())

    async def _load(self, request: pb.RepositoryModelLoadRequest) -> pb.RepositoryModelLoadResponse:
        self._require_load_allowed()
        if request.parameters:
            fix = "put the configuration and the files into the repository"
            raise UnsupportedError("load takes no parameters", fix=fix)
        await self.registry.load(request.model_name)
        return pb.RepositoryModelLoadResponse()

    async def _unload(
        self, request: pb.RepositoryModelUnloadRequest
    ) -> pb.RepositoryModelUnloadResponse:
        self._require_load_allowed()
        await self.registry.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()

    def _require_load_allowed(self) -> None:
        if not self.engine.settings.allow_load:
            fix = "start the server with --allow-load"
            raise ForbiddenError("load and unload requests are off", fix=fix)

    async def _shared_memory(self, request: Any) -> Any:
        fix = "send tensors in the request"
        raise UnsupportedError("shared memory is not supported", fix=fix)


async def _next_answer(
    answers: asyncio.Queue[asyncio.Task[bytes] | None], reader: asyncio.Task[None]
) -> asyncio.Task[bytes] | None:
    """The next answer of a stream; None at its end, or once its requests can't be read."""
    getter = asyncio.ensure_future(answers.get())
    await asyncio.wait((getter, reader), return_when=asyncio.FIRST_COMPLETED)
    if getter.done():
        return getter.result()
    if not answers.empty() or (not reader.cancelled() and reader.exception() is None):
        return await getter
    getter.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await getter
    return None


def _parse(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise RequestError("the protobuf message is broken", got=str(error)[:200]) from None


def _text(value: str | bytes | None) -> str | None:
    return value.decode("latin-1") if isinstance(value, bytes) else value
