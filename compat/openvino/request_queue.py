"""A pool of infer requests that take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..nearest import NamesNearest
from .requests import InferRequest


class AsyncInferQueue(NamesNearest):
    """Requests that take turns, each with a thread that lasts as long as the request; a callback
    gets `(request, userdata)`."""

    def __init__(self, model: Any, jobs: int = 0) -> None:
        count = jobs or model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = [model.create_infer_request() for _ in range(count)]
        self._idle: SimpleQueue[int] = SimpleQueue()
        for at, request in enumerate(self._requests):
            request.release = partial(self._idle.put, at)
            self._idle.put(at)
        self._callback: Callable[[InferRequest, Any], Any] | None = None

    def set_callback(self, callback: Callable[[InferRequest, Any], Any]) -> None:
        """Called after each run, in its thread."""
        self._callback = callback

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Run in a free request, waiting for one; raises what its last run raised."""
        at = self._idle.get()
        request = self._requests[at]
        try:
            if self._callback is not None:
                request.set_callback(partial(self._callback, request), userdata)
            request.start_async(inputs, userdata, share_inputs)
        except BaseException:
            self._idle.put(at)
            raise

    def get_idle_request_id(self) -> int:
        """The number of a free request, waiting for one; it stays free."""
        at = self._idle.get()
        self._idle.put(at)
        return at

    def wait_all(self) -> None:
        """Wait for all; raises what a run or a callback raised."""
        errors: list[BaseException] = []
        for request in self._requests:
            try:
                request.wait()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def is_ready(self) -> bool:
        """Whether a request is free."""
        return not self._idle.empty()

    @property
    def userdata(self) -> list[Any]:
        """What each request's last run was started with."""
        return [request.userdata for request in self._requests]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, index: int) -> InferRequest:
        return self._requests[index]
