"""Calls that share a model's threads: one alone uses all of them, several at a time use fewer each.

Two calls with one thread each take less time than one after the other with two threads each, which
wait for one another between steps. An answer has the same bits with any number of threads
(docs/numerics.md).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ..api.compiled_model import CompiledModel
from ..runtime.execution.session import Session

Array = npt.NDArray[Any]


def share_threads(total: int, free: int, calls: int) -> int:
    """How many of `free` threads each of `calls` calls gets: the largest of total, total / 2,
    total / 4, and so on, that all of them get, at least 1."""
    wanted, threads = free // calls, total
    while threads > max(1, wanted):
        threads //= 2
    return threads


class ThreadShares:
    """A model's sessions with fewer threads than its own, made when they are needed. They share
    code and weights."""

    def __init__(self, net: CompiledModel, max_memory: int | None) -> None:
        self._net, self._max_memory = net, max_memory
        self._sessions: dict[int, Session] = {}
        self._lock = threading.Lock()

    def run(self, threads: int, inputs: Sequence[Array]) -> Sequence[Array]:
        """The outputs of a call with so many threads."""
        with self._lock:
            session = self._sessions.get(threads)
            if session is None:
                how = {"num_threads": threads, "max_memory": self._max_memory}
                session = self._sessions[threads] = Session(self._net.program, **how)
        return session.run(list(inputs))

    @property
    def arena_bytes(self) -> int:
        """Bytes of idle arenas."""
        with self._lock:
            return sum(s.stats().arena_bytes for s in self._sessions.values())

    def close(self) -> None:
        """Give memory back."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
