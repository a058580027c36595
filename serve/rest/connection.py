"""Bounds on one HTTP connection: number of connections, header bytes, time to send the headers.

uvicorn's protocol class parses; this one counts and closes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..settings import ServerLimits

# Requests of one connection that wait for the answer to the one before. Each answered request makes
# uvicorn read again, so what a client sends without waiting would pile up.
MAX_PIPELINED = 32


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose client gets a bounded amount of memory and time before its headers end."""

    limits: ServerLimits
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _in_headers = True
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Refuse connections above the limit; give the first request's headers their time."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to headers, which the parser gets in pieces of the limit."""
        if self._timer is None and self._in_headers:
            self._start_timer()
        at, limit = 0, self.limits.header_bytes
        view: Any = memoryview(data)  # pieces without copies
        while at < len(data):
            if self.parser is None or self.transport.is_closing():
                return
            piece = view[at : at + limit] if self._in_headers else view[at:]
            at += len(piece)
            if self._in_headers:
                self._header_bytes += len(piece)
            try:
                super().data_received(piece)
            except httptools.HttpParserInvalidURLError:
                self.send_400_response("Invalid HTTP request received.")
            if self._in_headers and self._header_bytes > limit:
                self._refuse_headers()
                return

    def on_message_begin(self) -> None:
        """A request's first byte. The parser ends the connection where this raises."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many pipelined requests")
        super().on_message_begin()
        self._in_headers = True

    def on_headers_complete(self) -> None:
        """The headers are whole."""
        self._in_headers, self._header_bytes = False, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole; what follows are the next request's headers."""
        super().on_message_complete()
        self._in_headers = True

    def pause_writing(self) -> None:
        """The client reads slower than it is answered: it has a bounded time to catch up."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.body_seconds, self._time_out)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stop_write_timer()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came: close, without waiting for a client that does not read."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.limits.header_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()

    def _refuse_headers(self) -> None:
        message = b"The headers are too large."
        head = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
        length = b"content-length: %d\r\n\r\n" % len(message)
        self.transport.write(head + length + message)
        self.transport.close()


def bounded_protocol(limits: ServerLimits) -> type[BoundedProtocol]:
    """The protocol class with these limits, for uvicorn's `http`."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})


def uvicorn_config(app: Any, limits: ServerLimits, **options: Any) -> Config:
    """uvicorn's settings for an application behind these limits."""
    return Config(
        app,
        http=bounded_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.keep_alive_seconds),
        **options,
    )
