"""One request of a generation engine: its pieces as they come, its result, its cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence

from ...ir.errors import ExecutionError
from ..generation import Clock, TextRow, TextSettings
from ..result import Generation, GenerationStats, TextPiece
from ..sampling import GenerationOptions


class QueueFullError(ExecutionError):
    """The engine has as many waiting requests as it may have."""


class RequestExpiredError(ExecutionError):
    """The deadline of a request passed before its text had ended."""


class RequestCancelledError(ExecutionError):
    """The request was cancelled, or its engine was closed."""


class GenerationTask:
    """A request: iterate over it (also with `async for`), or wait for its `result` (or `await` it).

    A loop that is left before the text has ended cancels the request. All methods may be called
    from any thread. `queue_seconds`: the time that the request waited for a row.
    """

    def __init__(
        self,
        settings: TextSettings,
        prompt: Sequence[int],
        options: GenerationOptions,
        timeout: float | None,
        wake_engine: Callable[[], None],
    ) -> None:
        self.prompt, self._settings = list(prompt), settings
        self.row = TextRow(settings, options, prompt)
        self.clock = Clock()
        self.submitted = time.perf_counter()
        self.expires = None if timeout is None else self.submitted + timeout
        self.queue_seconds = 0.0
        self.cache_bytes = 0
        self._wake_engine = wake_engine
        self._changed = threading.Condition()
        self._pieces: list[TextPiece] = []
        self._error: ExecutionError | None = None
        self._result: Generation | None = None
        self._cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_done(self) -> bool:
        """Whether the text has ended or failed."""
        return self._result is not None or self._error is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Free the request's row before the next step. Nothing happens to a text that has ended."""
        self._cancelled = True
        self._wake_engine()

    def result(self, timeout: float | None = None) -> Generation:
        """The whole text. TimeoutError after `timeout` seconds; QueueFullError and the like, or an
        irc.Error of a run, where the request failed."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.is_done, timeout):
                raise TimeoutError("the text has not ended yet")
        return self._require_result()

    def partial(self) -> Generation:
        """The text so far, whatever became of the request."""
        return self._result or self.row.finish(self._stats())

    def __iter__(self) -> Iterator[TextPiece]:
        at = 0
        try:
            while True:
                with self._changed:
                    while not (self.is_done or len(self._pieces) > at):
                        self._changed.wait()
                    found, done = self._pieces[at:], self.is_done
                at += len(found)
                yield from found
                if done:
                    self._require_result()
                    return
        finally:
            if not self.is_done:
                self.cancel()

    async def __aiter__(self) -> AsyncIterator[TextPiece]:
        at = 0
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        with self._changed:
            self._listeners.append(wake)
        try:
            while True:
                event.clear()
                with self._changed:
                    found, done = self._pieces[at:], self.is_done
                at += len(found)
                for piece in found:
                    yield piece
                if done:
                    self._require_result()
                    return
                if not found:
                    await event.wait()
        finally:
            with self._changed:
                self._listeners.remove(wake)
            if not self.is_done:
                self.cancel()

    def __await__(self) -> Generator[object, None, Generation]:
        return self._wait().__await__()

    async def _wait(self) -> Generation:
        async for _ in self:
            pass
        return self._require_result()

    def _require_result(self) -> Generation:
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _stats(self) -> GenerationStats:
        return self.clock.make_stats(
            self._settings, [self.prompt], len(self.row.tokens), self.cache_bytes
        )

    # The engine's side.

    def advance(self, logits: object) -> bool:
        """Choose a token for logits f32 [V]. Returns whether the text goes on."""
        piece = self.row.step(logits)
        if self.row.finish_reason is None:
            self._publish(piece)
            return True
        self._publish(piece, self.row.finish(self._stats()))
        return False

    def fail(self, error: ExecutionError) -> None:
        """End the request with an error."""
        with self._changed:
            if not self.is_done:
                self._error = error
        self._notify()

    def _publish(self, piece: TextPiece, result: Generation | None = None) -> None:
        with self._changed:
            self._pieces.append(piece)
            self._result = result
        self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listeners = list(self._listeners)
        for wake in listeners:
            try:
                wake()
            except RuntimeError:  # its event loop was closed
                self._cancelled = True
