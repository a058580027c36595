"""The servers of `irc serve` in one event loop: start, signals, drain."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from ..ir.errors import UsageError
from .inference import Engine
from .logs import log
from .metrics import Metrics
from .model_registry import ModelRegistry
from .repository import Repository
from .rest.app import make_rest
from .rest.connection import uvicorn_config
from .settings import Endpoints, Settings
from .workers.worker_group import sharing_metrics


@dataclass
class Ports:
    """The ports that were opened, by protocol."""

    http: int | None = None
    grpc: int | None = None
    metrics: int | None = None


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers: one function handles signals for all servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Running:
    """A server that answers. `stop` is set to end it."""

    engine: Engine
    ports: Ports
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def running_engine(repository: Repository, settings: Settings) -> AsyncIterator[Engine]:
    """An engine whose models load in the background; at the end its queues are answered."""
    registry = ModelRegistry(repository, settings)
    engine = Engine(registry, settings)
    loading = asyncio.create_task(registry.start())
    try:
        yield engine
    finally:
        engine.draining = True
        if not loading.done():
            loading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loading
        try:
            await asyncio.wait_for(registry.stop(), settings.drain_seconds)
        except TimeoutError:
            log.warning("models still ran after %g s", settings.drain_seconds)


@asynccontextmanager
async def running_servers(
    repository: Repository, settings: Settings, endpoints: Endpoints
) -> AsyncIterator[Running]:
    """Open the ports, then load the models; a worker loads first, because others answer meanwhile.
    At the end: refuse new requests, wait for those in progress up to `drain_seconds`, close."""
    ports, https = Ports(), list[tuple[_Uvicorn, asyncio.Task[None]]]()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running_engine(repository, settings))
        app, metrics_app = make_rest(engine)
        if settings.group is not None:
            share = sharing_metrics(settings.group, Metrics(engine).collect)
            await stack.enter_async_context(share)
            await engine.registry.started.wait()
        rpc: Any = None
        try:
            if endpoints.http is not None:
                ports.http = _start_http(app, endpoints, endpoints.http, settings, https)
            if endpoints.metrics is not None:
                ports.metrics = _start_http(
                    metrics_app, endpoints, endpoints.metrics, settings, https
                )
            if endpoints.grpc is not None:
                from .rpc.server import start_grpc

                rpc, ports.grpc = await start_grpc(engine, endpoints)
            while not all(server.started or task.done() for server, task in https):
                await asyncio.sleep(0.005)
            yield Running(engine, ports)
        finally:
            engine.draining = True
            stops = [asyncio.create_task(rpc.stop(settings.drain_seconds))] if rpc else []
            for server, task in https:
                server.should_exit = True
                stops.append(task)
            if stops:
                await asyncio.wait(stops, timeout=settings.drain_seconds + 5)


def _start_http(
    app: Any,
    endpoints: Endpoints,
    port: int,
    settings: Settings,
    running: list[tuple[_Uvicorn, asyncio.Task[None]]],
) -> int:
    listening = open_socket(endpoints.host, port, share=settings.group is not None)
    config = uvicorn_config(
        app,
        settings.limits,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
        ssl_certfile=endpoints.tls_cert,
        ssl_keyfile=endpoints.tls_key,
    )
    server = _Uvicorn(config)
    running.append((server, asyncio.create_task(server.serve([listening]))))
    return listening.getsockname()[1]


def open_socket(host: str, port: int, *, share: bool = False) -> socket.socket:
    """A socket bound to the address. share: also by other sockets that share it (SO_REUSEPORT).
    UsageError if it is taken or not this machine's."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends at once (TCP_NODELAY) on connections of sockets that name the protocol. On
        # others the end of an answer waits for the client's acknowledgement, often for 40 ms.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(share))
        made.bind((host, port))
    except OSError as error:
        fix = "choose another --host or port"
        where = f"{host}:{port}"
        raise UsageError("HTTP can't listen", where=where, got=error.strerror, fix=fix) from None
    return made


async def serve(
    repository: Repository,
    settings: Settings,
    endpoints: Endpoints,
    announce: Callable[[Running], None],
) -> None:
    """Serve until SIGTERM or SIGINT, or until the process that started this one has gone. announce:
    called when the ports are open."""
    async with running_servers(repository, settings, endpoints) as running:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop.set)
        if (parent := multiprocessing.parent_process()) is not None:
            loop.add_reader(parent.sentinel, running.stop.set)
        announce(running)
        await running.stop.wait()
        log.info("shutting down")


def run(
    repository: Repository,
    settings: Settings,
    endpoints: Endpoints,
    announce: Callable[[Running], None],
) -> None:
    """Serve in this thread, which must be the main thread."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(repository, settings, endpoints, announce))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return uvloop.new_event_loop
