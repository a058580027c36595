"""Models behind the Open Inference Protocol (KServe V2), over REST and gRPC.

`irc serve` runs it as a program; `app` is its ASGI application for other servers. Needs the extra
"serve" (pip install "irc-compiler[serve]").
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from ..ir.errors import UsageError
from .settings import Batching, Endpoints, ServerLimits, Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Batching", "Endpoints", "ServerLimits", "Settings", "app", "require_packages"]


# Import names of the extra's packages.
_PACKAGES = (
    "google.protobuf",
    "grpc",
    "httptools",
    "msgspec",
    "orjson",
    "prometheus_client",
    "starlette",
    "uvicorn",
)


def require_packages() -> None:
    """UsageError that names the extra if one of its packages is missing."""
    try:
        for name in _PACKAGES:
            importlib.import_module(name)
    except ImportError as error:
        fix = 'pip install "irc-compiler[serve]"'
        raise UsageError("a package of irc serve is missing", got=str(error), fix=fix) from None


def app(models: str | os.PathLike[str], settings: Settings | None = None) -> ASGIApp:
    """An ASGI application that serves `models`, a model repository or one model file.

    It loads the models when the server starts its lifespan, and answers what is in its queues when
    the lifespan ends. ServerLimits on headers, connections and slow clients are the server's.
    """
    require_packages()
    from .lifespan import LifespanApp
    from .repository import Repository

    return LifespanApp(Repository(models), settings or Settings())
