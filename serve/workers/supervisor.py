"""`irc serve --workers N`: a supervisor that starts, restarts and stops worker processes.

The workers bind one port each (SO_REUSEPORT), so the kernel gives each connection to one of them.
The supervisor keeps the ports reserved and answers no request. A worker listens once its models are
loaded, and stops when its supervisor has gone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ...ir.errors import UsageError
from ..logs import log
from ..repository import Repository
from ..server import Ports, open_socket, run
from ..settings import Endpoints, Settings
from .worker_group import WorkerGroup

MAX_RESTART_SECONDS = 30.0  # between two starts of a worker that ends before it listens
USAGE_EXIT_CODE = 2
KILL_SECONDS = 10.0  # after the drain limit
_SPAWN = multiprocessing.get_context("spawn")  # a forked child would share threads' locks

ConfigureLogs = Callable[[], None]


class Supervisor:
    """Keeps `count` workers running until SIGTERM or SIGINT."""

    def __init__(
        self,
        repository: Repository,
        settings: Settings,
        endpoints: Endpoints,
        groups: list[WorkerGroup],
        configure: ConfigureLogs,
    ) -> None:
        self._arguments = repository, settings, endpoints, configure
        self._groups, self._drain_seconds = groups, settings.drain_seconds
        self._processes: dict[int, BaseProcess] = {}
        self._stop, self._first = asyncio.Event(), asyncio.Event()
        self.exit_code = 0

    async def run(self, announce: Callable[[], None]) -> None:
        """Start the first worker, which fills the code cache, then the others; restart those that
        end. announce: called when the first listens."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_stop)
        tasks = [asyncio.create_task(self._keep(self._groups[0]))]
        await self._first.wait()
        if not self._stop.is_set():
            announce()
            tasks += [asyncio.create_task(self._keep(group)) for group in self._groups[1:]]
        await self._stop.wait()
        log.info("shutting down %d workers", len(self._processes))
        for process in self._processes.values():
            process.terminate()
        _, late = await asyncio.wait(tasks, timeout=self._drain_seconds + KILL_SECONDS)
        if late:
            for process in self._processes.values():
                process.kill()
            await asyncio.wait(late)

    def _begin_stop(self) -> None:
        self._stop.set()
        self._first.set()

    async def _keep(self, group: WorkerGroup) -> None:
        """Start one worker again and again."""
        failures = 0
        while not self._stop.is_set():
            listened, code = await self._run_once(group)
            if self._stop.is_set():
                return
            if code == USAGE_EXIT_CODE:  # it has said why
                self.exit_code = USAGE_EXIT_CODE
                self._begin_stop()
                return
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            log.warning("worker %d ended with %s; it is started again", group.number, how)
            failures = 0 if listened else failures + 1
            if failures:
                with suppress(TimeoutError):
                    delay = min(MAX_RESTART_SECONDS, 0.5 * 2**failures)
                    await asyncio.wait_for(self._stop.wait(), delay)

    async def _run_once(self, group: WorkerGroup) -> tuple[bool, int]:
        """Run a worker to its end: whether it listened, and its exit code (-N: signal N)."""
        receiver, sender = _SPAWN.Pipe(duplex=False)
        with receiver, sender:
            arguments = (*self._arguments, group, sender)
            process = _SPAWN.Process(target=run_worker, args=arguments, daemon=True)
            process.start()
            sender.close()
            self._processes[group.number] = process
            try:
                await _wait_readable(receiver.fileno())
                listened = _was_sent(receiver)
                if listened:
                    log.info("worker %d (process %d) listens", group.number, process.pid)
                    self._first.set()
                await _wait_readable(process.sentinel)
            finally:
                del self._processes[group.number]
            process.join()
        return listened, process.exitcode or 0


def _was_sent(receiver: Connection[Any, Any]) -> bool:
    try:
        return bool(receiver.recv())
    except EOFError:
        return False


async def _wait_readable(descriptor: int) -> None:
    """Return when a file descriptor has data or its other end is closed."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def run_worker(
    repository: Repository,
    settings: Settings,
    endpoints: Endpoints,
    configure: ConfigureLogs,
    group: WorkerGroup,
    sender: Connection[Any, Any],
) -> None:
    """A worker's main function."""
    configure()
    try:
        run(repository, replace(settings, group=group), endpoints, lambda _: sender.send(True))
    except KeyboardInterrupt:
        pass
    except UsageError as error:
        log.error("%s", error)
        sys.exit(USAGE_EXIT_CODE)


def run_workers(
    repository: Repository,
    settings: Settings,
    endpoints: Endpoints,
    count: int,
    *,
    configure: ConfigureLogs,
    announce: Callable[[Ports], None],
) -> int:
    """Serve with `count` workers until SIGTERM or SIGINT; the exit code. configure: sets up the log
    of a process."""
    check_workers(settings)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="irc-serve-"))
        reserved = {
            name: stack.enter_context(reserve_port(endpoints.host, port))
            for name in ("http", "grpc", "metrics")
            if (port := getattr(endpoints, name)) is not None
        }
        ports = {name: held.getsockname()[1] for name, held in reserved.items()}
        groups = [WorkerGroup(number, count, folder) for number in range(count)]
        shared = replace(endpoints, **ports)

        async def supervise() -> int:
            supervisor = Supervisor(repository, settings, shared, groups, configure)
            await supervisor.run(lambda: announce(Ports(**ports)))
            return supervisor.exit_code

        return asyncio.run(supervise())


def check_workers(settings: Settings) -> None:
    """UsageError for settings that several workers cannot keep."""
    if settings.allow_load:
        fix = "use --poll, which every worker does, or one worker"
        raise UsageError(
            "a load request reaches one of the workers only", got="--allow-load", fix=fix
        )


def reserve_port(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen: the port is this user's. UsageError if it is taken."""
    # Without SO_REUSEPORT, which fails where another server listens.
    with open_socket(host, port) as probe:
        port = probe.getsockname()[1]
    return open_socket(host, port, share=True)
