"""The ASGI application with a lifespan of its own, for people's servers."""

from __future__ import annotations

from contextlib import AsyncExitStack

from starlette.types import ASGIApp, Receive, Scope, Send

from ..ir.errors import ExecutionError
from .repository import Repository
from .rest.app import make_rest
from .server import running_engine
from .settings import Settings


class LifespanApp:
    """Starts an engine at the lifespan's startup and ends it at its shutdown."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        self._repository, self._settings = repository, settings
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if self._app is None:
            raise ExecutionError(
                "the application was not started", fix="use a server that runs ASGI's lifespan"
            )
        await self._app(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            engine = await stack.enter_async_context(
                running_engine(self._repository, self._settings)
            )
            self._app, _ = make_rest(engine)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            engine.draining = True
        self._app = None
        await send({"type": "lifespan.shutdown.complete"})
