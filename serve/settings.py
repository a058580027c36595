"""Settings of a server: addresses, limits, batching and security. Defaults bind to loopback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .workers.worker_group import WorkerGroup

MIB = 1 << 20


@dataclass(frozen=True)
class ServerLimits:
    """Bounds on what clients may cost. Sizes are bytes, times seconds."""

    body_bytes: int = 64 * MIB  # of one request, after decompression
    buffered_bytes: int = 1024 * MIB  # of all request bodies together
    tensor_bytes: int = 64 * MIB  # of one input
    json_depth: int = 32
    header_bytes: int = 32 * 1024  # request line and headers
    header_seconds: float = 10.0  # from a connection, or a request's first byte, to its headers
    body_seconds: float = 60.0  # from the headers to the end of the body
    keep_alive_seconds: float = 60.0  # of an idle connection
    connections: int = 1024
    rpcs: int = 1024  # concurrent gRPC calls
    streams: int = 64  # concurrent ModelStreamInfer calls
    stream_window: int = 16  # requests of one stream that are in progress
    sequences: int = 1024  # live sequences of one model
    sequence_seconds: float = 300.0  # until an idle sequence is dropped


@dataclass(frozen=True)
class Batching:
    """Dynamic batching: requests are joined along the first axis.

    max_size: rows of a batch. max_delay_us: how long the oldest request waits for others.
    preferred_sizes: run as soon as one is reached (empty: powers of two up to max_size).
    """

    max_size: int = 32
    max_delay_us: int = 500
    preferred_sizes: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that batches may have, ascending."""
        powers = tuple(1 << n for n in range(1, self.max_size.bit_length()))
        chosen = self.preferred_sizes or powers
        return tuple(sorted({s for s in chosen if 1 < s <= self.max_size} | {self.max_size}))


@dataclass(frozen=True)
class Settings:
    """Settings of one server.

    batching: of models whose config.json does not set it (None: no batching). poll_seconds: how
    often the repository is read again (0: never). queue_size: waiting requests of one model.
    token: bearer token that clients must send (None: none). threads: of one call (None: the usable
    CPUs shared by a model's instances and by the workers; of one instance, calls that wait share
    them). group: the processes that share the ports (None: this one alone).
    """

    limits: ServerLimits = field(default_factory=ServerLimits)
    batching: Batching | None = None
    instances: int = 1
    threads: int | None = None
    precision: Literal["f32", "bf16", "f16"] | None = None
    max_memory: int | None = None
    queue_size: int = 128
    poll_seconds: float = 0.0
    allow_load: bool = False
    token: str | None = field(default=None, repr=False)
    metric_names: Literal["irc", "triton", "ovms"] = "irc"
    drain_seconds: float = 30.0
    group: WorkerGroup | None = None


@dataclass(frozen=True)
class Endpoints:
    """Addresses and certificates of `irc serve`. A port of None is not opened; 0 is any."""

    host: str = "127.0.0.1"
    http: int | None = 8000
    grpc: int | None = None
    metrics: int | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
