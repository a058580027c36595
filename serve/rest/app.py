"""The ASGI application: routes of the Open Inference Protocol, metrics and the status page."""

from __future__ import annotations

import asyncio
import hmac
import time
from pathlib import Path
from typing import Any

import orjson
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ..descriptions import (
    describe_config,
    describe_index,
    describe_model,
    describe_server,
    describe_statistics,
    describe_status,
)
from ..errors import (
    ForbiddenError,
    MethodError,
    NotFoundError,
    TokenError,
    UnsupportedError,
    describe_failure,
)
from ..inference import Engine
from ..logs import log, log_request, request_id
from ..metrics import CONTENT_TYPE, Metrics
from ..openai.errors import OPENAI_PATHS, describe_openai_error
from ..openai.handlers import OpenAI
from .body import BodyBudget, BodyReader, ClientGoneError, compress_response
from .exchange import JSON, Exchange, Handler
from .messages import BINARY_HEADER, decode_infer, decode_load, encode_result

# JSON and strings above the first size, and tensors above the second, which may be copied, are
# decoded in another thread. To change threads takes 0.2 ms.
LARGE_TEXT_BYTES = 256 * 1024
LARGE_TENSOR_BYTES = 4 * 1024 * 1024
_PAGE = Path(__file__).parent.parent / "status.html"


class Rest:
    """Handlers of every path, over one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.registry = engine, engine.registry
        self._budget = BodyBudget(engine.settings.limits.buffered_bytes)
        self._metrics = Metrics(engine)
        token = engine.settings.token
        self._token = None if token is None else f"Bearer {token}".encode()
        versions = "/v2/models/{model}/versions/{version}"
        models = "/v2/models/{model}"
        get, post = ("GET",), ("POST",)
        table: list[tuple[str, tuple[str, ...], Handler]] = [
            (f"{models}/infer", post, self._infer),
            (f"{versions}/infer", post, self._infer),
            ("/v2/health/live", get, self._live),
            ("/v2/health/ready", get, self._ready),
            ("/v2", get, self._server),
            ("/v2/", get, self._server),
            ("/v2/models/stats", get, self._statistics),
            (models, get, self._model),
            (versions, get, self._model),
            (f"{models}/ready", get, self._model_ready),
            (f"{versions}/ready", get, self._model_ready),
            (f"{models}/config", get, self._config),
            (f"{versions}/config", get, self._config),
            (f"{models}/stats", get, self._statistics),
            (f"{versions}/stats", get, self._statistics),
            ("/v2/repository/index", post, self._index),
            ("/v2/repository/models/{model}/load", post, self._load),
            ("/v2/repository/models/{model}/unload", post, self._unload),
            ("/v2/systemsharedmemory/{rest:path}", (*get, *post), self._shared_memory),
            ("/v2/cudasharedmemory/{rest:path}", (*get, *post), self._shared_memory),
            ("/metrics", get, self._show_metrics),
            ("/status", get, self._status),
            ("/", get, self._page),
        ]
        table += OpenAI(engine, self._budget).list_routes()
        self.routes = [Route(p, self._endpoint(h), methods=list(m)) for p, m, h in table]

    def _endpoint(self, handler: Handler) -> ASGIApp:
        return _Endpoint(self, handler)

    def authorize(self, exchange: Exchange) -> None:
        """TokenError unless the request has the token; health paths need none, for probes."""
        if self._token is None or exchange.scope["path"].startswith("/v2/health/"):
            return
        given = exchange.headers.get("authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self._token):
            raise TokenError("the bearer token is missing or wrong", expected="Authorization")

    def metrics_app(self) -> ASGIApp:
        """An application with /metrics alone, for a port of its own."""
        route = Route("/metrics", self._endpoint(self._show_metrics), methods=["GET"])
        return make_app([route], self)

    async def _infer(self, x: Exchange) -> None:
        limits = self.engine.settings.limits
        reader = BodyReader(x.headers, limits, self._budget)
        try:
            name, version = x.path["model"], x.path.get("version", "")
            with self.engine.counting_refusals(name, version):
                body = await reader.read(x.receive)
                arguments = (name, version, body, x.headers.get(BINARY_HEADER), limits)
                if needs_another_thread(body, x.headers.get(BINARY_HEADER)):
                    request, binary = await asyncio.to_thread(decode_infer, *arguments)
                else:
                    request, binary = decode_infer(*arguments)
            result = await x.run_unless_gone(self.engine.infer(request))
        finally:
            reader.release()
        data, json_length = encode_result(result, binary)
        headers = dict[str, str]()
        if json_length is not None:
            headers[BINARY_HEADER] = str(json_length)
        data, encoding = compress_response(x.headers.get("accept-encoding", ""), data)
        if encoding is not None:
            headers["content-encoding"] = encoding
        binary_type = "application/octet-stream"
        await x.respond(
            data, content_type=JSON if json_length is None else binary_type, headers=headers
        )

    async def _live(self, x: Exchange) -> None:
        await x.respond_json({"live": True})

    async def _ready(self, x: Exchange) -> None:
        ready = self.engine.ready
        await x.respond(orjson.dumps({"ready": ready}), status=200 if ready else 503)

    async def _server(self, x: Exchange) -> None:
        await x.respond_json(describe_server(self.engine))

    def _find(self, x: Exchange) -> Any:
        return self.registry.find(x.path["model"], x.path.get("version", ""))

    async def _model(self, x: Exchange) -> None:
        await x.respond_json(describe_model(self.registry, self._find(x)))

    async def _model_ready(self, x: Exchange) -> None:
        await x.respond_json({"name": self._find(x).name, "ready": True})

    async def _config(self, x: Exchange) -> None:
        await x.respond_json(describe_config(self._find(x)))

    async def _statistics(self, x: Exchange) -> None:
        if "model" in x.path:
            chosen = [self._find(x)]
        else:
            models = self.registry.models.values()
            chosen = [s for m in models for s in m.served_versions().values()]
        await x.respond_json({"model_stats": [describe_statistics(m) for m in chosen]})

    async def _small_body(self, x: Exchange) -> bytes:
        reader = BodyReader(x.headers, self.engine.settings.limits, self._budget)
        try:
            return await reader.read(x.receive)
        finally:
            reader.release()

    async def _index(self, x: Exchange) -> None:
        request = decode_load(await self._small_body(x))
        await x.respond_json(describe_index(self.registry, ready=request.ready))

    async def _load(self, x: Exchange) -> None:
        self._require_load_allowed()
        if decode_load(await self._small_body(x)).parameters:
            fix = "put the configuration and the files into the repository"
            raise UnsupportedError("load takes no parameters", fix=fix)
        await self.registry.load(x.path["model"])
        await x.respond_json({})

    async def _unload(self, x: Exchange) -> None:
        self._require_load_allowed()
        decode_load(await self._small_body(x))
        await self.registry.unload(x.path["model"])
        await x.respond_json({})

    def _require_load_allowed(self) -> None:
        if not self.engine.settings.allow_load:
            fix = "start the server with --allow-load"
            raise ForbiddenError("load and unload requests are off", fix=fix)

    async def _shared_memory(self, x: Exchange) -> None:
        fix = "send tensors in the request"
        raise UnsupportedError("shared memory is not supported", fix=fix)

    async def _show_metrics(self, x: Exchange) -> None:
        await x.respond(await self._metrics.render(), content_type=CONTENT_TYPE)

    async def _status(self, x: Exchange) -> None:
        await x.respond_json(describe_status(self.engine))

    async def _page(self, x: Exchange) -> None:
        # The page runs its own script and reads /status; nothing else is loaded.
        policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
        headers = {"content-security-policy": policy + "; connect-src 'self'"}
        await x.respond(
            _PAGE.read_bytes(), content_type="text/html; charset=utf-8", headers=headers
        )


def needs_another_thread(body: bytes, json_length: str | None) -> bool:
    """Whether a request is decoded in another thread, so that it delays no other one. json_length:
    as `decode_infer` takes it."""
    if len(body) <= LARGE_TEXT_BYTES:
        return False
    digits = json_length or ""
    if len(body) > LARGE_TENSOR_BYTES or not (digits.isascii() and digits.isdecimal()):
        return True
    text = body[: int(digits[:16])]
    # A datatype may be written with escapes.
    return len(text) > LARGE_TEXT_BYTES or b"BYTES" in text or b"\\" in text


class _Endpoint:
    """An ASGI application around a handler: token, errors, request id, log."""

    def __init__(self, rest: Rest, handler: Handler) -> None:
        self._rest, self._handler = rest, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        x = Exchange(scope, receive, send)
        start, token = time.perf_counter(), request_id.set("")
        try:
            request_id.set(x.id)
            try:
                self._rest.authorize(x)
                await self._handler(x)
                outcome = "ok"
            except ClientGoneError:
                outcome = "client gone"
            except Exception as error:
                outcome = await answer_error(x, error)
            what = f"{scope['method']} {scope['path']}"
            log_request("http", what, outcome, time.perf_counter() - start, x.id)
        finally:
            request_id.reset(token)


async def answer_error(x: Exchange, error: Exception) -> str:
    """Send the protocol's error object; returns the cause, for the log."""
    failure = describe_failure(error)
    if failure.cause == "internal":
        log.exception("a request failed")
    if x.started:
        raise error
    headers = {"retry-after": "1"} if failure.status == 429 else {}
    if failure.status == 401:
        headers["www-authenticate"] = "Bearer"
    if failure.status in (408, 413):  # the rest of the body is not read
        headers["connection"] = "close"
    shown: Any = failure.message
    if x.scope["path"].startswith(OPENAI_PATHS):
        shown = describe_openai_error(failure)
    body = orjson.dumps({"error": shown}, default=str)
    await x.respond(body, status=failure.status, headers=headers)
    return failure.cause


def make_app(routes: list[Route], rest: Rest) -> ASGIApp:
    """Routes with the protocol's errors for unknown paths and methods."""
    router = Router(routes, redirect_slashes=False)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        for route in router.routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                scope.update(child)
                await child["endpoint"](scope, receive, send)
                return
        known = any(r.matches(scope)[0] is Match.PARTIAL for r in router.routes)
        x = Exchange(scope, receive, send)
        what = f"{scope['method']} {scope['path']}"
        if known:
            await answer_error(x, MethodError("the path takes another method", got=what[:200]))
        else:
            await answer_error(x, NotFoundError("unknown path", got=what[:200]))

    return app


def make_rest(engine: Engine) -> tuple[ASGIApp, ASGIApp]:
    """The application, and the one of the metrics port."""
    rest = Rest(engine)
    return make_app(rest.routes, rest), rest.metrics_app()
