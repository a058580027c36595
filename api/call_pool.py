"""Independent calls of one model at the same time, on a pool of threads.

A call that one thread computes needs no barriers, so several of them finish more requests a second
than one call after the other on all threads. The calls share code and packed weights; each has
buffers of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from ..ir.errors import ExecutionError
from ..runtime.driver.thread_pool import watch_forks
from .ports import Outputs

# Inputs that `map` reads ahead of the result that it yields, per call at a time.
_READ_AHEAD_CALLS: Final = 2


class CallPool:
    """Threads that call a model. Made by `CompiledModel.pool`.

    `size` calls run at a time; others wait in order. For any number of threads. `close()` (the end
    of a `with` block) finishes what was submitted. In a forked child the pool has new threads; what
    the parent submitted is not done there.
    """

    def __init__(self, call: Callable[..., Outputs], size: int) -> None:
        self.size = size
        self._call = call
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        watch_forks(self)

    def submit(self, inputs: Any = None, /, **named: Any) -> Future[Outputs]:
        """Begin a call (inputs as of the model's own call); its `result()` is the outputs.

        The arrays are read when a thread begins the call: they must not change before it is done.
        ExecutionError once the pool is closed.
        """
        with self._lock:
            if self._closed:
                raise ExecutionError("the pool is closed", fix="make another: net.pool()")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.size, "irc-call")
            return self._threads.submit(self._call, inputs, **named)

    def map(self, batches: Iterable[Any]) -> Iterator[Outputs]:
        """The outputs of a call for each of `batches`, in order.

        Inputs are read a few calls ahead of the results. An error of a call is raised where its
        result would be; calls that have not begun are then not made.
        """
        begun: deque[Future[Outputs]] = deque()
        try:
            for inputs in batches:
                begun.append(self.submit(inputs))
                if len(begun) > _READ_AHEAD_CALLS * self.size:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()

    def close(self) -> None:
        """Wait for the calls that were submitted, and end the threads. Twice is not an error."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def after_fork(self) -> None:
        """In a child: the threads are those of the parent."""
        self._lock, self._threads = threading.Lock(), None

    def __enter__(self) -> CallPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<irc.CallPool: {self.size} calls at a time>"
