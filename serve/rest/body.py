"""Request bodies: received within limits of size and time, decompressed within the same limit."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Coroutine, Mapping
from typing import Any

from starlette.types import Receive

from ..errors import OverloadError, RequestError, SlowClientError, TooLargeError, UnsupportedError
from ..settings import ServerLimits
from .coroutines import resume

# zlib's window bits for each content encoding; 47 takes zlib's and gzip's headers.
_WINDOW_BITS = {"gzip": 47, "deflate": 47}


# A response below this is not compressed: it fits a packet.
SMALL_RESPONSE_BYTES = 1024


class ClientGoneError(Exception):
    """The client closed the connection before its request was whole."""


class BodyBudget:
    """Bytes of all request bodies that are held at the same time."""

    def __init__(self, limit: int) -> None:
        self._limit, self.used = limit, 0

    def take(self, count: int) -> None:
        """OverloadError where the bodies together would exceed the limit."""
        if self.used + count > self._limit:
            raise OverloadError(
                "the server holds too many request bodies", fix="send the request again later"
            )
        self.used += count

    def give_back(self, count: int) -> None:
        """The bytes are no longer held."""
        self.used -= count


class BodyReader:
    """Reads one request's body; `release` gives its bytes back to the budget."""

    def __init__(
        self, headers: Mapping[str, str], limits: ServerLimits, budget: BodyBudget
    ) -> None:
        self._headers, self._limits, self._budget, self._held = headers, limits, budget, 0

    async def read(self, receive: Receive) -> bytes:
        """The body, decompressed. TooLargeError, SlowClientError, OverloadError, RequestError for
        a broken compressed stream, UnsupportedError for another encoding."""
        encoding = self._headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", *_WINDOW_BITS):
            known = ", ".join(_WINDOW_BITS)
            raise UnsupportedError("unknown Content-Encoding", got=encoding[:40], expected=known)
        stated = self._headers.get("content-length", "")
        if stated.isascii() and stated.isdecimal() and int(stated[:20]) > self._limits.body_bytes:
            raise self._too_large(f"{stated[:20]} bytes")
        work = self._receive(receive)
        try:
            first = work.send(None)
        except StopIteration as done:  # a body that has arrived needs no timer
            body = done.value
        else:
            body = await self._await_body(work, first)
        if encoding in _WINDOW_BITS:
            return self._decompress(body, encoding)
        return body

    async def _await_body(self, work: Coroutine[Any, Any, bytes], first: Any) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await resume(work, first)
        except TimeoutError:
            expected = f"within {self._limits.body_seconds:g} s"
            raise SlowClientError("the body did not arrive in time", expected=expected) from None

    def release(self) -> None:
        """The body is no longer held."""
        self._budget.give_back(self._held)
        self._held = 0

    async def _receive(self, receive: Receive) -> bytes:
        chunks = list[bytes]()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            if chunk := message.get("body", b""):
                self._take(len(chunk))
                chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _take(self, count: int) -> None:
        if self._held + count > self._limits.body_bytes:
            raise self._too_large(f"more than {self._limits.body_bytes} bytes")
        self._budget.take(count)
        self._held += count

    def _decompress(self, data: bytes, encoding: str) -> bytes:
        """Whatever the stream would inflate to, no more than the limit is inflated."""
        self.release()
        stream, limit = zlib.decompressobj(_WINDOW_BITS[encoding]), self._limits.body_bytes
        try:
            found = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise RequestError("the compressed body is broken", got=str(error)) from None
        self._take(len(found))
        if not stream.eof or stream.unused_data:
            got = "bytes behind the stream's end" if stream.eof else "a stream that does not end"
            raise RequestError("the compressed body is broken", got=got, expected="one stream")
        return found

    def _too_large(self, got: str) -> TooLargeError:
        expected = f"at most {self._limits.body_bytes} bytes"
        return TooLargeError("the body is too large", got=got, expected=expected)


def compress_response(accepted: str, body: bytes) -> tuple[bytes, str | None]:
    """The body in the encoding that the client accepts by name, and that encoding's name; a small
    body as it is."""
    if len(body) < SMALL_RESPONSE_BYTES:
        return body, None
    names = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    if "gzip" in names:
        return gzip.compress(body, 1, mtime=0), "gzip"
    if "deflate" in names:
        return zlib.compress(body, 1), "deflate"
    return body, None
