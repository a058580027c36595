"""One HTTP request and its response, whole or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from ..logs import choose_request_id
from .body import ClientGoneError
from .coroutines import Result, resume

JSON: Final = "application/json"


class Exchange:
    """One HTTP request and its response."""

    __slots__ = ("_send", "headers", "id", "path", "receive", "scope", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        listed: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in listed}
        self.path: dict[str, str] = scope.get("path_params", {})
        self.id = choose_request_id(self.headers.get("x-request-id"))
        self.started = False

    async def respond(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = JSON,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a whole response."""
        listed = {"content-type": content_type, "content-length": str(len(body))}
        listed |= {"x-request-id": self.id, **(headers or {})}
        encoded = [(k.encode(), v.encode("latin-1")) for k, v in listed.items()]
        self.started = True
        start = {"type": "http.response.start", "status": status, "headers": encoded}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def respond_json(self, value: Any) -> None:
        """Send an object as JSON."""
        await self.respond(orjson.dumps(value))

    async def until_gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start_stream(self, content_type: str) -> None:
        """Begin a response whose length is not known; `send_piece` sends its body."""
        listed = {"content-type": content_type, "cache-control": "no-cache"}
        listed |= {"x-request-id": self.id}
        encoded = [(k.encode(), v.encode("latin-1")) for k, v in listed.items()]
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": encoded})

    async def send_piece(self, body: bytes, *, last: bool = False) -> None:
        """Send a piece of the body of a stream."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def run_unless_gone(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine; ClientGoneError, and the coroutine is cancelled, once the client has
        closed the connection. A coroutine that ends without waiting is not watched."""
        try:
            first = work.send(None)
        except StopIteration as done:
            return done.value
        task = asyncio.current_task()
        assert task is not None
        gone = False

        def cancel(watch: asyncio.Task[None]) -> None:
            nonlocal gone
            if not watch.cancelled():
                gone = True
                task.cancel()

        watch = asyncio.create_task(self.until_gone())
        watch.add_done_callback(cancel)
        try:
            return await resume(work, first)
        except asyncio.CancelledError:
            if gone:
                task.uncancel()
                raise ClientGoneError from None
            raise
        finally:
            watch.remove_done_callback(cancel)
            watch.cancel()


Handler = Callable[[Exchange], Awaitable[None]]
