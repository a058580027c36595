"""`llm.engine()`: continuous batching of requests that come at any time, from any thread.

One thread owns the rows. Before each step it removes the rows whose text has ended or whose request
was cancelled or has expired, and reads a chunk of the prompt of the next waiting request, so that a
long prompt delays the others by a chunk at a time. A request's text is the one that
`llm.generate` gives it alone (row_pool.py).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from ...ir.errors import ExecutionError, UsageError
from ...ir.lazy_dataclass import dataclass
from ..decoder import Decoder, Floats, TokenCache
from ..generation import TextSettings
from ..result import Generation
from ..sampling import GenerationOptions, make_options
from .generation_task import (
    GenerationTask,
    QueueFullError,
    RequestCancelledError,
    RequestExpiredError,
)
from .prefix_cache import PrefixCache
from .row_pool import RowPool, Rows, SeparateRows


@dataclass(frozen=True)
class EngineStats:
    """Counts of an engine. waiting, running: requests now; finished, failed: requests so far;
    steps: runs of the batch; step_rows: rows of all of them; prompt_tokens: tokens of prompts that
    were read; cached_tokens: those that were found in the prefix cache; cache_bytes: keys and
    values of the rows; prefix_bytes: of the prefix cache."""

    waiting: int = 0
    running: int = 0
    finished: int = 0
    failed: int = 0
    steps: int = 0
    step_rows: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_bytes: int = 0
    prefix_bytes: int = 0


@dataclass
class _Prefill:
    """A request whose prompt is being read."""

    task: GenerationTask
    cache: TokenCache


class GenerationEngine:
    """Generates the texts of many requests in one batch. Close it, or use it in a `with`.

    encode: tokens of a prompt that is not a list of tokens. takes_gaps: rows of the decoder may
    have masked columns between their tokens; without it each row takes a run of its own.
    max_rows: requests that run at the same time; their caches hold at most max_rows times the
    model's context. queue_size: requests that wait for a row; one more is refused. prefill_chunk:
    positions of a prompt that are read between two steps. prefix_cache_bytes: of keys and values
    that are kept of prompts and texts, for requests that begin alike; 0 for none. on_step: called
    in the engine's thread behind each step with its rows and seconds.
    """

    def __init__(
        self,
        decoder: Decoder,
        settings: TextSettings,
        encode: Callable[[Any], list[int]],
        *,
        takes_gaps: bool,
        max_rows: int,
        queue_size: int,
        prefill_chunk: int,
        prefix_cache_bytes: int = 0,
        on_step: Callable[[int, float], None] | None = None,
    ) -> None:
        given = {"max_rows": max_rows, "queue_size": queue_size, "prefill_chunk": prefill_chunk}
        for name, value in given.items():
            if type(value) is not int or not 1 <= value <= 1 << 20:
                raise UsageError(f"{name} is out of range", got=value, expected="an integer from 1")
        if type(prefix_cache_bytes) is not int or prefix_cache_bytes < 0:
            what = "prefix_cache_bytes is out of range"
            raise UsageError(what, got=prefix_cache_bytes, expected="bytes, an integer from 0")
        self._prefixes = PrefixCache(prefix_cache_bytes)
        self._decoder, self._settings, self._encode_prompt = decoder, settings, encode
        self._max_rows, self._queue_size = max_rows, queue_size
        self._chunk, self._on_step = prefill_chunk, on_step
        self._waiting: deque[GenerationTask] = deque()
        self._prefill: _Prefill | None = None
        self._running: list[GenerationTask] = []
        self._rows: Rows = RowPool(decoder) if takes_gaps else SeparateRows()
        self._finished = self._failed = self._steps = self._step_rows = 0
        self._prompt_tokens = self._cached_tokens = 0
        self._changed = threading.Condition()
        self._closing = self._draining = False
        self._thread = threading.Thread(target=self._run, name="irc-generation", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: Any,
        options: GenerationOptions | None = None,
        *,
        timeout: float | None = None,
        **named: Any,
    ) -> GenerationTask:
        """Add a request; its options are those of `LLM.generate` (`lookup` is not used: a step has
        one token of each row).

        prompt: a text, messages, or tokens. timeout: seconds until the text must have ended, after
        which the request fails with RequestExpiredError. QueueFullError at once where the queue is
        full; UsageError for what `generate` refuses, and for num_beams above 1.
        """
        how = make_options(options, named)
        if how.num_beams > 1:
            raise UsageError("an engine has no beams", got=how.num_beams, expected="num_beams=1")
        if timeout is not None and not timeout > 0:
            raise UsageError("timeout is out of range", got=timeout, expected="seconds above 0")
        tokens = self._encode(prompt)
        self._settings.require_room(tokens)
        task = GenerationTask(self._settings, tokens, how, timeout, self._wake)
        with self._changed:
            if self._closing:
                raise RequestCancelledError("the engine is closed", fix="use a new engine")
            if len(self._waiting) >= self._queue_size:
                raise QueueFullError(
                    "the engine's queue is full",
                    got=f"{len(self._waiting)} requests are waiting",
                    fix="send it again later, or set queue_size=",
                )
            self._waiting.append(task)
            self._changed.notify()
        return task

    def generate(
        self,
        prompt: Any,
        options: GenerationOptions | None = None,
        **named: Any,
    ) -> Generation:
        """The text of one request, with those of other threads in one batch."""
        return self.submit(prompt, options, **named).result()

    def stats(self) -> EngineStats:
        """Counts of now."""
        with self._changed:
            return EngineStats(
                waiting=len(self._waiting),
                running=len(self._running) + (self._prefill is not None),
                finished=self._finished,
                failed=self._failed,
                steps=self._steps,
                step_rows=self._step_rows,
                prompt_tokens=self._prompt_tokens,
                cached_tokens=self._cached_tokens,
                cache_bytes=sum(task.cache_bytes for task in self._running),
                prefix_bytes=self._prefixes.nbytes,
            )

    def close(self, *, drain: bool = False) -> None:
        """Take no more requests, and end the thread. Requests in progress end with
        RequestCancelledError, or, with `drain`, with their text."""
        with self._changed:
            self._closing, self._draining = True, self._draining or drain
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> GenerationEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(self, prompt: Any) -> list[int]:
        if not isinstance(prompt, list) or not prompt or not isinstance(prompt[0], int):
            return self._encode_prompt(prompt)
        vocabulary = self._settings.tokenizer.vocabulary
        for token in cast("list[Any]", prompt):
            if type(token) is not int or not 0 <= token < vocabulary:
                expected = f"an integer from 0 to {vocabulary - 1}"
                raise UsageError("no such token", got=str(token)[:80], expected=expected)
        return cast("list[int]", prompt)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    # What follows runs in the engine's thread.

    def _run(self) -> None:
        while self._wait_for_work():
            self._remove_ended()
            try:
                self._read_prompt()
            except Exception as error:
                self._fail_prefill(error)
            try:
                self._step()
            except Exception as error:
                for task in self._running:
                    self._fail(task, _as_execution_error(error))
                self._running = []
                self._rows.keep([])
        for task in self._list_all():
            self._fail(task, RequestCancelledError("the engine was closed"))

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not (self._waiting or self._running or self._prefill or self._closing):
                self._changed.wait()
            if not self._closing:
                return True
            return self._draining and bool(self._waiting or self._running or self._prefill)

    def _list_all(self) -> list[GenerationTask]:
        reading = [] if self._prefill is None else [self._prefill.task]
        with self._changed:
            return [*self._waiting, *reading, *self._running]

    def _remove_ended(self) -> None:
        """Fail the requests that were cancelled or have expired, and free their rows."""
        now = time.perf_counter()
        for task in self._list_all():
            if task.is_cancelled:
                self._fail(task, RequestCancelledError("the request was cancelled"))
            elif task.expires is not None and now >= task.expires:
                what = "the request's deadline passed before its text had ended"
                self._fail(task, RequestExpiredError(what, fix="set a longer timeout="))
        with self._changed:
            if any(task.is_done for task in self._waiting):
                self._waiting = deque(t for t in self._waiting if not t.is_done)
        if self._prefill is not None and self._prefill.task.is_done:
            self._prefill = None
        self._keep_unfinished()

    def _keep_unfinished(self) -> None:
        kept = [n for n, task in enumerate(self._running) if not task.is_done]
        if len(kept) < len(self._running):
            self._running = [self._running[n] for n in kept]
            self._rows.keep(kept)

    def _read_prompt(self) -> None:
        """Read a chunk of a prompt; behind its last one the request joins the rows."""
        if self._prefill is None:
            if not self._waiting or len(self._running) >= self._max_rows:
                return
            cache = self._decoder.start(whole=True)
            with self._changed:
                task = self._waiting.popleft()
                task.queue_seconds = time.perf_counter() - task.submitted
                self._prefill = _Prefill(task, cache)
            task.clock.begin()
            if parts := self._prefixes.find(task.prompt):
                self._prefill.cache.restore(parts)
                task.clock.cached = self._prefill.cache.columns
                self._cached_tokens += task.clock.cached
        task, cache = self._prefill.task, self._prefill.cache
        chunk = task.prompt[cache.columns : cache.columns + self._chunk]
        logits = cache.read(np.array([chunk], np.int64))[0, -1]
        self._prompt_tokens += len(chunk)
        if cache.columns < len(task.prompt):
            return
        self._prefill = None
        task.clock.count_prefill()
        task.clock.begin()
        task.cache_bytes = cache.nbytes
        self._prefixes.add(task.prompt, cache.copy)
        self._advance(task, logits)
        if not task.is_done:
            self._rows.join(cache)
            self._running.append(task)

    def _fail_prefill(self, error: Exception) -> None:
        if self._prefill is not None:
            self._fail(self._prefill.task, _as_execution_error(error))
            self._prefill = None

    def _step(self) -> None:
        """One token for every row."""
        if not self._running:
            return
        start = time.perf_counter()
        logits = self._rows.step([task.row.tokens[-1] for task in self._running])
        if self._on_step is not None:
            self._on_step(len(self._running), time.perf_counter() - start)
        reads = [len(task.prompt) + len(task.row.tokens) for task in self._running]
        self._steps += 1
        self._step_rows += len(self._running)
        share = self._rows.nbytes // len(self._running)
        for task, row in zip(self._running, logits, strict=True):
            task.clock.count_step(1)
            task.clock.begin()
            task.cache_bytes = share
            self._advance(task, row)
        for n, task in enumerate(self._running):
            if task.is_done:  # the token that was chosen last was not read
                known = [*task.prompt, *task.row.tokens][: reads[n]]
                self._prefixes.add(known, partial(self._rows.copy_row, n))
        self._keep_unfinished()

    def _advance(self, task: GenerationTask, logits: Floats) -> None:
        """The next token of a request. Its failure is not that of others."""
        try:
            if not task.advance(logits):
                self._finished += 1
        except Exception as error:
            self._fail(task, _as_execution_error(error))

    def _fail(self, task: GenerationTask, error: ExecutionError) -> None:
        task.fail(error)
        self._failed += 1


def _as_execution_error(error: Exception) -> ExecutionError:
    if isinstance(error, ExecutionError):
        return error
    made = ExecutionError(
        "the model could not run",
        got=f"{type(error).__name__}: {error}"[:400],
        fix="use fewer rows or shorter texts where memory is short",
    )
    made.__cause__ = error
    return made
