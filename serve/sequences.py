"""Sequences of requests to a stateful model: one infer request with its variables for each id."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .errors import OverloadError, RequestError

if TYPE_CHECKING:
    from ..api import InferRequest

SequenceId = int | str


class _OpenSequence:
    def __init__(self, request: InferRequest) -> None:
        self.request, self.lock = request, asyncio.Lock()
        self.used, self.users = time.monotonic(), 0


class Sequences:
    """The live sequences of one model. Requests of one sequence run one at a time, in the order in
    which they came; those of different sequences run side by side."""

    def __init__(self, make: Callable[[], InferRequest], most: int, idle_seconds: float) -> None:
        self._make, self._most, self._idle = make, most, idle_seconds
        self._live: OrderedDict[SequenceId, _OpenSequence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._live)

    @asynccontextmanager
    async def use(self, id_: SequenceId, *, start: bool, end: bool) -> AsyncIterator[InferRequest]:
        """The infer request of a sequence. start: with initial values, whatever went before. end:
        the sequence is dropped afterwards. RequestError for an unknown id without `start`."""
        self._drop_idle()
        found = self._live.get(id_)
        if start and found is None:
            if len(self._live) >= self._most:
                got = f"{len(self._live)} sequences"
                raise OverloadError("too many live sequences", got=got, fix="end some, or wait")
            found = self._live[id_] = _OpenSequence(self._make())
        elif found is None:
            raise RequestError(
                "the sequence is not known: it was not started, has ended, or was idle too long",
                got=str(id_)[:200],
                fix="begin with sequence_start",
            )
        found.users += 1
        try:
            async with found.lock:
                if start:
                    found.request.reset_state()
                yield found.request
        finally:
            found.users -= 1
            found.used = time.monotonic()
            if self._live.get(id_) is found:
                self._live.move_to_end(id_)
                if end:
                    del self._live[id_]

    def _drop_idle(self) -> None:
        oldest = time.monotonic() - self._idle
        for id_, sequence in list(self._live.items()):
            if sequence.used > oldest:
                break
            if not sequence.users:
                del self._live[id_]
