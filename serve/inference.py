"""Inference independent of the protocol: from tensors by name to tensors by name.

REST and gRPC translate their messages into an Inference, and its result into their messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from .batch_equality import Array
from .errors import (
    NotFoundError,
    RequestError,
    UnavailableError,
    UnsupportedError,
    describe_failure,
)
from .model_registry import ModelRegistry
from .request_queue import QueuedCall
from .served_model import ModelPort, ServedModel
from .settings import Settings

Parameter = str | int | float | bool | None
MAX_TIMEOUT_SECONDS = 86_400.0


@dataclass(slots=True)
class Inference:
    """A request. inputs: datatype and array by name. outputs: names; empty for all."""

    model: str
    version: str
    id: str
    inputs: dict[str, tuple[str, Array]]
    outputs: Sequence[str] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])


@dataclass(slots=True)
class InferenceResult:
    """An answer: the outputs in order, each with its port."""

    model: str
    version: str
    id: str
    outputs: list[tuple[ModelPort, Array]]


class Engine:
    """What the protocols share: settings, models, and how a request runs."""

    def __init__(self, registry: ModelRegistry, settings: Settings) -> None:
        self.registry, self.settings = registry, settings
        self.draining = False
        self.started = time.time()

    @property
    def ready(self) -> bool:
        """Whether the models were loaded and no shutdown has begun."""
        return self.registry.started.is_set() and not self.draining

    async def infer(self, request: Inference) -> InferenceResult:
        """Run a request. ServeError or irc.Error with the reason; cancelled, it frees its slot."""
        if self.draining:
            raise UnavailableError("the server is shutting down")
        model = self.registry.find(request.model, request.version)
        start = time.perf_counter()
        try:
            timeout = read_timeout(request.parameters)
            names = choose_outputs(model, request.outputs)
            inputs = model.order_inputs(request.inputs)
            if model.sequences is not None and (id_ := read_sequence(request.parameters)):
                outputs, call = await self._run_in_sequence(
                    model, inputs, id_, request.parameters, timeout
                )
            else:
                call = model.make_call(inputs)
                outputs = await run_call(model, call, timeout)
        except asyncio.CancelledError:
            model.statistics.record_failure("cancelled", time.perf_counter() - start)
            raise
        except Exception as error:
            cause = describe_failure(error).cause
            model.statistics.record_failure(cause, time.perf_counter() - start)
            raise
        model.statistics.record_success(time.perf_counter() - start, call.queued)
        ports = dict(zip(model.outputs, outputs, strict=True))
        chosen = [(model.outputs[name], ports[name]) for name in names]
        return InferenceResult(model.name, str(model.version), request.id, chosen)

    @contextmanager
    def counting_refusals(self, name: str, version: str) -> Iterator[None]:
        """Count what is raised inside, where a request is decoded, as a failure of its model."""
        try:
            yield
        except Exception as error:
            with suppress(NotFoundError, UnavailableError):
                statistics = self.registry.find(name, version).statistics
                statistics.record_failure(describe_failure(error).cause, 0.0)
            raise

    async def _run_in_sequence(
        self,
        model: ServedModel,
        inputs: list[Array],
        id_: int | str,
        parameters: Mapping[str, Parameter],
        timeout: float | None,
    ) -> tuple[Sequence[Array], QueuedCall]:
        """One step of a sequence. A step that runs is finished before the next one begins, even if
        its client has gone: the variables belong to one run at a time."""
        assert model.sequences is not None
        start = parameters.get("sequence_start") is True
        end = parameters.get("sequence_end") is True
        async with model.sequences.use(id_, start=start, end=end) as request:
            call = QueuedCall(lambda values: request.infer(list(values)), inputs, None, 1)
            model.queue.submit(call, timeout)
            try:
                return await asyncio.shield(call.answer), call
            except asyncio.CancelledError:
                if not model.queue.forget(call):
                    await asyncio.wait([call.answer])
                raise


async def run_call(model: ServedModel, call: QueuedCall, timeout: float | None) -> Sequence[Array]:
    """The outputs of a call; cancelled, the call frees its slot."""
    model.queue.submit(call, timeout)
    try:
        return await call.answer
    finally:
        if not call.answer.done() or call.answer.cancelled():
            model.queue.forget(call)


def choose_outputs(model: ServedModel, names: Sequence[str]) -> Sequence[str]:
    """The outputs to return, in the order of the request."""
    if not names:
        return list(model.outputs)
    for name in names:
        if name not in model.outputs:
            expected = ", ".join(model.outputs)
            raise RequestError("unknown output", got=name[:200], expected=expected)
    if len(set(names)) != len(names):
        raise RequestError("an output is requested twice", expected="each name once")
    return names


def read_timeout(parameters: Mapping[str, Parameter]) -> float | None:
    """Seconds that the request may wait, from its `timeout` (microseconds; 0 for none)."""
    value = parameters.get("timeout")
    if value is None:
        return None
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not good:
        raise RequestError("bad timeout", got=repr(value)[:80], expected="microseconds, an integer")
    return min(int(value) / 1e6, MAX_TIMEOUT_SECONDS) if value else None


def read_sequence(parameters: Mapping[str, Parameter]) -> int | str | None:
    """The sequence's id; None without one (0 and the empty text mean none)."""
    id_ = parameters.get("sequence_id")
    if id_ is None or id_ == 0 or id_ == "":
        return None
    if isinstance(id_, bool | float) or (isinstance(id_, str) and len(id_) > 128):
        expected = "an integer, or a text of at most 128 characters"
        raise RequestError("bad sequence_id", got=repr(id_)[:80], expected=expected)
    return id_


def refuse_unsupported(name: str, parameters: Mapping[str, Any]) -> None:
    """UnsupportedError for a tensor's parameters that would change its meaning."""
    for key, what in (
        ("shared_memory_region", "shared memory is not supported"),
        ("classification", "the classification extension is not supported"),
    ):
        value = parameters.get(key)
        if value is not None and not (key == "classification" and value == 0):
            fix = "send and receive tensors in the message"
            raise UnsupportedError(f"tensor {name!r}: {what}", fix=fix)
