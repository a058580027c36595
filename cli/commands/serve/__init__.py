"""irc serve: models behind the Open Inference Protocol."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....ir.errors import UsageError
from ....serve.settings import Endpoints
from ...console import print_message
from .options import add_arguments, make_settings

if TYPE_CHECKING:
    from ....serve.server import Ports

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from ....serve import require_packages

    require_packages()
    from ....serve.logs import configure_logs
    from ....serve.repository import Repository
    from ....serve.server import run as run_server

    os.environ["IRC_PROGRESS"] = "0"
    repository, settings = Repository(args.model), make_settings(args)
    endpoints = Endpoints(
        args.host, args.http, args.grpc, args.metrics, args.tls_cert, args.tls_key
    )
    for path in (args.tls_cert, args.tls_key):
        if path is not None and not Path(path).is_file():
            raise UsageError("a TLS file is not there", where=path, expected="a PEM file")
    configure = partial(configure_logs, args.log, args.verbose - args.quiet)
    configure()
    if args.workers > 1:
        from ....serve.workers.supervisor import run_workers

        return run_workers(
            repository, settings, endpoints, args.workers, configure=configure, announce=announce
        )
    run_server(repository, settings, endpoints, lambda running: announce(running.ports))
    return 0


def announce(ports: Ports) -> None:
    """Say where the server listens."""
    opened = [(n, p) for n, p in vars(ports).items() if p is not None]
    print_message("serving " + ", ".join(f"{name} on port {port}" for name, port in opened))
