"""One loaded model version: compiled model, ports in the protocol's terms, queue, sequences."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import CompiledModel, PortInfo, compile_model
from ..ir.errors import Error
from ..runtime.machine.cpus import usable_cores
from .batch_equality import Array, RowShapes
from .datatypes import NAMES, NUMPY
from .errors import ModelLoadError, RequestError
from .model_config import ModelConfig
from .repository import VersionFiles
from .request_queue import QueuedCall, RequestQueue, check_size
from .sequences import Sequences
from .settings import Batching, Settings
from .short_calls import ShortCalls, has_fixed_time
from .statistics import Statistics
from .thread_shares import ThreadShares


@dataclass(frozen=True)
class ModelPort:
    """An input or output: the protocol's datatype; a shape with -1 for sizes that vary, None for
    a rank that varies."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class LoadedModel:
    """The result of loading, which any thread may do: the compiled model and its properties."""

    net: CompiledModel
    inputs: dict[str, ModelPort]
    outputs: dict[str, ModelPort]
    batching: Batching | None
    not_batched: str  # why there is no batching; empty where there is
    seconds: float


def load_model(files: VersionFiles, config: ModelConfig, settings: Settings) -> LoadedModel:
    """Compile one version. irc.Error or ModelLoadError with the reason."""
    start = time.perf_counter()
    if files.error is not None:
        raise ModelLoadError("the version cannot be read", got=files.error)
    instances = config.instances or settings.instances
    callers = instances * (settings.group.count if settings.group else 1)
    net = compile_model(
        files.path,
        precision=config.precision or settings.precision,
        num_threads=config.threads or settings.threads or max(1, usable_cores() // callers),
        shapes={name: list(shape) for name, shape in config.shapes.items()} or None,
        max_memory=settings.max_memory,
    )
    try:
        inputs = {p.name: p for n, i in enumerate(net.inputs) if (p := _describe(i, "input", n))}
        outputs = {p.name: p for n, i in enumerate(net.outputs) if (p := _describe(i, "output", n))}
        if len(inputs) != len(net.inputs) or len(outputs) != len(net.outputs):
            expected = "one port of each name"
            raise ModelLoadError("two inputs or two outputs share a name", expected=expected)
        batching = config.batching_or(settings)
        reason = "it is not configured" if batching is None else why_not_batched(net)
        if reason and config.batching:
            fix = "remove batching from config.json, or export the model with a symbolic batch"
            raise ModelLoadError("the model can't be batched", got=reason, fix=fix)
    except BaseException:
        net.close()
        raise
    seconds = time.perf_counter() - start
    return LoadedModel(net, inputs, outputs, None if reason else batching, reason, seconds)


def _describe(port: PortInfo, kind: str, number: int) -> ModelPort:
    name = port.name or f"{kind}_{number}"
    datatype = NAMES.get(port.dtype)
    if datatype is None:
        raise ModelLoadError(
            f"{kind} {name!r} has a type that the protocol lacks",
            got=port.dtype,
            expected=", ".join(NAMES),
        )
    if port.shape is None:
        return ModelPort(name, datatype, None)
    return ModelPort(name, datatype, tuple(d if isinstance(d, int) else -1 for d in port.shape))


def why_not_batched(net: CompiledModel) -> str:
    """Why requests of this model cannot be joined along the first axis; empty if they can."""
    if net.plan.variables:
        return "it has variables"
    ports = [*net.inputs, *net.outputs]
    firsts = {p.shape[0] if p.shape else None for p in ports}
    symbol = next(iter(firsts))
    if len(firsts) != 1 or not isinstance(symbol, str) or not symbol.isidentifier():
        return "the first axes of its inputs and outputs are not one symbolic size"
    word = re.compile(rf"\b{re.escape(symbol)}\b")
    others = [d for p in ports for d in (p.shape or ())[1:] if isinstance(d, str)]
    if any(word.search(d) for d in others):
        return f"the batch size {symbol!r} occurs in another axis, too"
    return ""


class ServedModel:
    """A loaded model that answers requests. Made on the event loop, which owns it. shares: what
    runs calls with fewer threads than the model's, where that is not configured."""

    shares: ThreadShares | None = None

    def __init__(
        self,
        name: str,
        version: int,
        loaded: LoadedModel,
        config: ModelConfig,
        settings: Settings,
        statistics: Statistics,
    ) -> None:
        self.name, self.version, self.loaded, self.statistics = name, version, loaded, statistics
        self.net, self.inputs, self.outputs = loaded.net, loaded.inputs, loaded.outputs
        self._open(config, settings)

    def _open(self, config: ModelConfig, settings: Settings) -> None:
        """Make what runs the requests: the queue, and the sequences of a model with variables."""
        loaded, limits = self.loaded, settings.limits
        self.instances = config.instances or settings.instances
        threads = self.net.session.num_threads
        if self.instances == 1 and threads > 1 and not (config.threads or settings.threads):
            self.shares = ThreadShares(self.net, settings.max_memory)
        self.queue = RequestQueue(
            self.name,
            self._call,
            self.statistics,
            instances=self.instances,
            size=config.queue_size or settings.queue_size,
            batching=loaded.batching,
            short=ShortCalls() if has_fixed_time(self.net.plan) else None,
            threads=threads,
            shared=self.shares.run if self.shares is not None else None,
        )
        stateful = bool(self.net.plan.variables)
        self.sequences = (
            Sequences(self.net.create_infer_request, limits.sequences, limits.sequence_seconds)
            if stateful
            else None
        )

    def _call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return self.net(list(inputs))

    def make_call(self, inputs: Sequence[Array]) -> QueuedCall:
        """A call of the model alone or, where it fits, within a batch."""
        rows = inputs[0].shape[0] if inputs and inputs[0].ndim else 1
        shapes = None
        if self.loaded.batching is not None and 0 < rows <= self.loaded.batching.max_size:
            if all(a.ndim and a.shape[0] == rows for a in inputs):
                shapes = tuple(a.shape[1:] for a in inputs)
        return QueuedCall(self._call, inputs, shapes, rows)

    def order_inputs(self, given: dict[str, tuple[str, Array]]) -> list[Array]:
        """The arrays in the model's order. RequestError for unknown, missing or wrong ones."""
        if unknown := given.keys() - self.inputs.keys():
            names = ", ".join(self.inputs) or "no inputs"
            raise RequestError("unknown input", got=min(unknown)[:200], expected=names)
        found = list[Array]()
        for name, port in self.inputs.items():
            if name not in given:
                wanted = f"{port.datatype}{list(port.shape or ())}"
                raise RequestError(f"input {name!r} is missing", expected=wanted)
            datatype, array = given[name]
            if datatype != port.datatype:
                what = f"input {name!r} has another datatype"
                raise RequestError(what, got=datatype, expected=port.datatype)
            wanted = port.shape
            if wanted is not None and (
                len(wanted) != array.ndim
                or any(w not in (-1, s) for w, s in zip(wanted, array.shape, strict=True))
            ):
                what = f"input {name!r} has another shape"
                raise RequestError(what, got=list(array.shape), expected=list(wanted))
            found.append(array)
        return found

    def warm_up(self) -> None:
        """Check the batch sizes of a model whose other sizes are fixed, before requests come."""
        batching, equality = self.loaded.batching, self.queue.equality
        if batching is None or equality is None:
            return
        ports = list(self.inputs.values())
        shapes: RowShapes = tuple((p.shape or ())[1:] for p in ports)
        if any(d < 0 for shape in shapes for d in shape):
            return
        rows: list[Any] = []
        for port, shape in zip(ports, shapes, strict=True):
            if port.datatype == "BYTES":
                return
            rows.append(np.ones((1, *shape), NUMPY[port.datatype]))
        for size in batching.sizes:
            check_size(equality, shapes, size, rows)

    @property
    def memory_bytes(self) -> int:
        """Constants and idle arenas."""
        try:
            stats = self.net.stats()
        except Error:  # closed meanwhile
            return 0
        shared = self.shares.arena_bytes if self.shares is not None else 0
        return stats.constant_bytes + stats.arena_bytes + shared

    async def retire(self) -> None:
        """Answer what waits, then give the memory back."""
        await self.queue.close()
        if self.shares is not None:
            self.shares.close()
        self.net.close()
