"""Independent calls of one model at the same time, on a pool of threads.

A call that one thread computes needs no barriers, so several of them finish more requests a second
than one call after the other on all threads. The calls share code and packed weights; each has
buffers of its own. On machines of several NUMA nodes each node has threads and weights of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from ..ir.errors import ExecutionError
from ..ir.lazy_dataclass import dataclass
from ..runtime.driver.thread_pool import watch_forks
from ..runtime.machine.numa import keep_thread_on
from .ports import Outputs

# Inputs that `map` reads ahead of the result that it yields, per call at a time.
_READ_AHEAD_CALLS: Final = 2


Call = Callable[..., Outputs]


@dataclass(frozen=True)
class CallGroup:
    """Threads of a pool that share a model. make_call: what they call, made by the first of them.
    cpus: those that the threads stay on; None for all."""

    size: int
    make_call: Callable[[], Call]
    cpus: frozenset[int] | None = None


class _Threads:
    """The running threads of a group."""

    def __init__(self, group: CallGroup) -> None:
        pin = None if group.cpus is None else partial(keep_thread_on, group.cpus)
        self.size, self.unfinished = group.size, 0
        self.executor = ThreadPoolExecutor(group.size, "irc-call", initializer=pin)
        self._call = self.executor.submit(group.make_call)
        self._lock = threading.Lock()

    @property
    def load(self) -> float:
        """Calls that are not finished, per thread."""
        return self.unfinished / self.size

    def submit(self, inputs: Any, named: dict[str, Any]) -> Future[Outputs]:
        """Begin a call."""
        with self._lock:
            self.unfinished += 1
        future = self.executor.submit(self._run, inputs, named)
        future.add_done_callback(self._count_finished)
        return future

    def _run(self, inputs: Any, named: dict[str, Any]) -> Outputs:
        return self._call.result()(inputs, **named)

    def _count_finished(self, future: Future[Outputs]) -> None:
        with self._lock:
            self.unfinished -= 1


class CallPool:
    """Threads that call a model. Made by `CompiledModel.pool`.

    `size` calls run at a time; others wait in order. For any number of threads. `close()` (the end
    of a `with` block) finishes what was submitted. In a forked child the pool has new threads; what
    the parent submitted is not done there.
    """

    def __init__(self, *groups: CallGroup) -> None:
        self.size = sum(group.size for group in groups)
        self._groups = groups
        self._lock = threading.Lock()
        self._threads: list[_Threads] | None = None
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
                self._threads = [_Threads(group) for group in self._groups]
            return min(self._threads, key=lambda t: t.load).submit(inputs, named)

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
        for group in threads or ():
            group.executor.shutdown()

    def after_fork(self) -> None:
        """In a child: the threads are those of the parent."""
        self._lock, self._threads = threading.Lock(), None

    def __enter__(self) -> CallPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<irc.CallPool: {self.size} calls at a time>"
