"""Exchange: work that is cancelled when the client closes the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from irc_compiler.serve.rest.body import ClientGoneError
from irc_compiler.serve.rest.exchange import Exchange


def make_exchange(receive: Callable[[], Awaitable[dict[str, Any]]]) -> Exchange:
    """An exchange over `receive` alone."""

    async def send(message: Any) -> None:
        raise AssertionError(f"nothing is sent, got {message}")

    return Exchange({"type": "http", "headers": []}, receive, send)


class Connection:
    """A client that closes its connection when `gone` is set."""

    def __init__(self) -> None:
        self.gone, self.received = asyncio.Event(), 0

    async def receive(self) -> dict[str, Any]:
        """Wait for the client to go."""
        self.received += 1
        await self.gone.wait()
        return {"type": "http.disconnect"}


def test_work_that_never_waits_is_not_watched() -> None:
    async def run() -> tuple[int, int]:
        connection = Connection()

        async def work() -> int:
            return 7

        return await make_exchange(connection.receive).run_unless_gone(work()), connection.received

    assert asyncio.run(run()) == (7, 0)


def test_work_that_waits_gets_results_and_exceptions_of_what_it_waits_for() -> None:
    async def run() -> tuple[str, int]:
        connection, loop = Connection(), asyncio.get_running_loop()
        good, bad = loop.create_future(), loop.create_future()

        async def work() -> str:
            loop.call_soon(good.set_result, "good")
            first = await good
            loop.call_soon(bad.set_exception, ValueError("bad"))
            try:
                await bad
            except ValueError as error:
                return f"{first} {error}"
            return first

        return await make_exchange(connection.receive).run_unless_gone(work()), connection.received

    assert asyncio.run(run()) == ("good bad", 1)


@pytest.mark.parametrize("waits", [False, True])
def test_an_exception_of_the_work_is_raised(waits: bool) -> None:
    async def run() -> None:
        async def work() -> None:
            if waits:
                await asyncio.sleep(0)
            raise KeyError("inside")

        await make_exchange(Connection().receive).run_unless_gone(work())

    with pytest.raises(KeyError, match="inside"):
        asyncio.run(run())


def test_work_is_cancelled_once_the_client_has_gone() -> None:
    async def run() -> list[str]:
        connection, events = Connection(), list[str]()

        async def work() -> None:
            connection.gone.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                events.append("cancelled")
                raise

        with pytest.raises(ClientGoneError):
            await make_exchange(connection.receive).run_unless_gone(work())
        await asyncio.sleep(0)  # the task itself is not cancelled any more
        return [*events, "continues"]

    assert asyncio.run(run()) == ["cancelled", "continues"]


def test_a_cancelled_request_cancels_its_work() -> None:
    async def run() -> list[str]:
        events = list[str]()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                events.append("ended")

        task = asyncio.create_task(make_exchange(Connection().receive).run_unless_gone(work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return events

    assert asyncio.run(run()) == ["ended"]
